//! Device classes: names for selections of devices, which claims refer to. Stored for device drivers; Podium allocates
//! no devices.

use k8s_openapi::api::resource::v1::DeviceClass;

use super::device_claim::{MAX_ITEMS, NOT_ACTED_ON, configuration, limited, selectors};
use super::resource::Resource;
use apimachinery::validate::resources::is_extended_name;
use apimachinery::validate::{FieldErrors, Path};

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
        let configurations = limited(errors, &list, spec.config.as_deref(), MAX_ITEMS);
        for (i, one) in configurations.iter().enumerate() {
            configuration(errors, &list.index(i), one.opaque.as_ref());
        }
        if let Some(name) = spec.extended_resource_name.as_ref().filter(|name| !is_extended_name(name)) {
            let path = path.child("extendedResourceName");
            errors.invalid(&path, name, "must be a valid extended resource name");
        }
    }
}
