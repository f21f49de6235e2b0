//! Waits for a pod's disks to be attached to the node, and reports to the API which disks the node uses (VOL-3).
//!
//! The kubelet first reports the use of a disk and then checks the attachment once more; the detacher first marks the
//! attachment and then checks the report, so that one of the two sees the other.

use k8s_openapi::api::core::v1::{Node as NodeObject, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};

use super::VolumeError;
use crate::context::Context;
use crate::node::Node;
use crate::runtime::SandboxRecord;
use api::{Api, ApiError};
use object::storage::{
    DISK_DRIVER, attachment_name, claims_of, disk, is_attached_to, unique_volume_name, volume_name,
    volumes_in_use,
};
use object::{Key, Revision, SharedObject};
use reconcile::ignore_not_found;

/// A disk that a pod uses.
struct PodDisk {
    /// The volume's name in the pod.
    volume: String,
    handle: String,
}

/// The disks of a pod's claims; none if one of its claims or volumes is not available.
fn disks_of(api: &Api, pod: &SharedObject<Pod>) -> Option<Vec<PodDisk>> {
    let mut disks = Vec::new();
    for used in claims_of(pod) {
        let claim = api.get_as::<PersistentVolumeClaim>(&Key::new(pod.namespace(), used.claim)).ok()?;
        let volume = api.get_as::<PersistentVolume>(&Key::new("", volume_name(&claim)?)).ok()?;
        if let Some(disk) = disk(&volume) {
            disks.push(PodDisk { volume: used.volume.to_owned(), handle: disk.handle.to_owned() });
        }
    }
    Some(disks)
}

/// Reserves the pod's disks; an error means that one of them is not attached to this node (yet), or that a claim is
/// unusable: the pod's disks are known only once all its claims are.
pub(super) async fn take(context: &Context, node: &Node, pod: &SharedObject<Pod>) -> Result<(), VolumeError> {
    let Some(disks) = disks_of(&context.api, pod) else {
        for used in claims_of(pod) {
            super::backing(context, node, pod, &used)?;
        }
        // The claims have become available meanwhile; the next pass tries again.
        return Err(VolumeError::not_attached(claims_of(pod).next().map_or("", |used| used.volume)));
    };
    let driver = context.api.get_as::<CSIDriver>(&Key::new("", DISK_DRIVER));
    if disks.is_empty() || driver.is_ok_and(|driver| driver.spec.attach_required == Some(false)) {
        return Ok(());
    }
    let waits = |disk: &PodDisk| VolumeError::not_attached(&disk.volume);
    let mut seen = Revision::default();
    for disk in &disks {
        let (key, name) = (Key::new("", attachment_name(&disk.handle)), unique_volume_name(&disk.handle));
        let attachment = context.api.get_as::<VolumeAttachment>(&key).map_err(|_| waits(disk))?;
        let held = node.disks.lock().is_used_by(&name, pod.uid());
        if held && attachment.spec.node_name == node.config.name {
            // The detacher may have marked the attachment, but does not detach the disk while this pod is on the node.
            continue;
        }
        if !is_attached_to(&attachment, &node.config.name) {
            return Err(waits(disk));
        }
        node.disks.lock().add(&name, pod.uid());
        let give_up = |node: &Node| node.disks.lock().remove(&name, pod.uid());
        let reported = report(context, node).map_err(|error| {
            give_up(node);
            VolumeError::set_up(&disk.volume, &format!("cannot report that the disk is in use: {error}"))
        })?;
        let again = context.api.get_as::<VolumeAttachment>(&key).ok();
        let same =
            again.filter(|again| again.uid() == attachment.uid() && is_attached_to(again, &node.config.name));
        let Some(again) = same else {
            give_up(node);
            // If this report fails, the next one omits the disk too.
            let _ = report(context, node);
            return Err(waits(disk));
        };
        seen = seen.max(again.revision()).max(reported);
    }
    // A process is only started for a state that survives a crash.
    let durable = tokio::time::timeout(context.timings.runtime_request_timeout.0, context.api.durable(seen));
    let first = disks.first().map(|disk| disk.volume.as_str()).unwrap_or_default();
    match durable.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(VolumeError::set_up(
            first,
            &format!("cannot record durably that the disk is in use: {error}"),
        )),
        Err(_) => Err(VolumeError::set_up(
            first,
            "cannot record durably that the disk is in use: the data directory does not answer",
        )),
    }
}

/// Releases the disks of a pod that has nothing on the node any more, so that they may move to other nodes.
pub(crate) fn release(context: &Context, node: &Node, uid: &str) -> Result<(), ApiError> {
    if !node.disks.lock().release(uid) {
        return Ok(());
    }
    ignore_not_found(report(context, node))
}

/// Writes the disks in use into the node's status.
fn report(context: &Context, node: &Node) -> Result<Revision, ApiError> {
    let written = context.api.modify_status::<NodeObject>(&Key::new("", &node.config.name), |object| {
        object.status.get_or_insert_default().volumes_in_use = node.disks.lock().names();
        Ok(())
    })?;
    Ok(written.revision())
}

/// Restores the disks in use on a node with a starting kubelet: the disks of the pods found there. A pod whose object
/// does not name its disks may use any that the node used before.
pub(crate) fn restore(context: &Context, node: &Node, found: &[SandboxRecord]) {
    let object = context.api.get_as::<NodeObject>(&Key::new("", &node.config.name)).ok();
    let before = object.as_ref().map(|object| volumes_in_use(object)).unwrap_or_default();
    let mut disks = node.disks.lock();
    for sandbox in found {
        let spec = &sandbox.spec;
        let pod = context.api.get_as::<Pod>(&Key::new(spec.namespace.as_str(), spec.name.as_str())).ok();
        let pod = pod.filter(|pod| pod.uid() == spec.pod_uid);
        match pod.and_then(|pod| disks_of(&context.api, &pod)) {
            // The pod waits for disks that were never reported, unless it runs.
            Some(own) => {
                for name in own.iter().map(|disk| unique_volume_name(&disk.handle)) {
                    disks.add(&name, &spec.pod_uid);
                }
            }
            None => before.iter().for_each(|name| disks.add(name, &spec.pod_uid)),
        }
    }
}
