//! Rules of embedded resources (`x-kubernetes-embedded-resource`): their metadata follows the rules of any object's.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::schema_fields::is_embedded;
use apimachinery::cel::{field_schema, item_schema};
use apimachinery::schema::{check_type, graph};
use apimachinery::validate::{FieldErrors, Path, metadata, names};
use object::ObjectPart as _;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Removes unknown fields from the metadata of embedded resources, and adds their paths to `unknown`. Unreadable
/// metadata stays unchanged, for [`validate`] to refuse.
pub(super) fn coerce(root: &JSONSchemaProps, fields: &mut Map<String, Value>, unknown: &mut Vec<String>) {
    for (name, value) in fields {
        if let Some(schema) = field_schema(Some(root), name) {
            coerce_value(schema, value, name, unknown);
        }
    }
}

fn coerce_value(schema: &JSONSchemaProps, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                if is_embedded(schema) && name == "metadata" {
                    coerce_metadata(value, &path, unknown);
                }
                if let Some(schema) = field_schema(Some(schema), name) {
                    coerce_value(schema, value, &path, unknown);
                }
            }
        }
        Value::Array(items) => {
            let Some(of_item) = item_schema(Some(schema)) else { return };
            for (i, item) in items.iter_mut().enumerate() {
                coerce_value(of_item, item, &format!("{path}[{i}]"), unknown);
            }
        }
        _ => {}
    }
}

fn coerce_metadata(value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    let (Ok(meta), Some(type_)) = (read(value), graph().named(OBJECT_META)) else { return };
    unknown.extend(check_type(type_, value).unknown.into_iter().map(|field| format!("{path}.{field}")));
    let Value::Object(mut fields) = meta.to_value() else { return };
    // Kubernetes writes metadata without its empty fields.
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Number(_) | Value::Bool(_) => true,
    });
    *value = Value::Object(fields);
}

/// Reads metadata; the error says why it cannot be read.
fn read(value: &Value) -> Result<ObjectMeta, String> {
    if value.is_null() {
        return Ok(ObjectMeta::default());
    }
    if let Some(type_) = graph().named(OBJECT_META)
        && let Some(mistyped) = check_type(type_, value).mistyped.first()
    {
        return Err(mistyped.to_string());
    }
    ObjectMeta::decode(value.clone()).map_err(|error| error.to_string())
}

/// Validates the fields that an embedded resource has in addition to those of its schema.
pub(super) fn validate(fields: &Map<String, Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        let path = path.child(name);
        match fields.get(name) {
            None => errors.required(&path, ""),
            Some(Value::String(text)) if text.is_empty() => errors.required(&path, ""),
            Some(Value::String(text)) if name == "kind" => {
                let faults = names::dns_1035_label(&text.to_lowercase());
                if !faults.is_empty() {
                    let faults = faults.join(",");
                    let detail = format!("may have mixed case, but should otherwise match: {faults}");
                    errors.invalid(&path, text, detail);
                }
            }
            Some(Value::String(text)) => {
                if let Err(why) = object::parse_api_version(text) {
                    errors.invalid(&path, text, why);
                }
            }
            Some(other) => errors.invalid(&path, other, "must be a string"),
        }
    }
    let Some(value) = fields.get("metadata") else { return };
    let path = path.child("metadata");
    match read(value) {
        Ok(meta) => metadata::validate_embedded(errors, &path, &meta),
        Err(reason) => errors.invalid(&path, value, reason),
    }
}
