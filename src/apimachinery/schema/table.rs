//! Generates the table of types from the complete schemas, to compare `types.txt` with it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::complete;
use super::graph::{Scalar, bare};

/// Returns the table: all object types by name, with their fields by name.
fn table() -> String {
    let definitions = complete::all();
    let types: BTreeMap<&str, BTreeSet<String>> = definitions
        .iter()
        .filter_map(|(name, schema)| {
            let properties = schema.get("properties")?.as_object()?;
            let fields: BTreeSet<String> = properties
                .iter()
                .map(|(field, schema)| format!("{field}:{}", shape(schema, &definitions)))
                .collect();
            Some((bare(name), fields))
        })
        .collect();
    let mut table = String::new();
    for (name, fields) in types {
        table.push_str(name);
        for field in fields {
            table.push(' ');
            table.push_str(&field);
        }
        table.push('\n');
    }
    table
}

fn shape(schema: &Value, definitions: &Map<String, Value>) -> String {
    // A reference with siblings is wrapped in an `allOf` of one.
    if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        return shape(only, definitions);
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return definitions.get(name).map_or_else(|| "any".into(), |schema| named(name, schema, definitions));
    }
    let format = schema.get("format").and_then(Value::as_str).unwrap_or("");
    let leaf = match schema.get("type").and_then(Value::as_str) {
        Some("string") if format == "byte" => Scalar::Bytes,
        Some("string") => Scalar::String,
        Some("boolean") => Scalar::Bool,
        Some("integer") if format == "int32" => Scalar::Int32,
        Some("integer") => Scalar::Int64,
        Some("number") => Scalar::Double,
        Some("array") => {
            let items = schema.get("items").map_or_else(|| "any".into(), |items| shape(items, definitions));
            return format!("[]{items}");
        }
        Some("object") => {
            return match schema.get("additionalProperties") {
                Some(values @ Value::Object(_)) => format!("{{}}{}", shape(values, definitions)),
                _ => "any".into(),
            };
        }
        _ => return "any".into(),
    };
    leaf.as_str().into()
}

/// Returns a definition: a type with fields, a named leaf, or arbitrary JSON.
fn named(name: &str, schema: &Value, definitions: &Map<String, Value>) -> String {
    if schema.get("properties").is_some() {
        return bare(name).into();
    }
    let leaf = match name.rsplit('.').next().unwrap_or(name) {
        "Quantity" => Scalar::Quantity,
        "IntOrString" => Scalar::IntOrString,
        "Time" => Scalar::Time,
        "MicroTime" => Scalar::MicroTime,
        _ => return shape(schema, definitions),
    };
    leaf.as_str().into()
}

/// After a change of the kinds or of `k8s-openapi`, `UPDATE_TYPES=1 cargo test -p podium-apimachinery table_of_types`
/// regenerates it.
#[test]
fn the_table_of_types_is_what_the_schemas_say_api_2() {
    let made = table();
    if std::env::var_os("UPDATE_TYPES").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/types.txt");
        std::fs::write(path, &made).expect("the source can be written");
        return;
    }
    let mut lines = made.lines();
    for line in include_str!("types.txt").lines() {
        assert_eq!(lines.next(), Some(line));
    }
    assert_eq!(lines.next(), None);
}
