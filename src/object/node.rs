//! Reads a node's status.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Node;

use super::conditions::{self, Condition, ConditionStatus};
use super::well_known::condition::READY;

/// Returns the status of a condition; `None` if the node lacks it.
pub fn condition_status<'a>(node: &'a Node, type_: &str) -> Option<&'a str> {
    Some(conditions::get(node.status.as_ref()?.conditions.as_ref(), type_)?.status())
}

/// Returns true if the node has a condition with this status.
pub fn condition_is(node: &Node, type_: &str, status: ConditionStatus) -> bool {
    condition_status(node, type_) == Some(status.as_str())
}

/// Returns true if the node is Ready, so that its pods can serve.
pub fn is_ready(node: &Node) -> bool {
    condition_is(node, READY, ConditionStatus::True)
}

/// Returns the addresses of a node inside the cluster.
pub fn internal_ips(node: &Node) -> impl Iterator<Item = IpAddr> {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    internal.filter_map(|address| address.address.parse().ok())
}
