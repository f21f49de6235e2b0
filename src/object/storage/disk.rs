//! Disks: the volumes of Podium's own CSI driver, which must be attached to a node before a pod there may use them,
//! and are attached to at most one node (VOL-3).
//!
//! A disk is identified by its handle, not by the name of the volume's object. The name of a disk's VolumeAttachment
//! depends on driver and handle only, not on the node: there can be only one, and the first controller that creates it
//! wins. So two controllers at once are safe.

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use sha2::{Digest, Sha256};

use crate::node::is_ready;
use crate::owner::is_terminating;
use crate::well_known::taint::OUT_OF_SERVICE;
use base::hex::hex;

/// The driver of disks: the name of its CSIDriver, and the provisioner of its classes.
pub const DISK_DRIVER: &str = "disk.podium.dev";
/// The finalizer that keeps an attachment until the volume is detached, as `external-attacher` would for the driver.
pub const ATTACHER_FINALIZER: &str = "external-attacher/disk-podium-dev";
/// The key of a disk's directory in `spec.csi.volumeAttributes`.
pub const DISK_PATH: &str = "path";

/// A volume of [`DISK_DRIVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk<'a> {
    /// `spec.csi.volumeHandle`: the disk's identity.
    pub handle: &'a str,
    /// The directory of the disk; `None` if the volume's attributes have none.
    pub path: Option<&'a str>,
}

/// Returns the disk of a volume; `None` if the volume is of another driver.
pub fn disk(volume: &PersistentVolume) -> Option<Disk<'_>> {
    let source = volume.spec.as_ref()?.csi.as_ref().filter(|source| source.driver == DISK_DRIVER)?;
    let path = source.volume_attributes.as_ref().and_then(|attributes| attributes.get(DISK_PATH));
    Some(Disk { handle: &source.volume_handle, path: path.map(String::as_str) })
}

/// Returns the directory of this machine behind a provisioned volume, of type hostPath or disk.
pub fn directory_of(volume: &PersistentVolume) -> Option<&str> {
    let host_path = volume.spec.as_ref().and_then(|spec| spec.host_path.as_ref());
    host_path.map(|source| source.path.as_str()).or_else(|| disk(volume)?.path)
}

/// Returns the name of a disk's only VolumeAttachment.
pub fn attachment_name(handle: &str) -> String {
    format!("csi-{}", hex(Sha256::digest(format!("{handle}{DISK_DRIVER}"))))
}

/// Returns a disk's name in a node's `volumesAttached` and `volumesInUse`.
pub fn unique_volume_name(handle: &str) -> String {
    format!("kubernetes.io/csi/{DISK_DRIVER}^{handle}")
}

/// Returns the handle of a disk in a node's `volumesAttached` or `volumesInUse`; `None` for another driver's volume.
pub fn handle_of(unique_name: &str) -> Option<&str> {
    unique_name.strip_prefix("kubernetes.io/csi/")?.strip_prefix(DISK_DRIVER)?.strip_prefix('^')
}

/// Returns the unique names of the disks that the node's pods use, or are about to use.
pub fn volumes_in_use(node: &Node) -> &[String] {
    node.status.as_ref().and_then(|status| status.volumes_in_use.as_deref()).unwrap_or_default()
}

/// Returns true if a volume is attached to this node and is not about to be detached.
pub fn is_attached_to(attachment: &VolumeAttachment, node: &str) -> bool {
    attachment.spec.node_name == node
        && attachment.status.as_ref().is_some_and(|status| status.attached)
        && !is_terminating(&attachment.metadata)
}

/// Returns true if the node's processes are declared dead: it is not Ready, and has the taint
/// `node.kubernetes.io/out-of-service` (page "Non-graceful node shutdown").
pub fn is_out_of_service(node: &Node) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    !is_ready(node) && taints.any(|taint| taint.key == OUT_OF_SERVICE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_disk_is_its_handle_vol_3() {
        let volume = |source: serde_json::Value| -> PersistentVolume {
            serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": source})).unwrap()
        };
        let of = |driver: &str| {
            volume(
                json!({"csi": {"driver": driver, "volumeHandle": "h", "volumeAttributes": {"path": "/d"}}}),
            )
        };
        let disk_volume = of(DISK_DRIVER);
        assert_eq!(disk(&disk_volume), Some(Disk { handle: "h", path: Some("/d") }));
        assert_eq!(directory_of(&disk_volume), Some("/d"));
        assert_eq!(disk(&of("ebs.csi.aws.com")), None);
        assert_eq!(directory_of(&volume(json!({"hostPath": {"path": "/srv"}}))), Some("/srv"));
        assert_eq!(handle_of(&unique_volume_name("a^b")), Some("a^b"));
        assert_eq!(handle_of("kubernetes.io/csi/ebs.csi.aws.com^h"), None);
        assert_eq!(attachment_name("h"), attachment_name("h"));
        assert_ne!(attachment_name("h"), attachment_name("i"));
        assert_eq!(attachment_name("h").len(), 68, "a name that any object may have");
    }

    #[test]
    fn an_attachment_counts_on_its_node_until_it_goes_vol_3() {
        let attachment = |more: serde_json::Value| -> VolumeAttachment {
            let mut value = json!({"metadata": {"name": "a"}, "spec": {"attacher": DISK_DRIVER, "nodeName": "n1",
                "source": {"persistentVolumeName": "v"}}, "status": {"attached": true}});
            value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(value).unwrap()
        };
        let whole = attachment(json!({}));
        assert!(is_attached_to(&whole, "n1") && !is_attached_to(&whole, "n2"));
        assert!(!is_attached_to(&attachment(json!({"status": {"attached": false}})), "n1"));
        let going = json!({"metadata": {"name": "a", "deletionTimestamp": "2026-11-21T00:00:00Z"}});
        assert!(!is_attached_to(&attachment(going), "n1"));
    }

    #[test]
    fn a_node_is_out_of_service_if_it_is_silent_and_tainted_so_gc_2() {
        let node = |taint: &str, ready: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n"},
                "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
            .unwrap()
        };
        assert!(is_out_of_service(&node(OUT_OF_SERVICE, "Unknown")));
        assert!(is_out_of_service(&node(OUT_OF_SERVICE, "False")));
        assert!(!is_out_of_service(&node(OUT_OF_SERVICE, "True")), "it lives");
        assert!(
            !is_out_of_service(&node("node.kubernetes.io/unreachable", "Unknown")),
            "the state of an unreachable node is unknown"
        );
    }
}
