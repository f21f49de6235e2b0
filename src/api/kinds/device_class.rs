//! Device classes: which devices of nodes a claim may ask for by one name. Kept for drivers of devices; none is given.

use k8s_openapi::api::resource::v1::DeviceClass;

use super::device_claim::{NOT_ACTED_ON, configuration, selectors};
use super::resource::Resource;
use crate::validate::{FieldErrors, Path, names};

const MAX_CONFIGURATIONS: usize = 32;

impl Resource for DeviceClass {
    const WARNING: Option<&'static str> = Some(NOT_ACTED_ON);

    fn apply_defaults(&mut self) {
        self.spec.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let Some(spec) = &self.spec else { return };
        let path = Path::root("spec");
        selectors(errors, &path.child("selectors"), spec.selectors.as_deref());
        let list = path.child("config");
        let configurations = spec.config.as_deref().unwrap_or_default();
        if configurations.len() > MAX_CONFIGURATIONS {
            errors.too_many(&list, configurations.len(), MAX_CONFIGURATIONS);
        }
        for (i, one) in configurations.iter().enumerate() {
            configuration(errors, &list.index(i), one.opaque.as_ref());
        }
        if let Some(name) = &spec.extended_resource_name {
            let path = path.child("extendedResourceName");
            if name.contains('/') && !name.contains("kubernetes.io/") {
                errors.invalid_each(&path, name, names::qualified_name(name));
            } else {
                errors.invalid(&path, name, "must be a valid extended resource name");
            }
        }
    }
}
