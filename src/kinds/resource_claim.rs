//! Resource claims: requests for devices. Stored for device drivers; Podium allocates no devices, and a pod that names
//! a claim stays pending.

use k8s_openapi::api::resource::v1::{DeviceClaim, ResourceClaim};
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use super::{device_allocation, device_claim};
use apimachinery::validate::{FieldErrors, Path};

/// The maximum number of pods that may use a claim at the same time.
const MAX_CONSUMERS: usize = 256;

impl Resource for ResourceClaim {
    const WARNING: Option<&'static str> = Some(device_claim::NOT_ACTED_ON);
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text(
            "State",
            "A summary of the current state (allocated, pending, reserved, etc.).",
            |claim, _| json!(state(claim)),
        ),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        if let Some(devices) = self.spec.get_or_insert_default().devices.as_mut() {
            device_claim::apply_defaults(devices);
        }
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let none = DeviceClaim::default();
        let devices = self.spec.as_ref().and_then(|spec| spec.devices.as_ref()).unwrap_or(&none);
        device_claim::validate(errors, &Path::root("spec.devices"), devices);
    }

    /// The spec is immutable, so its other rules need no check.
    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        if self.spec != old.spec {
            let shown = object::json_of(&self.spec);
            errors.invalid(&Path::root("spec"), &shown, "field is immutable");
        }
    }

    fn validate_status(&self, old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let path = Path::root("status");
        consumers(errors, &path.child("reservedFor"), self, old);
        let allocated = status.allocation.as_ref();
        device_allocation::statuses(errors, &path.child("devices"), status.devices.as_deref(), allocated);
        let Some(allocation) = allocated else { return };
        let path = path.child("allocation");
        match old.status.as_ref().and_then(|status| status.allocation.as_ref()) {
            Some(before) if before != allocation => {
                let shown = object::json_of(allocation);
                errors.invalid(&path, &shown, "field is immutable");
            }
            Some(_) => {}
            None => {
                let devices = self.spec.as_ref().and_then(|spec| spec.devices.as_ref());
                let known = devices.map(device_claim::request_names).unwrap_or_default();
                device_allocation::validate(errors, &path, allocation, &known);
            }
        }
    }
}

/// Validates the consumers of an allocated claim. A claim that is being deleted gets no new ones.
fn consumers(errors: &mut FieldErrors, list: &Path<'_>, new: &ResourceClaim, old: &ResourceClaim) {
    let of = |claim: &ResourceClaim| claim.status.as_ref().and_then(|status| status.reserved_for.clone());
    let given = of(new);
    let consumers = device_claim::limited(errors, list, given.as_deref(), MAX_CONSUMERS);
    for (path, one) in list.each(consumers.iter()) {
        for (field, text) in [("resource", &one.resource), ("name", &one.name), ("uid", &one.uid)] {
            if text.is_empty() {
                errors.required(&path.child(field), "");
            }
        }
    }
    device_claim::different(errors, list, consumers.iter().map(|one| &*one.uid));
    if given.as_ref().is_none_or(Vec::is_empty) {
        return;
    }
    if new.status.as_ref().is_none_or(|status| status.allocation.is_none()) {
        return errors.forbidden(list, "may not be specified when `allocated` is not set");
    }
    let before = of(old).unwrap_or_default();
    let is_new = given.iter().flatten().any(|one| !before.contains(one));
    if is_new && new.metadata.deletion_timestamp.is_some() {
        let detail =
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.forbidden(list, detail);
    }
}

fn state(claim: &ResourceClaim) -> String {
    let status = claim.status.as_ref();
    let deleted = claim.metadata.deletion_timestamp.is_some();
    let allocated = status.is_some_and(|status| status.allocation.is_some());
    let reserved =
        allocated && status.and_then(|s| s.reserved_for.as_ref()).is_some_and(|list| !list.is_empty());
    let parts = [
        (deleted, "deleted"),
        (allocated, "allocated"),
        (reserved, "reserved"),
        (!allocated && !deleted, "pending"),
    ];
    parts.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect::<Vec<_>>().join(",")
}
