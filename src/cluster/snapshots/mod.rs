//! The part of snapshots that only this program can do (SAFE-8): read and write their files, and stop the control loops. The
//! controller is [`operators::snapshots`].
//!
//! A file without an object, such as the one copied into a fork's data directory, gets an object at the start.

mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::{Api, ApiError};
use extension::cluster_snapshot::{ClusterRestore, ClusterRestoreSpec, ClusterSnapshot, ClusterSnapshotSpec};
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kubelet::volumes::user_of;
use object::well_known::annotation::PODIUM_FIRST_RESTORE;
use object::well_known::finalizer::PODIUM_SNAPSHOT_FILE;
use object::{Object, Revision, TypedKind};
use operators::snapshots::{SavedState, SnapshotFailure, SnapshotHooks};

use super::actors::Actors;
use super::data_dir::{DataDir, DataDirError, write_private};
pub use files::{Files, SnapshotError};
pub use operators::snapshots::SnapshotMetadata;

/// The file that requests a restore at the next start, beside the snapshots.
const AT_START: &str = "restore-at-start";

/// The files and control loops of this program.
pub(super) struct SnapshotTargets {
    actors: Arc<Actors>,
    data_dir: PathBuf,
    services: Vec<IpNet>,
    files: Files,
}

impl SnapshotTargets {
    /// Creates the targets, with the ranges of services.
    pub(super) fn new(actors: Arc<Actors>, data_dir: PathBuf, services: Vec<IpNet>) -> Self {
        let files = Files::of(&data_dir);
        Self { actors, data_dir, services, files }
    }
}

impl SnapshotHooks for SnapshotTargets {
    fn services(&self) -> &[IpNet] {
        &self.services
    }

    fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    fn stop_control_loops(&self) -> impl Future<Output = ()> + Send {
        self.actors.pause()
    }

    fn start_control_loops(&self) -> impl Future<Output = ()> + Send {
        self.actors.restart_all()
    }

    fn is_saved(&self, name: &str) -> Result<bool, SnapshotFailure> {
        Ok(self.files.path(name)?.exists())
    }

    fn save(
        &self,
        name: &str,
        revision: Revision,
        about: &SnapshotMetadata,
        objects: &[Arc<Object>],
    ) -> Result<u64, SnapshotFailure> {
        Ok(self.files.write(name, revision, about, objects)?)
    }

    fn describe(&self, name: &str) -> Result<(Revision, SnapshotMetadata, u64), SnapshotFailure> {
        Ok(self.files.about(name)?)
    }

    fn read(&self, name: &str) -> Result<SavedState, SnapshotFailure> {
        let archive = self.files.read(name)?;
        Ok(SavedState { about: archive.about, objects: archive.objects })
    }

    fn remove(&self, name: &str) -> Result<(), SnapshotFailure> {
        Ok(self.files.remove(name)?)
    }

    fn has_volume(&self, volume: &str) -> bool {
        self.files.volume(volume).is_some_and(|path| path.is_dir())
    }

    fn is_volume_used(&self, volume: &str) -> bool {
        let nodes = self.data_dir.join("nodes");
        self.files.volume(volume).is_some_and(|path| user_of(&nodes, &path).is_some())
    }

    fn restore_volume(&self, name: &str, volume: &str) -> Result<(), SnapshotFailure> {
        Ok(self.files.restore_claim(name, volume)?)
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
            finalizers: Some(vec![PODIUM_SNAPSHOT_FILE.to_owned()]),
            ..ObjectMeta::default()
        };
        let claims = files.about(&name).is_ok_and(|(_, about, _)| !about.claims.is_empty());
        let spec = ClusterSnapshotSpec { claims: claims.then_some(true), ..ClusterSnapshotSpec::default() };
        if let Err(error) = api.create_as(ClusterSnapshot { metadata, spec, status: None }) {
            tracing::warn!("cannot create the object of snapshot {name}: {error}");
        }
    }
    let path = data_dir.path().join(AT_START);
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(()) };
    let request = serde_json::from_str::<serde_json::Value>(&text).and_then(|request| {
        let spec = base::json::from_value::<ClusterRestoreSpec>(request["spec"].clone())?;
        Ok((spec, request))
    });
    match request {
        Ok((spec, request)) => {
            let annotation = (PODIUM_FIRST_RESTORE.to_owned(), "true".to_owned());
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
