//! JSON merge patch (RFC 7386): null deletes, maps merge, everything else is replaced.

use serde_json::{Map, Value};

use super::PatchError;

pub(super) fn apply(current: &Value, patch: Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::BadRequest(
            "Invalid JSON Patch: the patch of an object must be an object".into(),
        ));
    };
    let mut merged = current.clone();
    merge_into(entries_of(&mut merged), patch);
    Ok(merged)
}

fn merge_into(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(&name);
            }
            Value::Object(entries) => {
                merge_into(entries_of(target.entry(name).or_insert(Value::Null)), entries);
            }
            value => {
                target.insert(name, value);
            }
        }
    }
}

/// Returns the entries of an object; anything else becomes an empty object first.
fn entries_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(entries) => entries,
        _ => unreachable!("it was made an object above"),
    }
}
