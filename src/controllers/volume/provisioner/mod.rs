//! Creates a directory for each claim that requests one, and removes it when its volume is deleted (VOL-2).
//!
//! It acts as an external provisioner in Kubernetes, by the same rules: it reacts to an annotation of the claim,
//! creates a volume that names it, and holds a finalizer until the directory is removed. The directories are on this
//! one machine, where every node of the cluster reaches them: the volumes need no node affinity. Disks are
//! directories too, and are removed once they are not attached.

mod plan;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use parking_lot::Mutex;

use super::request::Request;
use crate::context::Context;
use crate::volume_directory::VolumeDirectory;
use api::{Api, ApiError, Change, ChangeKind};
use base::removal::remove_tree;
use base::task::Tasks;
use object::finalizers::has_finalizer;
use object::storage::{
    DIRECTORY_PROVISIONER, PROVISIONED_BY, PROVISIONER_FINALIZER, SELECTED_NODE, annotation, attachment_name,
    claim_class, directory_of, disk, reclaim_policy, volume_phase, waits_for_consumer,
};
use object::{Key, SharedObject};
use reconcile::preconditions::{add_finalizer, delete, modify, remove_finalizer};
use reconcile::{ReconcileError, Reconciler, Recorder, WorkQueue, ignore_not_found};

/// The delay before the next sync of a volume that a pod still uses.
const IN_USE_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the controller, if the cluster has a directory for volumes.
pub(crate) fn start(context: &Context) {
    let Some(directory) = context.settings.volumes.clone() else { return };
    context
        .controller(|queue| Provisioner {
            api: context.api.clone(),
            directory,
            recorder: Recorder::new(&context.api, DIRECTORY_PROVISIONER),
            queue,
            tasks: context.tasks.clone(),
            removals: Arc::default(),
        })
        .keys_are(|request| Some(request.object()))
        .watches::<PersistentVolumeClaim, _>(Provisioner::claim_changed)
        .watches::<PersistentVolume, _>(Provisioner::volume_changed)
        .run(&context.tasks);
}

struct Provisioner {
    api: Api,
    directory: VolumeDirectory,
    recorder: Recorder,
    queue: WorkQueue<Request>,
    tasks: Tasks,
    /// Directories being removed, by volume, with the result. Big ones take a while.
    removals: Arc<Mutex<HashMap<String, RemovalState>>>,
}

enum RemovalState {
    Running,
    Over(Result<(), String>),
}

impl Reconciler for Provisioner {
    type Key = Request;

    fn reconcile(&self, work: &Request) -> Result<(), ReconcileError> {
        match work {
            Request::Claim(key) => {
                let Ok(claim) = self.api.get_as(key) else { return Ok(()) };
                self.serve(&claim)
            }
            Request::Volume(name) => {
                let Ok(volume) = self.api.get_as(&Key::new("", name.as_str())) else { return Ok(()) };
                self.sync_finalizer(&volume)
            }
        }
    }
}

impl Provisioner {
    fn claim_changed(&self, change: &Change) {
        let needs_volume = change.object.get::<PersistentVolumeClaim>().is_some_and(plan::needs_provisioning);
        if needs_volume && change.kind != ChangeKind::Deleted {
            self.queue.add(Request::Claim(change.object.key()));
        }
    }

    fn volume_changed(&self, change: &Change) {
        let is_managed = annotation(change.object.meta(), PROVISIONED_BY).is_some_and(plan::is_builtin);
        if change.kind == ChangeKind::Deleted {
            self.removals.lock().remove(change.object.name());
        } else if is_managed {
            self.queue.add(Request::Volume(change.object.name().into()));
        }
    }

    /// Creates the volume that a claim requests.
    fn serve(&self, claim: &SharedObject<PersistentVolumeClaim>) -> Result<(), ReconcileError> {
        let name = plan::volume_name_for(claim);
        if !plan::needs_provisioning(claim)
            || self.api.get_as::<PersistentVolume>(&Key::new("", name.as_str())).is_ok()
        {
            return Ok(());
        }
        let class_name = claim_class(claim);
        let Ok(class) = self.api.get_as::<StorageClass>(&Key::new("", class_name)) else { return Ok(()) };
        if !plan::is_builtin(&class.provisioner) {
            return Ok(());
        }
        let node = annotation(&claim.metadata, SELECTED_NODE);
        if node.is_none() && waits_for_consumer(&class) {
            return Ok(());
        }
        if let Some(node) = node.filter(|node| self.api.get_as::<Node>(&Key::new("", *node)).is_err()) {
            // Lets the scheduler choose another node.
            self.fail(claim, class_name, &format!("failed to get target node: nodes \"{node}\" not found"));
            return Ok(self.reschedule(claim)?);
        }
        let message = format!("External provisioner is provisioning volume for claim \"{}\"", claim.key());
        self.recorder.normal(claim.object(), "Provisioning", message);
        let made = plan::refusal(claim, &class).map_or_else(|| self.make(&name), Err);
        match made {
            Ok(path) => {
                let volume = plan::volume(claim, &class, &path.display().to_string());
                match self.api.create_as(volume) {
                    Ok(_) => {
                        let message = format!("Successfully provisioned volume {name}");
                        self.recorder.normal(claim.object(), "ProvisioningSucceeded", message);
                        Ok(())
                    }
                    Err(error) if error.is_already_exists() => Ok(()),
                    Err(error) => {
                        self.fail(claim, class_name, &error.to_string());
                        Err(error.into())
                    }
                }
            }
            Err(why) => {
                self.fail(claim, class_name, &why);
                // The problem is in the claim, its class or the disk; after a choice by the scheduler, another node
                // may help.
                if node.is_some() {
                    self.reschedule(claim)?;
                }
                Err(ReconcileError::After(plan::RETRY_INTERVAL))
            }
        }
    }

    fn make(&self, name: &str) -> Result<PathBuf, String> {
        let path =
            self.directory.path(name).ok_or_else(|| format!("{name} is not a valid directory name"))?;
        self.directory
            .make(&path)
            .map_err(|error| format!("cannot create the directory of volume {name}: {error}"))?;
        Ok(path)
    }

    fn fail(&self, claim: &SharedObject<PersistentVolumeClaim>, class: &str, reason: &str) {
        let message = format!("failed to provision volume with StorageClass \"{class}\": {reason}");
        self.recorder.warning(claim.object(), "ProvisioningFailed", message);
    }

    /// Removes the node that was chosen for the claim.
    fn reschedule(&self, claim: &SharedObject<PersistentVolumeClaim>) -> Result<(), ApiError> {
        ignore_not_found(modify(&self.api, claim, |fresh| {
            if let Some(annotations) = &mut fresh.metadata.annotations {
                annotations.remove(SELECTED_NODE);
            }
            Ok(())
        }))
    }

    /// Holds a volume's finalizer while its directory is to be deleted with it, and removes it after the directory.
    fn sync_finalizer(&self, volume: &SharedObject<PersistentVolume>) -> Result<(), ReconcileError> {
        if !annotation(&volume.metadata, PROVISIONED_BY).is_some_and(plan::is_builtin) {
            return Ok(());
        }
        let goes_along = reclaim_policy(volume) == "Delete";
        let held = has_finalizer(&volume.metadata, PROVISIONER_FINALIZER);
        if !goes_along {
            if held {
                remove_finalizer(&self.api, volume, PROVISIONER_FINALIZER)?;
            }
            return Ok(());
        }
        if !held {
            // If a user removed the finalizer from a terminating volume, the directory stays.
            if volume.metadata.deletion_timestamp.is_none() {
                add_finalizer(&self.api, volume, PROVISIONER_FINALIZER)?;
            }
            return Ok(());
        }
        if volume_phase(volume) != "Released" {
            return Ok(());
        }
        match self.clear(volume) {
            RemovalOutcome::Done => {
                delete(&self.api, volume)?;
                remove_finalizer(&self.api, volume, PROVISIONER_FINALIZER)?;
                Ok(())
            }
            RemovalOutcome::Later => Ok(()),
            RemovalOutcome::InUse(by) => {
                let message = format!("volume {} is still used by pod {by}", volume.name());
                self.recorder.normal(volume.object(), "VolumeDelete", message);
                Err(ReconcileError::After(IN_USE_RETRY_INTERVAL))
            }
            RemovalOutcome::Attached(node) => {
                let message = format!("persistentvolume {} is still attached to node {node}", volume.name());
                self.recorder.warning(volume.object(), "VolumeFailedDelete", message);
                Err(ReconcileError::After(IN_USE_RETRY_INTERVAL))
            }
            RemovalOutcome::Failed(why) => {
                self.recorder.warning(volume.object(), "VolumeFailedDelete", why);
                Err(ReconcileError::After(plan::RETRY_INTERVAL))
            }
        }
    }

    /// Returns the node that a disk is attached to, or is about to be.
    fn attached_to(&self, volume: &PersistentVolume) -> Option<String> {
        let name = attachment_name(disk(volume)?.handle);
        let attachment = self.api.get_as::<VolumeAttachment>(&Key::new("", name)).ok()?;
        Some(attachment.spec.node_name.clone())
    }

    /// Removes a volume's directory in the background, in parallel to other volumes.
    fn clear(&self, volume: &SharedObject<PersistentVolume>) -> RemovalOutcome {
        let name = volume.name();
        let Some(path) = self.directory.path(name) else {
            return RemovalOutcome::Failed(format!("{name} is not a valid directory name"));
        };
        let stands_for = directory_of(volume).unwrap_or_default();
        if path.to_str() != Some(stands_for) {
            // Written by a user, or of another data directory: it must not be removed.
            return RemovalOutcome::Failed(format!(
                "{DIRECTORY_PROVISIONER} deletes only the directory that it created for the volume, not \
                 \"{stands_for}\""
            ));
        }
        let mut removals = self.removals.lock();
        match removals.remove(name) {
            Some(RemovalState::Running) => {
                removals.insert(name.into(), RemovalState::Running);
                return RemovalOutcome::Later;
            }
            Some(RemovalState::Over(Ok(()))) => return RemovalOutcome::Done,
            Some(RemovalState::Over(Err(why))) => return RemovalOutcome::Failed(why),
            None => {}
        }
        if let Some(node) = self.attached_to(volume) {
            return RemovalOutcome::Attached(node);
        }
        if let Some(pod) = self.directory.user(&path) {
            return RemovalOutcome::InUse(pod);
        }
        removals.insert(name.into(), RemovalState::Running);
        drop(removals);
        let (removals, queue, name) = (self.removals.clone(), self.queue.clone(), name.to_string());
        self.tasks.spawn_finishing("volume removal", async move {
            let removed = base::task::blocking(move || {
                remove_tree(&path).map_err(|error| format!("{}: {error}", path.display()))
            });
            let outcome = removed.await.unwrap_or_else(|error| Err(error.to_string()));
            removals.lock().insert(name.clone(), RemovalState::Over(outcome));
            queue.add(Request::Volume(name));
        });
        RemovalOutcome::Later
    }
}

/// The progress of a directory's removal.
enum RemovalOutcome {
    Done,
    Later,
    InUse(String),
    Attached(String),
    Failed(String),
}
