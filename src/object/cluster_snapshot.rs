//! `podium.dev/v1alpha1` ClusterSnapshot and ClusterRestore (SAFE-8): saves the whole cluster to a file of its data
//! directory, and restores it from one.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::own_kind::{number, own_kind, text, truth};

/// The condition that reports whether a snapshot can be restored.
pub const READY: &str = "Ready";
/// The condition that reports whether a restore is done.
pub const COMPLETE: &str = "Complete";
/// The finalizer that keeps a snapshot's object while its file exists.
pub const SNAPSHOT_FINALIZER: &str = "podium.dev/snapshot-file";

own_kind! {
    /// The whole cluster as it was at one moment.
    ClusterSnapshot "ClusterSnapshot" "clustersnapshots" "ClusterSnapshotList",
    "ClusterSnapshot is the whole cluster as it was at one moment, kept in a file of the data directory.",
    ClusterSnapshotSpec: "What is kept; it cannot be changed.",
    ClusterSnapshotStatus: "What was kept.",
}

own_kind! {
    /// Brings the whole cluster back to the state in a snapshot.
    ClusterRestore "ClusterRestore" "clusterrestores" "ClusterRestoreList",
    "ClusterRestore brings the whole cluster back to what a snapshot holds: every pod ends, and workloads start anew.",
    ClusterRestoreSpec: "From what; it cannot be changed.",
    ClusterRestoreStatus: "How far it is.",
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
    /// Replaces the contents of claims' directories by those in the snapshot.
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
            "description": "ClusterSnapshotSpec is what a snapshot keeps; it cannot be changed.",
            "type": "object",
            "properties": {
                "claims": truth("Whether what is in the directories of claims is kept too. Defaults to false."),
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
            "description": "ClusterSnapshotStatus is what a snapshot has kept.",
            "type": "object",
            "properties": {
                "takenAt": time(generator),
                "revision": number("The revision of the whole state then."),
                "objects": number("How many objects are kept."),
                "bytes": number("How many bytes the file takes, without claims."),
                "claims": number("Of how many claims what they hold is kept."),
                "conditions": conditions(generator, "Ready: it can be restored."),
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
            "description": "ClusterRestoreSpec is from what a cluster is brought back; it cannot be changed.",
            "type": "object",
            "properties": {
                "snapshot": text("The ClusterSnapshot by its name."),
                "claims": truth(
                    "Whether what the snapshot keeps of claims takes the place of what their directories hold. Defaults to false.",
                ),
                "gracePeriodSeconds": number("How many seconds pods get to end; their own without."),
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
            "description": "ClusterRestoreStatus is how far a restore is.",
            "type": "object",
            "properties": {
                "phase": text(
                    "Pending: nothing has changed. Ending: every pod was asked to end. Completed: the cluster is as the snapshot has it. Failed: nothing is changed any more.",
                ),
                "startedAt": time(generator),
                "completedAt": time(generator),
                "before": text("The snapshot that was taken of the cluster before."),
                "conditions": conditions(generator, "Complete: the cluster is as the snapshot has it."),
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
