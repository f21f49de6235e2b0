//! Why a pod waits for a node (CON-9), as far as the cluster tells it.
//!
//! All pure: [`verdict`] reads what Podium's scheduler found node by node, [`groups`] brings thousands of
//! nodes together that were refused for the same reasons, [`told`] reads what any cluster tells: the
//! condition and the event of kube-scheduler. Asking for it and drawing it is the screen's.

pub mod groups;
pub mod told;
pub mod verdict;

use k8s_openapi::api::core::v1::Pod;

use crate::object::owner::is_terminating;

/// Whether the pod is without a node and still wants one: the only pods that this is about.
pub fn waits_for_a_node(pod: &Pod) -> bool {
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|n| !n.is_empty());
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !bound && matches!(phase, None | Some("Pending")) && !is_terminating(&pod.metadata)
}
