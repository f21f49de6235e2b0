//! The ReplicaSet page's scenarios that other workloads do not share: adopting, isolating and handing over pods.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use podium::api::{DeleteOptions, Propagation};
use podium::object::Kind;
use podium::object::owner::controller_of;
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, key};

fn frontend(name: &str, replicas: i32, image: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"tier": "frontend"}},
            "template": {"metadata": {"labels": {"tier": "frontend"}},
                "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// Formats every pod as `owner/image`, sorted.
fn pod_owners(cluster: &Cluster) -> String {
    let mut described: Vec<String> = cluster
        .pods()
        .iter()
        .map(|pod| {
            let owner = controller_of(&pod.metadata).map_or("-", |r| r.name.as_str());
            format!("{owner}/{}", pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap())
        })
        .collect();
    described.sort();
    described.join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_adopts_releases_and_replaces_rs_1() {
    let cluster = Cluster::start(NO_NODES);
    let pod = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "default", "labels": {"tier": "frontend"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}})
    };
    cluster.create::<Pod>(pod("bare-1"));
    cluster.create::<Pod>(pod("bare-2"));
    cluster.create::<ReplicaSet>(json!({"metadata": {"name": "frontend", "namespace": "default"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"tier": "frontend"}},
            "template": {"metadata": {"labels": {"tier": "frontend"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}));
    cluster.run().await;
    let names: Vec<String> = cluster.pods().iter().map(|p| p.name().to_string()).collect();
    assert!(names.len() == 3 && names[0] == "bare-1" && names[1] == "bare-2", "adopted: {names:?}");

    cluster.pass(3600).await;
    cluster.create::<Pod>(pod("bare-3"));
    cluster.run().await;
    let names: Vec<String> = cluster.pods().iter().map(|p| p.name().to_string()).collect();
    assert!(names.len() == 3 && !names.contains(&"bare-3".into()), "the one too many goes first: {names:?}");

    cluster.change::<Pod>("bare-1", |p| {
        p.metadata.labels.as_mut().unwrap().insert("tier".into(), "debug".into());
    });
    cluster.run().await;
    assert!(controller_of(&cluster.get::<Pod>("bare-1").metadata).is_none(), "released");
    assert_eq!(cluster.pods().len(), 4, "and replaced");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_left_to_another_hands_over_pods_as_they_are_rs_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ReplicaSet>(frontend("old", 3, "v1"));
    cluster.run().await;
    let orphan = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    cluster.api.delete(Kind::ReplicaSet, &key("old"), &orphan).unwrap();
    cluster.run().await;
    assert_eq!(pod_owners(&cluster), "-/v1 -/v1 -/v1");
    // Another set with the same selector adopts them and does not update them to its own template.
    cluster.create::<ReplicaSet>(frontend("new", 3, "v2"));
    cluster.run().await;
    assert_eq!(pod_owners(&cluster), "new/v1 new/v1 new/v1");
    let pod = cluster.pods().remove(0);
    cluster.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!(pod_owners(&cluster), "new/v1 new/v1 new/v2", "only what it makes is of its template");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_template_touches_no_pod_rs_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ReplicaSet>(frontend("frontend", 2, "v1"));
    cluster.run().await;
    cluster.change::<ReplicaSet>("frontend", |set| {
        let template = set.spec.template.as_mut().unwrap();
        template.spec.as_mut().unwrap().containers[0].image = Some("v2".into());
        let labels = template.metadata.as_mut().unwrap().labels.as_mut().unwrap();
        labels.insert("track".into(), "new".into());
    });
    cluster.run().await;
    assert_eq!(pod_owners(&cluster), "frontend/v1 frontend/v1");
    let labelled = || cluster.get::<ReplicaSet>("frontend").status.as_ref().unwrap().fully_labeled_replicas;
    assert_eq!(labelled(), None, "none has all labels of the template");
    cluster.change::<ReplicaSet>("frontend", |set| set.spec.replicas = Some(3));
    cluster.run().await;
    assert_eq!((pod_owners(&cluster).as_str(), labelled()), ("frontend/v1 frontend/v1 frontend/v2", Some(1)));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_can_size_a_set_rs_1_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ReplicaSet>(frontend("frontend", 1, "v1"));
    cluster.run().await;
    cluster.create::<HorizontalPodAutoscaler>(json!({"metadata": {"name": "scaler", "namespace": "default"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "frontend"},
            "minReplicas": 3, "maxReplicas": 10}}));
    cluster.pass(16).await;
    cluster.run().await;
    assert_eq!(pod_owners(&cluster), "frontend/v1 frontend/v1 frontend/v1");
    let reason = "New size: 3; reason: Current number of replicas below Spec.MinReplicas";
    assert_eq!(cluster.events("SuccessfulRescale"), [reason]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_cost_is_a_number_rs_1_api_8() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ReplicaSet>(frontend("frontend", 1, "v1"));
    cluster.run().await;
    let pod = cluster.pods().remove(0);
    for (cost, accepted) in [
        ("-10", true),
        ("2147483647", true),
        ("2147483648", false),
        ("cheap", false),
        ("+1", false),
        ("01", false),
    ] {
        let changed = cluster.api.modify::<Pod>(&pod.key(), |pod| {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert("controller.kubernetes.io/pod-deletion-cost".into(), cost.into());
            Ok(())
        });
        assert_eq!(changed.is_ok(), accepted, "{cost}");
        if let Err(error) = changed {
            let expected = format!(
                "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"{cost}\": \
                 must be a 32bit integer"
            );
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
    }
    cluster.stop().await;
}
