//! Rules of claims: what one asks for stays, but it may grow.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
};

use super::super::field::{FieldErrors, Path};
use super::super::spec_diff::{self, differences};
use super::super::{resources, selector};
use super::{BETA_CLASS, access_modes, class_name, volume_mode};
use crate::object::quantity::{Amount, ResourceList};
use crate::object::storage::{annotation, claim_phase};

const FROZEN: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

pub(in crate::api::validate) fn claim(errors: &mut FieldErrors, claim: &PersistentVolumeClaim) {
    let path = Path::root("spec");
    match &claim.spec {
        Some(spec) => claim_spec(errors, &path, spec),
        None => errors.required(&path, ""),
    }
}

/// What a claim asks for; also in the templates of claims.
pub(in crate::api::validate) fn claim_spec(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    spec: &PersistentVolumeClaimSpec,
) {
    let modes = spec.access_modes.as_deref();
    access_modes(errors, &path.child("accessModes"), modes, "at least 1 access mode is required");
    if let Some(labels) = &spec.selector {
        selector::label_selector(errors, &path.child("selector"), labels);
    }
    let resources_path = path.child("resources");
    let storage = resources_path.key("storage");
    match requests(spec).and_then(|list| list.get("storage")) {
        None => errors.required(&storage, ""),
        Some(size) => {
            if resources::quantity(errors, &storage, size).is_some_and(Amount::is_zero) {
                errors.invalid(&storage, size, "must be greater than zero");
            }
        }
    }
    class_name(errors, &path.child("storageClassName"), spec.storage_class_name.as_deref());
    volume_mode(errors, &path.child("volumeMode"), spec.volume_mode.as_deref());
    if let Some(source) = &spec.data_source {
        let path = path.child("dataSource");
        for (field, text) in [("name", &source.name), ("kind", &source.kind)] {
            if text.is_empty() {
                errors.required(&path.child(field), "");
            }
        }
        let group = source.api_group.as_deref().unwrap_or_default();
        if group.is_empty() && source.kind != "PersistentVolumeClaim" {
            errors.invalid(&path, &source.kind, "");
        }
    }
    let attributes = spec.volume_attributes_class_name.as_deref();
    class_name(errors, &path.child("volumeAttributesClassName"), attributes);
}

fn requests(spec: &PersistentVolumeClaimSpec) -> Option<&ResourceList> {
    spec.resources.as_ref().and_then(|resources| resources.requests.as_ref())
}

pub(in crate::api::validate) fn claim_update(
    errors: &mut FieldErrors,
    new: &PersistentVolumeClaim,
    old: &PersistentVolumeClaim,
) {
    claim(errors, new);
    let (Some(now), Some(before)) = (&new.spec, &old.spec) else { return };
    let of_annotation =
        |claim: &PersistentVolumeClaim| annotation(&claim.metadata, BETA_CLASS).map(str::to_owned);
    let (mut allowed, mut base) = (now.clone(), before.clone());
    // A claim gets its volume once.
    if base.volume_name.as_deref().is_none_or(str::is_empty) {
        base.volume_name.clone_from(&allowed.volume_name);
    }
    if is_moved_to_field(new, old) {
        allowed.storage_class_name.clone_from(&base.storage_class_name);
    } else {
        if of_annotation(new) != of_annotation(old) {
            let path = Path::root("metadata.annotations");
            errors.invalid(&path.key(BETA_CLASS), &of_annotation(new), "field is immutable");
        }
        // One that named none may get the default class later.
        if base.storage_class_name.is_none() && of_annotation(old).is_none() {
            base.storage_class_name.clone_from(&allowed.storage_class_name);
        }
    }
    if claim_phase(new) == "Bound" {
        let size = requests(before).and_then(|list| list.get("storage")).cloned();
        if let (Some(list), Some(size)) = (allowed.resources.as_mut().and_then(|r| r.requests.as_mut()), size)
        {
            list.insert("storage".into(), size);
        }
        if allowed.volume_attributes_class_name.is_some() {
            base.volume_attributes_class_name.clone_from(&allowed.volume_attributes_class_name);
        }
    }
    if allowed != base {
        let shown = differences(&spec_diff::CLAIM, &base, &allowed);
        errors.forbidden(&Path::root("spec"), format!("{FROZEN}\n{shown}"));
    }
    shrunk(errors, new, now, before);
    let mode = Path::root("volumeMode");
    errors.immutable(&mode, &now.volume_mode, &before.volume_mode);
    if now.volume_attributes_class_name.is_none() && before.volume_attributes_class_name.is_some() {
        let path = Path::root("spec.volumeAttributesClassName");
        errors.forbidden(&path, "update from non-nil value to nil is forbidden");
    }
}

/// Whether the class is named by the field now that the annotation named before.
fn is_moved_to_field(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> bool {
    let before = annotation(&old.metadata, BETA_CLASS);
    let field = |claim: &PersistentVolumeClaim| claim.spec.as_ref()?.storage_class_name.clone();
    before.is_some()
        && annotation(&new.metadata, BETA_CLASS).is_none_or(|now| Some(now) == before)
        && field(old).is_none()
        && field(new).as_deref() == before
}

/// A wish to grow may be taken back, but never below what there is.
fn shrunk(
    errors: &mut FieldErrors,
    claim: &PersistentVolumeClaim,
    now: &PersistentVolumeClaimSpec,
    before: &PersistentVolumeClaimSpec,
) {
    let size = |spec| Amount::in_list(requests(spec), "storage");
    let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    if size(now) < size(before) && size(now) <= Amount::in_list(capacity, "storage") {
        let path = Path::root("spec.resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
}

pub(in crate::api::validate) fn claim_status(errors: &mut FieldErrors, claim: &PersistentVolumeClaim) {
    let path = Path::root("status");
    let Some(PersistentVolumeClaimStatus { capacity, allocated_resources, .. }) = &claim.status else {
        return;
    };
    resources::amounts(errors, &path.child("capacity"), capacity.as_ref());
    resources::amounts(errors, &path.child("allocatedResources"), allocated_resources.as_ref());
}
