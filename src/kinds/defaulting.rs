//! Fills the defaults of a structural schema into a custom object, and removes nulls where the schema allows none.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Map, Value};

use super::schema_fields::FieldSchema;
use apimachinery::cel::{field_schema, item_schema};

/// Removes nulls that are neither allowed nor replaced by a default, then fills in defaults.
pub(super) fn apply(root: &JSONSchemaProps, fields: &mut Map<String, Value>) {
    remove_nulls(root, fields);
    fill_fields(root, fields);
}

/// Returns whether filling in defaults would change the object.
pub(super) fn is_needed(root: &JSONSchemaProps, fields: &Map<String, Value>) -> bool {
    lacks_fields(root, fields)
}

fn default_of(schema: &JSONSchemaProps) -> Option<&Value> {
    schema.default.as_ref().map(|default| &default.0).filter(|default| !default.is_null())
}

fn is_refused_null(schema: &JSONSchemaProps, value: &Value) -> bool {
    value.is_null() && schema.nullable != Some(true)
}

fn remove_nulls(schema: &JSONSchemaProps, fields: &mut Map<String, Value>) {
    fields.retain(|name, value| match field_schema(Some(schema), name) {
        None => true,
        Some(schema) if is_refused_null(schema, value) => default_of(schema).is_some(),
        Some(schema) => {
            remove_nulls_in(schema, value);
            true
        }
    });
}

fn remove_nulls_in(schema: &JSONSchemaProps, value: &mut Value) {
    match (value, item_schema(Some(schema))) {
        (Value::Object(fields), _) => remove_nulls(schema, fields),
        (Value::Array(items), Some(of_item)) => {
            for item in items {
                remove_nulls_in(of_item, item);
            }
        }
        _ => {}
    }
}

/// Returns the default that replaces a missing field or a null.
fn replacement<'a>(schema: &'a JSONSchemaProps, value: Option<&Value>) -> Option<&'a Value> {
    default_of(schema).filter(|_| value.is_none_or(|value| is_refused_null(schema, value)))
}

fn fill_fields(schema: &JSONSchemaProps, fields: &mut Map<String, Value>) {
    for (name, schema) in schema.properties.iter().flatten() {
        if let Some(default) = replacement(schema, fields.get(name)) {
            fields.insert(name.clone(), default.clone());
        }
    }
    for (name, value) in fields {
        match FieldSchema::of(schema, name) {
            FieldSchema::Named(schema) => fill_value(schema, value),
            FieldSchema::Additional(Some(schema)) => fill_element(schema, value),
            FieldSchema::Additional(None) | FieldSchema::Unknown => {}
        }
    }
}

/// Fills an item of a list or a value of a map.
fn fill_element(schema: &JSONSchemaProps, value: &mut Value) {
    if let Some(default) = replacement(schema, Some(value)) {
        *value = default.clone();
    }
    fill_value(schema, value);
}

fn fill_value(schema: &JSONSchemaProps, value: &mut Value) {
    match (value, item_schema(Some(schema))) {
        (Value::Object(fields), _) => fill_fields(schema, fields),
        (Value::Array(items), Some(of_item)) => {
            for item in items {
                fill_element(of_item, item);
            }
        }
        _ => {}
    }
}

fn lacks_fields(schema: &JSONSchemaProps, fields: &Map<String, Value>) -> bool {
    let mut named = schema.properties.iter().flatten();
    named.any(|(name, schema)| replacement(schema, fields.get(name)).is_some())
        || fields.iter().any(|(name, value)| match FieldSchema::of(schema, name) {
            FieldSchema::Named(schema) => lacks_value(schema, value),
            FieldSchema::Additional(Some(schema)) => lacks_element(schema, value),
            FieldSchema::Additional(None) | FieldSchema::Unknown => false,
        })
}

fn lacks_element(schema: &JSONSchemaProps, value: &Value) -> bool {
    replacement(schema, Some(value)).is_some() || lacks_value(schema, value)
}

fn lacks_value(schema: &JSONSchemaProps, value: &Value) -> bool {
    match (value, item_schema(Some(schema))) {
        (Value::Object(fields), _) => lacks_fields(schema, fields),
        (Value::Array(items), Some(of_item)) => items.iter().any(|item| lacks_element(of_item, item)),
        _ => false,
    }
}
