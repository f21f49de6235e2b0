//! Nodes and pods for tests, from JSON.

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use object::SharedObject;

/// Returns a node with this content.
pub(super) fn node(value: Value) -> SharedObject<Node> {
    SharedObject::from_value(serde_json::from_value(value).expect("a test's node"))
}

/// Returns the same in the scheduler's form, without pods.
pub(super) fn node_info(value: Value) -> NodeInfo {
    NodeInfo::new(node(value))
}

/// Returns a node with this much cpu and a limit of ten pods.
pub(super) fn sized_node(name: &str, cpu: &str) -> SharedObject<Node> {
    node(json!({"metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}}))
}

/// Returns a pod with this content.
pub(super) fn pod(value: Value) -> SharedObject<Pod> {
    SharedObject::from_value(serde_json::from_value(value).expect("a test's pod"))
}

/// Returns the same in the scheduler's form.
pub(super) fn pod_info(value: Value) -> PodInfo {
    PodInfo::new(pod(value))
}

/// Returns a pod in namespace `default` with its name as uid and these fields in its spec.
pub(super) fn named_pod(name: &str, spec: Value) -> SharedObject<Pod> {
    let mut whole = json!({"containers": []});
    if let (Some(whole), Value::Object(spec)) = (whole.as_object_mut(), spec) {
        whole.extend(spec);
    }
    pod(json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": whole}))
}

/// Returns the part of a pod's spec that requests this much cpu.
pub(super) fn asking(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

/// Returns an object with more fields, which replace those it has.
pub(super) fn with(mut value: Value, more: Value) -> Value {
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}
