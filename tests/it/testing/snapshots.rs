//! The whole cluster saved and restored, on the manual clock (SAFE-8).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use podium::object::well_known::annotation::PODIUM_BEFORE_RESTORE;
use podium::testing::Cluster;
use serde_json::{Value, json};

use super::{create, deployment, pod, pods};

fn podium_objects(cluster: &Cluster, kind: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("podium.dev", "v1alpha1", kind));
    Api::all_with(cluster.client(), &kind)
}

async fn ask(cluster: &Cluster, kind: &str, name: &str, spec: Value) {
    let object =
        json!({"apiVersion": "podium.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let object = serde_json::from_value(object).unwrap();
    podium_objects(cluster, kind).create(&PostParams::default(), &object).await.unwrap();
}

async fn status(cluster: &Cluster, kind: &str, name: &str) -> Value {
    podium_objects(cluster, kind).get(name).await.unwrap().data["status"].take()
}

async fn save(cluster: &Cluster, name: &str) {
    ask(cluster, "ClusterSnapshot", name, json!({})).await;
    cluster.settle().await.unwrap();
    let status = status(cluster, "ClusterSnapshot", name).await;
    assert_eq!(status["conditions"][0]["status"], "True", "{status}");
}

async fn restore(cluster: &Cluster, name: &str, snapshot: &str) -> Value {
    ask(cluster, "ClusterRestore", name, json!({"snapshot": snapshot})).await;
    cluster.advance(Duration::from_mins(2)).await.unwrap();
    cluster.settle().await.unwrap();
    status(cluster, "ClusterRestore", name).await
}

/// Returns the pods that are not terminating, by name, with their uids.
async fn living(cluster: &Cluster) -> BTreeMap<String, String> {
    let all = pods(cluster).list(&ListParams::default()).await.unwrap().items;
    let living = all.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    living.map(|pod| (pod.metadata.name.unwrap(), pod.metadata.uid.unwrap())).collect()
}

async fn phases(cluster: &Cluster) -> Vec<String> {
    let all = pods(cluster).list(&ListParams::default()).await.unwrap().items;
    all.into_iter().map(|pod| pod.status.unwrap().phase.unwrap()).collect()
}

fn stateful_set(name: &str, replicas: i32) -> Value {
    let labels = json!({"app": name});
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "serviceName": name,
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "app"}]}}}})
}

#[tokio::test(start_paused = true)]
async fn a_cluster_comes_back_as_it_was_and_goes_back_again_safe_8() {
    let cluster = Cluster::builder().hollow_nodes(2).start().await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    let deployments = Api::<Deployment>::default_namespaced(cluster.client());
    create::<Deployment>(&cluster, deployment("web", 3)).await;
    create::<Pod>(&cluster, pod("bare", "Always")).await;
    create::<ConfigMap>(&cluster, json!({"metadata": {"name": "settings"}, "data": {"a": "then"}})).await;
    create::<Service>(
        &cluster,
        json!({"metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
    )
    .await;
    cluster.settle().await.unwrap();
    let services = Api::<Service>::default_namespaced(cluster.client());
    let address = services.get("web").await.unwrap().spec.unwrap().cluster_ip;
    let uid = deployments.get("web").await.unwrap().metadata.uid;
    let then = living(&cluster).await;
    save(&cluster, "good").await;

    // Many objects are deleted or changed after the snapshot.
    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    services.delete("web", &DeleteParams::default()).await.unwrap();
    pods(&cluster).delete("bare", &DeleteParams::default()).await.unwrap();
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "now"}})))
        .await
        .unwrap();
    create::<ConfigMap>(&cluster, json!({"metadata": {"name": "since"}})).await;
    cluster.advance(Duration::from_mins(1)).await.unwrap();
    create::<Deployment>(&cluster, deployment("other", 2)).await;
    // Another service takes its address meanwhile.
    let taken =
        json!({"metadata": {"name": "thief"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    create::<Service>(&cluster, taken).await;
    cluster.settle().await.unwrap();
    assert_eq!(living(&cluster).await.len(), 2);

    let restored = restore(&cluster, "back", "good").await;
    assert_eq!(restored["phase"], "Completed", "{restored}");
    assert_eq!(deployments.get("web").await.unwrap().metadata.uid, uid);
    assert!(deployments.get("other").await.is_err() && maps.get("since").await.is_err());
    assert_eq!(maps.get("settings").await.unwrap().data.unwrap()["a"], "then");
    assert_eq!(services.get("web").await.unwrap().spec.unwrap().cluster_ip, address);
    assert!(services.get("thief").await.is_err());
    let again =
        json!({"metadata": {"name": "thief"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    let refused = services.create(&PostParams::default(), &serde_json::from_value(again).unwrap()).await;
    assert!(refused.unwrap_err().to_string().contains("already allocated"));
    let now = living(&cluster).await;
    assert_eq!(now.len(), 4);
    assert!(now.contains_key("bare") && now.values().all(|uid| !then.values().any(|old| old == uid)));
    assert_eq!(phases(&cluster).await, ["Running"; 4]);
    let status = deployments.get("web").await.unwrap().status.unwrap();
    assert_eq!((status.available_replicas, status.updated_replicas), (Some(3), Some(3)));

    // The state before the restore is saved, and can be restored as well.
    let before = restored["before"].as_str().unwrap();
    let restored = restore(&cluster, "forth", before).await;
    assert_eq!(restored["phase"], "Completed", "{restored}");
    assert!(deployments.get("web").await.is_err() && maps.get("since").await.is_ok());
    assert_eq!(deployments.get("other").await.unwrap().status.unwrap().available_replicas, Some(2));
    assert_eq!(living(&cluster).await.len(), 2);
    // Snapshots and restores do not contain the objects of other snapshots and restores.
    let names: Vec<_> =
        podium_objects(&cluster, "ClusterSnapshot").list(&ListParams::default()).await.unwrap().items;
    let mut names: Vec<_> = names.into_iter().filter_map(|one| one.metadata.name).collect();
    names.sort();
    assert_eq!(names, ["before-back", "before-forth", "good"]);
}

/// The snapshot of an earlier restore with the same name has an older state.
#[tokio::test(start_paused = true)]
async fn a_second_restore_of_the_same_name_saves_the_present_state_again_safe_8() {
    let cluster = Cluster::builder().hollow_nodes(1).start().await.unwrap();
    save(&cluster, "good").await;
    let first = restore(&cluster, "back", "good").await;
    podium_objects(&cluster, "ClusterRestore").delete("back", &DeleteParams::default()).await.unwrap();
    create::<ConfigMap>(&cluster, json!({"metadata": {"name": "since"}, "data": {"a": "b"}})).await;
    let second = restore(&cluster, "back", "good").await;
    assert_eq!((&first["before"], &second["before"]), (&json!("before-back"), &json!("before-back-2")));
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    assert!(maps.get("since").await.is_err());
    let undone = restore(&cluster, "undo", "before-back-2").await;
    assert_eq!(undone["phase"], "Completed", "{undone}");
    assert!(maps.get("since").await.is_ok());
}

/// A snapshot belongs to a restore by the restore's uid: the times of creation have whole seconds.
#[tokio::test(start_paused = true)]
async fn a_restore_saves_the_present_state_despite_a_snapshot_of_the_same_second_safe_8() {
    let cluster = Cluster::builder().hollow_nodes(1).start().await.unwrap();
    save(&cluster, "good").await;
    ask(&cluster, "ClusterSnapshot", "before-back", json!({})).await;
    let restored = restore(&cluster, "back", "good").await;
    assert_eq!(restored["before"], "before-back-2", "{restored}");
    let snapshots = podium_objects(&cluster, "ClusterSnapshot");
    let saved = snapshots.get("before-back-2").await.unwrap().metadata.annotations.unwrap();
    let uid = podium_objects(&cluster, "ClusterRestore").get("back").await.unwrap().metadata.uid;
    assert_eq!(saved.get(PODIUM_BEFORE_RESTORE), uid.as_ref());
}

/// SAFE-1: a pod that has not ended is not created a second time, regardless of the snapshot.
#[tokio::test(start_paused = true)]
async fn a_restore_does_not_duplicate_a_pod_of_a_silent_node_safe_8_safe_1() {
    let cluster = Cluster::builder().hollow_nodes(2).start().await.unwrap();
    create::<StatefulSet>(&cluster, stateful_set("db", 2)).await;
    create::<Pod>(&cluster, pod("bare", "Always")).await;
    cluster.advance(Duration::from_secs(10)).await.unwrap();
    save(&cluster, "good").await;
    let node_of = async |name: &str| pods(&cluster).get(name).await.unwrap().spec.unwrap().node_name.unwrap();
    let (silent, on_silent) =
        (node_of("db-0").await, async |name: &str, node: &str| node_of(name).await == node);
    let bare_is_silent = on_silent("bare", &silent).await;
    let old = living(&cluster).await;
    cluster.silence_node(&silent).await.unwrap();
    let restored = restore(&cluster, "back", "good").await;
    assert_eq!(restored["phase"], "Completed", "{restored}");
    let db = pods(&cluster).get("db-0").await.unwrap();
    assert_eq!(db.metadata.uid.as_deref(), Some(old["db-0"].as_str()), "it may still run");
    assert!(db.metadata.deletion_timestamp.is_some());
    let message = restored["conditions"][0]["message"].as_str().unwrap();
    assert_eq!(message.contains("default/bare"), bare_is_silent, "{message}");
    let left = "pods left as they are, because their nodes have not reported their ends: default/db-0";
    assert!(message.contains(left), "{message}");

    cluster.wake_node(&silent).await.unwrap();
    cluster.advance(Duration::from_mins(2)).await.unwrap();
    let now = living(&cluster).await;
    assert!(now["db-0"] != old["db-0"] && now["db-1"] != old["db-1"], "{now:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restore_of_what_is_not_there_changes_nothing_safe_8() {
    let cluster = Cluster::builder().hollow_nodes(1).start().await.unwrap();
    create::<Deployment>(&cluster, deployment("web", 1)).await;
    cluster.settle().await.unwrap();
    let then = living(&cluster).await;
    let restored = restore(&cluster, "back", "nothing").await;
    assert_eq!(
        (&restored["phase"], &restored["conditions"][0]["reason"]),
        (&json!("Failed"), &json!("NoSuchSnapshot"))
    );
    save(&cluster, "kept").await;
    podium_objects(&cluster, "ClusterSnapshot").delete("kept", &DeleteParams::default()).await.unwrap();
    cluster.settle().await.unwrap();
    assert!(podium_objects(&cluster, "ClusterSnapshot").get("kept").await.is_err(), "it goes with its file");
    let restored = restore(&cluster, "again", "kept").await;
    assert_eq!(restored["phase"], "Failed");
    assert_eq!(living(&cluster).await, then);
    // Controllers work.
    pods(&cluster).delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    cluster.advance(Duration::from_mins(1)).await.unwrap();
    assert_eq!(phases(&cluster).await, ["Running"]);
}
