//! ReplicationControllers, and their common behaviour with ReplicaSets.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, ReplicationController, ResourceQuota};
use podium::api::{DeleteOptions, Propagation};
use podium::object::owner::controller_of;
use podium::object::{Kind, SharedObject, TypedKind};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, key};

/// The documentation's controller: three nginx pods, and the default selector.
fn nginx(replicas: i32) -> Value {
    json!({"metadata": {"name": "nginx", "namespace": "default"},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"app": "nginx"}},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}}})
}

fn bare(name: &str, app: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]}})
}

fn frontend(replicas: i32) -> Value {
    json!({"metadata": {"name": "frontend", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "frontend"}},
            "template": {"metadata": {"labels": {"app": "frontend"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}})
}

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.pods().iter().map(|p| p.name().to_string()).collect()
}

fn status<T: TypedKind>(cluster: &Cluster, name: &str) -> Value {
    cluster.get::<T>(name).object().to_value()["status"].clone()
}

fn relabel(cluster: &Cluster, pod: &str, app: &str) {
    cluster.change::<Pod>(pod, |pod| {
        pod.metadata.labels.as_mut().unwrap().insert("app".into(), app.into());
    });
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_keeps_its_pods_rc_1() {
    let cluster = Cluster::start(NO_NODES);
    let made = cluster.create::<ReplicationController>(nginx(3));
    assert_eq!(made.spec.as_ref().unwrap().selector.as_ref().unwrap()["app"], "nginx");
    cluster.run().await;
    assert_eq!(
        status::<ReplicationController>(&cluster, "nginx"),
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "observedGeneration": 1})
    );
    let owner = controller_of(&cluster.pods()[0].metadata).cloned().unwrap();
    assert_eq!((owner.kind.as_str(), owner.api_version.as_str()), ("ReplicationController", "v1"));
    let events = cluster.events("SuccessfulCreate");
    assert!(events.len() == 3 && events[0].starts_with("Created pod: nginx-"), "{events:?}");

    cluster.fail(&cluster.pods()[0]);
    cluster.run().await;
    assert_eq!(status::<ReplicationController>(&cluster, "nginx")["readyReplicas"], 3, "it is replaced");
    let revision = cluster.api.revision();
    cluster.pass(600).await;
    assert_eq!(cluster.api.revision(), revision, "a quiet controller writes nothing");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_scales_adopts_releases_and_leaves_rc_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Pod>(bare("bare", "nginx"));
    cluster.create::<ReplicationController>(nginx(2));
    cluster.run().await;
    assert!(names(&cluster).len() == 2 && names(&cluster).contains(&"bare".into()), "adopted");
    relabel(&cluster, "bare", "debug");
    cluster.run().await;
    assert!(controller_of(&cluster.get::<Pod>("bare").metadata).is_none(), "released");
    assert_eq!(names(&cluster).len(), 3, "and replaced");

    let scaled = cluster.api.change_scale(
        Kind::ReplicationController,
        &key("nginx"),
        &podium::api::WriteOptions::default(),
        |mut scale| {
            scale.spec.get_or_insert_default().replicas = Some(1);
            Ok(scale)
        },
    );
    assert_eq!(scaled.unwrap().spec.unwrap().replicas, Some(1));
    cluster.run().await;
    assert_eq!(names(&cluster).len(), 2);
    assert_eq!(cluster.events("SuccessfulDelete").len(), 1);

    // kubectl delete rc nginx --cascade=orphan; then another controller adopts the pods.
    let options = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    cluster.api.delete(Kind::ReplicationController, &key("nginx"), &options).unwrap();
    cluster.run().await;
    assert_eq!(names(&cluster).len(), 2);
    let before = names(&cluster);
    cluster.create::<ReplicationController>(nginx(1));
    cluster.run().await;
    assert_eq!(names(&cluster), before);
    let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    cluster.api.delete(Kind::ReplicationController, &key("nginx"), &options).unwrap();
    cluster.run().await;
    assert_eq!(names(&cluster), ["bare"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_two_kinds_do_not_take_each_others_pods_rc_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ReplicationController>(nginx(2));
    let mut set = frontend(2);
    set["spec"]["selector"] = json!({"matchLabels": {"app": "nginx"}});
    set["spec"]["template"]["metadata"]["labels"] = json!({"app": "nginx"});
    cluster.create::<ReplicaSet>(set);
    cluster.run().await;
    let of = |kind: &str| {
        let pods = cluster.pods();
        pods.iter().filter(|p| controller_of(&p.metadata).is_some_and(|r| r.kind == kind)).count()
    };
    assert_eq!((of("ReplicationController"), of("ReplicaSet")), (2, 2));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_is_retried_with_slow_start_and_reported_in_the_status_rs_1() {
    for kind in [Kind::ReplicaSet, Kind::ReplicationController] {
        let cluster = Cluster::start(NO_NODES);
        // A pod of this class cannot be created until the class exists.
        let mut manifest = if kind == Kind::ReplicaSet { frontend(50) } else { nginx(50) };
        manifest["spec"]["template"]["spec"]["priorityClassName"] = json!("high");
        let name = if kind == Kind::ReplicaSet {
            cluster.create::<ReplicaSet>(manifest).name().to_string()
        } else {
            cluster.create::<ReplicationController>(manifest).name().to_string()
        };
        let first_condition = || {
            let object = cluster.api.get(kind, &key(&name)).unwrap();
            object.to_value()["status"]["conditions"][0].clone()
        };
        cluster.settle().await;
        let condition = first_condition();
        assert_eq!((&condition["type"], &condition["status"]), (&json!("ReplicaFailure"), &json!("True")));
        assert_eq!(condition["reason"], "FailedCreate");
        let message = condition["message"].as_str().unwrap();
        assert!(message.ends_with("is forbidden: no PriorityClass with name high was found"), "{message}");
        let failures = cluster.events("FailedCreate");
        assert!(failures.iter().all(|m| m.starts_with("Error creating: pods \"")), "{failures:?}");
        assert!(failures.len() < 10, "slow start: {} failures", failures.len());

        cluster.create::<k8s_openapi::api::scheduling::v1::PriorityClass>(
            json!({"metadata": {"name": "high"}, "value": 1000}),
        );
        cluster.pass(1000).await;
        cluster.run().await;
        assert_eq!((cluster.pods().len(), first_condition()), (50, Value::Null));
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_quota_stands_in_the_status_in_its_own_words_rs_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ResourceQuota>(json!({"metadata": {"name": "few", "namespace": "default"},
        "spec": {"hard": {"pods": "2"}}}));
    cluster.settle().await;
    cluster.create::<ReplicaSet>(frontend(4));
    cluster.run().await;
    assert_eq!(names(&cluster).len(), 2);
    let condition = status::<ReplicaSet>(&cluster, "frontend")["conditions"][0].clone();
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("ReplicaFailure"), &json!("FailedCreate"))
    );
    let message = condition["message"].as_str().unwrap();
    assert!(
        message
            .ends_with("is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2"),
        "{message}"
    );
    cluster.change::<ResourceQuota>("few", |quota| {
        let hard = quota.spec.as_mut().unwrap().hard.as_mut().unwrap();
        hard.insert("pods".into(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("4".into()));
    });
    cluster.pass(1000).await;
    cluster.run().await;
    assert_eq!(names(&cluster).len(), 4);
    assert_eq!(status::<ReplicaSet>(&cluster, "frontend")["conditions"], Value::Null);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_cheapest_pods_go_first_rs_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ReplicaSet>(frontend(4));
    cluster.run().await;
    cluster.pass(60).await;
    let all = names(&cluster);
    cluster.change::<Pod>(&all[2], |pod| {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert("controller.kubernetes.io/pod-deletion-cost".into(), "-10".into());
    });
    cluster.set_ready(&cluster.get::<Pod>(&all[1]), false);
    cluster.settle().await;
    for (replicas, gone) in [(3, &all[1]), (2, &all[2])] {
        cluster.change::<ReplicaSet>("frontend", |set| set.spec.replicas = Some(replicas));
        cluster.settle().await;
        let going: Vec<SharedObject<Pod>> =
            cluster.pods().into_iter().filter(|p| p.metadata.deletion_timestamp.is_some()).collect();
        assert_eq!(going.iter().map(SharedObject::name).collect::<Vec<_>>(), [gone.as_str()], "{replicas}");
        cluster.run().await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_adopted_by_one_that_goes_or_went_rs_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ReplicaSet>(frontend(1));
    cluster.run().await;
    // It is deleted in the foreground and blocked by a finalizer; pods that match now are not adopted.
    cluster.change::<ReplicaSet>("frontend", |set| {
        set.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    });
    cluster.api.delete(Kind::ReplicaSet, &key("frontend"), &DeleteOptions::default()).unwrap();
    cluster.create::<Pod>(bare("late", "frontend"));
    cluster.run().await;
    assert!(controller_of(&cluster.get::<Pod>("late").metadata).is_none());
    cluster.change::<ReplicaSet>("frontend", |set| set.metadata.finalizers = None);
    cluster.run().await;
    assert_eq!(names(&cluster), ["late"]);
    cluster.stop().await;
}

/// The page's rolling update without Deployments: one controller grows while the other shrinks, and a service
/// over both reaches either.
#[tokio::test(start_paused = true)]
async fn two_controllers_roll_an_application_by_hand_rc_1() {
    let cluster = Cluster::start(NO_NODES);
    let version = |name: &str, replicas: i32| {
        let mut controller = nginx(replicas);
        controller["metadata"]["name"] = json!(name);
        controller["spec"]["selector"] = json!({"app": "nginx", "version": name});
        controller["spec"]["template"]["metadata"]["labels"] = json!({"app": "nginx", "version": name});
        controller
    };
    cluster.create::<ReplicationController>(version("v1", 3));
    cluster.create::<ReplicationController>(version("v2", 0));
    cluster.run().await;
    let count = |version: &str| {
        let pods = cluster.pods();
        pods.iter().filter(|p| p.metadata.labels.as_ref().unwrap()["version"] == version).count()
    };
    let size = |name: &str, replicas: i32| {
        cluster.change::<ReplicationController>(name, |c| c.spec.as_mut().unwrap().replicas = Some(replicas));
    };
    assert_eq!((count("v1"), count("v2")), (3, 0));
    for step in 1..=3 {
        size("v2", step);
        cluster.run().await;
        size("v1", 3 - step);
        cluster.run().await;
        let replaced = usize::try_from(step).unwrap();
        assert_eq!((count("v1"), count("v2")), (3 - replaced, replaced));
    }
    // A changed template applies only to later pods.
    cluster.change::<ReplicationController>("v2", |c| {
        let template = c.spec.as_mut().unwrap().template.as_mut().unwrap();
        template.spec.as_mut().unwrap().containers[0].image = Some("nginx:2".into());
    });
    cluster.run().await;
    assert_eq!(cluster.events("SuccessfulCreate").len(), 6);
    cluster.stop().await;
}
