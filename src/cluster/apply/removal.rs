//! Deletions for a three-way strategic merge patch: fields that an applied manifest no longer has.
//!
//! A field, map key or list element that the last applied manifest had and the new one lacks is removed; fields that
//! others have added stay.

use serde_json::{Map, Value, json};

use apimachinery::schema::{Shape, TypeId, graph};
use object::ServedKind;

/// Returns the new manifest as a strategic merge patch (for a custom resource, a merge patch) that also removes fields
/// that only the last manifest had.
pub(super) fn patch(served: ServedKind, last: &Value, new: &Value) -> Value {
    let root = graph().root(served.group(), served.version(), served.kind().info().name);
    let mut patch = new.clone();
    if served.kind().is_custom() {
        remove_plain(last, &mut patch);
        return patch;
    }
    if let (Some(root), Value::Object(last), Value::Object(patch)) = (root, last, &mut patch) {
        remove_fields(&Shape::Object(root), last, patch);
    }
    patch
}

/// Adds the deletions for a kind whose lists are replaced as wholes (a JSON merge patch).
fn remove_plain(last: &Value, patch: &mut Value) {
    let (Value::Object(last), Value::Object(patch)) = (last, patch) else { return };
    for (name, old) in last {
        match patch.get_mut(name) {
            Some(new) => remove_plain(old, new),
            None => drop(patch.insert(name.clone(), Value::Null)),
        }
    }
}

/// The shape and, for lists that merge, the merge key of a field.
fn field(shape: &Shape, name: &str) -> Option<(Shape, Option<&'static str>)> {
    match shape {
        Shape::Object(id) => field_of(*id, name),
        Shape::Map(value) => Some(((**value).clone(), None)),
        _ => None,
    }
}

fn field_of(id: TypeId, name: &str) -> Option<(Shape, Option<&'static str>)> {
    let field = graph().get(id).field(name)?;
    let key = field.merge.strategy.merges().then_some(field.merge.merge_key).filter(|key| !key.is_empty());
    Some((field.shape.clone(), key))
}

fn remove_fields(shape: &Shape, last: &Map<String, Value>, patch: &mut Map<String, Value>) {
    for (name, old) in last {
        let Some(new) = patch.get_mut(name) else {
            // A null deletes the field.
            patch.insert(name.clone(), Value::Null);
            continue;
        };
        let Some((shape, merge_key)) = field(shape, name) else { continue };
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => remove_fields(&shape, old, new),
            (Value::Array(old), Value::Array(new)) => {
                if let (Shape::List(element), Some(key)) = (&shape, merge_key) {
                    remove_elements(element, key, old, new);
                }
            }
            _ => {}
        }
    }
}

fn remove_elements(element: &Shape, key: &str, old: &[Value], new: &mut Vec<Value>) {
    for old in old.iter().filter_map(Value::as_object) {
        let Some(identity) = old.get(key) else { continue };
        let found = new.iter_mut().filter_map(Value::as_object_mut).find(|e| e.get(key) == Some(identity));
        match found {
            Some(retained) => remove_fields(element, old, retained),
            None => new.push(json!({"$patch": "delete", key: identity})),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apimachinery::patch::{PatchType, apply_patch_value};
    use object::Kind;

    #[test]
    fn fields_gone_from_the_manifest_are_removed_and_those_of_others_stay_cli_4() {
        let last = json!({"metadata": {"labels": {"a": "1", "gone": "x"}}, "spec": {"paused": true, "template": {"spec":
            {"containers": [{"name": "web", "image": "nginx:1", "args": ["x"]}, {"name": "old", "image": "o"}]}}}});
        let new = json!({"metadata": {"labels": {"a": "2"}}, "spec": {"template": {"spec":
            {"containers": [{"name": "web", "image": "nginx:2"}]}}}});
        let current = json!({"metadata": {"labels": {"a": "1", "gone": "x", "theirs": "y"}},
            "spec": {"paused": true, "replicas": 7, "template": {"spec": {"containers": [
                {"name": "web", "image": "nginx:1", "args": ["x"], "imagePullPolicy": "Always"},
                {"name": "old", "image": "o"}, {"name": "injected", "image": "i"}]}}}});
        let patch = patch(Kind::Deployment.into(), &last, &new);
        let result = apply_patch_value(Kind::Deployment, PatchType::StrategicMerge, &current, patch).unwrap();
        assert_eq!(
            result,
            json!({"metadata": {"labels": {"a": "2", "theirs": "y"}},
            "spec": {"replicas": 7, "template": {"spec": {"containers": [
                {"name": "web", "image": "nginx:2", "imagePullPolicy": "Always"},
                {"name": "injected", "image": "i"}]}}}})
        );
    }
}
