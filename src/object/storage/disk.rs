//! Disks: the volumes of Podium's own CSI driver, which have to be attached to a node before a pod there may use them,
//! and are attached to one node at most (VOL-3).
//!
//! A disk is its handle, whatever the volume's object is called. Its attachment is named by the driver and the handle
//! alone, not by the node as well: there can be one, and who creates it has won. That is what makes two controllers at
//! once safe.

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use sha2::{Digest, Sha256};

use crate::node::is_ready;
use crate::owner::is_terminating;
use crate::well_known::taint::OUT_OF_SERVICE;

/// The driver of disks: the name of its CSIDriver, and the provisioner of its classes.
pub const DISK_DRIVER: &str = "disk.podium.dev";
/// Keeps an attachment until the volume is detached, as `external-attacher` would for the driver.
pub const ATTACHER_FINALIZER: &str = "external-attacher/disk-podium-dev";
/// The key of `spec.csi.volumeAttributes` under which a disk's directory is.
pub const DISK_PATH: &str = "path";

/// A volume of [`DISK_DRIVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk<'a> {
    /// `spec.csi.volumeHandle`: which disk it is.
    pub handle: &'a str,
    /// The directory that it stands for; none when the volume's attributes do not say.
    pub path: Option<&'a str>,
}

/// The disk behind a volume; none where it is something else.
pub fn disk(volume: &PersistentVolume) -> Option<Disk<'_>> {
    let source = volume.spec.as_ref()?.csi.as_ref().filter(|source| source.driver == DISK_DRIVER)?;
    let path = source.volume_attributes.as_ref().and_then(|attributes| attributes.get(DISK_PATH));
    Some(Disk { handle: &source.volume_handle, path: path.map(String::as_str) })
}

/// The directory of this machine that a volume made on demand stands for, be it a hostPath's or a disk's.
pub fn directory_of(volume: &PersistentVolume) -> Option<&str> {
    let host_path = volume.spec.as_ref().and_then(|spec| spec.host_path.as_ref());
    host_path.map(|source| source.path.as_str()).or_else(|| disk(volume)?.path)
}

/// The name of a disk's VolumeAttachment: there is none but this.
pub fn attachment_name(handle: &str) -> String {
    format!("csi-{:x}", Sha256::digest(format!("{handle}{DISK_DRIVER}")))
}

/// A disk as a node's `volumesAttached` and `volumesInUse` name it.
pub fn unique_volume_name(handle: &str) -> String {
    format!("kubernetes.io/csi/{DISK_DRIVER}^{handle}")
}

/// The handle of a disk in a node's `volumesAttached` or `volumesInUse`; none of another driver's volume.
pub fn handle_of(unique_name: &str) -> Option<&str> {
    unique_name.strip_prefix("kubernetes.io/csi/")?.strip_prefix(DISK_DRIVER)?.strip_prefix('^')
}

/// The disks that a node says its pods use, or are about to: by their unique names.
pub fn volumes_in_use(node: &Node) -> &[String] {
    node.status.as_ref().and_then(|status| status.volumes_in_use.as_deref()).unwrap_or_default()
}

/// Whether a volume is attached to this node for good: not about to be detached.
pub fn is_attached_to(attachment: &VolumeAttachment, node: &str) -> bool {
    attachment.spec.node_name == node
        && attachment.status.as_ref().is_some_and(|status| status.attached)
        && !is_terminating(&attachment.metadata)
}

/// Whether somebody vouches that nothing of a node's runs any more: it is not Ready, and has the taint
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
    fn a_node_is_out_of_service_when_it_is_silent_and_somebody_says_so_gc_2() {
        let node = |taint: &str, ready: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n"},
                "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
            .unwrap()
        };
        assert!(is_out_of_service(&node(OUT_OF_SERVICE, "Unknown")));
        assert!(is_out_of_service(&node(OUT_OF_SERVICE, "False")));
        assert!(!is_out_of_service(&node(OUT_OF_SERVICE, "True")), "it lives");
        assert!(!is_out_of_service(&node("node.kubernetes.io/unreachable", "Unknown")), "nobody knows");
    }
}
