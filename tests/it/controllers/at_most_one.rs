//! A zero `terminationGracePeriodSeconds` is not a forced deletion (SAFE-1, STS-3), on virtual time: for every
//! controller that deletes a running pod, the pod's object stays until the kubelet confirms, and no replacement is
//! created before.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use podium::api::{DeleteOptions, Propagation, Selection};
use podium::object::owner::is_terminating;
use podium::object::{Key, Kind, SharedObject};
use serde_json::json;

use super::cluster::{Cluster, NO_NODES, RECREATION_DELAY, key};

/// Returns a cluster with a running set of one pod, whose grace period is zero.
async fn running() -> (Cluster, SharedObject<Pod>) {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(json!({"metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "x"}]}}}}));
    cluster.run().await;
    let pod = cluster.get::<Pod>("web-0");
    assert_eq!(pod.spec.as_ref().unwrap().termination_grace_period_seconds, Some(0));
    (cluster, pod)
}

/// Checks that the same pod still exists and terminates; then its node confirms its end.
async fn assert_still_terminating(cluster: Cluster, pod: &SharedObject<Pod>, way: &str) {
    cluster.settle().await;
    let pods = cluster.pods();
    assert_eq!(pods.iter().map(SharedObject::uid).collect::<Vec<_>>(), [pod.uid()], "{way}");
    assert!(is_terminating(&pods[0].metadata), "{way}");
    assert_eq!(pods[0].metadata.deletion_grace_period_seconds, Some(1), "{way}");
    assert!(cluster.act_on(&pods[0]));
    cluster.settle().await;
    assert!(cluster.pods().iter().all(|p| p.uid() != pod.uid()), "{way}");
    cluster.stop().await;
}

/// Each of these started the new `web-0` while the old one ran.
#[tokio::test(start_paused = true)]
async fn a_zero_grace_in_the_spec_forces_nothing_safe_1_sts_3() {
    type DeleteFn = fn(&Cluster);
    let ways: [(&str, DeleteFn); 8] = [
        ("delete", |c| drop(c.api.delete(Kind::Pod, &key("web-0"), &DeleteOptions::default()).unwrap())),
        ("delete collection", |c| {
            let (all, options) = (Selection::default(), DeleteOptions::default());
            assert_eq!(c.api.delete_collection(Kind::Pod, Some("default"), &all, &options).unwrap().len(), 1);
        }),
        ("rollout restart", |c| {
            c.change::<StatefulSet>("web", |set| {
                let annotations = &mut set.spec.template.metadata.as_mut().unwrap().annotations;
                annotations
                    .get_or_insert_default()
                    .insert("kubectl.kubernetes.io/restartedAt".into(), "now".into());
            });
        }),
        ("eviction, as drain does it", |c| c.api.evict(&key("web-0"), &DeleteOptions::default()).unwrap()),
        ("drain with a grace period of -1", |c| {
            let options = DeleteOptions { grace_period_seconds: Some(-1), ..DeleteOptions::default() };
            c.api.evict(&key("web-0"), &options).unwrap();
        }),
        ("scaling down", |c| c.change::<StatefulSet>("web", |set| set.spec.replicas = Some(0))),
        ("garbage collection", |c| {
            let options =
                DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
            c.api.delete(Kind::StatefulSet, &key("web"), &options).unwrap();
        }),
        ("namespace deletion", |c| {
            c.create::<Namespace>(json!({"metadata": {"name": "team"}}));
            c.create::<Pod>(
                json!({"metadata": {"name": "p", "namespace": "team"}, "spec": {"nodeName": "n1",
                "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "x"}]}}),
            );
            c.api.delete(Kind::Namespace, &Key::new("", "team"), &DeleteOptions::default()).unwrap();
            // The set's pod is deleted as well, for the check that all ways share.
            c.api.delete(Kind::Pod, &key("web-0"), &DeleteOptions::default()).unwrap();
        }),
    ];
    for (way, ask) in ways {
        let (cluster, pod) = running().await;
        ask(&cluster);
        if way == "namespace deletion" {
            cluster.settle().await;
            let held = cluster.api.get_as::<Pod>(&Key::new("team", "p")).unwrap();
            assert_eq!(held.metadata.deletion_grace_period_seconds, Some(1), "{way}");
        }
        assert_still_terminating(cluster, &pod, way).await;
    }
}

/// Only a user may force a deletion, with `--grace-period=0 --force`.
#[tokio::test(start_paused = true)]
async fn an_explicit_zero_in_the_request_removes_at_once_safe_1() {
    let (cluster, pod) = running().await;
    let force = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    cluster.api.delete(Kind::Pod, &key("web-0"), &force).unwrap();
    tokio::time::sleep(RECREATION_DELAY).await;
    cluster.settle().await;
    assert_ne!(cluster.get::<Pod>("web-0").uid(), pod.uid());
    cluster.stop().await;
}
