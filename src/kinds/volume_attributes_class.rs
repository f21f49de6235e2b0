//! Volume attributes classes: attributes that a driver can change while a volume is in use. Podium stores them because
//! charts contain them, but no volume here uses a third-party CSI driver.

use std::collections::BTreeMap;

use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use super::storage_class;
use apimachinery::validate::{FieldErrors, Path};

impl Resource for VolumeAttributesClass {
    const WARNING: Option<&'static str> = Some("Podium does not change the attributes of volumes");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("DriverName", "The driver whose volumes have these attributes.", |class, _| {
            json!(class.driver_name)
        }),
        Column::age(),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        storage_class::provisioner(errors, &Path::root("driverName"), &self.driver_name);
        let path = Path::root("parameters");
        storage_class::parameters(errors, &path, self.parameters.as_ref());
        if self.parameters.as_ref().is_none_or(BTreeMap::is_empty) {
            errors.required(&path, "must contain at least one key/value pair");
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        for (field, changed) in [
            ("driverName", self.driver_name != old.driver_name),
            ("parameters", self.parameters != old.parameters),
        ] {
            if changed {
                errors.forbidden(&Path::root(field), format!("updates to {field} are forbidden."));
            }
        }
    }
}
