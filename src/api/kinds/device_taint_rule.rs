//! Rules that taint devices. Kept for who tends devices; none is given.

use k8s_openapi::api::resource::v1::{DeviceTaint, DeviceTaintRule};

use super::resource::Resource;
use super::{device_claim, device_class};
use crate::validate::{FieldErrors, Path, metadata, names};

/// What a taint does to those who use its device.
pub(super) const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

impl Resource for DeviceTaintRule {
    const WARNING: Option<&'static str> = Some(device_class::NOT_ACTED_ON);

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        taint(errors, &path.child("taint"), &self.spec.taint);
        let Some(selector) = &self.spec.device_selector else { return };
        let path = path.child("deviceSelector");
        if let Some(driver) = &selector.driver {
            device_claim::driver(errors, &path.child("driver"), driver);
        }
        if let Some(device) = &selector.device {
            errors.required_name(&path.child("device"), device, names::dns_1123_label);
        }
    }
}

/// A taint of a device.
pub(super) fn taint(errors: &mut FieldErrors, path: &Path<'_>, taint: &DeviceTaint) {
    if taint.key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        metadata::label_key(errors, &path.child("key"), &taint.key);
    }
    let value = taint.value.as_deref().unwrap_or_default();
    errors.invalid_each(&path.child("value"), value, names::label_value(value));
    errors.required_one_of(&path.child("effect"), Some(&taint.effect), EFFECTS);
}
