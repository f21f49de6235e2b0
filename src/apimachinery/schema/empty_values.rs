//! Removes fields with empty lists and maps: as in Kubernetes' storage, such a field is absent (protobuf has
//! no empty lists and maps). A struct stays, because its presence may have a meaning (`emptyDir: {}`), and so
//! do empty values inside of a list or a map.

use serde_json::Value;

use super::MAX_DEPTH;
use super::graph::{Shape, TypeId, graph};

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Fields for which defaults distinguish empty from absent, and validation refuses empty: `scaleUp:
/// {policies: []}`.
const SIGNIFICANT_EMPTIES: [(&str, &str); 1] = [("HPAScalingRules", "policies")];

/// Removes empty lists and maps from a document of this kind; for a custom resource, from its metadata.
pub fn drop_empties(group: &str, version: &str, kind: &str, document: &mut Value) {
    if !has_empties(document, 0) {
        return;
    }
    if let Some(root) = graph().root(group, version, kind) {
        drop_of(root, document, 0);
    } else if let Some((metadata, value)) = graph().named(METADATA).zip(document.get_mut("metadata")) {
        drop_of(metadata, value, 0);
    }
}

/// Returns true if the document has empty lists or maps. This fast check spares most documents the walk along
/// their types.
fn has_empties(value: &Value, depth: usize) -> bool {
    match value {
        _ if depth > MAX_DEPTH => false,
        Value::Object(entries) => {
            entries.is_empty() || entries.values().any(|entry| has_empties(entry, depth + 1))
        }
        Value::Array(elements) => {
            elements.is_empty() || elements.iter().any(|entry| has_empties(entry, depth + 1))
        }
        _ => false,
    }
}

fn drop_in(shape: &Shape, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match (shape, value) {
        (Shape::Object(id), value) => drop_of(*id, value, depth),
        (Shape::Map(values), Value::Object(entries)) => {
            for entry in entries.values_mut() {
                drop_in(values, entry, depth + 1);
            }
        }
        (Shape::List(items), Value::Array(elements)) => {
            for entry in elements {
                drop_in(items, entry, depth + 1);
            }
        }
        _ => {}
    }
}

fn drop_of(id: TypeId, value: &mut Value, depth: usize) {
    let Value::Object(entries) = value else { return };
    let object = graph().get(id);
    entries.retain(|name, entry| {
        let Some(field) = object.field(name) else { return true };
        drop_in(&field.shape, entry, depth + 1);
        let is_empty = match (&field.shape, entry) {
            (Shape::Map(_), Value::Object(entries)) => entries.is_empty(),
            (Shape::List(_), Value::Array(elements)) => elements.is_empty(),
            _ => false,
        };
        !is_empty || SIGNIFICANT_EMPTIES.contains(&(object.short_name(), name.as_str()))
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_maps_are_left_out_when_empty_and_structs_are_not_api_13() {
        for (group, kind, mut document, expected) in [
            (
                "",
                "Pod",
                json!({"metadata": {"labels": {}, "name": "x"}, "spec": {"nodeSelector": {}, "securityContext": {},
                    "containers": [{"resources": {"limits": {}}, "env": [], "securityContext": {"capabilities": {"add": []}}}],
                    "tolerations": [{}], "volumes": [{"emptyDir": {}}, {"configMap": {"items": []}}]}}),
                json!({"metadata": {"name": "x"}, "spec": {"securityContext": {},
                    "containers": [{"resources": {}, "securityContext": {"capabilities": {}}}],
                    "tolerations": [{}], "volumes": [{"emptyDir": {}}, {"configMap": {}}]}}),
            ),
            (
                "example.test",
                "Thing",
                json!({"metadata": {"annotations": {}, "finalizers": []}, "spec": {"map": {}, "list": []}}),
                json!({"metadata": {}, "spec": {"map": {}, "list": []}}),
            ),
            ("", "ConfigMap", json!({"data": {}, "unknown": {}}), json!({"unknown": {}})),
        ] {
            drop_empties(group, "v1", kind, &mut document);
            assert_eq!(document, expected);
        }
        let mut scaler = json!({"spec": {"behavior": {"scaleUp": {"policies": []}}, "metrics": []}});
        drop_empties("autoscaling", "v2", "HorizontalPodAutoscaler", &mut scaler);
        assert_eq!(scaler, json!({"spec": {"behavior": {"scaleUp": {"policies": []}}}}), "it is refused");
    }
}
