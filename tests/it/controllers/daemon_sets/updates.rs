//! Rollout of a new template to the nodes: its speed, a broken template, and the rollback.

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use podium::api::DeleteOptions;
use podium::apimachinery::patch::PatchType;
use podium::object::pod::{is_active, is_ready};
use podium::object::{Kind, Object};
use serde_json::json;

use super::super::cluster::Cluster;
use super::{counts, daemon_set, node_of, numbers, pods, revisions, set_image, started};

#[tokio::test(start_paused = true)]
async fn on_delete_replaces_only_pods_that_a_user_deletes_ds_1() {
    let mut set = daemon_set("agent");
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let cluster = started(&["n1", "n2"], set).await;
    set_image(&cluster, "two");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), counts(&cluster)), ("n1=one n2=one", [2, 2, 2, 0, 2, 0]));
    let pod = cluster.pods().into_iter().find(|p| node_of(p) == "n2").unwrap();
    cluster.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), counts(&cluster)), ("n1=one n2=two", [2, 2, 2, 1, 2, 0]));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_waits_for_min_ready_seconds_by_a_timer_ds_1() {
    let mut set = daemon_set("agent");
    set["spec"]["minReadySeconds"] = json!(30);
    let cluster = started(&["n1", "n2"], set).await;
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 0, 0]);
    cluster.pass(29).await;
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 0, 0]);
    cluster.pass(2).await;
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 2, 0]);
    set_image(&cluster, "two");
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=two n2=one");
    cluster.pass(25).await;
    assert_eq!(pods(&cluster), "n1=two n2=one");
    cluster.pass(7).await;
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=two n2=two");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn revision_history_is_recorded_rolled_back_to_and_limited_ds_1() {
    let mut set = daemon_set("agent");
    set["spec"]["revisionHistoryLimit"] = json!(2);
    set["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "the first"});
    let cluster = started(&["n1", "n2"], set).await;
    let first = revisions(&cluster).remove(0);
    assert_eq!(first.metadata.annotations.as_ref().unwrap()["kubernetes.io/change-cause"], "the first");
    for image in ["two", "three"] {
        set_image(&cluster, image);
        cluster.run().await;
    }
    assert_eq!((pods(&cluster).as_str(), numbers(&cluster)), ("n1=three n2=three", vec![1, 2, 3]));

    // `kubectl rollout undo --to-revision=1` applies the revision's patch.
    let patched = |object: &Object| {
        let patched = podium::apimachinery::patch::apply_patch_value(
            Kind::DaemonSet,
            PatchType::StrategicMerge,
            &object.to_value(),
            first.data.0.clone(),
        )
        .unwrap();
        Object::from_value(Kind::DaemonSet, patched).unwrap()
    };
    let before = cluster.get::<DaemonSet>("agent");
    let desired = patched(before.object());
    let template = desired.get::<DaemonSet>().unwrap().spec.template.clone();
    cluster.change::<DaemonSet>("agent", |set| set.spec.template = template.clone());
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one");
    assert_eq!(numbers(&cluster), [2, 3, 4], "the old revision has a new number");
    assert_eq!(revisions(&cluster)[2].name(), first.name());

    set_image(&cluster, "five");
    cluster.run().await;
    set_image(&cluster, "six");
    cluster.run().await;
    assert_eq!(numbers(&cluster), [4, 5, 6], "two old revisions remain");
    // A restart is a new template, too.
    cluster.change::<DaemonSet>("agent", |set| {
        let meta = set.spec.template.metadata.as_mut().unwrap();
        let at = ("kubectl.kubernetes.io/restartedAt".to_string(), "2026-11-21T00:00:00Z".to_string());
        meta.annotations = Some([at].into());
    });
    let before: Vec<String> = cluster.pods().iter().map(|p| p.uid().to_string()).collect();
    cluster.run().await;
    assert!(cluster.pods().iter().all(|p| !before.iter().any(|uid| uid == p.uid())));
    cluster.stop().await;
}

/// Rolls out an image; returns the nodes in the order of their new pods, and the maximum number of nodes without a
/// ready pod.
async fn roll_out(cluster: &Cluster, image: &str) -> (Vec<String>, usize) {
    set_image(cluster, image);
    let (mut order, mut worst) = (Vec::new(), 0);
    cluster
        .run_with(|| {
            let pods = cluster.pods();
            for pod in pods.iter().filter(|p| super::image(p) == image) {
                let node = node_of(pod);
                if !order.contains(&node) {
                    order.push(node);
                }
            }
            let served = pods.iter().filter(|p| is_active(p) && is_ready(p)).map(|p| node_of(p));
            worst = worst.max(4 - served.collect::<HashSet<_>>().len());
        })
        .await;
    (order, worst)
}

/// The page "Perform a Rolling Update on a DaemonSet".
#[tokio::test(start_paused = true)]
async fn an_update_goes_over_the_nodes_as_fast_as_agreed_ds_1() {
    for (strategy, at_once, without) in [
        (json!({"type": "RollingUpdate"}), 1, 1),
        (json!({"rollingUpdate": {"maxUnavailable": "50%"}}), 2, 2),
        (json!({"rollingUpdate": {"maxUnavailable": "30%"}}), 2, 2),
        (json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}), 1, 0),
        (json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "75%"}}), 3, 0),
    ] {
        let mut set = daemon_set("agent");
        set["spec"]["updateStrategy"] = strategy.clone();
        let cluster = started(&["n1", "n2", "n3", "n4"], set).await;
        // Only the first step is visible, because no kubelet acts yet.
        set_image(&cluster, "two");
        cluster.settle().await;
        let pods_now = cluster.pods();
        let touched = pods_now.iter().filter(|p| !is_active(p) || super::image(p) == "two").count();
        assert_eq!(touched, at_once, "{strategy}");
        let (order, worst) = roll_out(&cluster, "three").await;
        assert_eq!((order.len(), worst), (4, without), "{strategy}: {order:?}");
        assert_eq!(counts(&cluster), [4, 4, 4, 4, 4, 0], "{strategy}");
        assert_eq!(pods(&cluster), "n1=three n2=three n3=three n4=three", "{strategy}");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_update_stops_and_the_next_template_goes_on_ds_1() {
    let cluster = started(&["n1", "n2", "n3"], daemon_set("agent")).await;
    set_image(&cluster, "bad");
    cluster.run().await;
    cluster.pass(3600).await;
    assert_eq!(counts(&cluster), [3, 3, 2, 1, 2, 0], "one node is without, and no other");
    // A broken pod need not be deleted by hand: it is not ready, so it is replaced first.
    set_image(&cluster, "two");
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=two n2=two n3=two");
    assert_eq!(numbers(&cluster), [1, 2, 3]);
    // A rollback to the working template gives the same.
    set_image(&cluster, "bad");
    cluster.run().await;
    set_image(&cluster, "one");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), numbers(&cluster)), ("n1=one n2=one n3=one", vec![3, 4, 5]));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn templates_are_numbered_for_old_clients_ds_1() {
    let cluster = started(&["n1"], daemon_set("agent")).await;
    let number = || {
        let set = cluster.get::<DaemonSet>("agent");
        let of_set =
            set.metadata.annotations.as_ref().unwrap()["deprecated.daemonset.template.generation"].clone();
        (of_set, cluster.pods()[0].metadata.labels.as_ref().unwrap()["pod-template-generation"].clone())
    };
    assert_eq!(number(), ("1".into(), "1".into()));
    cluster.change::<DaemonSet>("agent", |set| set.spec.min_ready_seconds = Some(0));
    cluster.run().await;
    assert_eq!(number(), ("1".into(), "1".into()), "it is the template that is numbered");
    set_image(&cluster, "two");
    cluster.run().await;
    assert_eq!(number(), ("2".into(), "2".into()));
    // A replacement of the whole object without the annotation changes nothing.
    cluster.change::<DaemonSet>("agent", |set| set.metadata.annotations = None);
    cluster.run().await;
    assert_eq!(number(), ("2".into(), "2".into()));
    // A revision with an old template gets a new number.
    set_image(&cluster, "one");
    cluster.run().await;
    assert_eq!(number(), ("3".into(), "3".into()));
    assert_eq!(numbers(&cluster), [2, 3]);
    cluster.stop().await;
}
