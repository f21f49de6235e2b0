//! What a node's object says of it, and a pod's of its node.

use k8s_openapi::api::core::v1::{Node, Pod};

/// The status of a condition; none when the node does not have it.
pub fn condition_status<'a>(node: &'a Node, type_: &str) -> Option<&'a str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == type_).map(|c| c.status.as_str())
}

/// Whether the node's pods can be trusted to serve.
pub fn is_ready(node: &Node) -> bool {
    condition_status(node, "Ready") == Some("True")
}

/// The node a pod is bound to.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}
