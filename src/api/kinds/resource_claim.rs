//! Resource claims: a wish for devices. Kept for drivers of devices; none is given, and a pod that names a claim waits.

use k8s_openapi::api::resource::v1::{DeviceClaim, ResourceClaim};
use serde_json::json;

use super::columns::Column;
use super::device_claim;
use super::resource::Resource;
use crate::validate::{FieldErrors, Path};

/// Pods that may use a claim at once.
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

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        if self.spec != old.spec {
            let shown = serde_json::to_value(&self.spec).unwrap_or_default();
            errors.invalid(&Path::root("spec"), &shown, "field is immutable");
        }
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let list = Path::root("status.reservedFor");
        let consumers = status.reserved_for.as_deref().unwrap_or_default();
        if consumers.len() > MAX_CONSUMERS {
            errors.too_many(&list, consumers.len(), MAX_CONSUMERS);
        }
        for (i, one) in consumers.iter().enumerate() {
            let path = list.index(i);
            for (field, text) in [("resource", &one.resource), ("name", &one.name), ("uid", &one.uid)] {
                if text.is_empty() {
                    errors.required(&path.child(field), "");
                }
            }
            if consumers[..i].iter().any(|other| other.uid == one.uid) {
                errors.duplicate(&path.child("uid"), &one.uid);
            }
        }
        if !consumers.is_empty() && status.allocation.is_none() {
            errors.forbidden(&list, "may not be specified when `allocated` is not set");
        }
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
