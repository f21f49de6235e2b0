//! Attaches disks to the nodes of the pods that use them, and detaches them when no pod there needs them any more
//! (VOL-3).
//!
//! Does the work of both kube-controller-manager's attach/detach controller and the driver's external-attacher. A
//! disk has at most one VolumeAttachment, named after the disk ([`object::storage::attachment_name`]): creating it is
//! the compare-and-swap, so that any number of these controllers at once reaches the same result. It is detached when
//! no pod on its node uses it and the node does not report it in use. An unreachable node keeps its disks, until it
//! is declared dead (`node.kubernetes.io/out-of-service`) or its object is deleted.

mod plan;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{AttachedVolume, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{
    CSIDriver, VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec, VolumeAttachmentStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::context::Context;
use api::{Api, ApiError, Change, ChangeKind};
use base::sort::SliceOrder;
use object::owner::is_terminating;
use object::pod::{is_terminal, node_name};
use object::storage::{
    ATTACHER_FINALIZER, DISK_DRIVER, attachment_name, claim_key, claim_ref, claims_of, disk, handle_of,
    is_created_for, is_out_of_service, unique_volume_name, volume_name, volumes_in_use,
};
use object::{Key, Kind, SharedObject};
use plan::{AttachAction, Attachment, View};
use reconcile::preconditions::{delete, modify_status, remove_finalizer};
use reconcile::{
    Cache, LastWrites, ReconcileError, Reconciler, Recorder, WorkQueue, ignore_not_found, optional,
};

/// The interval at which a pod's wait for a disk is reported, and the node that holds the disk checked again.
const REPORT_INTERVAL: Duration = Duration::from_mins(2);

pub(crate) fn start(context: &Context) {
    context
        .controller(|queue| Attacher {
            api: context.api.clone(),
            pods: context.caches.of(),
            claims: context.caches.of(),
            volumes: context.caches.of(),
            attachments: context.caches.of(),
            recorder: Recorder::new(&context.api, "attachdetach-controller"),
            last_writes: LastWrites::default(),
            queue,
        })
        .keys_are(|name| Some((Kind::PersistentVolume, Key::new("", name.as_str()))))
        .watches::<PersistentVolume, _>(Attacher::volume_changed)
        .watches::<PersistentVolumeClaim, _>(Attacher::claim_changed)
        .watches::<VolumeAttachment, _>(Attacher::attachment_changed)
        .watches::<Pod, _>(Attacher::pod_changed)
        .watches::<Node, _>(Attacher::node_changed)
        .run(&context.tasks);
}

/// The queue holds PersistentVolumes by name.
struct Attacher {
    api: Api,
    pods: Cache<Pod>,
    claims: Cache<PersistentVolumeClaim>,
    volumes: Cache<PersistentVolume>,
    attachments: Cache<VolumeAttachment>,
    recorder: Recorder,
    /// The node of each volume's last attachment, by the volume's name. If another client keeps detaching a volume, the
    /// controller pauses before it attaches the volume again.
    last_writes: LastWrites<String>,
    queue: WorkQueue<String>,
}

impl Reconciler for Attacher {
    type Key = String;

    fn reconcile(&self, name: &String) -> Result<(), ReconcileError> {
        let volume = optional(self.api.get_as::<PersistentVolume>(&Key::new("", name.as_str())))?;
        let handle = volume.as_ref().and_then(|volume| Some(disk(volume)?.handle.to_owned()));
        if let Some(handle) = handle {
            return self.sync(name, volume.as_ref(), &attachment_name(&handle));
        }
        // The volume's object was deleted before it was detached.
        self.last_writes.forget(name);
        self.attachments
            .list()
            .iter()
            .filter(|attachment| volume_of(attachment) == Some(name))
            .try_for_each(|attachment| self.sync(name, None, attachment.name()))
    }
}

/// Returns the volume of one of our attachments.
fn volume_of(attachment: &VolumeAttachment) -> Option<&str> {
    let is_managed = attachment.spec.attacher == DISK_DRIVER;
    attachment.spec.source.persistent_volume_name.as_deref().filter(|_| is_managed)
}

/// Returns true if a node reports that it uses the disk of this attachment.
fn uses(node: &Node, attachment: &str) -> bool {
    volumes_in_use(node)
        .iter()
        .filter_map(|name| handle_of(name))
        .any(|handle| attachment_name(handle) == attachment)
}

impl Attacher {
    fn volume_changed(&self, change: &Change) {
        if change.object.get::<PersistentVolume>().is_some_and(|volume| disk(volume).is_some()) {
            self.queue.add(change.object.name().into());
        }
    }

    fn claim_changed(&self, change: &Change) {
        if let Some(claim) = change.object.get::<PersistentVolumeClaim>() {
            self.enqueue_volume_of(claim);
        }
    }

    fn attachment_changed(&self, change: &Change) {
        if let Some(volume) = change.object.get::<VolumeAttachment>().and_then(volume_of) {
            self.queue.add(volume.into());
        }
    }

    fn pod_changed(&self, change: &Change) {
        let Some(pod) = change.object.get::<Pod>().filter(|pod| node_name(pod).is_some()) else { return };
        for used in claims_of(pod) {
            if let Some(claim) = self.claims.get(&Key::new(change.object.namespace(), used.claim)) {
                self.enqueue_volume_of(&claim);
            }
        }
    }

    fn enqueue_volume_of(&self, claim: &PersistentVolumeClaim) {
        if let Some(name) = volume_name(claim)
            && self.volumes.get(&Key::new("", name)).is_some_and(|volume| disk(&volume).is_some())
        {
            self.queue.add(name.into());
        }
    }

    /// A node's volumes in use and its health affect the disks it holds, and the pods on other nodes that wait for
    /// them.
    fn node_changed(&self, change: &Change) {
        let Some(node) = change.object.get::<Node>() else { return };
        let before = change.previous.as_ref().and_then(|previous| previous.get::<Node>());
        let same = before.is_some_and(|before| {
            volumes_in_use(before) == volumes_in_use(node)
                && is_out_of_service(before) == is_out_of_service(node)
        });
        if same && change.kind != ChangeKind::Deleted {
            return;
        }
        for attachment in self.attachments.list() {
            if attachment.spec.node_name == change.object.name()
                && let Some(volume) = volume_of(&attachment)
            {
                self.queue.add(volume.into());
            }
        }
        let used = before.into_iter().chain([node]).flat_map(volumes_in_use);
        let handles: BTreeSet<&str> = used.filter_map(|name| handle_of(name)).collect();
        if !handles.is_empty() {
            for volume in self.volumes.list() {
                if disk(&volume).is_some_and(|disk| handles.contains(disk.handle)) {
                    self.queue.add(volume.name().into());
                }
            }
        }
    }

    /// Takes steps for one disk until there is none to take.
    fn sync(
        &self,
        name: &str,
        volume: Option<&SharedObject<PersistentVolume>>,
        attachment: &str,
    ) -> Result<(), ReconcileError> {
        // Read before the nodes' reports: see `plan::next`.
        let current = optional(self.api.get_as::<VolumeAttachment>(&Key::new("", attachment)))?;
        if current.as_ref().is_some_and(|current| volume_of(current) != Some(name)) {
            // The same disk under another name, or another client's object: leave it to its owner.
            return Ok(());
        }
        let pods = volume.map(|volume| self.pods_using(volume)).unwrap_or_default();
        let desired: Vec<&str> = pods.iter().filter_map(|pod| node_name(pod)).collect();
        let (in_use, dead) = self.nodes(attachment, current.as_ref(), &desired)?;
        let of = |attachment: &'_ SharedObject<VolumeAttachment>| {
            (
                attachment.status.as_ref().is_some_and(|status| status.attached),
                is_terminating(&attachment.metadata),
            )
        };
        let view = View {
            attachment: current.as_ref().map(|attachment| {
                let (attached, terminating) = of(attachment);
                Attachment { node: &attachment.spec.node_name, attached, terminating }
            }),
            desired,
            in_use,
            dead,
        };
        match (plan::next(&view), current.as_ref()) {
            (AttachAction::Attach(node), _) => {
                if let Some(left) = self.last_writes.hold(name, self.api.revision(), false, &node) {
                    self.queue.add_after(name.into(), left);
                    return Ok(());
                }
                self.attach(name, attachment, &node, &pods)?;
                self.last_writes.record_write(name, self.api.revision());
            }
            (AttachAction::Confirm, Some(current)) => self.confirm(name, current, &pods)?,
            (AttachAction::Detach, Some(current)) => {
                let by_force = view.dead.contains(&current.spec.node_name);
                self.detach(name, current, by_force)?;
            }
            (AttachAction::Release, Some(current)) => self.release(name, current, &pods)?,
            _ => {}
        }
        if let Some(holder) = plan::holder(&view) {
            let waiting: Vec<&SharedObject<Pod>> = pods
                .iter()
                .filter(|pod| node_name(pod) != Some(holder) && !is_terminating(&pod.metadata))
                .collect();
            if !waiting.is_empty() {
                self.report_waiting(name, holder, &pods, &waiting);
                return Err(ReconcileError::After(REPORT_INTERVAL));
            }
            if view.attachment.is_some_and(|attachment| attachment.terminating) {
                return Err(ReconcileError::After(REPORT_INTERVAL));
            }
        }
        Ok(())
    }

    /// Returns the pods that need a disk, oldest first; none if its driver needs no attachment.
    fn pods_using(&self, volume: &SharedObject<PersistentVolume>) -> Vec<SharedObject<Pod>> {
        let driver = self.api.get_as::<CSIDriver>(&Key::new("", DISK_DRIVER));
        if driver.is_ok_and(|driver| driver.spec.attach_required == Some(false)) {
            return Vec::new();
        }
        let Some(key) = claim_ref(volume).map(claim_key) else { return Vec::new() };
        let Some(claim) = self.claims.get(&key).filter(|claim| volume_name(claim) == Some(volume.name()))
        else {
            return Vec::new();
        };
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|pod| {
            node_name(pod).is_some()
                && !is_terminal(pod)
                && claims_of(pod)
                    .any(|used| used.claim == key.name && (!used.ephemeral || is_created_for(&claim, pod)))
        });
        pods.order_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.key()));
        pods
    }

    /// Returns the relevant nodes that use the disk, and the dead ones: read from the store, not from a cache.
    fn nodes(
        &self,
        attachment: &str,
        current: Option<&SharedObject<VolumeAttachment>>,
        desired: &[&str],
    ) -> Result<(BTreeSet<String>, BTreeSet<String>), ApiError> {
        let (mut in_use, mut dead) = (BTreeSet::new(), BTreeSet::new());
        let mut nodes: BTreeSet<&str> = desired.iter().copied().collect();
        if let Some(current) = current {
            nodes.insert(&current.spec.node_name);
        } else {
            let users = self.api.list_as::<Node>(None).into_iter();
            let users = users.filter(|node| !is_out_of_service(node) && uses(node, attachment));
            in_use.extend(users.map(|node| node.name().to_owned()));
        }
        for name in nodes {
            match optional(self.api.get_as::<Node>(&Key::new("", name)))? {
                Some(node) if is_out_of_service(&node) => {
                    dead.insert(name.to_owned());
                }
                Some(node) if uses(&node, attachment) => {
                    in_use.insert(name.to_owned());
                }
                Some(_) => {}
                // Processes of the deleted node may still run; the node itself reports their end.
                None if self.api.is_node_held(name) => {
                    in_use.insert(name.to_owned());
                }
                None => {
                    dead.insert(name.to_owned());
                }
            }
        }
        Ok((in_use, dead))
    }

    /// Creates the attachment. If another controller was first, its change causes another sync.
    fn attach(
        &self,
        volume: &str,
        name: &str,
        node: &str,
        pods: &[SharedObject<Pod>],
    ) -> Result<(), ApiError> {
        let attachment = VolumeAttachment {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                finalizers: Some(vec![ATTACHER_FINALIZER.to_owned()]),
                ..ObjectMeta::default()
            },
            spec: VolumeAttachmentSpec {
                attacher: DISK_DRIVER.to_owned(),
                node_name: node.to_owned(),
                source: VolumeAttachmentSource {
                    persistent_volume_name: Some(volume.to_owned()),
                    ..VolumeAttachmentSource::default()
                },
            },
            status: None,
        };
        match self.api.create_as(attachment) {
            Ok(created) => self.confirm(volume, &created, pods),
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reports that the volume is attached: in the attachment, in its node's status, to its pods.
    fn confirm(
        &self,
        volume: &str,
        attachment: &SharedObject<VolumeAttachment>,
        pods: &[SharedObject<Pod>],
    ) -> Result<(), ApiError> {
        let node = attachment.spec.node_name.as_str();
        self.set_attached_volumes(attachment, true)?;
        let confirmed = modify_status(&self.api, attachment, |fresh: &mut VolumeAttachment| {
            fresh.status.get_or_insert_with(VolumeAttachmentStatus::default).attached = true;
        });
        if optional(confirmed)?.is_some() {
            let message = format!("AttachVolume.Attach succeeded for volume \"{volume}\" ");
            for pod in pods.iter().filter(|pod| node_name(pod) == Some(node)) {
                self.recorder.normal(pod.object(), "SuccessfulAttachVolume", message.clone());
            }
        }
        Ok(())
    }

    /// Starts to detach a volume: from now on no pod on its node may start to use it.
    fn detach(
        &self,
        volume: &str,
        attachment: &SharedObject<VolumeAttachment>,
        by_force: bool,
    ) -> Result<(), ApiError> {
        let name = attachment.spec.node_name.as_str();
        self.set_attached_volumes(attachment, false)?;
        if by_force && let Ok(node) = self.api.get_as::<Node>(&Key::new("", name)) {
            let message = format!(
                "Volume \"{volume}\" is detached from node {name} by force: the node is out of service"
            );
            self.recorder.warning(node.object(), "VolumeForceDetached", message);
        }
        delete(&self.api, attachment)
    }

    /// Completes the detachment, so that the volume can be attached to another node.
    fn release(
        &self,
        volume: &str,
        attachment: &SharedObject<VolumeAttachment>,
        pods: &[SharedObject<Pod>],
    ) -> Result<(), ApiError> {
        let node = attachment.spec.node_name.as_str();
        self.set_attached_volumes(attachment, false)?;
        remove_finalizer(&self.api, attachment, ATTACHER_FINALIZER)?;
        tracing::info!(volume, node, pods = pods.len(), "detached a volume");
        Ok(())
    }

    /// Updates a node's `status.volumesAttached` for an attachment; ignores a deleted node.
    fn set_attached_volumes(
        &self,
        attachment: &SharedObject<VolumeAttachment>,
        attached: bool,
    ) -> Result<(), ApiError> {
        let volume = volume_of(attachment).and_then(|name| self.volumes.get(&Key::new("", name)));
        let unique = volume.and_then(|volume| Some(unique_volume_name(disk(&volume)?.handle)));
        let is_it =
            |name: &str| handle_of(name).is_some_and(|handle| attachment_name(handle) == attachment.name());
        let node = attachment.spec.node_name.as_str();
        let key = Key::new("", node);
        let Some(node) = optional(self.api.get_as::<Node>(&key))? else { return Ok(()) };
        let listed = |node: &Node| {
            let attached = node.status.as_ref().and_then(|status| status.volumes_attached.as_ref());
            attached.is_some_and(|all| all.iter().any(|one| is_it(&one.name)))
        };
        if listed(&node) == attached {
            return Ok(());
        }
        ignore_not_found(self.api.modify_status::<Node>(&key, |fresh| {
            let mut all = fresh.status.get_or_insert_default().volumes_attached.take().unwrap_or_default();
            all.retain(|one| !is_it(&one.name));
            if let Some(name) = unique.clone().filter(|_| attached) {
                all.push(AttachedVolume { name, device_path: String::new() });
            }
            fresh.status.get_or_insert_default().volumes_attached = Some(all).filter(|all| !all.is_empty());
            Ok(())
        }))
    }

    /// Reports to pods that they wait for another node to detach the volume, in Kubernetes' words.
    fn report_waiting(
        &self,
        volume: &str,
        holder: &str,
        pods: &[SharedObject<Pod>],
        waiting: &[&SharedObject<Pod>],
    ) {
        let users: Vec<&str> =
            pods.iter().filter(|pod| node_name(pod) == Some(holder)).map(SharedObject::name).collect();
        let reason = if users.is_empty() {
            "Volume is already exclusively attached to one node and can't be attached to another".to_owned()
        } else {
            format!("Volume is already used by pod(s) {}", users.join(", "))
        };
        let message = format!("Multi-Attach error for volume \"{volume}\" {reason}");
        for pod in waiting {
            self.recorder.warning(pod.object(), "FailedAttachVolume", message.clone());
        }
    }
}
