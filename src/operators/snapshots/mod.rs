//! Snapshots of the whole cluster, and restores from them (SAFE-8), as ClusterSnapshot and ClusterRestore objects
//! request.
//!
//! A snapshot is a file ([`SnapshotHooks`]), written from the state at one revision, while the cluster runs on. The
//! ClusterSnapshot owns the file: deleting the object deletes the file.
//!
//! A restore (`restore`) stops the controllers and the scheduler and ends every pod. When the nodes have reported that
//! no pod runs any more, it replaces the current state with that of the snapshot, in one write, which `plan` computes.
//! The ClusterRestore records the progress: if the control plane dies, the next one continues from there.

mod plan;
mod restore;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::controller_status::Subsystem;
use api::{Api, ApiError, Snapshot};
use base::count::counted;
use base::sort::SliceOrder;
use base::task::Tasks;
use extension::cluster_snapshot::{
    COMPLETE, ClusterRestore, ClusterSnapshot, ClusterSnapshotStatus, READY, RestorePhase,
};
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use object::conditions::{self, ConditionStatus};
use object::finalizers::{add_finalizer, has_finalizer};
use object::owner::is_terminating;
use object::well_known::finalizer::PODIUM_SNAPSHOT_FILE;
use object::{Kind, Object, Revision, SharedObject, TypedKind};
use reconcile::{Caches, Recorder, WorkLoop, ignore_not_found, preconditions};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The delay before a failed step is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout for a state to become durable; after it the disk is reported as unresponsive.
const DISK: Duration = Duration::from_secs(30);

/// The description of a snapshot, which its file contains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotMetadata {
    /// The time of the cluster's state.
    pub taken_at: Timestamp,
    /// The number of objects.
    pub objects: usize,
    /// The ranges of services.
    pub services: Vec<IpNet>,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The names of the claims' volumes whose content is stored beside the file.
    pub claims: Vec<String>,
    /// The version of Podium that wrote the file.
    pub podium: String,
}

/// The content of a snapshot.
#[derive(Debug)]
pub struct SavedState {
    /// The description of the snapshot.
    pub about: SnapshotMetadata,
    /// The objects.
    pub objects: Vec<Object>,
}

/// The operations on files and control loops that snapshots need. Those on files block the thread.
pub trait SnapshotHooks: Send + Sync + 'static {
    /// Returns the ranges of services.
    fn services(&self) -> &[IpNet];

    /// Returns the data directory.
    fn data_dir(&self) -> &Path;

    /// Stops the controllers and the scheduler, and waits for their ends; does nothing if none runs.
    fn stop_control_loops(&self) -> impl Future<Output = ()> + Send;

    /// Starts the controllers and the scheduler; does nothing if they run.
    fn start_control_loops(&self) -> impl Future<Output = ()> + Send;

    /// Returns true if the snapshot has a file, which is complete.
    fn is_saved(&self, name: &str) -> Result<bool, SnapshotFailure>;

    /// Writes the file of a snapshot; returns its size in bytes.
    fn save(
        &self,
        name: &str,
        revision: Revision,
        about: &SnapshotMetadata,
        objects: &[Arc<Object>],
    ) -> Result<u64, SnapshotFailure>;

    /// Returns the revision, the description and the size of a snapshot.
    fn describe(&self, name: &str) -> Result<(Revision, SnapshotMetadata, u64), SnapshotFailure>;

    /// Reads a snapshot completely.
    fn read(&self, name: &str) -> Result<SavedState, SnapshotFailure>;

    /// Removes the file of a snapshot, if there is one.
    fn remove(&self, name: &str) -> Result<(), SnapshotFailure>;

    /// Returns true if a volume has a directory in the data directory.
    fn has_volume(&self, volume: &str) -> bool;

    /// Returns true if a process may still use a volume.
    fn is_volume_used(&self, volume: &str) -> bool;

    /// Replaces the content of a volume by that in a snapshot.
    fn restore_volume(&self, name: &str, volume: &str) -> Result<(), SnapshotFailure>;
}

/// Returns true if the previous control plane ended during a restore: then the controllers and the scheduler must not
/// start before the restore has ended.
pub fn is_restoring(api: &Api) -> bool {
    api.list_as::<ClusterRestore>(None).iter().any(|restore| restore.phase() == RestorePhase::Ending)
}

/// Takes snapshots and restores them until `tasks` end.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, hooks: impl SnapshotHooks) {
    let changed = Arc::new(Notify::new());
    for kind in [ClusterSnapshot::kind(), ClusterRestore::kind()] {
        let changed = changed.clone();
        caches.on_any_change(kind, move |_| changed.notify_one());
    }
    let api = api.acting_as("podium-snapshots");
    let controller = Arc::new(SnapshotController {
        rounds: WorkLoop::start(&api, "snapshots", Subsystem::Cluster, tasks),
        recorder: Recorder::new(&api, "podium-snapshots"),
        api,
        caches: caches.clone(),
        hooks: Arc::new(hooks),
        changed,
    });
    tasks.spawn_restarting("snapshots", move || {
        let controller = controller.clone();
        async move { controller.run().await }
    });
}

struct SnapshotController<H> {
    api: Api,
    caches: Caches,
    recorder: Recorder,
    rounds: Arc<WorkLoop>,
    hooks: Arc<H>,
    changed: Arc<Notify>,
}

/// A step failed.
#[derive(Debug)]
pub enum SnapshotFailure {
    /// A retry cannot succeed; a reason and a message.
    Final(&'static str, String),
    /// A retry may succeed.
    Later(String),
}

impl SnapshotFailure {
    fn message(&self) -> &str {
        match self {
            Self::Final(_, message) | Self::Later(message) => message,
        }
    }
}

impl From<ApiError> for SnapshotFailure {
    fn from(error: ApiError) -> Self {
        Self::Later(error.to_string())
    }
}

impl<H: SnapshotHooks> SnapshotController<H> {
    async fn run(&self) {
        tokio::join!(self.caches.synced(ClusterSnapshot::kind()), self.caches.synced(ClusterRestore::kind()));
        loop {
            let again = self.sync().await.then_some(RETRY_INTERVAL);
            tokio::select! {
                () = self.changed.notified() => {}
                () = self.api.clock().sleep_if_some(again) => {}
            }
        }
    }

    /// Executes due work; returns true if something has to be retried.
    async fn sync(&self) -> bool {
        let mut is_behind = false;
        for snapshot in self.api.list_as::<ClusterSnapshot>(None) {
            let round = self.rounds.begin(format!("snapshot {}", snapshot.name()));
            let minded = self.sync_snapshot(&snapshot).await;
            round.ends(minded.as_ref().map(drop).map_err(SnapshotFailure::message));
            if let Err(trouble) = minded {
                is_behind |= self.record_failure(&snapshot, trouble);
            }
        }
        let mut restores = self.api.list_as::<ClusterRestore>(None);
        restores.retain(|restore| !restore.is_over());
        // The restore in progress comes first, then the others by age.
        restores.order_by_key(|restore| (!has_started(restore), restore.revision()));
        if let Some(restore) = restores.first() {
            let round = self.rounds.begin(format!("restore {}", restore.name()));
            let failed = self.restore(restore).await;
            round.ends(if failed { Err("retrying; see the status of the restore") } else { Ok(()) });
            is_behind |= failed;
            // Another restore may wait.
            self.changed.notify_one();
        } else {
            self.hooks.start_control_loops().await;
        }
        is_behind
    }

    /// Takes the snapshot if that has not been done, or removes its file if the object is being deleted.
    async fn sync_snapshot(&self, snapshot: &SharedObject<ClusterSnapshot>) -> Result<(), SnapshotFailure> {
        let held = has_finalizer(&snapshot.metadata, PODIUM_SNAPSHOT_FILE);
        if is_terminating(&snapshot.metadata) {
            if held {
                let (hooks, name) = (self.hooks.clone(), snapshot.name().to_owned());
                blocking(move || hooks.remove(&name)).await??;
                preconditions::remove_finalizer(&self.api, snapshot, PODIUM_SNAPSHOT_FILE)?;
            }
            return Ok(());
        }
        if is_ready(snapshot) {
            return Ok(());
        }
        if !held {
            preconditions::modify(&self.api, snapshot, |fresh| {
                add_finalizer(&mut fresh.metadata, PODIUM_SNAPSHOT_FILE);
                Ok(())
            })?;
        }
        // An existing file is complete; only the object's status was not written yet.
        let (hooks, name) = (self.hooks.clone(), snapshot.name().to_owned());
        if hooks.is_saved(&name)? {
            let (revision, about, bytes) = blocking(move || hooks.describe(&name)).await??;
            return Ok(self.record_success(snapshot, revision, &about, bytes)?);
        }
        self.take(snapshot).await
    }

    /// Writes the current state to the snapshot's file.
    async fn take(&self, snapshot: &SharedObject<ClusterSnapshot>) -> Result<(), SnapshotFailure> {
        let (api, hooks, name) = (self.api.clone(), self.hooks.clone(), snapshot.name().to_owned());
        let has_claims = snapshot.has_claims();
        let whole = api.whole();
        // The state must be durable first, since a snapshot must not contain writes that a crash could undo.
        match tokio::time::timeout(DISK, api.durable(whole.revision)).await {
            Ok(durable) => durable.map_err(|error| SnapshotFailure::Later(error.to_string()))?,
            Err(_) => return Err(SnapshotFailure::Later("the data directory does not respond".to_owned())),
        }
        let written = blocking(move || {
            let Snapshot { revision, mut objects } = whole;
            objects.retain(|object| !is_snapshot_kind(object.kind()));
            let claims = if has_claims { volumes(&objects, &*hooks) } else { Vec::new() };
            let about = SnapshotMetadata {
                taken_at: api.clock().now(),
                objects: objects.len(),
                services: hooks.services().to_vec(),
                data_dir: hooks.data_dir().to_owned(),
                claims,
                podium: env!("CARGO_PKG_VERSION").to_owned(),
            };
            let bytes = hooks.save(&name, revision, &about, &objects)?;
            Ok::<_, SnapshotFailure>((revision, about, bytes))
        });
        let (revision, about, bytes) = written.await??;
        Ok(self.record_success(snapshot, revision, &about, bytes)?)
    }

    fn record_success(
        &self,
        snapshot: &SharedObject<ClusterSnapshot>,
        revision: Revision,
        about: &SnapshotMetadata,
        bytes: u64,
    ) -> Result<(), ApiError> {
        let number = |number: u64| i64::try_from(number).ok();
        let objects = counted(about.objects, "object");
        let message = match about.claims.len() {
            0 => format!("{objects} at revision {revision}"),
            1 => format!("{objects} at revision {revision}, and the content of 1 claim"),
            claims => format!("{objects} at revision {revision}, and the contents of {claims} claims"),
        };
        let status = ClusterSnapshotStatus {
            taken_at: Some(Time(about.taken_at)),
            revision: number(revision.0),
            objects: i64::try_from(about.objects).ok(),
            bytes: number(bytes),
            claims: i64::try_from(about.claims.len()).ok().filter(|_| snapshot.has_claims()),
            conditions: None,
        };
        self.recorder.normal(snapshot.object(), "SnapshotSaved", message.clone());
        self.write_status(snapshot, &status, (ConditionStatus::True, "Saved", &message))
    }

    /// Records the failure of a snapshot; returns true if it must be retried.
    fn record_failure(&self, snapshot: &SharedObject<ClusterSnapshot>, failure: SnapshotFailure) -> bool {
        let (reason, message, again) = match failure {
            SnapshotFailure::Final(reason, message) => (reason, message, false),
            SnapshotFailure::Later(message) => ("SaveFailed", message, true),
        };
        let status = snapshot.status.clone().unwrap_or_default();
        let current = conditions::get(status.conditions.as_ref(), READY).map(|ready| ready.message.clone());
        if current.as_deref() != Some(message.as_str()) {
            self.recorder.warning(snapshot.object(), "SnapshotFailed", message.clone());
            let written = self.write_status(snapshot, &status, (ConditionStatus::False, reason, &message));
            if let Err(error) = written {
                tracing::warn!("cannot write the status of snapshot {}: {error}", snapshot.name());
            }
        }
        again
    }

    fn write_status(
        &self,
        snapshot: &SharedObject<ClusterSnapshot>,
        status: &ClusterSnapshotStatus,
        (ready, reason, message): (ConditionStatus, &str, &str),
    ) -> Result<(), ApiError> {
        let now = self.api.clock().now();
        ignore_not_found(preconditions::modify_status(&self.api, snapshot, |fresh| {
            let before = fresh.status.take().and_then(|status| status.conditions).unwrap_or_default();
            let mut status = ClusterSnapshotStatus { conditions: Some(before), ..status.clone() };
            set_condition(&mut status.conditions, READY, ready, (reason, message), now);
            fresh.status = Some(status);
        }))
    }
}

fn set_condition(
    all: &mut Option<Vec<Condition>>,
    type_: &str,
    status: ConditionStatus,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    conditions::set(all.get_or_insert_default(), conditions::new(type_, status, reason, message, Time(now)));
}

fn is_ready(snapshot: &ClusterSnapshot) -> bool {
    let all = snapshot.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions::get(all, READY).is_some_and(|ready| ready.status == "True")
}

/// Returns true if the controller has written the status of a restore.
fn has_started(restore: &ClusterRestore) -> bool {
    let all = restore.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions::get(all, COMPLETE).is_some_and(|complete| complete.status != "Unknown")
}

/// Returns true for the kinds of snapshots and restores, which snapshots do not contain.
fn is_snapshot_kind(kind: Kind) -> bool {
    [ClusterSnapshot::kind(), ClusterRestore::kind()].contains(&kind)
}

/// Returns the claims' volumes that have a directory in our data directory.
fn volumes(objects: &[Arc<Object>], hooks: &impl SnapshotHooks) -> Vec<String> {
    let mut names = plan::volumes_of_claims(objects.iter().map(|object| &**object));
    names.retain(|name| hooks.has_volume(name));
    names.order();
    names.dedup();
    names
}

/// Runs blocking work outside the async threads, and returns its result.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SnapshotFailure> {
    base::task::blocking(work).await.map_err(|error| SnapshotFailure::Later(error.to_string()))
}
