//! Fencing (SAFE-5) on the manual clock: a node's processes are confirmed dead before its pods and volumes move.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use podium::api::{DeleteOptions, WriteOptions};
use podium::extension::node_fence::{FencePhase, NodeFence};
use podium::object::pod::{Phase, condition, is_ready, node_name, phase};
use podium::object::{Key, Kind, Object, SharedObject, TypedKind};
use podium::testing::{Cluster, HollowNode};
use serde_json::{Value, json};

fn make<T: TypedKind>(cluster: &Cluster, manifest: Value) -> SharedObject<T> {
    let object = Object::new(T::decode(manifest).unwrap());
    SharedObject::from_object(&cluster.api().create(object, &WriteOptions::default()).unwrap()).unwrap()
}

/// Two nodes, and a set of one pod with a disk.
async fn started(annotations: &Value) -> Cluster {
    let cluster = Cluster::builder().hollow_nodes(2).start().await.unwrap();
    make::<StatefulSet>(
        &cluster,
        json!({"metadata": {"name": "db", "namespace": "default", "annotations": annotations}, "spec": {"replicas": 1,
            "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": {
                "metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "app",
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "disk",
                "accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}}]}}),
    );
    cluster.settle().await.unwrap();
    assert_eq!(phase(&db(&cluster)), Phase::Running);
    cluster
}

fn db(cluster: &Cluster) -> SharedObject<Pod> {
    cluster.api().get_as(&Key::new("default", "db-0")).unwrap()
}

fn node(cluster: &Cluster, name: &str) -> SharedObject<Node> {
    cluster.api().get_as(&Key::new("", name)).unwrap()
}

fn taints(cluster: &Cluster, name: &str) -> BTreeSet<String> {
    let node = node(cluster, name);
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.map(|taint| format!("{}={}", taint.key, taint.value.clone().unwrap_or_default())).collect()
}

fn fence(cluster: &Cluster, name: &str) {
    make::<NodeFence>(cluster, json!({"metadata": {"name": name}, "spec": {"reason": "a test"}}));
}

/// The phase of a fence, and the reason.
fn status_of(cluster: &Cluster, name: &str) -> Option<(FencePhase, String, String)> {
    let fence = cluster.api().get_as::<NodeFence>(&Key::new("", name)).ok()?;
    let all = fence.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let (reason, message) =
        all.first().map(|one| (one.reason.clone(), one.message.clone())).unwrap_or_default();
    Some((fence.phase(), reason, message))
}

/// The reasons of the events about a node since a revision, in their order.
fn events(cluster: &Cluster, node: &str) -> Vec<String> {
    let mut events = cluster.api().list_as::<Event>(None);
    events.sort_by_key(|event| event.object().meta().creation_timestamp.clone().map(|at| at.0));
    let about = events.iter().filter(|event| event.involved_object.name.as_deref() == Some(node));
    let ours = [
        "FencingNode", "FencingNotConfirmed", "NodeProcessesDead", "NodeOutOfService", "VolumeForceDetached",
        "NodeReturned",
    ];
    let mut reasons: Vec<String> = about.filter_map(|event| event.reason.clone()).collect();
    reasons.retain(|reason| ours.contains(&reason.as_str()));
    reasons
}

fn attached(cluster: &Cluster) -> Vec<String> {
    let attachments = cluster.api().list_as::<VolumeAttachment>(None);
    attachments.iter().map(|attachment| attachment.spec.node_name.clone()).collect()
}

const FENCED: &str = "node.kubernetes.io/out-of-service=fenced";

#[tokio::test(start_paused = true)]
async fn the_set_of_a_fenced_node_continues_on_another_node_safe_5_gc_2() {
    let cluster = started(&json!({})).await;
    let before = db(&cluster);
    let silent = node_name(&before).unwrap().to_owned();
    cluster.silence_node(&silent).await.unwrap();
    cluster.advance(Duration::from_mins(30)).await.unwrap();
    let waiting = db(&cluster);
    assert_eq!(waiting.uid(), before.uid(), "a pod that may still run is not replaced");
    let why = condition(&waiting, "DisruptionTarget").unwrap().message.clone().unwrap();
    assert!(why.contains("is unreachable"), "{why}");

    fence(&cluster, &silent);
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    let after = db(&cluster);
    assert!(after.uid() != before.uid() && is_ready(&after));
    let other = node_name(&after).unwrap().to_owned();
    assert_ne!(other, silent);
    assert_eq!(attached(&cluster).join(" "), other);
    assert!(taints(&cluster, &silent).contains(FENCED));
    let (phase, reason, message) = status_of(&cluster, &silent).unwrap();
    assert_eq!((phase, reason.as_str()), (FencePhase::Fenced, "ProcessesDead"), "{message}");
    assert_eq!(
        events(&cluster, &silent).into_iter().collect::<BTreeSet<_>>(),
        ["FencingNode", "NodeProcessesDead", "NodeOutOfService", "VolumeForceDetached"]
            .map(str::to_owned)
            .into()
    );

    // The node stays away until it is taken back; then it has nothing of its earlier state.
    cluster.advance(Duration::from_mins(30)).await.unwrap();
    assert!(!object_is_ready(&cluster, &silent));
    cluster.api().delete(NodeFence::kind(), &Key::new("", &silent), &DeleteOptions::default()).unwrap();
    cluster.advance(Duration::from_secs(10)).await.unwrap();
    assert_eq!(status_of(&cluster, &silent), None);
    assert!(object_is_ready(&cluster, &silent));
    assert!(!taints(&cluster, &silent).contains(FENCED));
    assert!(events(&cluster, &silent).contains(&"NodeReturned".to_owned()));
    assert_eq!(db(&cluster).uid(), after.uid(), "nothing ran twice");
    assert_eq!(node(&cluster, &silent).status.as_ref().unwrap().volumes_in_use, None);
}

fn object_is_ready(cluster: &Cluster, name: &str) -> bool {
    podium::object::node::is_ready(&node(cluster, name))
}

/// Never guess: a process that does not die blocks all further steps, and the status has the reason.
#[tokio::test(start_paused = true)]
async fn nothing_goes_on_while_death_is_not_confirmed_safe_5_safe_1() {
    let cluster = started(&json!({})).await;
    let before = db(&cluster);
    let silent = node_name(&before).unwrap().to_owned();
    cluster.silence_node(&silent).await.unwrap();
    cluster.hold_processes(&silent, Some("a device does not answer")).unwrap();
    fence(&cluster, &silent);
    cluster.advance(Duration::from_hours(1)).await.unwrap();
    assert_eq!(db(&cluster).uid(), before.uid());
    assert_eq!(attached(&cluster).join(" "), silent);
    assert!(!taints(&cluster, &silent).contains(FENCED));
    let (phase, reason, message) = status_of(&cluster, &silent).unwrap();
    assert_eq!((phase, reason.as_str()), (FencePhase::Killing, "DeathNotConfirmed"));
    assert!(message.contains("a device does not answer"), "{message}");
    let reported: BTreeSet<_> = events(&cluster, &silent).into_iter().collect();
    assert_eq!(reported, ["FencingNode", "FencingNotConfirmed"].map(str::to_owned).into());
    let refused = cluster.wake_node(&silent).await.unwrap_err().to_string();
    assert!(refused.contains("cannot return before its processes are dead"), "{refused}");

    cluster.hold_processes(&silent, None).unwrap();
    cluster.advance(Duration::from_secs(10)).await.unwrap();
    assert_eq!(status_of(&cluster, &silent).unwrap().0, FencePhase::Fenced);
    assert!(db(&cluster).uid() != before.uid() && is_ready(&db(&cluster)));
}

/// Nothing was released, so nothing is lost when the node is taken back: its pods are where they were.
#[tokio::test(start_paused = true)]
async fn a_fence_that_was_not_confirmed_can_be_taken_back_safe_5() {
    let cluster = started(&json!({})).await;
    let before = db(&cluster);
    let silent = node_name(&before).unwrap().to_owned();
    cluster.hold_processes(&silent, Some("a device does not answer")).unwrap();
    fence(&cluster, &silent);
    cluster.advance(Duration::from_secs(20)).await.unwrap();
    assert_eq!(status_of(&cluster, &silent).unwrap().0, FencePhase::Killing);
    cluster.api().delete(NodeFence::kind(), &Key::new("", &silent), &DeleteOptions::default()).unwrap();
    cluster.advance(Duration::from_secs(20)).await.unwrap();
    assert_eq!(status_of(&cluster, &silent), None);
    assert!(object_is_ready(&cluster, &silent));
    assert_eq!((db(&cluster).uid(), attached(&cluster)), (before.uid(), vec![silent]));
}

#[tokio::test(start_paused = true)]
async fn a_set_may_ask_for_its_silent_node_to_be_fenced_safe_5() {
    let cluster = started(&json!({"podium.dev/fence-after": "60s"})).await;
    let before = db(&cluster);
    let silent = node_name(&before).unwrap().to_owned();
    cluster.silence_node(&silent).await.unwrap();
    // It is Unknown after 50 s.
    cluster.advance(Duration::from_secs(90)).await.unwrap();
    assert_eq!((status_of(&cluster, &silent), db(&cluster).uid()), (None, before.uid()));
    cluster.advance(Duration::from_secs(30)).await.unwrap();
    let fence = cluster.api().get_as::<NodeFence>(&Key::new("", &silent)).unwrap();
    assert_eq!(
        fence.spec.reason.as_deref(),
        Some("the node was not Ready for 1m0s, the limit of StatefulSet default/db (podium.dev/fence-after)")
    );
    let after = db(&cluster);
    assert!(after.uid() != before.uid() && is_ready(&after), "it serves again two minutes after the cut");

    // The machine answers again.
    cluster.wake_node(&silent).await.unwrap();
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    assert_eq!(status_of(&cluster, &silent), None);
    assert!(object_is_ready(&cluster, &silent) && !taints(&cluster, &silent).contains(FENCED));
    assert_eq!(db(&cluster).uid(), after.uid());
}

/// If no node is left that could take the pod, killing it is of no use.
#[tokio::test(start_paused = true)]
async fn the_last_nodes_are_not_fenced_for_a_set_safe_5() {
    let cluster = started(&json!({"podium.dev/fence-after": "60s"})).await;
    let before = db(&cluster);
    for name in ["hollow-00001", "hollow-00002"] {
        cluster.silence_node(name).await.unwrap();
    }
    cluster.advance(Duration::from_mins(10)).await.unwrap();
    assert_eq!(cluster.api().count(NodeFence::kind()), 0);
    let other =
        ["hollow-00001", "hollow-00002"].into_iter().find(|name| Some(*name) != node_name(&before)).unwrap();
    cluster.wake_node(other).await.unwrap();
    cluster.advance(Duration::from_mins(1)).await.unwrap();
    assert!(db(&cluster).uid() != before.uid() && is_ready(&db(&cluster)));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_run_here_is_never_taken_for_dead_safe_5() {
    let cluster = Cluster::builder().hollow_node(HollowNode::new("ours")).start().await.unwrap();
    make::<Node>(&cluster, json!({"metadata": {"name": "theirs"}}));
    for name in ["theirs", "nowhere"] {
        fence(&cluster, name);
    }
    cluster.advance(Duration::from_mins(2)).await.unwrap();
    let (phase, reason, message) = status_of(&cluster, "theirs").unwrap();
    assert_eq!((phase, reason.as_str()), (FencePhase::Killing, "NotRunHere"));
    assert!(message.contains("does not run node theirs: make sure that it is dead"), "{message}");
    assert!(!taints(&cluster, "theirs").contains(FENCED));
    let (phase, reason, _) = status_of(&cluster, "nowhere").unwrap();
    assert_eq!((phase, reason.as_str()), (FencePhase::Pending, "NoSuchNode"));
    for name in ["theirs", "nowhere"] {
        cluster.api().delete(NodeFence::kind(), &Key::new("", name), &DeleteOptions::default()).unwrap();
    }
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    assert_eq!(cluster.api().count(NodeFence::kind()), 0);
}

/// A node that is deleted before its processes are confirmed dead still holds its pods; once its fence is complete, it
/// is gone for good.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_while_it_is_fenced_dies_first_safe_5_safe_1() {
    let cluster = started(&json!({})).await;
    let before = db(&cluster);
    let silent = node_name(&before).unwrap().to_owned();
    cluster.hold_processes(&silent, Some("a device does not answer")).unwrap();
    fence(&cluster, &silent);
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    cluster.api().delete(Kind::Node, &Key::new("", &silent), &DeleteOptions::default()).unwrap();
    for _ in 0..2 {
        cluster.advance(Duration::from_mins(10)).await.unwrap();
        assert_eq!((db(&cluster).uid(), attached(&cluster)), (before.uid(), vec![silent.clone()]));
        assert_eq!(status_of(&cluster, &silent).unwrap().1, "DeathNotConfirmed");
        // Taking it back has no effect: the node no longer exists.
        let key = Key::new("", &silent);
        cluster.api().delete(NodeFence::kind(), &key, &DeleteOptions::default()).unwrap();
    }
    cluster.hold_processes(&silent, None).unwrap();
    cluster.advance(Duration::from_mins(2)).await.unwrap();
    assert_eq!(status_of(&cluster, &silent), None);
    assert!(cluster.api().get_as::<Node>(&Key::new("", &silent)).is_err());
    assert!(db(&cluster).uid() != before.uid() && is_ready(&db(&cluster)));
}

/// No controller completes a deletion: a partition blocks a namespace, which reports the remaining objects, until the
/// node is fenced.
#[tokio::test(start_paused = true)]
async fn a_cut_holds_a_namespace_until_its_node_is_fenced_safe_1_safe_4() {
    let cluster = Cluster::builder().hollow_nodes(1).start().await.unwrap();
    make::<Namespace>(&cluster, json!({"metadata": {"name": "team"}}));
    cluster.settle().await.unwrap();
    let spec = json!({"containers": [{"name": "c", "image": "app"}]});
    make::<Pod>(&cluster, json!({"metadata": {"name": "p", "namespace": "team"}, "spec": spec}));
    cluster.settle().await.unwrap();
    cluster.silence_node("hollow-00001").await.unwrap();
    cluster.api().delete(Kind::Namespace, &Key::new("", "team"), &DeleteOptions::default()).unwrap();
    cluster.advance(Duration::from_hours(2)).await.unwrap();
    let pod: SharedObject<Pod> = cluster.api().get_as(&Key::new("team", "p")).unwrap();
    assert!(pod.metadata.deletion_timestamp.is_some(), "the pod is terminating, and may still run");
    assert_eq!(condition(&pod, "Ready").unwrap().reason.as_deref(), Some("NodeUnreachable"));
    let namespace: SharedObject<Namespace> = cluster.api().get_as(&Key::new("", "team")).unwrap();
    let conditions = namespace.status.as_ref().unwrap().conditions.clone().unwrap_or_default();
    let left = conditions
        .iter()
        .find(|one| one.type_ == "NamespaceContentRemaining" && one.status == "True")
        .unwrap();
    assert!(left.message.as_deref().unwrap().contains("pods. has 1 resource instances"), "{left:?}");
    fence(&cluster, "hollow-00001");
    cluster.advance(Duration::from_mins(1)).await.unwrap();
    assert!(cluster.api().get_as::<Namespace>(&Key::new("", "team")).is_err());
}
