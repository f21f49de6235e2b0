//! The changed part of a structured value, for errors about changes that are refused.
//!
//! For an immutable field, Kubernetes shows the whole value: for a pod template, a page of defaults. Podium shows it as
//! JSON, as current versions of Kubernetes do, but only the parts that differ.

use serde_json::{Map, Value};

use base::sort::CollectMap;

/// Returns the part of `new` that differs from `old`, with `null` for removed parts. Elements of a list keep their
/// name, so that the message identifies them.
pub fn changed_part(new: &Value, old: &Value) -> Value {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            let removed =
                old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
            let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(*value));
            let changed = changed.map(|(key, value)| {
                (
                    key.clone(),
                    old.get(key).map_or_else(|| value.clone(), |before| changed_part(value, before)),
                )
            });
            Value::Object(changed.chain(removed).collect_map())
        }
        (Value::Array(new), Value::Array(old)) if new.len() == old.len() => {
            let changed = new.iter().zip(old).filter(|(new, old)| new != old);
            Value::Array(changed.map(|(new, old)| named(new, changed_part(new, old))).collect())
        }
        _ => new.clone(),
    }
}

/// Returns the part of an element together with the element's name.
fn named(whole: &Value, part: Value) -> Value {
    let Some(name) = whole.get("name") else { return part };
    match part {
        Value::Object(part) => {
            let mut all = Map::new();
            all.insert("name".into(), name.clone());
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
