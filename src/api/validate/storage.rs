//! Rules of volumes, claims and storage classes.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::field::{FieldErrors, Path};
use super::resources;

pub(super) fn class(errors: &mut FieldErrors, class: &StorageClass) {
    if class.provisioner.is_empty() {
        errors.required(&Path::root("provisioner"), "");
    }
    errors.required_one_of(
        &Path::root("reclaimPolicy"),
        class.reclaim_policy.as_deref(),
        &["Delete", "Retain"],
    );
    errors.required_one_of(
        &Path::root("volumeBindingMode"),
        class.volume_binding_mode.as_deref(),
        &["Immediate", "WaitForFirstConsumer"],
    );
}

pub(super) fn class_update(errors: &mut FieldErrors, new: &StorageClass, old: &StorageClass) {
    class(errors, new);
    errors.immutable(&Path::root("provisioner"), &new.provisioner, &old.provisioner);
    errors.immutable(&Path::root("reclaimPolicy"), &new.reclaim_policy, &old.reclaim_policy);
    errors.immutable(&Path::root("volumeBindingMode"), &new.volume_binding_mode, &old.volume_binding_mode);
}

pub(super) fn volume(errors: &mut FieldErrors, volume: &PersistentVolume) {
    let path = Path::root("spec");
    let Some(spec) = &volume.spec else { return errors.required(&path, "") };
    if spec.access_modes.as_ref().is_none_or(Vec::is_empty) {
        errors.required(&path.child("accessModes"), "");
    }
    resources::amounts(errors, &path.child("capacity"), spec.capacity.as_ref());
}

pub(super) fn volume_update(errors: &mut FieldErrors, new: &PersistentVolume, _old: &PersistentVolume) {
    volume(errors, new);
}

pub(super) fn claim(errors: &mut FieldErrors, claim: &PersistentVolumeClaim) {
    let path = Path::root("spec");
    let Some(spec) = &claim.spec else { return errors.required(&path, "") };
    if spec.access_modes.as_ref().is_none_or(Vec::is_empty) {
        errors.required(&path.child("accessModes"), "at least 1 access mode is required");
    }
    let requests = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    if !requests.is_some_and(|r| r.contains_key("storage")) {
        errors.required(&path.child("resources[storage]"), "");
    }
    resources::amounts(errors, &path.child("resources.requests"), requests);
}

pub(super) fn claim_update(
    errors: &mut FieldErrors,
    new: &PersistentVolumeClaim,
    _old: &PersistentVolumeClaim,
) {
    claim(errors, new);
}
