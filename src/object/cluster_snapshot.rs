//! `podium.dev/v1alpha1` ClusterSnapshot and ClusterRestore (SAFE-8): saves the whole cluster to a file of its data
//! directory, and restores it from one.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::podium_kind::{boolean, number, own_kind, text};

/// The condition that reports whether a snapshot can be restored.
pub const READY: &str = "Ready";
/// The condition that reports whether a restore is done.
pub const COMPLETE: &str = "Complete";
/// The finalizer that keeps a snapshot's object while its file exists.
pub const SNAPSHOT_FINALIZER: &str = "podium.dev/snapshot-file";

own_kind! {
    /// The whole cluster as it was at one moment.
    ClusterSnapshot "ClusterSnapshot" "clustersnapshots" "ClusterSnapshotList",
    "ClusterSnapshot saves the state of the whole cluster at one moment to a file of the data directory.",
    ClusterSnapshotSpec: "spec selects what the snapshot saves; it is immutable.",
    ClusterSnapshotStatus: "status reports what the snapshot has saved.",
}

own_kind! {
    /// Brings the whole cluster back to the state in a snapshot.
    ClusterRestore "ClusterRestore" "clusterrestores" "ClusterRestoreList",
    "ClusterRestore restores the whole cluster from a snapshot: it deletes every pod, and workloads start again.",
    ClusterRestoreSpec: "spec selects the snapshot and how to restore it; it is immutable.",
    ClusterRestoreStatus: "status reports the progress of the restore.",
}

/// The contents of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterSnapshotSpec {
    /// Saves the contents of claims' directories too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<bool>,
}

/// The result of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSnapshotStatus {
    /// The time of the saved state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Time>,
    /// The revision of the saved state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The number of saved objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i64>,
    /// The size of the file in bytes, without claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// The number of claims with saved contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<i64>,
    /// [`READY`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// The parameters of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRestoreSpec {
    /// The name of the ClusterSnapshot.
    #[serde(default)]
    pub snapshot: String,
    /// Replaces the contents of claims' directories with those in the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<bool>,
    /// The grace period of pods in seconds; each pod's own if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
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

/// The progress and the result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRestoreStatus {
    /// The progress.
    #[serde(default)]
    pub phase: RestorePhase,
    /// The start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// The time of completion or failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// The snapshot taken of the cluster before the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// [`COMPLETE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

fn time(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Time>()
}

fn conditions(generator: &mut SchemaGenerator, description: &str) -> Schema {
    json_schema!({
        "description": description, "type": "array", "items": generator.subschema_for::<Condition>(),
    })
}

impl JsonSchema for ClusterSnapshotSpec {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.ClusterSnapshotSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "ClusterSnapshotSpec selects what a snapshot saves; it is immutable.",
            "type": "object",
            "properties": {
                "claims": boolean("claims also saves the contents of the claims' directories. Defaults to false."),
            },
        })
    }
}

impl JsonSchema for ClusterSnapshotStatus {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.ClusterSnapshotStatus".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "ClusterSnapshotStatus reports what a snapshot has saved.",
            "type": "object",
            "properties": {
                "takenAt": time(generator),
                "revision": number("revision is the revision of the saved state."),
                "objects": number("objects is the number of saved objects."),
                "bytes": number("bytes is the size of the file in bytes, without the contents of claims."),
                "claims": number("claims is the number of claims whose contents are saved."),
                "conditions": conditions(generator, "conditions has the condition Ready: the snapshot can be restored."),
            },
        })
    }
}

impl JsonSchema for ClusterRestoreSpec {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.ClusterRestoreSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "ClusterRestoreSpec selects the snapshot and how to restore it; it is immutable.",
            "type": "object",
            "properties": {
                "snapshot": text("snapshot is the name of the ClusterSnapshot."),
                "claims": boolean(
                    "claims replaces the contents of the claims' directories with those in the snapshot. Defaults to false.",
                ),
                "gracePeriodSeconds": number("gracePeriodSeconds is the grace period of every pod. Defaults to each pod's own."),
            },
            "required": ["snapshot"],
        })
    }
}

impl JsonSchema for ClusterRestoreStatus {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.ClusterRestoreStatus".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "ClusterRestoreStatus reports the progress of a restore.",
            "type": "object",
            "properties": {
                "phase": text(
                    "phase is Pending (nothing has changed), Ending (all pods are being deleted), Completed (the cluster is in the snapshot's state) or Failed (the restore changes nothing more).",
                ),
                "startedAt": time(generator),
                "completedAt": time(generator),
                "before": text("before is the name of the snapshot taken before the restore."),
                "conditions": conditions(generator, "conditions has the condition Complete: the cluster is in the snapshot's state."),
            },
        })
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
