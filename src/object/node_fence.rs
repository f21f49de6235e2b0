//! `podium.dev/v1alpha1` NodeFence (SAFE-5): makes sure that all processes of a node are dead, so that its pods can
//! be replaced.
//!
//! The object has the node's name: a node is fenced or it is not. Deleting the object returns the node to service.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use super::podium_kind::{Field, own_kind, own_types};

/// The condition that reports whether all processes of the node are dead.
pub const FENCED: &str = "Fenced";
/// The finalizer that keeps a fence's object until the node is back, or is deleted.
pub const FENCE_FINALIZER: &str = "podium.dev/fence";
/// On a StatefulSet: the time for which a node with one of its pods may be not Ready before it is fenced, such as
/// `60s`.
pub const FENCE_AFTER: &str = "podium.dev/fence-after";
/// The value of the taint `node.kubernetes.io/out-of-service` of a node that was fenced.
pub const FENCED_TAINT: &str = "fenced";

own_kind! {
    /// NodeFence kills every process of the node with its name, and keeps the node out of service until the NodeFence
    /// is deleted or the node comes back with nothing running.
    NodeFence "nodefences", "podium.dev" podium ClusterResourceScope, NodeFenceSpec NodeFenceStatus
}

own_types! { podium
    /// NodeFenceSpec gives the reason for fencing a node; it is immutable.
    NodeFenceSpec {
        /// reason is the reason for the fence, for users.
        reason: Option<String>,
    }

    /// NodeFenceStatus reports the progress of a fence.
    NodeFenceStatus {
        /// phase is Pending (nothing has been done), Killing (the node's processes are being killed) or
        /// Fenced (all of them are dead, and the node is out of service).
        phase: FencePhase,
        /// The start.
        started_at: Option<Time>,
        /// The time since which the node's processes are known to be dead.
        fenced_at: Option<Time>,
        /// conditions has the condition Fenced: every process of the node is dead.
        conditions: Option<Vec<Condition>>,
    }
}

/// The progress of a fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FencePhase {
    /// Nothing has been done.
    #[default]
    Pending,
    /// The node's kubelet is stopped, and its processes are being killed; the node is not out of service yet.
    Killing,
    /// All processes of the node are dead, and it is marked as out of service.
    Fenced,
}

impl Field for FencePhase {
    type Schema = String;
}

impl NodeFence {
    /// Returns the progress.
    pub fn phase(&self) -> FencePhase {
        self.status.as_ref().map(|status| status.phase).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fences_are_written_as_they_are_read_safe_5() {
        let value = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1"},
            "spec": {"reason": "it hangs"}, "status": {"phase": "Killing", "startedAt": "2026-11-21T00:00:00Z"}});
        let fence: NodeFence = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&fence).unwrap(), value);
        assert_eq!(fence.phase(), FencePhase::Killing);
        assert_eq!(NodeFence::default().phase(), FencePhase::Pending);
    }
}
