//! Defaults of volumes, claims and storage classes.

use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, PersistentVolumeStatus,
};
use k8s_openapi::api::storage::v1::StorageClass;

use super::{set, set_text};

pub(super) fn class(class: &mut StorageClass) {
    set_text(&mut class.reclaim_policy, "Delete");
    set_text(&mut class.volume_binding_mode, "Immediate");
}

pub(super) fn volume(volume: &mut PersistentVolume) {
    let status = volume.status.get_or_insert_with(PersistentVolumeStatus::default);
    set_text(&mut status.phase, "Pending");
    let spec = volume.spec.get_or_insert_default();
    set_text(&mut spec.persistent_volume_reclaim_policy, "Retain");
    set_text(&mut spec.volume_mode, "Filesystem");
    if let Some(path) = &mut spec.host_path {
        set(&mut path.type_, "");
    }
}

pub(super) fn claim(claim: &mut PersistentVolumeClaim) {
    let status = claim.status.get_or_insert_with(PersistentVolumeClaimStatus::default);
    set_text(&mut status.phase, "Pending");
    let spec = claim.spec.get_or_insert_default();
    set_text(&mut spec.volume_mode, "Filesystem");
}
