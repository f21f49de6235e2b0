//! DaemonSets: the scenarios of the Kubernetes concept and task pages (DS-1).

mod adoption;
mod nodes;
mod updates;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use podium::object::SharedObject;
use podium::object::node_selector::RequiredNodes;
use podium::object::pod::is_active;
use podium::object::pod::node_name;
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES};

/// A node with labels.
#[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
pub(super) fn node(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

/// A DaemonSet of `app=NAME` pods.
pub(super) fn daemon_set(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "one"}]}}}})
}

/// Starts a cluster with these nodes, and a DaemonSet `agent` with a running pod on every matching node.
async fn started(nodes: &[&str], set: Value) -> Cluster {
    let cluster = Cluster::start(NO_NODES);
    for name in nodes {
        cluster.create::<Node>(node(name, json!({"disk": "ssd"})));
    }
    cluster.create::<DaemonSet>(set);
    cluster.run().await;
    cluster
}

pub(super) fn set_image(cluster: &Cluster, image: &str) {
    cluster.change::<DaemonSet>("agent", |set| {
        set.spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.into());
    });
}

fn image(pod: &Pod) -> String {
    pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()
}

/// The current or intended node of a pod.
fn node_of(pod: &Pod) -> String {
    let required = RequiredNodes::of(pod.spec.as_ref().unwrap());
    let named = || required.names().and_then(|names| names.first().map(ToString::to_string));
    node_name(pod).map(Into::into).or_else(named).unwrap_or_default()
}

/// Formats the set's active pods as `node=image`, by node.
fn pods(cluster: &Cluster) -> String {
    let all = cluster.pods();
    let mut described: Vec<String> =
        all.iter().filter(|p| is_active(p)).map(|p| format!("{}={}", node_of(p), image(p))).collect();
    described.sort();
    described.join(" ")
}

fn status(cluster: &Cluster) -> DaemonSetStatus {
    cluster.get::<DaemonSet>("agent").status.clone().unwrap_or_default()
}

/// Returns the columns of `kubectl get`: desired, current, ready, up to date, available, misscheduled.
fn counts(cluster: &Cluster) -> [i32; 6] {
    let s = status(cluster);
    [
        s.desired_number_scheduled,
        s.current_number_scheduled,
        s.number_ready,
        s.updated_number_scheduled.unwrap_or(0),
        s.number_available.unwrap_or(0),
        s.number_misscheduled,
    ]
}

fn revisions(cluster: &Cluster) -> Vec<SharedObject<ControllerRevision>> {
    let mut all = cluster.api.list_as::<ControllerRevision>(Some("default"));
    all.sort_by_key(|r| r.revision);
    all
}

fn numbers(cluster: &Cluster) -> Vec<i64> {
    revisions(cluster).iter().map(|r| r.revision.unwrap()).collect()
}
