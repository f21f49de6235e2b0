//! Looks up the part of a schema that covers a field.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrBool,
};

/// Fields that every object has, and every embedded resource; their schemas are implied.
pub(super) const OF_EVERY_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The part of a schema that covers a field.
pub(super) enum FieldSchema<'a> {
    /// `properties` names it.
    Named(&'a JSONSchemaProps),
    /// `additionalProperties` covers it: with a schema, or with a bool.
    Additional(Option<&'a JSONSchemaProps>),
    /// Nothing covers it.
    Unknown,
}

impl<'a> FieldSchema<'a> {
    /// Finds the field in a schema.
    pub(super) fn of(schema: &'a JSONSchemaProps, field: &str) -> Self {
        if let Some(named) = schema.properties.as_ref().and_then(|properties| properties.get(field)) {
            return Self::Named(named);
        }
        match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(any)) => Self::Additional(Some(any)),
            Some(JSONSchemaPropsOrBool::Bool(_)) => Self::Additional(None),
            None => Self::Unknown,
        }
    }
}

/// Returns whether objects keep fields that the schema does not cover.
pub(super) fn preserves(schema: &JSONSchemaProps) -> bool {
    schema.x_kubernetes_preserve_unknown_fields == Some(true)
}

/// Returns whether values are whole objects, with metadata.
pub(super) fn is_embedded(schema: &JSONSchemaProps) -> bool {
    schema.x_kubernetes_embedded_resource == Some(true)
}
