//! Converts CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1` to `v1` with the same meaning. In `v1beta1`,
//! settings that each version has in `v1` are given once for all versions, schemas need no types, and unknown fields
//! are preserved.

use serde_json::{Map, Value, json};

use super::{default, within};

const KEEPS: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// The deepest schema converted; deeper ones are refused by other checks.
const MAX_DEPTH: usize = 100;

pub(super) fn read(definition: &mut Value) {
    let Some(spec) = within(definition, &["spec"]) else { return };
    let keeps = spec.remove("preserveUnknownFields").and_then(|value| value.as_bool()).unwrap_or(true);
    spec.insert("preserveUnknownFields".into(), false.into());
    default(spec, "scope", "Namespaced".into());
    let (version, schema) = (spec.remove("version"), spec.remove("validation"));
    let (subresources, columns) = (spec.remove("subresources"), spec.remove("additionalPrinterColumns"));
    let none = spec.get("versions").is_none_or(|list| list.as_array().is_some_and(Vec::is_empty));
    if let Some(name) = version.filter(|_| none) {
        spec.insert("versions".into(), json!([{"name": name, "served": true, "storage": true}]));
    }
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten();
    for version in versions.filter_map(Value::as_object_mut) {
        for (field, value) in
            [("schema", &schema), ("subresources", &subresources), ("additionalPrinterColumns", &columns)]
        {
            if let Some(value) = value {
                default(version, field, value.clone());
            }
        }
        rename_paths(version, "JSONPath", "jsonPath");
        default(version, "schema", json!({"openAPIV3Schema": {"type": "object", KEEPS: true}}));
        if let Some(schema) = version.get_mut("schema").and_then(|schema| schema.get_mut("openAPIV3Schema")) {
            complete_root(schema, keeps);
        }
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        let mut webhook = Map::new();
        for (old, new) in [
            ("webhookClientConfig", "clientConfig"),
            ("conversionReviewVersions", "conversionReviewVersions"),
        ] {
            webhook.extend(conversion.remove(old).map(|value| (new.to_string(), value)));
        }
        if conversion.get("strategy").is_some_and(|strategy| strategy == "Webhook") {
            webhook.entry("conversionReviewVersions").or_insert_with(|| json!(["v1beta1"]));
            conversion.insert("webhook".into(), webhook.into());
        }
    }
}

pub(super) fn show(definition: &mut Value) {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let mut shared = Vec::new();
    if let Some(versions) = spec.get_mut("versions").and_then(Value::as_array_mut) {
        shared.extend(
            versions.first().and_then(|first| first.get("name")).map(|name| ("version", name.clone())),
        );
        let mut versions: Vec<_> = versions.iter_mut().filter_map(Value::as_object_mut).collect();
        for version in &mut versions {
            rename_paths(version, "jsonPath", "JSONPath");
        }
        for (field, name) in [
            ("schema", "validation"),
            ("subresources", "subresources"),
            ("additionalPrinterColumns", "additionalPrinterColumns"),
        ] {
            let first = versions.first().and_then(|first| first.get(field)).cloned();
            if let Some(first) = first
                && versions.iter().all(|version| version.get(field) == Some(&first))
            {
                for version in &mut versions {
                    version.remove(field);
                }
                shared.push((name, first));
            }
        }
    }
    spec.extend(shared.into_iter().map(|(name, value)| (name.to_string(), value)));
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut)
        && let Some(Value::Object(webhook)) = conversion.remove("webhook")
    {
        for (name, value) in webhook {
            let name = if name == "clientConfig" { "webhookClientConfig".into() } else { name };
            conversion.insert(name, value);
        }
    }
}

fn rename_paths(version: &mut Map<String, Value>, from: &str, to: &str) {
    let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(path) = column.remove(from) {
            column.insert(to.into(), path);
        }
    }
}

/// Completes the schema of the whole object; leaves out the fields that every object has.
fn complete_root(schema: &mut Value, keeps: bool) {
    let Some(fields) = schema.as_object_mut() else { return };
    default(fields, "type", "object".into());
    let mut own = Map::new();
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        for name in ["apiVersion", "kind", "metadata"] {
            own.extend(properties.remove(name).map(|schema| (name.to_string(), schema)));
        }
    }
    complete(schema, keeps, 0);
    for (name, below) in &mut own {
        let Some(below) = below.as_object_mut() else { continue };
        if name == "metadata" {
            below.retain(|field, _| ["type", "properties"].contains(&field.as_str()));
            if let Some(properties) = below.get_mut("properties").and_then(Value::as_object_mut) {
                properties.retain(|field, _| ["name", "generateName"].contains(&field.as_str()));
                let names = properties.values_mut().filter_map(Value::as_object_mut);
                names.for_each(|name| default(name, "type", "string".into()));
            }
        }
        default(below, "type", if name == "metadata" { "object" } else { "string" }.into());
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.extend(own);
    }
}

/// Gives a schema the type that its fields imply, and makes it preserve unknown fields.
fn complete(schema: &mut Value, keeps: bool, depth: usize) {
    let Some(fields) = schema.as_object_mut().filter(|_| depth < MAX_DEPTH) else { return };
    if is_int_or_string(fields) {
        fields.retain(|name, _| !["anyOf", "oneOf", "type"].contains(&name.as_str()));
        fields.insert(INT_OR_STRING.into(), true.into());
    }
    let has = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    let is_true = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    if !has("type") && !is_true(INT_OR_STRING) && !is_true(KEEPS) {
        if has("properties") || has("additionalProperties") {
            fields.insert("type".into(), "object".into());
        } else if has("items") {
            fields.insert("type".into(), "array".into());
        } else if keeps {
            fields.insert(KEEPS.into(), true.into());
        }
    }
    let is_object = fields.get("type").is_some_and(|name| name == "object");
    if keeps && is_object && !fields.contains_key("additionalProperties") {
        fields.insert(KEEPS.into(), true.into());
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(|below| complete(below, keeps, depth + 1));
    for name in ["items", "additionalProperties"] {
        fields.get_mut(name).into_iter().for_each(|below| complete(below, keeps, depth + 1));
    }
}

/// Returns true for a choice of integer or string, the notation before `x-kubernetes-int-or-string`.
fn is_int_or_string(fields: &Map<String, Value>) -> bool {
    let (number, text) = (json!({"type": "integer"}), json!({"type": "string"}));
    ["anyOf", "oneOf"].iter().filter_map(|name| fields.get(*name)?.as_array()).any(|choices| {
        let choices: Vec<_> = choices.iter().collect();
        choices == [&number, &text] || choices == [&text, &number]
    })
}
