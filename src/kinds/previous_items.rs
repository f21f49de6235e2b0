//! Finds the old version of a list's element by the keys of the new version.

use std::collections::HashMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::Value;

/// The elements of a list before a change. In a list without keys, old and new elements cannot be correlated.
pub(super) struct PreviousItems<'a> {
    keys: &'a [String],
    by_keys: HashMap<String, &'a Value>,
}

impl<'a> PreviousItems<'a> {
    /// Indexes the old elements of a list with this schema.
    pub(super) fn of(schema: &'a JSONSchemaProps, old: Option<&'a Value>) -> Self {
        let keys = schema.x_kubernetes_list_map_keys.as_deref().unwrap_or_default();
        let old = old.and_then(Value::as_array).filter(|_| !keys.is_empty());
        // If several elements have the same keys, the first one counts.
        let by_keys = old.into_iter().flatten().rev().map(|item| (keys_of(keys, item), item)).collect();
        Self { keys, by_keys }
    }

    /// Returns the old version of an element.
    pub(super) fn get(&self, item: &Value) -> Option<&'a Value> {
        if self.by_keys.is_empty() { None } else { self.by_keys.get(&keys_of(self.keys, item)).copied() }
    }
}

fn keys_of(keys: &[String], item: &Value) -> String {
    let values = keys.iter().map(|key| item.get(key).cloned().unwrap_or_default());
    Value::Array(values.collect()).to_string()
}
