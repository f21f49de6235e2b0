//! Removes the fields of a custom object that its schema does not cover, as Kubernetes does for structural schemas.
//!
//! `x-kubernetes-preserve-unknown-fields` keeps the unknown fields of an object. On a list it keeps those of its items,
//! at any depth of lists. It does not reach below a field that the schema covers: that field's own schema decides
//! there.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Map, Value};

use super::schema_fields::{FieldSchema, OF_EVERY_OBJECT, is_embedded, preserves};
use apimachinery::cel::item_schema;

/// Prunes the fields of an object, and returns the paths of the removed ones.
pub(super) fn prune(root: &JSONSchemaProps, fields: &mut Map<String, Value>) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), removed: Vec::new() };
    if preserves(root) {
        pruner.keep_fields(root, true, fields);
    } else {
        pruner.prune_fields(Some(root), true, fields);
    }
    pruner.removed
}

struct Pruner {
    path: String,
    removed: Vec<String>,
}

impl Pruner {
    fn prune_value(&mut self, schema: Option<&JSONSchemaProps>, value: &mut Value) {
        if let Some(schema) = schema.filter(|schema| preserves(schema)) {
            return self.keep_value(schema, value);
        }
        match value {
            Value::Object(fields) => self.prune_fields(schema, schema.is_some_and(is_embedded), fields),
            Value::Array(items) => {
                let of_item = item_schema(schema);
                for (i, item) in items.iter_mut().enumerate() {
                    self.below(&format!("[{i}]"), |pruner| pruner.prune_value(of_item, item));
                }
            }
            _ => {}
        }
    }

    /// Removes every field that the schema does not cover; without a schema, removes all fields.
    fn prune_fields(
        &mut self,
        schema: Option<&JSONSchemaProps>,
        is_object: bool,
        fields: &mut Map<String, Value>,
    ) {
        fields.retain(|name, value| {
            if is_object && OF_EVERY_OBJECT.contains(&name.as_str()) {
                return true;
            }
            let of_field = schema.map_or(FieldSchema::Unknown, |schema| FieldSchema::of(schema, name));
            self.field(name, |pruner| match of_field {
                FieldSchema::Named(schema) => {
                    pruner.prune_value(Some(schema), value);
                    true
                }
                FieldSchema::Additional(schema) => {
                    pruner.prune_value(schema, value);
                    true
                }
                FieldSchema::Unknown => {
                    pruner.removed.push(pruner.path.clone());
                    false
                }
            })
        });
    }

    /// Keeps the unknown fields of a value if its schema preserves them.
    fn keep_value(&mut self, schema: &JSONSchemaProps, value: &mut Value) {
        match value {
            Value::Object(fields) => self.keep_fields(schema, is_embedded(schema), fields),
            Value::Array(items) => {
                let Some(of_item) = item_schema(Some(schema)) else { return };
                for (i, item) in items.iter_mut().enumerate() {
                    self.below(&format!("[{i}]"), |pruner| pruner.keep_value(of_item, item));
                }
            }
            _ => {}
        }
    }

    fn keep_fields(&mut self, schema: &JSONSchemaProps, is_object: bool, fields: &mut Map<String, Value>) {
        for (name, value) in fields {
            if is_object && OF_EVERY_OBJECT.contains(&name.as_str()) {
                continue;
            }
            match FieldSchema::of(schema, name) {
                FieldSchema::Named(schema) => {
                    self.field(name, |pruner| pruner.prune_value(Some(schema), value));
                }
                FieldSchema::Additional(schema) => {
                    self.field(name, |pruner| pruner.prune_value(schema, value));
                }
                FieldSchema::Unknown => {}
            }
        }
    }

    fn field<R>(&mut self, name: &str, inside: impl FnOnce(&mut Self) -> R) -> R {
        if self.path.is_empty() { self.below(name, inside) } else { self.below(&format!(".{name}"), inside) }
    }

    fn below<R>(&mut self, step: &str, inside: impl FnOnce(&mut Self) -> R) -> R {
        let length = self.path.len();
        self.path.push_str(step);
        let result = inside(self);
        self.path.truncate(length);
        result
    }
}
