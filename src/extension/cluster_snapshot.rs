//! `podium.dev/v1alpha1` ClusterSnapshot and ClusterRestore (SAFE-8): saves the whole cluster to a file of its data
//! directory, and restores it from one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use object::custom_kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{rules, schemas};

/// The condition that reports whether a snapshot can be restored.
pub const READY: &str = "Ready";
/// The condition that reports whether a restore is done.
pub const COMPLETE: &str = "Complete";

/// ClusterSnapshotSpec selects what a snapshot saves, and describes it; it is immutable.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "podium.dev",
    version = "v1alpha1",
    kind = "ClusterSnapshot",
    plural = "clustersnapshots",
    doc = "ClusterSnapshot saves the state of the whole cluster at one moment to a file of the data directory.",
    status = "ClusterSnapshotStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the snapshot can be restored."
    ),
    printcolumn(
        name = "Objects",
        type_ = "integer",
        json_path = ".status.objects",
        description = "The number of saved objects."
    ),
    printcolumn(
        name = "Bytes",
        type_ = "integer",
        json_path = ".status.bytes",
        description = "The size of the file in bytes, without the contents of claims."
    ),
    printcolumn(
        name = "Claims",
        type_ = "integer",
        json_path = ".status.claims",
        description = "The number of claims whose contents are saved."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Description",
        type_ = "string",
        json_path = ".spec.description",
        description = "The user's note about the snapshot.",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        description = "The message of the condition Ready.",
        priority = 1
    )
)]
#[schemars(extend("x-kubernetes-validations" = rules::immutable()))]
pub struct ClusterSnapshotSpec {
    /// claims also saves the contents of the claims' directories. Defaults to false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<bool>,
    /// description is a note about the snapshot, for users.
    #[schemars(length(max = 1024))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

custom_kind!(ClusterSnapshot, "podium.dev", "v1alpha1", "clustersnapshots", "ClusterSnapshot", Cluster);

/// ClusterSnapshotStatus reports what a snapshot has saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSnapshotStatus {
    /// takenAt is the time of the saved state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub taken_at: Option<Time>,
    /// revision is the revision of the saved state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// objects is the number of saved objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i64>,
    /// bytes is the size of the file in bytes, without the contents of claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// claims is the number of claims whose contents are saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<i64>,
    /// conditions has the condition Ready: the snapshot can be restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<schemas::Condition>>", extend("default" = rules::pending(READY)))]
    pub conditions: Option<Vec<Condition>>,
}

/// ClusterRestoreSpec selects the snapshot and how to restore it; it is immutable.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "podium.dev",
    version = "v1alpha1",
    kind = "ClusterRestore",
    plural = "clusterrestores",
    doc = "ClusterRestore restores the whole cluster from a snapshot: it deletes every pod, and workloads start again.",
    status = "ClusterRestoreStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Snapshot",
        type_ = "string",
        json_path = ".spec.snapshot",
        description = "The snapshot that is restored."
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "The phase of the restore."
    ),
    printcolumn(
        name = "Before",
        type_ = "string",
        json_path = ".status.before",
        description = "The snapshot that was taken before the restore."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Complete\")].message",
        description = "The message of the condition Complete.",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::immutable()))]
pub struct ClusterRestoreSpec {
    /// snapshot is the name of the ClusterSnapshot.
    #[serde(default)]
    #[schemars(!default, length(max = 253), extend("x-kubernetes-validations" = rules::of_subdomain()))]
    pub snapshot: String,
    /// claims replaces the contents of the claims' directories with those in the snapshot. Defaults to false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<bool>,
    /// gracePeriodSeconds is the grace period of every pod. Defaults to each pod's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self >= 0 && self <= 86400", "message": "must be between 0 and 86400, inclusive"}
    ]))]
    pub grace_period_seconds: Option<i64>,
}

custom_kind!(ClusterRestore, "podium.dev", "v1alpha1", "clusterrestores", "ClusterRestore", Cluster);

/// The progress of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestorePhase {
    /// Nothing has changed.
    #[default]
    Pending,
    /// All pods are being deleted, and no controller creates one.
    Ending,
    /// The cluster is in the snapshot's state.
    Completed,
    /// The restore has failed and changes nothing more.
    Failed,
}

/// ClusterRestoreStatus reports the progress of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRestoreStatus {
    /// phase is Pending (nothing has changed), Ending (all pods are being deleted), Completed (the cluster is
    /// in the snapshot's state) or Failed (the restore changes nothing more).
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["Pending", "Ending", "Completed", "Failed"]))]
    pub phase: RestorePhase,
    /// startedAt is the time at which the restore began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub started_at: Option<Time>,
    /// completedAt is the time at which the restore completed or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub completed_at: Option<Time>,
    /// before is the name of the snapshot taken before the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// conditions has the condition Complete: the cluster is in the snapshot's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<schemas::Condition>>", extend("default" = rules::pending(COMPLETE)))]
    pub conditions: Option<Vec<Condition>>,
}

impl ClusterSnapshot {
    /// Returns true if the contents of claims' directories are saved too.
    pub fn has_claims(&self) -> bool {
        self.spec.claims == Some(true)
    }
}

impl ClusterRestore {
    /// Returns the progress.
    pub fn phase(&self) -> RestorePhase {
        self.status.as_ref().map(|status| status.phase).unwrap_or_default()
    }

    /// Returns true if the restore has completed or failed.
    pub fn is_over(&self) -> bool {
        matches!(self.phase(), RestorePhase::Completed | RestorePhase::Failed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn snapshots_and_restores_are_written_as_they_are_read_safe_8() {
        let value = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "ClusterSnapshot",
            "metadata": {"name": "a"}, "spec": {"claims": true, "description": "d"},
            "status": {"takenAt": "2026-11-21T00:00:00Z", "revision": 7, "objects": 3, "bytes": 900, "claims": 1}});
        let snapshot: ClusterSnapshot = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&snapshot).unwrap(), value);
        assert!(snapshot.has_claims());
        let value = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "ClusterRestore",
            "metadata": {"name": "b"}, "spec": {"snapshot": "a", "gracePeriodSeconds": 1},
            "status": {"phase": "Ending", "before": "before-b"}});
        let restore: ClusterRestore = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&restore).unwrap(), value);
        assert!(!restore.is_over());
        assert_eq!(ClusterRestore::default().phase(), RestorePhase::Pending);
    }
}
