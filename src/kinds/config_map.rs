//! ConfigMaps, and the rules that they share with Secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, names};

/// The maximum size of all values of an object together.
pub(super) const MAX_BYTES: usize = 1024 * 1024;

const FROZEN: &str = "field is immutable when `immutable` is set";

impl Resource for ConfigMap {
    const COUNTED_BY_PLURAL: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Data", "The number of entries in the data.", |map, _| {
            let count = map.data.as_ref().map_or(0, BTreeMap::len)
                + map.binary_data.as_ref().map_or(0, BTreeMap::len);
            json!(count.to_string())
        }),
        Column::age(),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        let mut bytes = 0;
        let path = Path::root("data");
        for (key, value) in self.data.iter().flatten() {
            errors.invalid_each(&path.key(key), key, names::config_key(key));
            if self.binary_data.as_ref().is_some_and(|b| b.contains_key(key)) {
                errors.invalid(&path.key(key), key, "duplicate of key present in binaryData");
            }
            bytes += value.len();
        }
        let path = Path::root("binaryData");
        for (key, value) in self.binary_data.iter().flatten() {
            errors.invalid_each(&path.key(key), key, names::config_key(key));
            bytes += value.0.len();
        }
        if bytes > MAX_BYTES {
            // The API server's error names no field.
            errors.too_long(&Path::root("[]"), MAX_BYTES);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        if old.immutable == Some(true) {
            frozen(errors, "immutable", self.immutable == old.immutable);
            frozen(errors, "data", self.data == old.data);
            frozen(errors, "binaryData", self.binary_data == old.binary_data);
        }
        self.validate(errors);
    }
}

pub(super) fn frozen(errors: &mut FieldErrors, field: &str, same: bool) {
    if !same {
        errors.forbidden(&Path::root(field), FROZEN);
    }
}
