//! A JSON null inside a list or a map means the zero value, as in Go's decoder; as a field it means that the
//! field is absent.

use serde_json::{Value, json};

use super::MAX_DEPTH;
use super::graph::{Scalar, Shape, graph};

/// Replaces every null in a list or map of a document of this kind by the zero value.
pub fn fill_nulls(group: &str, version: &str, kind: &str, document: &mut Value) {
    if let Some(root) = graph().root(group, version, kind) {
        fill(&Shape::Object(root), document, 0);
    }
}

fn fill(shape: &Shape, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match (shape, value) {
        (Shape::Object(id), Value::Object(entries)) => {
            let object = graph().get(*id);
            for (name, entry) in entries.iter_mut() {
                if let Some(field) = object.field(name) {
                    fill(&field.shape_of(object, entry), entry, depth + 1);
                }
            }
        }
        (Shape::Map(values), Value::Object(entries)) => {
            for entry in entries.values_mut() {
                element(values, entry, depth + 1);
            }
        }
        (Shape::List(items), Value::Array(elements)) => {
            for entry in elements {
                element(items, entry, depth + 1);
            }
        }
        _ => {}
    }
}

fn element(shape: &Shape, entry: &mut Value, depth: usize) {
    if entry.is_null() {
        *entry = zero(shape);
    } else {
        fill(shape, entry, depth);
    }
}

fn zero(shape: &Shape) -> Value {
    match shape {
        // Arbitrary JSON may be null, and a time has no zero in JSON but null.
        Shape::Any | Shape::Scalar(Scalar::Time | Scalar::MicroTime) => Value::Null,
        Shape::Scalar(Scalar::String | Scalar::Bytes) => json!(""),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString) => json!(0),
        Shape::Scalar(Scalar::Bool) => json!(false),
        Shape::Scalar(Scalar::Quantity) => json!("0"),
        Shape::Object(_) | Shape::Map(_) => json!({}),
        Shape::List(_) => json!([]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: each was refused with `invalid type: null, expected a string`.
    #[test]
    fn nulls_in_lists_and_maps_are_zero_values_api_8() {
        let filled = |kind: &str, mut document: Value| {
            fill_nulls("", "v1", kind, &mut document);
            document
        };
        assert_eq!(
            filled(
                "ConfigMap",
                json!({"metadata": {"labels": {"a": null}, "annotations": {"b": null, "c": "d"},
                "finalizers": [null]}, "data": {"A": "x", "B": null}, "binaryData": {"C": null}, "immutable": null})
            ),
            json!({"metadata": {"labels": {"a": ""}, "annotations": {"b": "", "c": "d"}, "finalizers": [""]},
                "data": {"A": "x", "B": ""}, "binaryData": {"C": ""}, "immutable": null})
        );
        assert_eq!(
            filled(
                "Pod",
                json!({"spec": {"containers": [null, {"name": "a", "args": [null, "x"],
                "resources": {"limits": {"cpu": null}}, "env": null}], "volumes": null}})
            ),
            json!({"spec": {"containers": [{}, {"name": "a", "args": ["", "x"], "resources": {"limits": {"cpu": "0"}},
                "env": null}], "volumes": null}})
        );
        let mut definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"x": null},
            "items": {"properties": {"y": null}}, "additionalProperties": {"allOf": [null]}}}}]}});
        fill_nulls("apiextensions.k8s.io", "v1", "CustomResourceDefinition", &mut definition);
        assert_eq!(
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
            json!({"properties": {"x": {}}, "items": {"properties": {"y": {}}}, "additionalProperties": {"allOf": [{}]}})
        );
        let unknown = json!({"x": {"y": [null]}});
        assert_eq!(filled("Pod", unknown.clone()), unknown);
    }
}
