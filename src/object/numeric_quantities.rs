//! Quantities given as numbers (`cpu: 1`, `memory: 1e9`), which JSON clients and YAML authors may send.
//!
//! The typed objects hold quantities as text, so this runs on the JSON before it is decoded. Texts that are no
//! quantity stay as they are: validation reports them.

use serde_json::Value;

use super::Kind;
use super::quantity::Amount;

/// Fields that are a map of resource names to quantities, in any kind.
const LISTS: &[&str] =
    &["limits", "requests", "capacity", "allocatable", "overhead", "allocatedResources", "hard", "used"];

/// Fields that are such a map in limit ranges.
const BOUNDS: &[&str] = &["default", "defaultRequest", "max", "min", "maxLimitRequestRatio"];

/// Fields that are one quantity in autoscalers.
const MEASURES: &[&str] = &["averageValue", "tolerance", "value"];

/// Fields that are one quantity in lists of devices.
const DEVICES: &[&str] = &["value", "default", "min", "max", "step"];

/// Fields that are one quantity, in any kind.
const SINGLE: &[&str] = &["sizeLimit", "divisor"];

/// The deepest nesting searched; deeper objects are refused by other checks.
const MAX_DEPTH: usize = 100;

/// Turns numbers into texts in all fields that hold quantities.
pub(super) fn quantities_as_text(kind: Kind, object: &mut Value) {
    // Neither kind has quantities in these fields: a schema has properties of these names, and a CSINode has the count
    // of volumes that a driver can attach.
    if matches!(kind, Kind::CustomResourceDefinition | Kind::CSINode) {
        return;
    }
    let fields = Fields {
        lists: match kind {
            Kind::LimitRange => BOUNDS,
            Kind::RuntimeClass => &["podFixed"],
            _ => &[],
        },
        single: match kind {
            Kind::HorizontalPodAutoscaler => MEASURES,
            Kind::ResourceSlice => DEVICES,
            _ => &[],
        },
    };
    if kind == Kind::CSIStorageCapacity {
        for field in ["capacity", "maximumVolumeSize"] {
            object.get_mut(field).into_iter().for_each(as_text);
        }
    }
    // Free-form maps (data, labels, annotations) are skipped: their keys belong to the user.
    for part in ["spec", "status", "template", "overhead"] {
        if let Some(value) = object.get_mut(part) {
            visit(value, &fields, 0);
        }
    }
}

/// The fields of one kind in addition to those of every kind.
struct Fields {
    lists: &'static [&'static str],
    single: &'static [&'static str],
}

fn visit(value: &mut Value, of_kind: &Fields, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, of_kind, depth + 1)),
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.as_str();
                match field {
                    Value::Object(list) if LISTS.contains(&name) || of_kind.lists.contains(&name) => {
                        for value in list.values_mut() {
                            as_text(value);
                            visit(value, of_kind, depth + 1);
                        }
                    }
                    Value::Number(_) if SINGLE.contains(&name) || of_kind.single.contains(&name) => {
                        as_text(field);
                    }
                    // The policies of an autoscaler have whole numbers.
                    _ if matches!(name, "labels" | "annotations" | "nodeSelector" | "policies") => {}
                    _ => visit(field, of_kind, depth + 1),
                }
            }
        }
        _ => {}
    }
}

fn as_text(value: &mut Value) {
    if let Value::Number(number) = value {
        let text = number.to_string();
        *value = Value::String(Amount::parse(&text).map_or(text, |amount| amount.to_decimal().0));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_become_quantities_where_quantities_stand_api_8() {
        let mut pod = json!({"metadata": {"labels": {"limits": "x"}}, "spec": {"replicas": 3, "containers": [
            {"resources": {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": 0.5}}}],
            "volumes": [{"emptyDir": {"sizeLimit": 1000}}]}});
        quantities_as_text(Kind::Pod, &mut pod);
        assert_eq!(
            pod["spec"],
            json!({"replicas": 3, "containers": [
                {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}],
                "volumes": [{"emptyDir": {"sizeLimit": "1k"}}]})
        );
    }

    /// Regression: in Contour's definitions a property named `requests` had its bounds turned into texts.
    #[test]
    fn a_schemas_properties_are_no_quantities_api_14() {
        let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties":
            {"requests": {"minimum": 1}, "limits": {"maximum": 9, "value": 1}}}}}]}});
        let mut read = definition.clone();
        quantities_as_text(Kind::CustomResourceDefinition, &mut read);
        assert_eq!(read, definition);
    }

    #[test]
    fn some_kinds_have_quantities_of_their_own_api_8() {
        let mut range =
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": 2}, "default": {"cpu": 0.5}}]}});
        quantities_as_text(Kind::LimitRange, &mut range);
        assert_eq!(
            range["spec"]["limits"][0],
            json!({"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "500m"}})
        );
        let mut scaler = json!({"spec": {"maxReplicas": 5, "behavior": {"scaleUp": {"tolerance": 0.05,
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}},
            "metrics": [{"resource": {"target": {"averageValue": 1, "averageUtilization": 50}}}]}});
        quantities_as_text(Kind::HorizontalPodAutoscaler, &mut scaler);
        assert_eq!(
            scaler["spec"],
            json!({"maxReplicas": 5, "behavior": {"scaleUp": {"tolerance": "50m",
                "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}},
                "metrics": [{"resource": {"target": {"averageValue": "1", "averageUtilization": 50}}}]})
        );
    }
}
