//! What a node's object says of it.

use k8s_openapi::api::core::v1::Node;

/// The status of a condition; none when the node does not have it.
pub fn condition_status<'a>(node: &'a Node, type_: &str) -> Option<&'a str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == type_).map(|c| c.status.as_str())
}

/// Whether the node's pods can be trusted to serve.
pub fn is_ready(node: &Node) -> bool {
    condition_status(node, "Ready") == Some("True")
}
