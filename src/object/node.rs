//! What a node's object says of it.

use k8s_openapi::api::core::v1::Node;

use super::conditions::{self, Condition, ConditionStatus};
use super::well_known::condition::READY;

/// The status of a condition; none when the node does not have it.
pub fn condition_status<'a>(node: &'a Node, type_: &str) -> Option<&'a str> {
    Some(conditions::get(node.status.as_ref()?.conditions.as_ref(), type_)?.status())
}

/// Whether the node has a condition with this status.
pub fn condition_is(node: &Node, type_: &str, status: ConditionStatus) -> bool {
    condition_status(node, type_) == Some(status.as_str())
}

/// Whether the node's pods can be trusted to serve.
pub fn is_ready(node: &Node) -> bool {
    condition_is(node, READY, ConditionStatus::True)
}
