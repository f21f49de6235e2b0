//! The schema of a custom resource in OpenAPI documents.

use serde_json::{Map, Value, json};

use super::Version;
use super::reference::REFERENCE;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object.";
const KIND: &str = "Kind is a string value representing the REST resource this object represents.";

/// Returns the schema of a definition, with the fields that every object has.
pub(super) fn schema(mut schema: Value, version: Version) -> Value {
    if version == Version::Two {
        if is(&schema, PRESERVE) {
            // kubectl treats a schema with arbitrary properties as one that allows no further field.
            return json!({"type": "object"});
        }
        limit_to_version_2(&mut schema);
    }
    schema["type"] = "object".into();
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    add_object_fields(&mut schema);
    add_embedded_fields(&mut schema, version, true);
    schema
}

fn is(schema: &Value, extension: &str) -> bool {
    schema.get(extension).is_some_and(|value| value == true)
}

/// Calls `visit` with each schema directly below one.
fn each_below(schema: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(&mut *visit);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(name).filter(|below| below.is_object()) {
            visit(below);
        }
    }
}

/// Removes features that version 2 lacks, and, as Kubernetes does, features that kubectl would misunderstand:
/// the properties and items of values that may be null or that preserve unknown fields.
fn limit_to_version_2(schema: &mut Value) {
    let (is_nullable, preserves) = (is(schema, "nullable"), is(schema, PRESERVE));
    let Some(fields) = schema.as_object_mut() else { return };
    for name in ["allOf", "anyOf", "oneOf", "not"] {
        fields.remove(name);
    }
    if is_nullable {
        fields.remove("type");
        fields.remove("nullable");
    }
    if is_nullable || preserves {
        fields.remove("items");
        fields.remove("properties");
    }
    let type_ = fields.get("type").and_then(Value::as_str);
    if (type_ == Some("array") && !fields.contains_key("items")) || (type_ == Some("object") && preserves) {
        fields.remove("type");
    }
    let nullable: Vec<String> = fields
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, below)| is(below, "nullable"))
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        required.retain(|name| !nullable.iter().any(|nullable| name == nullable));
        if required.is_empty() {
            fields.remove("required");
        }
    }
    if fields.get("additionalProperties").is_some_and(|any| is(any, "nullable")) {
        fields.remove("required");
    }
    each_below(fields, &mut limit_to_version_2);
}

fn add_object_fields(schema: &mut Value) {
    let properties = &mut schema["properties"];
    for (name, text) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        properties[name] = json!({"type": "string", "description": text});
    }
    properties["metadata"] = json!({
        "description": "Standard object's metadata.",
        "allOf": [{"$ref": format!("{REFERENCE}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")}],
    });
}

/// Adds to embedded resources the fields that every object has.
fn add_embedded_fields(schema: &mut Value, version: Version, is_root: bool) {
    if let Some(fields) = schema.as_object_mut() {
        each_below(fields, &mut |below| {
            // An object's metadata is a reference, which contains no embedded resources.
            if below.get("allOf").is_none_or(|all| all[0].get("$ref").is_none()) {
                add_embedded_fields(below, version, false);
            }
        });
    }
    if is_root || !is(schema, EMBEDDED) || (version == Version::Two && is(schema, PRESERVE)) {
        return;
    }
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    add_object_fields(schema);
    if !schema["required"].is_array() {
        schema["required"] = json!([]);
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(below: &Value, version: Version) -> Value {
        let mut made = schema(json!({"type": "object", "properties": {"spec": below}}), version);
        made["properties"]["spec"].take()
    }

    #[test]
    fn version_2_omits_the_properties_of_what_preserves_unknown_fields_api_6() {
        let named = json!({"dummy": {"type": "object"}});
        for (given, expected) in [
            (
                json!({"type": "object", PRESERVE: true, "description": "d", "properties": named}),
                json!({PRESERVE: true, "description": "d"}),
            ),
            (json!({"type": "array", PRESERVE: true, "items": {"type": "object"}}), json!({PRESERVE: true})),
            (json!({"type": "object", "nullable": true, "properties": named}), json!({})),
            (
                json!({"type": "object", "required": ["a", "b"], "properties": {
                    "a": {"type": "string", "nullable": true}, "b": {"type": "string", "anyOf": [{"minLength": 1}]}}}),
                json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
            ),
            (
                json!({"type": "object", "required": ["x"], "additionalProperties": {"type": "string", "nullable": true}}),
                json!({"type": "object", "additionalProperties": {}}),
            ),
            (
                json!({"type": "array", "items": {"type": "object", PRESERVE: true, EMBEDDED: true}}),
                json!({"type": "array", "items": {PRESERVE: true, EMBEDDED: true}}),
            ),
        ] {
            assert_eq!(spec(&given, Version::Two), expected, "{given}");
        }
        let root = json!({"type": "object", "description": "d", PRESERVE: true, "properties": named});
        assert_eq!(schema(root.clone(), Version::Two), json!({"type": "object"}));
        assert_eq!(schema(root, Version::Three)["properties"]["dummy"], json!({"type": "object"}));
    }

    #[test]
    fn embedded_resources_have_the_fields_of_every_object_api_6() {
        let given = json!({"type": "object", EMBEDDED: true, "required": ["kind"], "properties": {"spec": {"type": "object"}}});
        for version in [Version::Two, Version::Three] {
            let made = spec(&given, version);
            assert_eq!(made["required"], json!(["kind", "apiVersion"]));
            assert!(made["properties"]["metadata"]["allOf"][0]["$ref"].is_string(), "{made}");
            assert_eq!(made["properties"]["spec"], json!({"type": "object"}));
        }
        let preserving = json!({"type": "object", EMBEDDED: true, PRESERVE: true});
        assert!(spec(&preserving, Version::Three)["properties"]["metadata"].is_object());
    }
}
