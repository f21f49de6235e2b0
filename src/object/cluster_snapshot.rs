//! `podium.dev/v1alpha1` ClusterSnapshot and ClusterRestore (SAFE-8): saves the whole cluster to a file of its data
//! directory, and restores it from one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use super::podium_kind::{Field, own_kind, own_types};

/// The condition that reports whether a snapshot can be restored.
pub const READY: &str = "Ready";
/// The condition that reports whether a restore is done.
pub const COMPLETE: &str = "Complete";
/// The finalizer that keeps a snapshot's object while its file exists.
pub const SNAPSHOT_FINALIZER: &str = "podium.dev/snapshot-file";

own_kind! {
    /// ClusterSnapshot saves the state of the whole cluster at one moment to a file of the data directory.
    ClusterSnapshot "clustersnapshots", "podium.dev" podium ClusterResourceScope, ClusterSnapshotSpec ClusterSnapshotStatus
}

own_kind! {
    /// ClusterRestore restores the whole cluster from a snapshot: it deletes every pod, and workloads start again.
    ClusterRestore "clusterrestores", "podium.dev" podium ClusterResourceScope, ClusterRestoreSpec ClusterRestoreStatus
}

own_types! { podium
    /// ClusterSnapshotSpec selects what a snapshot saves; it is immutable.
    ClusterSnapshotSpec {
        /// claims also saves the contents of the claims' directories. Defaults to false.
        claims: Option<bool>,
    }

    /// ClusterSnapshotStatus reports what a snapshot has saved.
    ClusterSnapshotStatus {
        /// The time of the saved state.
        taken_at: Option<Time>,
        /// revision is the revision of the saved state.
        revision: Option<i64>,
        /// objects is the number of saved objects.
        objects: Option<i64>,
        /// bytes is the size of the file in bytes, without the contents of claims.
        bytes: Option<i64>,
        /// claims is the number of claims whose contents are saved.
        claims: Option<i64>,
        /// conditions has the condition Ready: the snapshot can be restored.
        conditions: Option<Vec<Condition>>,
    }

    /// ClusterRestoreSpec selects the snapshot and how to restore it; it is immutable.
    ClusterRestoreSpec requires "snapshot" {
        /// snapshot is the name of the ClusterSnapshot.
        snapshot: String,
        /// claims replaces the contents of the claims' directories with those in the snapshot. Defaults to
        /// false.
        claims: Option<bool>,
        /// gracePeriodSeconds is the grace period of every pod. Defaults to each pod's own.
        grace_period_seconds: Option<i64>,
    }

    /// ClusterRestoreStatus reports the progress of a restore.
    ClusterRestoreStatus {
        /// phase is Pending (nothing has changed), Ending (all pods are being deleted), Completed (the
        /// cluster is in the snapshot's state) or Failed (the restore changes nothing more).
        phase: RestorePhase,
        /// The start.
        started_at: Option<Time>,
        /// The time of completion or failure.
        completed_at: Option<Time>,
        /// before is the name of the snapshot taken before the restore.
        before: Option<String>,
        /// conditions has the condition Complete: the cluster is in the snapshot's state.
        conditions: Option<Vec<Condition>>,
    }
}

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

impl Field for RestorePhase {
    type Schema = String;
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
            "metadata": {"name": "a"}, "spec": {"claims": true}, "status": {"takenAt": "2026-11-21T00:00:00Z",
                "revision": 7, "objects": 3, "bytes": 900, "claims": 1}});
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
