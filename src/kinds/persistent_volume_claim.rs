//! Persistent volume claims.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::columns::Column;
use super::persistent_volume::{modes_text, storage_text};
use super::resource::{Resource, SelectableField, selectable, text};
use apimachinery::default::set_text;
use apimachinery::validate::spec_diff::{self, differences};
use apimachinery::validate::{FieldErrors, Path, names, resources, storage};
use object::ObjectPart as _;
use object::owner;
use object::quantity::{Amount, ResourceList};
use object::storage::{BETA_CLASS, UNSET, annotation, claim_class, claim_phase};

const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// The states of a resize that a status may report.
const RESIZE_STATES: &[&str] = &[
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress",
    "NodeResizeInfeasible", "NodeResizePending",
];

const FROZEN: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

impl Resource for PersistentVolumeClaim {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Status", "The claim's phase.", |claim, _| {
            let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
            json!(if owner::is_terminating(&claim.metadata) { "Terminating" } else { phase })
        }),
        Column::text("Volume", "The volume that the claim is bound to.", |claim, _| json!(volume(claim))),
        Column::text("Capacity", "The capacity of the volume.", |claim, _| {
            json!(storage_text(bound_status(claim).and_then(|s| s.capacity.as_ref())))
        }),
        Column::text("Access Modes", "The ways in which the volume may be mounted.", |claim, _| {
            json!(modes_text(bound_status(claim).and_then(|s| s.access_modes.as_deref())))
        }),
        Column::text("StorageClass", "The storage class of the claim.", |claim, _| {
            json!(claim.spec.as_ref().and_then(|s| s.storage_class_name.as_deref()).unwrap_or_default())
        }),
        Column::text("VolumeAttributesClass", "The VolumeAttributesClass of the claim.", |claim, _| {
            json!(
                claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or(UNSET)
            )
        }),
        Column::age(),
        Column::wide("VolumeMode", "Whether the volume is a file system or a block device.", |claim, _| {
            json!(claim.spec.as_ref().and_then(|s| s.volume_mode.as_deref()).unwrap_or(UNSET))
        }),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] =
        &[selectable("name", |claim| text(claim.metadata.name.as_ref()))];

    fn apply_defaults(&mut self) {
        let status = self.status.get_or_insert_with(PersistentVolumeClaimStatus::default);
        set_text(&mut status.phase, "Pending");
        let spec = self.spec.get_or_insert_default();
        set_text(&mut spec.volume_mode, "Filesystem");
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        match &self.spec {
            Some(spec) => storage::claim_spec(errors, &path, spec),
            None => errors.required(&path, ""),
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let (Some(now), Some(before)) = (&self.spec, &old.spec) else { return };
        let of_annotation =
            |claim: &PersistentVolumeClaim| annotation(&claim.metadata, BETA_CLASS).map(str::to_owned);
        let (mut allowed, mut base) = (now.clone(), before.clone());
        // The volume's name may be set once.
        if base.volume_name.as_deref().is_none_or(str::is_empty) {
            base.volume_name.clone_from(&allowed.volume_name);
        }
        if is_moved_to_field(self, old) {
            allowed.storage_class_name.clone_from(&base.storage_class_name);
        } else {
            if of_annotation(self) != of_annotation(old) {
                let path = Path::root("metadata.annotations");
                errors.invalid(&path.key(BETA_CLASS), &of_annotation(self), "field is immutable");
            }
            // A claim without a class may get the default class later.
            if base.storage_class_name.is_none() && of_annotation(old).is_none() {
                base.storage_class_name.clone_from(&allowed.storage_class_name);
            }
        }
        if claim_phase(self) == "Bound" {
            let size = storage::requests(before).and_then(|list| list.get("storage")).cloned();
            if let (Some(list), Some(size)) =
                (allowed.resources.as_mut().and_then(|r| r.requests.as_mut()), size)
            {
                list.insert("storage".into(), size);
            }
            if allowed.volume_attributes_class_name.is_some() {
                base.volume_attributes_class_name.clone_from(&allowed.volume_attributes_class_name);
            }
        }
        if allowed != base {
            let shown = differences(&spec_diff::CLAIM, &base.to_value(), &allowed.to_value());
            errors.forbidden(&Path::root("spec"), format!("{FROZEN}\n{shown}"));
        }
        shrunk(errors, self, now, before);
        let mode = Path::root("volumeMode");
        errors.immutable(&mode, &now.volume_mode, &before.volume_mode);
        if now.volume_attributes_class_name.is_none() && before.volume_attributes_class_name.is_some() {
            let path = Path::root("spec.volumeAttributesClassName");
            errors.forbidden(&path, "update from non-nil value to nil is forbidden");
        }
    }

    fn validate_status(&self, old: &Self, errors: &mut FieldErrors) {
        let path = Path::root("status");
        let Some(status) = &self.status else { return };
        resources::amounts(errors, &path.child("capacity"), status.capacity.as_ref());
        let old = old.status.as_ref();
        let old_amounts = old.and_then(|old| old.allocated_resources.as_ref());
        let list = path.child("allocatedResources");
        for (name, amount) in changed(status.allocated_resources.as_ref(), old_amounts) {
            resized_resource(errors, &list, name);
            resources::quantity(errors, &list.key(name), amount);
        }
        let old_states = old.and_then(|old| old.allocated_resource_statuses.as_ref());
        // The errors have Kubernetes' spelling of the field, and name the resource in place of the state.
        let list = path.child("allocatedResourceStatus");
        for (name, state) in changed(status.allocated_resource_statuses.as_ref(), old_states) {
            resized_resource(errors, &list, name);
            if !RESIZE_STATES.contains(&state.as_str()) {
                errors.unsupported(&list, name, RESIZE_STATES);
            }
        }
    }

    fn usage(&self, _now: Timestamp) -> ResourceList {
        let spec = self.spec.as_ref();
        let requested = spec.and_then(|s| s.resources.as_ref()?.requests.as_ref()?.get("storage"));
        let given = self.status.as_ref().and_then(|s| s.allocated_resources.as_ref()?.get("storage"));
        // A claim that is being shrunk is charged its allocated size until the smaller one takes effect.
        let storage = requested.into_iter().chain(given).max_by_key(|quantity| Amount::of(quantity));
        let class = Some(claim_class(self)).filter(|class| !class.is_empty());
        let mut used = ResourceList::new();
        let mut note = |name: &str, quantity: Quantity| {
            if let Some(class) = class {
                used.insert(format!("{class}{OF_CLASS}{name}"), quantity.clone());
            }
            used.insert(name.to_string(), quantity);
        };
        note("persistentvolumeclaims", Quantity("1".into()));
        if let Some(storage) = storage {
            note("requests.storage", storage.clone());
        }
        used
    }

    fn uses(resource: &str) -> bool {
        matches!(resource, "persistentvolumeclaims" | "requests.storage") || resource.contains(OF_CLASS)
    }
}

/// Returns the entries that an update adds or changes: entries that are older than a rule may stay.
fn changed<'a, T: PartialEq>(
    new: Option<&'a BTreeMap<String, T>>,
    old: Option<&'a BTreeMap<String, T>>,
) -> impl Iterator<Item = (&'a String, &'a T)> {
    let entries = new.into_iter().flatten();
    entries.filter(move |(name, value)| old.and_then(|old| old.get(*name)) != Some(*value))
}

/// Validates the name of a resource that can be resized: storage, or one with a domain that is not Kubernetes' own.
fn resized_resource(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    let wrong = names::qualified_name(name);
    if !wrong.is_empty() {
        errors.invalid_each(path, name, wrong);
    } else if resources::is_native(name) && name != "storage" {
        errors.unsupported(path, name, &["storage"]);
    }
}

fn volume(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).unwrap_or_default()
}

/// Returns the status of a claim that has a volume. Without one, capacity and access modes are not known yet.
fn bound_status(claim: &PersistentVolumeClaim) -> Option<&PersistentVolumeClaimStatus> {
    claim.status.as_ref().filter(|_| !volume(claim).is_empty())
}

/// Returns whether the class has moved from the annotation to the field.
fn is_moved_to_field(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> bool {
    let before = annotation(&old.metadata, BETA_CLASS);
    let field = |claim: &PersistentVolumeClaim| claim.spec.as_ref()?.storage_class_name.clone();
    before.is_some()
        && annotation(&new.metadata, BETA_CLASS).is_none_or(|now| Some(now) == before)
        && field(old).is_none()
        && field(new).as_deref() == before
}

/// A request to grow may be reduced, but not to or below the current capacity.
fn shrunk(
    errors: &mut FieldErrors,
    claim: &PersistentVolumeClaim,
    now: &PersistentVolumeClaimSpec,
    before: &PersistentVolumeClaimSpec,
) {
    let size = |spec| Amount::in_list(storage::requests(spec), "storage");
    let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    if size(now) < size(before) && size(now) <= Amount::in_list(capacity, "storage") {
        let path = Path::root("spec.resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
}
