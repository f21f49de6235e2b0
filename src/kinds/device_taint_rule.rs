//! Rules that taint devices. Stored for administrators of devices; Podium allocates no devices.

use k8s_openapi::api::resource::v1::DeviceTaintRule;

use super::device_allocation::status_conditions;
use super::device_claim::{NOT_ACTED_ON, pool_name, taint};
use super::resource::Resource;
use apimachinery::validate::storage::driver_name;
use apimachinery::validate::{FieldErrors, Path, names};

impl Resource for DeviceTaintRule {
    const WARNING: Option<&'static str> = Some(NOT_ACTED_ON);

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        if let Some(selector) = &self.spec.device_selector {
            let path = path.child("deviceSelector");
            if let Some(name) = &selector.driver {
                driver_name(errors, &path.child("driver"), name);
            }
            if let Some(pool) = &selector.pool {
                pool_name(errors, &path.child("pool"), pool);
            }
            if let Some(device) = &selector.device {
                errors.invalid_each(&path.child("device"), device, names::dns_1123_label(device));
            }
        }
        taint(errors, &path.child("taint"), &self.spec.taint);
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let given = self.status.as_ref().and_then(|status| status.conditions.as_deref());
        status_conditions(errors, &Path::root("status.conditions"), given);
    }
}
