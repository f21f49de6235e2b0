//! The pages "Garbage Collection" and "Owners and Dependents" (GC-1), on virtual time.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};

use super::*;
use crate::test_cluster::{TestCluster, key};
use object::SharedObject;

const NAMES: &[&str] = &["garbagecollector"];

/// A reference to a ConfigMap as owner.
fn owned_by(owner: &SharedObject<ConfigMap>, blocks: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name(), "uid": owner.uid(),
        "blockOwnerDeletion": blocks})
}

fn map(cluster: &TestCluster, name: &str, owners: &[Value], finalizers: &[&str]) -> SharedObject<ConfigMap> {
    cluster.create(json!({"metadata": {"name": name, "namespace": "default", "ownerReferences": owners,
        "finalizers": finalizers}}))
}

/// Returns the names of the existing maps, with `-` after terminating ones.
fn maps(cluster: &TestCluster) -> String {
    let all = cluster.api.list_as::<ConfigMap>(Some("default"));
    let described =
        all.iter().map(|m| format!("{}{}", m.name(), if is_terminating(&m.metadata) { "-" } else { "" }));
    described.collect::<Vec<_>>().join(" ")
}

async fn delete(cluster: &TestCluster, name: &str, propagation: Propagation) {
    let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
    cluster.api.delete(Kind::ConfigMap, &key::<ConfigMap>(name), &options).unwrap();
    cluster.settle().await;
}

async fn remove_finalizers(cluster: &TestCluster, name: &str) {
    cluster.change::<ConfigMap>(name, |m| m.metadata.finalizers = None);
    cluster.settle().await;
}

#[tokio::test(start_paused = true)]
async fn only_dependents_that_say_so_hold_their_owner_up_gc_1() {
    let cluster = TestCluster::start(NAMES);
    let owner = map(&cluster, "owner", &[], &[]);
    map(&cluster, "blocks", &[owned_by(&owner, true)], &["x/y"]);
    map(&cluster, "free", &[owned_by(&owner, false)], &["x/y"]);
    cluster.settle().await;
    delete(&cluster, "owner", Propagation::Foreground).await;
    assert_eq!(maps(&cluster), "blocks- free- owner-");
    let held = cluster.get::<ConfigMap>("owner").metadata.finalizers.clone();
    assert_eq!(held, Some(vec!["foregroundDeletion".into()]));
    remove_finalizers(&cluster, "blocks").await;
    assert_eq!(maps(&cluster), "free-");
    remove_finalizers(&cluster, "free").await;
    assert_eq!(maps(&cluster), "");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_several_owners_stays_with_the_last_gc_1() {
    for propagation in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
        let cluster = TestCluster::start(NAMES);
        let (one, two) = (map(&cluster, "one", &[], &[]), map(&cluster, "two", &[], &[]));
        map(&cluster, "shared", &[owned_by(&one, true), owned_by(&two, true)], &[]);
        cluster.settle().await;
        delete(&cluster, "one", propagation).await;
        assert_eq!(maps(&cluster), "shared two", "{propagation:?}");
        let shared = cluster.get::<ConfigMap>("shared");
        let owners: Vec<_> =
            shared.metadata.owner_references.iter().flatten().map(|r| r.name.as_str()).collect();
        assert_eq!(owners, ["two"], "{propagation:?}");
        delete(&cluster, "two", Propagation::Background).await;
        assert_eq!(maps(&cluster), "", "{propagation:?}");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_circle_of_owners_lives_until_one_of_them_is_deleted_gc_1() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let cluster = TestCluster::start(NAMES);
        let first = map(&cluster, "first", &[], &[]);
        let second = map(&cluster, "second", &[owned_by(&first, true)], &[]);
        let third = map(&cluster, "third", &[owned_by(&second, true)], &[]);
        let closing = serde_json::from_value(owned_by(&third, true)).unwrap();
        cluster.change::<ConfigMap>("first", |m| {
            m.metadata.owner_references = Some(vec![Clone::clone(&closing)]);
        });
        cluster.pass(600).await;
        assert_eq!(maps(&cluster), "first second third", "no deletion was requested");
        delete(&cluster, "first", propagation).await;
        assert_eq!(maps(&cluster), "", "{propagation:?}");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_the_same_name_is_not_the_owner_gc_1_safe_6() {
    let cluster = TestCluster::start(NAMES);
    let owner = map(&cluster, "owner", &[], &[]);
    map(&cluster, "child", &[owned_by(&owner, false)], &[]);
    cluster.settle().await;
    // The owner is replaced while the collector is stopped.
    cluster.controllers.stop_one(NAMES[0]).await;
    delete(&cluster, "owner", Propagation::Background).await;
    map(&cluster, "owner", &[], &[]);
    map(&cluster, "kept", &[owned_by(&cluster.get("owner"), false)], &[]);
    assert_eq!(maps(&cluster), "child kept owner");
    cluster.controllers.start_one(NAMES[0]);
    cluster.settle().await;
    assert_eq!(maps(&cluster), "kept owner");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_may_own_namespaced_ones_but_not_the_reverse_gc_1() {
    let cluster = TestCluster::start(NAMES);
    let owner = map(&cluster, "owner", &[], &[]);
    cluster.create::<PriorityClass>(
        json!({"metadata": {"name": "wrong", "ownerReferences": [owned_by(&owner, false)]}, "value": 1}),
    );
    let class = cluster.create::<PriorityClass>(json!({"metadata": {"name": "right"}, "value": 2}));
    let reference = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "name": "right",
        "uid": class.uid()});
    map(&cluster, "of-class", &[reference], &[]);
    cluster.settle().await;
    let unresolvable = format!(
        "ownerRef [v1/ConfigMap, namespace: , name: owner, uid: {}] does not exist in namespace \"\"",
        owner.uid()
    );
    assert_eq!(cluster.events("OwnerRefInvalidNamespace"), [unresolvable]);
    delete(&cluster, "owner", Propagation::Background).await;
    let exists = |name: &str| cluster.api.get(Kind::PriorityClass, &Key::new("", name)).is_ok();
    assert!(exists("wrong"), "it is never collected");
    assert_eq!(maps(&cluster), "of-class");
    cluster.api.delete(Kind::PriorityClass, &Key::new("", "right"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!(maps(&cluster), "");
    cluster.stop().await;
}

/// Objects that wait for one another, and one that waits for itself, would wait forever.
#[tokio::test(start_paused = true)]
async fn a_cycle_of_owners_that_are_all_deleted_in_the_foreground_is_removed_gc_1() {
    for size in [1, 2, 3, 5] {
        let cluster = TestCluster::start(NAMES);
        let members: Vec<_> = (0..size).map(|n| map(&cluster, &format!("m{n}"), &[], &[])).collect();
        for (n, member) in members.iter().enumerate() {
            let owner = owned_by(&members[(n + 1) % size], true);
            cluster.change::<ConfigMap>(member.name(), |m| {
                m.metadata.owner_references = serde_json::from_value(json!([owner])).unwrap();
            });
        }
        cluster.settle().await;
        let options =
            DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
        for member in &members {
            cluster.api.delete(Kind::ConfigMap, &member.key(), &options).unwrap();
        }
        cluster.settle().await;
        assert_eq!(maps(&cluster), "", "a circle of {size}");
        cluster.stop().await;
    }
}

/// Dependents of an owner are processed in batches.
#[tokio::test(start_paused = true)]
async fn an_owner_of_more_than_a_batch_lets_go_of_all_of_them_gc_1() {
    for propagation in [Propagation::Orphan, Propagation::Foreground, Propagation::Background] {
        let cluster = TestCluster::start(NAMES);
        let owner = map(&cluster, "owner", &[], &[]);
        for n in 0..1_200 {
            map(&cluster, &format!("m{n}"), &[owned_by(&owner, true)], &[]);
        }
        cluster.settle().await;
        delete(&cluster, "owner", propagation).await;
        let left = cluster.api.list_as::<ConfigMap>(Some("default"));
        let expected = if propagation == Propagation::Orphan { 1_200 } else { 0 };
        assert_eq!(left.len(), expected, "{propagation:?}");
        assert!(left.iter().all(|m| m.metadata.owner_references.iter().flatten().count() == 0));
        cluster.stop().await;
    }
}
