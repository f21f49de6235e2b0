//! The claims of a StatefulSet's pods: retained, handed over, or deleted with pod or set.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use podium::api::{DeleteOptions, Propagation};
use podium::object::Kind;
use serde_json::{Value, json};

use super::super::cluster::{Cluster, NO_NODES, key};
use super::{advance_pod, claims, delete_set, pods, scale, start, web};

fn policy(scaled: &str, deleted: &str) -> Value {
    json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": scaled, "whenDeleted": deleted}})
}

/// Formats a claim's owners as `kind/name controller`.
fn owners(cluster: &Cluster, claim: &str) -> String {
    let claim = cluster.get::<PersistentVolumeClaim>(claim);
    let described = claim.metadata.owner_references.iter().flatten().map(|r| {
        assert_eq!((r.controller, r.block_owner_deletion), (Some(true), Some(true)));
        format!("{}/{}", r.kind, r.name)
    });
    described.collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_pod_or_set_as_the_policy_has_it_sts_1() {
    for (scaled, deleted, after_scaling, after_deletion) in [
        ("Retain", "Retain", "www-web-0 www-web-1", "www-web-0 www-web-1"),
        ("Delete", "Retain", "www-web-0", "www-web-0"),
        ("Retain", "Delete", "www-web-0 www-web-1", ""),
        ("Delete", "Delete", "www-web-0", ""),
    ] {
        let cluster = Cluster::start(NO_NODES);
        cluster.create::<StatefulSet>(web(2, policy(scaled, deleted)));
        cluster.run().await;
        let of_set = if deleted == "Delete" { "StatefulSet/web" } else { "" };
        assert_eq!(owners(&cluster, "www-web-1"), of_set, "{scaled} {deleted}");
        scale(&cluster, 1);
        cluster.settle().await;
        let of_pod = if scaled == "Delete" { "Pod/web-1" } else { of_set };
        assert_eq!(owners(&cluster, "www-web-1"), of_pod, "{scaled} {deleted}");
        assert_eq!(owners(&cluster, "www-web-0"), of_set, "{scaled} {deleted}");
        cluster.run().await;
        assert_eq!(claims(&cluster), after_scaling, "{scaled} {deleted}");
        delete_set(&cluster, Propagation::Background);
        cluster.run().await;
        assert_eq!(claims(&cluster), after_deletion, "{scaled} {deleted}");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_policy_reaches_claims_that_are_there_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.run().await;
    assert_eq!(owners(&cluster, "www-web-0"), "");
    cluster.change::<StatefulSet>("web", |set| {
        let policy = set.spec.persistent_volume_claim_retention_policy.get_or_insert_default();
        policy.when_deleted = Some("Delete".into());
    });
    cluster.run().await;
    assert_eq!(owners(&cluster, "www-web-0"), "StatefulSet/web");
    cluster.change::<StatefulSet>("web", |set| {
        let policy = set.spec.persistent_volume_claim_retention_policy.get_or_insert_default();
        policy.when_deleted = Some("Retain".into());
    });
    cluster.run().await;
    assert_eq!(owners(&cluster, "www-web-0"), "");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_waits_for_the_old_ones_claim_to_go_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, policy("Delete", "Retain")));
    cluster.run().await;
    cluster.change::<PersistentVolumeClaim>("www-web-1", |claim| {
        claim.metadata.finalizers = Some(vec!["example.com/in-use".into()]);
    });
    scale(&cluster, 1);
    cluster.run().await;
    scale(&cluster, 2);
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1", "its storage would go from under it");
    cluster.change::<PersistentVolumeClaim>("www-web-1", |claim| claim.metadata.finalizers = None);
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), claims(&cluster).as_str()), ("0:v1 1:v1", "www-web-0 www-web-1"));
    assert_eq!(owners(&cluster, "www-web-1"), "");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_a_pending_pod_misses_is_made_again_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.settle().await;
    cluster.api.delete(Kind::PersistentVolumeClaim, &key("www-web-0"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!(claims(&cluster), "www-web-0");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_that_name_that_was_there_is_used_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<PersistentVolumeClaim>(json!({"metadata": {"name": "www-web-0", "namespace": "default",
        "labels": {"mine": "yes"}}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}}}}));
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.settle().await;
    advance_pod(&cluster, "web-0").await;
    let claim = cluster.get::<PersistentVolumeClaim>("www-web-0");
    assert_eq!(claim.metadata.labels.as_ref().unwrap().len(), 1, "it is left as it is");
    let created = cluster.events("SuccessfulCreate");
    assert_eq!(created, ["create Pod web-0 in StatefulSet web successful"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_carry_the_labels_that_select_the_pods_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.settle().await;
    start(&cluster, "web-0").await;
    let claim = cluster.get::<PersistentVolumeClaim>("www-web-0");
    assert_eq!(serde_json::to_value(&claim.metadata.labels).unwrap(), json!({"app": "nginx"}));
    assert_eq!(
        claim.spec.as_ref().unwrap().access_modes.as_deref(),
        Some(&["ReadWriteOnce".to_string()][..])
    );
    cluster.stop().await;
}
