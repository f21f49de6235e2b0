//! A pod's claim outlives the pod, its node, a scaling to zero and back, and the set.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use podium::api::{DeleteOptions, Propagation};
use podium::object::Kind;
use serde_json::json;

use super::super::cluster::{Cluster, NO_NODES, key};
use super::{advance_pod, claims, delete_pod, delete_set, pods, revisions, scale, start, status, web};

fn uids(cluster: &Cluster) -> Vec<String> {
    let claims = cluster.api.list_as::<PersistentVolumeClaim>(Some("default"));
    claims.iter().map(|claim| claim.uid().to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_back_find_their_storage_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({})));
    cluster.run().await;
    let before = uids(&cluster);
    // The tutorial: delete all pods; they come back in order, with names and storage as before.
    delete_pod(&cluster, "web-0");
    delete_pod(&cluster, "web-1");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), uids(&cluster)), ("0:v1 1:v1", before.clone()));
    scale(&cluster, 0);
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), uids(&cluster)), ("", before.clone()));
    scale(&cluster, 2);
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), uids(&cluster)), ("0:v1 1:v1", before));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_about_scaling_and_deleting_the_set_and_nothing_else_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    let policy =
        json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"}});
    cluster.create::<StatefulSet>(web(2, policy));
    cluster.run().await;
    let before = uids(&cluster);
    // A node fails, a pod is deleted, a pod ends: each pod comes back with the same claim.
    delete_pod(&cluster, "web-1");
    cluster.run().await;
    let force = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    cluster.api.delete(Kind::Pod, &key("web-0"), &force).unwrap();
    cluster.run().await;
    cluster.fail(&cluster.get("web-1"));
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), uids(&cluster)), ("0:v1 1:v1", before.clone()));
    // The set is scaled down and up again before the pod is gone: its claim is deleted with it, and a new one is
    // created.
    scale(&cluster, 1);
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1-");
    scale(&cluster, 2);
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), claims(&cluster).as_str()), ("0:v1 1:v1", "www-web-0 www-web-1"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_that_goes_takes_its_pods_and_leaves_its_claims_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({})));
    cluster.run().await;
    delete_set(&cluster, Propagation::Foreground);
    cluster.settle().await;
    assert!(cluster.api.get(Kind::StatefulSet, &key("web")).is_ok(), "its pods still terminate");
    assert_eq!(pods(&cluster), "0:v1- 1:v1-");
    cluster.run().await;
    assert!(cluster.api.get(Kind::StatefulSet, &key("web")).is_err());
    assert_eq!((pods(&cluster).as_str(), claims(&cluster).as_str()), ("", "www-web-0 www-web-1"));
    assert_eq!(revisions(&cluster), "");

    cluster.create::<StatefulSet>(web(2, json!({})));
    cluster.run().await;
    delete_set(&cluster, Propagation::Background);
    cluster.settle().await;
    assert!(cluster.api.get(Kind::StatefulSet, &key("web")).is_err());
    assert_eq!(pods(&cluster), "0:v1- 1:v1-");
    // The same again while the old pods still terminate: the set waits for each of them in turn.
    cluster.create::<StatefulSet>(web(2, json!({})));
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1- 1:v1-");
    advance_pod(&cluster, "web-0").await;
    assert_eq!(pods(&cluster), "0:v1! 1:v1-");
    start(&cluster, "web-0").await;
    assert_eq!(pods(&cluster), "0:v1 1:v1-");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1", "2 2 2 2 v1>v1"));
    cluster.stop().await;
}
