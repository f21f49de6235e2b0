//! The part of a structured value that a refused change is about.
//!
//! Kubernetes shows the whole value where a field is immutable, which for a pod template is a page of defaults
//! that nobody wrote. Here it is shown as JSON, as today's Kubernetes does, and cut to what differs.

use serde_json::{Map, Value};

/// What of `new` is not as in `old`; `null` where something is gone. Elements of a list keep their name, so
/// that the message can name them.
pub(crate) fn changed_part(new: &Value, old: &Value) -> Value {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
            let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(*value));
            let changed = changed.map(|(key, value)| {
                (
                    key.clone(),
                    old.get(key).map_or_else(|| value.clone(), |before| changed_part(value, before)),
                )
            });
            Value::Object(changed.chain(gone).collect())
        }
        (Value::Array(new), Value::Array(old)) if new.len() == old.len() => {
            let changed = new.iter().zip(old).filter(|(new, old)| new != old);
            Value::Array(changed.map(|(new, old)| named(new, changed_part(new, old))).collect())
        }
        _ => new.clone(),
    }
}

/// The part of an element with the name that the whole has.
fn named(whole: &Value, part: Value) -> Value {
    let Some(name) = whole.get("name") else { return part };
    match part {
        Value::Object(part) => {
            let mut all = Map::from_iter([("name".to_string(), name.clone())]);
            all.extend(part);
            Value::Object(all)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_shows_what_changed_and_where_api_5() {
        let old = json!({"spec": {"restartPolicy": "Never", "nodeName": "n1",
            "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "args": ["x"]}]}});
        for (rule, patch, expected) in [
            (
                "a value",
                json!({"spec": {"restartPolicy": "OnFailure"}}),
                json!({"spec": {"restartPolicy": "OnFailure"}}),
            ),
            (
                "one that is new",
                json!({"metadata": {"labels": {"a": "b"}}}),
                json!({"metadata": {"labels": {"a": "b"}}}),
            ),
            ("one that is gone", json!({"spec": {"nodeName": null}}), json!({"spec": {"nodeName": null}})),
            (
                "an element",
                json!({"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j", "args": ["x"]}]}}),
                json!({"spec": {"containers": [{"name": "b", "image": "j"}]}}),
            ),
            (
                "another number of them",
                json!({"spec": {"containers": [{"name": "a", "image": "i"}]}}),
                json!({"spec": {"containers": [{"name": "a", "image": "i"}]}}),
            ),
            ("nothing", json!({}), json!({})),
        ] {
            let mut new = old.clone();
            json_patch::merge(&mut new, &patch);
            assert_eq!(changed_part(&new, &old), expected, "{rule}");
        }
    }
}
