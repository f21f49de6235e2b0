//! Derives the CustomResourceDefinition of a kind from its Rust type.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation,
};
use kube::CustomResourceExt;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Returns the definition of a kind: names, columns and subresources from `#[kube(…)]`, and the schema from the types,
/// their comments and `#[schemars(…)]`. Objects without a spec get an empty one, unless the spec has required fields; a
/// status that no controller has written yet consists of its fields' defaults.
pub(crate) fn definition<T: CustomResourceExt + JsonSchema>() -> CustomResourceDefinition {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    publish(&mut schema);
    if let Some(spec) = schema.pointer_mut("/properties/spec")
        && spec.get("required").is_none()
    {
        spec["default"] = json!({});
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("required");
        }
    }
    if let Some(status) = schema.pointer_mut("/properties/status")
        && has_defaults(status)
    {
        status["default"] = json!({});
    }
    let schema = base::json::from_value(schema).expect("a derived schema is a schema of a definition");
    let mut definition = T::crd();
    for version in &mut definition.spec.versions {
        version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(Clone::clone(&schema)) });
    }
    definition
}

fn has_defaults(schema: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().any(|(_, property)| property.get("default").is_some())
}

/// Turns a derived schema into the one that clients get. Lines of a comment become one line. An optional field has no
/// null as a value or default: a missing field stays missing.
fn publish(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    for keyword in ["$schema", "title", "nullable"] {
        fields.remove(keyword);
    }
    if fields.get("default").is_some_and(Value::is_null) {
        fields.remove("default");
    }
    if let Some(Value::String(description)) = fields.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(publish);
    }
    for below in ["items", "additionalProperties"] {
        fields.get_mut(below).into_iter().for_each(publish);
    }
    hoist(fields);
}

/// Moves a single alternative up: a derived schema wraps an optional field's type in one.
fn hoist(fields: &mut Map<String, Value>) {
    for wrapper in ["allOf", "anyOf"] {
        let Some(Value::Array(alternatives)) = fields.get(wrapper) else { continue };
        let is_null = |schema: &&Value| schema.get("enum").is_some_and(|values| *values == json!([null]));
        let mut values = alternatives.iter().filter(|schema| !is_null(schema));
        let (Some(only), None) = (values.next().cloned(), values.next()) else { continue };
        fields.remove(wrapper);
        let mut only = only;
        publish(&mut only);
        for (keyword, value) in only.as_object().into_iter().flatten() {
            fields.entry(keyword.clone()).or_insert_with(|| value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_fence::NodeFence;

    #[test]
    fn the_definition_of_a_kind_is_derived_from_its_type_api_14() {
        let definition = serde_json::to_value(definition::<NodeFence>()).unwrap();
        let version = &definition["spec"]["versions"][0];
        assert_eq!(definition["metadata"]["name"], "nodefences.podium.dev");
        assert_eq!(
            (&version["name"], &version["subresources"]),
            (&json!("v1alpha1"), &json!({"status": {}}))
        );
        let columns: Vec<String> = version["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| {
                format!("{} {} {}", column["name"], column["jsonPath"], column["priority"]).replace('"', "")
            })
            .collect();
        assert_eq!(
            columns,
            [
                "Phase .status.phase null",
                "Reason .spec.reason null",
                "Age .metadata.creationTimestamp null",
                "Message .status.conditions[?(@.type==\\Fenced\\)].message 1",
            ]
        );
        let schema = &version["schema"]["openAPIV3Schema"];
        assert_eq!(schema["required"], Value::Null);
        let spec = json!({"description": "NodeFenceSpec gives the reason for fencing a node; it is immutable.",
            "type": "object", "default": {}, "x-kubernetes-validations": [{"rule": "self == oldSelf",
                "message": "field is immutable", "reason": "FieldValueForbidden"}],
            "properties": {"reason": {"description": "reason is the reason for the fence, for users.",
                "type": "string", "maxLength": 1024}}});
        assert_eq!(schema["properties"]["spec"], spec);
        let status = &schema["properties"]["status"];
        assert_eq!(status["properties"]["startedAt"]["format"], "date-time");
        assert_eq!(status["properties"]["phase"]["enum"], json!(["Pending", "Killing", "Fenced"]));
        assert_eq!(
            (&status["default"], &status["properties"]["phase"]["default"]),
            (&json!({}), &json!("Pending"))
        );
        assert_eq!(status["properties"]["conditions"]["default"][0]["status"], "Unknown");
        assert_eq!(status["properties"]["conditions"]["items"]["required"].as_array().unwrap().len(), 5);
        assert!(!schema.to_string().contains("nullable"), "{schema}");
    }
}
