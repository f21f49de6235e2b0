//! Quantities given as numbers (`cpu: 1`, `memory: 1e9`), which JSON clients and YAML authors may send.
//!
//! The typed objects hold quantities as text, so this runs on the JSON before it is read. Texts that are no
//! quantity stay as they are: validation names them.

use serde_json::Value;

use super::quantity::Amount;

/// Fields that are a map of resource names to quantities, in any kind.
const LISTS: &[&str] =
    &["limits", "requests", "capacity", "allocatable", "overhead", "allocatedResources", "hard", "used"];

/// Fields that are one quantity, in any kind.
const SINGLE: &[&str] = &["sizeLimit", "divisor"];

/// How deep an object may nest; deeper ones are refused elsewhere.
const MAX_DEPTH: usize = 100;

/// Turns numbers into texts wherever the API has quantities.
pub(super) fn quantities_as_text(object: &mut Value) {
    // Free-form maps (data, labels, annotations) are not looked into: their keys are the user's.
    for part in ["spec", "status", "template"] {
        if let Some(value) = object.get_mut(part) {
            visit(value, 0);
        }
    }
}

fn visit(value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, depth + 1)),
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::Object(list) if LISTS.contains(&name.as_str()) => {
                        list.values_mut().for_each(as_text);
                    }
                    Value::Number(_) if SINGLE.contains(&name.as_str()) => as_text(field),
                    Value::Object(_)
                        if matches!(name.as_str(), "labels" | "annotations" | "nodeSelector") => {}
                    _ => visit(field, depth + 1),
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
        quantities_as_text(&mut pod);
        assert_eq!(
            pod["spec"],
            json!({"replicas": 3, "containers": [
                {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}],
                "volumes": [{"emptyDir": {"sizeLimit": "1k"}}]})
        );
    }
}
