//! OpenAPI version 2, derived from the documents of version 3: one document of everything.

use serde_json::{Map, Value, json};

use base::sort::CollectMap;

/// The document up to its first path; `VERSION` stands for Kubernetes' version.
pub(super) const HEAD: &str =
    r#"{"swagger":"2.0","info":{"title":"Kubernetes","version":"VERSION"},"paths":{"#;
/// The text between the last path and the first definition.
pub(super) const BETWEEN: &str = r#"},"definitions":{"#;
/// The text after the last definition.
pub(super) const TAIL: &str = r#"},"securityDefinitions":{"BearerToken":{"type":"apiKey","description":"Bearer Token authentication","name":"authorization","in":"header"}},"security":[{"BearerToken":[]}]}"#;

/// Converts a document of version 3: passes each path to `put_path`, and adds its schemas to `definitions`.
pub(super) fn convert(
    mut document: Value,
    mut put_path: impl FnMut(&str, &Value),
    definitions: &mut Map<String, Value>,
) {
    if let Value::Object(items) = document["paths"].take() {
        for (path, item) in items {
            put_path(&path, &path_item(item));
        }
    }
    if let Value::Object(schemas) = document["components"]["schemas"].take() {
        // A kind's own document has more details (its GroupVersionKind) than one that only refers to it.
        for (name, new) in schemas {
            let better = |old: &Value| old.get("x-kubernetes-group-version-kind").is_none();
            if definitions.get(&name).is_none_or(better) {
                definitions.insert(name, schema(new));
            }
        }
    }
}

fn path_item(item: Value) -> Value {
    let Value::Object(entries) = item else { return item };
    let convert = |(name, value): (String, Value)| {
        let value = if name == "parameters" { parameters(value) } else { operation(value) };
        (name, value)
    };
    Value::Object(entries.into_iter().map(convert).collect_map())
}

fn operation(operation: Value) -> Value {
    let Value::Object(mut entries) = operation else { return operation };
    let mut all = Vec::new();
    if let Some(mut body) = entries.remove("requestBody") {
        let required = body["required"].take();
        if let Value::Object(content) = body["content"].take() {
            entries.insert("consumes".into(), content.keys().cloned().collect());
            if let Some(mut first) = content.into_iter().next().map(|(_, media)| media) {
                let schema = schema(first["schema"].take());
                all.push(json!({"in": "body", "name": "body", "required": required, "schema": schema}));
            }
        }
    }
    if let Some(Value::Array(rest)) = entries.remove("parameters").map(parameters) {
        all.extend(rest);
    }
    if !all.is_empty() {
        entries.insert("parameters".into(), Value::Array(all));
    }
    entries.insert("produces".into(), json!(["application/json"]));
    if let Some(Value::Object(responses)) = entries.get_mut("responses") {
        for response in responses.values_mut() {
            let Some(content) = response.as_object_mut().and_then(|r| r.remove("content")) else {
                continue;
            };
            if let Some(media) = content.as_object().and_then(|c| c.values().next()) {
                response["schema"] = schema(media["schema"].clone());
            }
        }
    }
    Value::Object(entries)
}

/// Converts parameters: version 2 has their type beside their name, not in a schema.
fn parameters(parameters: Value) -> Value {
    let Value::Array(mut list) = parameters else { return parameters };
    for parameter in &mut list {
        let Some(entries) = parameter.as_object_mut() else { continue };
        if let Some(Value::Object(schema)) = entries.remove("schema") {
            entries.extend(schema);
        }
    }
    Value::Array(list)
}

/// Converts a schema: no `allOf` around references, no `oneOf`; references have another prefix.
fn schema(value: Value) -> Value {
    match value {
        Value::Object(mut entries) => {
            if let Some(Value::Array(mut only)) = entries.remove("allOf")
                && let Some(Value::Object(reference)) = only.pop()
            {
                entries.remove("default");
                entries.extend(reference);
            }
            if entries.remove("oneOf").is_some() {
                entries.insert("type".into(), "string".into());
            }
            entries.remove("nullable");
            let convert = |(name, value): (String, Value)| match value {
                // The keys here are field names, which may be any word.
                Value::Object(fields) if name == "properties" => {
                    let turned = fields.into_iter().map(|(field, value)| (field, schema(value)));
                    (name, Value::Object(turned.collect_map()))
                }
                // These are values, not schemas.
                value if matches!(name.as_str(), "default" | "enum" | "example") => (name, value),
                Value::String(text) if name == "$ref" => {
                    (name, Value::String(text.replace(super::reference::REFERENCE, "#/definitions/")))
                }
                value => (name, schema(value)),
            };
            Value::Object(entries.into_iter().map(convert).collect_map())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(schema).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_may_have_the_name_of_a_part_of_schemas_api_14() {
        let given = json!({"type": "object", "properties": {
            "oneOf": {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/X"}], "default": {}}},
            "allOf": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            "properties": {"type": "object", "nullable": true},
            "nullable": {"type": "boolean", "default": {"oneOf": 1}}}});
        let expected = json!({"type": "object", "properties": {
            "oneOf": {"type": "array", "items": {"$ref": "#/definitions/X"}},
            "allOf": {"type": "string"},
            "properties": {"type": "object"},
            "nullable": {"type": "boolean", "default": {"oneOf": 1}}}});
        assert_eq!(schema(given), expected);
    }
}
