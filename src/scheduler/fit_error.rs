//! The messages about a pod that fits on no node, word for word as kube-scheduler's.

use std::collections::BTreeMap;

use crate::reason::Reason;
use base::sort::SliceOrder;

/// The message if there is no node at all.
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// Formats `0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.`
///
/// Reasons are sorted as text, count first, as in Kubernetes.
pub(crate) fn node_reasons(nodes: usize, reasons: &BTreeMap<Reason, usize>) -> String {
    let mut counted: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counted.order();
    let head = format!("0/{nodes} nodes are available:");
    if counted.is_empty() { head } else { format!("{head} {}.", counted.join(", ")) }
}

/// Returns the message if a plugin refused the pod before any node was evaluated.
pub(crate) fn rejected_before(nodes: usize, reason: &Reason) -> String {
    format!("0/{nodes} nodes are available: {reason}.")
}
