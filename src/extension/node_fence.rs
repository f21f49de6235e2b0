//! `podium.dev/v1alpha1` NodeFence (SAFE-5): makes sure that all processes of a node are dead, so that its pods can
//! be replaced.
//!
//! The object has the node's name: a node is fenced or it is not. Deleting the object returns the node to service.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use object::custom_kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{rules, schemas};

/// The condition that reports whether all processes of the node are dead.
pub const FENCED: &str = "Fenced";
/// The value of the taint `node.kubernetes.io/out-of-service` of a node that was fenced.
pub const FENCED_TAINT: &str = "fenced";

/// NodeFenceSpec gives the reason for fencing a node; it is immutable.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "podium.dev",
    version = "v1alpha1",
    kind = "NodeFence",
    plural = "nodefences",
    doc = "NodeFence kills every process of the node with its name, and keeps the node out of service until the NodeFence is deleted or the node comes back with nothing running.",
    status = "NodeFenceStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "The phase of the fence."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".spec.reason",
        description = "The reason for the fence."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Fenced\")].message",
        description = "The message of the condition Fenced.",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::immutable()))]
pub struct NodeFenceSpec {
    /// reason is the reason for the fence, for users.
    #[schemars(length(max = 1024))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

custom_kind!(NodeFence, "podium.dev", "v1alpha1", "nodefences", "NodeFence", Cluster);

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

/// NodeFenceStatus reports the progress of a fence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeFenceStatus {
    /// phase is Pending (nothing has been done), Killing (the node's processes are being killed) or Fenced
    /// (all of them are dead, and the node is out of service).
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["Pending", "Killing", "Fenced"]))]
    pub phase: FencePhase,
    /// startedAt is the time at which the fence began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub started_at: Option<Time>,
    /// fencedAt is the time since which the node's processes are known to be dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub fenced_at: Option<Time>,
    /// conditions has the condition Fenced: every process of the node is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<schemas::Condition>>", extend("default" = rules::pending(FENCED)))]
    pub conditions: Option<Vec<Condition>>,
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
