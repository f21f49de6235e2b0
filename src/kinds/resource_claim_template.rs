//! Resource claim templates, from which each pod is meant to get its own claim. Stored for device drivers; Podium
//! allocates no devices.

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use super::device_claim;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, metadata};

impl Resource for ResourceClaimTemplate {
    const WARNING: Option<&'static str> = Some(device_claim::NOT_ACTED_ON);

    fn apply_defaults(&mut self) {
        let template = self.spec.get_or_insert_default();
        if let Some(devices) = template.spec.get_or_insert_default().devices.as_mut() {
            device_claim::apply_defaults(devices);
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let Some(template) = &self.spec else { return };
        if let Some(meta) = &template.metadata {
            let path = Path::root("spec.metadata");
            metadata::labels(errors, &path.child("labels"), meta.labels.as_ref());
            metadata::annotations(errors, &path.child("annotations"), meta.annotations.as_ref());
        }
        if let Some(devices) = template.spec.as_ref().and_then(|spec| spec.devices.as_ref()) {
            device_claim::validate(errors, &Path::root("spec.spec.devices"), devices);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        if self.spec != old.spec {
            let shown = object::json_of(&self.spec);
            errors.invalid(&Path::root("spec"), &shown, "field is immutable");
        }
    }
}
