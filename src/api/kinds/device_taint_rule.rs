//! Rules that taint devices. Kept for who tends devices; none is given.

use k8s_openapi::api::resource::v1::DeviceTaintRule;

use super::device_claim::{NOT_ACTED_ON, driver, taint};
use super::resource::Resource;
use crate::validate::{FieldErrors, Path, names};

impl Resource for DeviceTaintRule {
    const WARNING: Option<&'static str> = Some(NOT_ACTED_ON);

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        taint(errors, &path.child("taint"), &self.spec.taint);
        let Some(selector) = &self.spec.device_selector else { return };
        let path = path.child("deviceSelector");
        if let Some(name) = &selector.driver {
            driver(errors, &path.child("driver"), name);
        }
        if let Some(device) = &selector.device {
            errors.required_name(&path.child("device"), device, names::dns_1123_label);
        }
    }
}
