//! Snapshots of the whole cluster, and restores from them (SAFE-8), as ClusterSnapshot and ClusterRestore objects
//! request.
//!
//! A snapshot is a file of the data directory (`files`), written from the state at one revision, while the cluster runs
//! on. The ClusterSnapshot owns the file: deleting the object deletes the file. A file without an object, such as the
//! one copied into a fork's data directory, gets an object at the start.
//!
//! A restore (`restore`) stops the controllers and the scheduler and ends every pod. When the nodes have reported that
//! no pod runs any more, it replaces the current state with that of the snapshot, in one write, which `plan` computes.
//! The ClusterRestore records the progress: if the control plane dies, the next one continues from there.

mod files;
mod plan;
mod restore;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::controller_status::Subsystem;
use api::{Api, ApiError, Snapshot};
use base::count::counted;
use base::task::Tasks;
use extension::cluster_snapshot::{
    COMPLETE, ClusterRestore, ClusterRestoreSpec, ClusterSnapshot, ClusterSnapshotSpec,
    ClusterSnapshotStatus, READY, SNAPSHOT_FINALIZER,
};
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use object::conditions::{self, ConditionStatus};
use object::finalizers::{add_finalizer, has_finalizer};
use object::owner::is_terminating;
use object::{Kind, Object, SharedObject, TypedKind};
use reconcile::{Caches, Recorder, WorkLoop, ignore_not_found, preconditions};
use tokio::sync::Notify;

use super::actors::Actors;
use super::data_dir::{DataDir, DataDirError, write_private};
pub use files::{Files, SnapshotError, SnapshotMetadata};

/// The delay before a failed step is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout for a state to become durable; after it the disk is reported as unresponsive.
const DISK: Duration = Duration::from_secs(30);
/// The file that requests a restore at the next start, beside the snapshots.
const AT_START: &str = "restore-at-start";
/// The annotation of a fork's first restore, before which no snapshot is taken, since there is no state to return to.
const OF_NOTHING: &str = "podium.dev/of-nothing";

/// The controller's dependencies, besides the API and the caches.
pub(super) struct SnapshotContext {
    pub(super) actors: Arc<Actors>,
    pub(super) data_dir: PathBuf,
    /// The ranges of services.
    pub(super) services: Vec<IpNet>,
}

/// Returns true if the previous control plane ended during a restore: then the controllers and the scheduler must not
/// start before the restore has ended.
pub(super) fn is_restoring(api: &Api) -> bool {
    use extension::cluster_snapshot::RestorePhase::Ending;
    api.list_as::<ClusterRestore>(None).iter().any(|restore| restore.phase() == Ending)
}

/// Makes the next start of a data directory restore a snapshot. `first` means that the directory has no state yet, as
/// in a fork.
pub fn restore_at_start(
    data_dir: &std::path::Path,
    spec: &ClusterRestoreSpec,
    first: bool,
) -> Result<(), DataDirError> {
    let text = serde_json::json!({"spec": spec, "first": first}).to_string();
    write_private(&data_dir.join(AT_START), &text)
}

/// Creates a ClusterSnapshot for every snapshot file without one, and a ClusterRestore if a restore was requested while
/// the cluster did not run.
pub(super) fn take_over(api: &Api, data_dir: &DataDir) -> Result<(), ApiError> {
    let api = api.acting_as("podium-snapshots");
    let files = Files::of(data_dir.path());
    files.tidy();
    for name in files.names() {
        if api.get(ClusterSnapshot::kind(), &object::Key::new("", name.as_str())).is_ok() {
            continue;
        }
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            finalizers: Some(vec![SNAPSHOT_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        };
        let claims = files.about(&name).is_ok_and(|(_, about, _)| !about.claims.is_empty());
        let spec = ClusterSnapshotSpec { claims: claims.then_some(true) };
        if let Err(error) = api.create_as(ClusterSnapshot { metadata, spec, status: None }) {
            tracing::warn!("cannot create the object of snapshot {name}: {error}");
        }
    }
    let path = data_dir.path().join(AT_START);
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(()) };
    let request = serde_json::from_str::<serde_json::Value>(&text).and_then(|request| {
        let spec = serde_json::from_value::<ClusterRestoreSpec>(request["spec"].clone())?;
        Ok((spec, request))
    });
    match request {
        Ok((spec, request)) => {
            let annotation = (OF_NOTHING.to_owned(), "true".to_owned());
            let metadata = ObjectMeta {
                generate_name: Some("at-start-".to_owned()),
                annotations: (request["first"] == true).then(|| [annotation].into()),
                ..ObjectMeta::default()
            };
            api.create_as(ClusterRestore { metadata, spec, status: None })?;
        }
        Err(error) => tracing::error!("cannot read the restore in {}: {error}", path.display()),
    }
    if let Err(error) = std::fs::remove_file(&path) {
        tracing::error!("cannot remove {}: {error}", path.display());
    }
    Ok(())
}

/// Takes snapshots and restores them until `tasks` end.
pub(super) fn start(api: &Api, caches: &Caches, tasks: &Tasks, means: SnapshotContext) {
    let changed = Arc::new(Notify::new());
    for kind in [ClusterSnapshot::kind(), ClusterRestore::kind()] {
        let changed = changed.clone();
        caches.on_any_change(kind, move |_| changed.notify_one());
    }
    let api = api.acting_as("podium-snapshots");
    let keeper = SnapshotController {
        rounds: WorkLoop::start(&api, "snapshots", Subsystem::Cluster, tasks),
        recorder: Recorder::new(&api, "podium-snapshots"),
        files: Files::of(&means.data_dir),
        api,
        caches: caches.clone(),
        means: Arc::new(means),
        changed,
    };
    tasks.spawn_restarting("snapshots", move || keeper.clone().run());
}

#[derive(Clone)]
struct SnapshotController {
    api: Api,
    caches: Caches,
    recorder: Recorder,
    rounds: Arc<WorkLoop>,
    files: Files,
    means: Arc<SnapshotContext>,
    changed: Arc<Notify>,
}

/// A step failed.
#[derive(Debug)]
enum SnapshotFailure {
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

impl From<SnapshotError> for SnapshotFailure {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Damaged { .. } => Self::Final("Damaged", error.to_string()),
            SnapshotError::Missing(_) => Self::Final("NoSuchSnapshot", error.to_string()),
            SnapshotError::Name(_) => Self::Final("NoSuchName", error.to_string()),
            SnapshotError::Io { .. }
            | SnapshotError::TooMany
            | SnapshotError::TooLarge
            | SnapshotError::NoRoom { .. } => Self::Later(error.to_string()),
        }
    }
}

impl SnapshotController {
    async fn run(self) {
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
        restores.sort_by_key(|restore| (!has_started(restore), restore.revision()));
        if let Some(restore) = restores.first() {
            let round = self.rounds.begin(format!("restore {}", restore.name()));
            let failed = self.restore(restore).await;
            round.ends(if failed { Err("retrying; see the status of the restore") } else { Ok(()) });
            is_behind |= failed;
            // Another restore may wait.
            self.changed.notify_one();
        } else {
            self.means.actors.restart_all().await;
        }
        is_behind
    }

    /// Takes the snapshot if that has not been done, or removes its file if the object is being deleted.
    async fn sync_snapshot(&self, snapshot: &SharedObject<ClusterSnapshot>) -> Result<(), SnapshotFailure> {
        let held = has_finalizer(&snapshot.metadata, SNAPSHOT_FINALIZER);
        if is_terminating(&snapshot.metadata) {
            if held {
                let (files, name) = (self.files.clone(), snapshot.name().to_owned());
                blocking(move || files.remove(&name)).await??;
                preconditions::remove_finalizer(&self.api, snapshot, SNAPSHOT_FINALIZER)?;
            }
            return Ok(());
        }
        if is_ready(snapshot) {
            return Ok(());
        }
        if !held {
            self.hold(snapshot)?;
        }
        // An existing file is complete; only the object's status was not written yet.
        let (files, name) = (self.files.clone(), snapshot.name().to_owned());
        if self.files.path(&name)?.exists() {
            let (revision, about, bytes) = blocking(move || files.about(&name)).await??;
            return Ok(self.record_success(snapshot, revision, &about, bytes)?);
        }
        self.take(snapshot).await
    }

    /// Writes the current state to the snapshot's file.
    async fn take(&self, snapshot: &SharedObject<ClusterSnapshot>) -> Result<(), SnapshotFailure> {
        let (api, files, name) = (self.api.clone(), self.files.clone(), snapshot.name().to_owned());
        let (means, has_claims) = (self.means.clone(), snapshot.has_claims());
        let whole = api.whole();
        // The state must be durable first, since a snapshot must not contain writes that a crash could undo.
        match tokio::time::timeout(DISK, api.durable(whole.revision)).await {
            Ok(durable) => durable.map_err(|error| SnapshotFailure::Later(error.to_string()))?,
            Err(_) => return Err(SnapshotFailure::Later("the data directory does not respond".to_owned())),
        }
        let written = blocking(move || {
            let Snapshot { revision, mut objects } = whole;
            objects.retain(|object| !is_snapshot_kind(object.kind()));
            let claims = if has_claims { volumes(&objects, &files) } else { Vec::new() };
            let about = SnapshotMetadata {
                taken_at: api.clock().now(),
                objects: objects.len(),
                services: means.services.clone(),
                data_dir: means.data_dir.clone(),
                claims,
                podium: env!("CARGO_PKG_VERSION").to_owned(),
            };
            let bytes = files.write(&name, revision, &about, &objects)?;
            Ok::<_, SnapshotError>((revision, about, bytes))
        });
        let (revision, about, bytes) = written.await??;
        Ok(self.record_success(snapshot, revision, &about, bytes)?)
    }

    fn hold(&self, snapshot: &SharedObject<ClusterSnapshot>) -> Result<(), ApiError> {
        let uid = snapshot.uid();
        let changed = self.api.modify::<ClusterSnapshot>(&snapshot.key(), |snapshot| {
            if snapshot.metadata.uid.as_deref() == Some(uid) {
                add_finalizer(&mut snapshot.metadata, SNAPSHOT_FINALIZER);
            }
            Ok(())
        });
        changed.map(drop)
    }

    fn record_success(
        &self,
        snapshot: &SharedObject<ClusterSnapshot>,
        revision: object::Revision,
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
        ignore_not_found(self.api.modify_status::<ClusterSnapshot>(&snapshot.key(), |fresh| {
            if fresh.metadata.uid == snapshot.metadata.uid {
                let before = fresh.status.take().and_then(|status| status.conditions).unwrap_or_default();
                let mut status = ClusterSnapshotStatus { conditions: Some(before), ..status.clone() };
                set_condition(&mut status.conditions, READY, ready, (reason, message), now);
                fresh.status = Some(status);
            }
            Ok(())
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
fn volumes(objects: &[Arc<Object>], files: &Files) -> Vec<String> {
    let mut names = plan::volumes_of_claims(objects.iter().map(|object| &**object));
    names.retain(|name| files.volume(name).is_some_and(|path| path.is_dir()));
    names.sort();
    names.dedup();
    names
}

/// Runs blocking work outside the async threads, and returns its result.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SnapshotFailure> {
    base::task::blocking(work).await.map_err(|error| SnapshotFailure::Later(error.to_string()))
}
