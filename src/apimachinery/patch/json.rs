//! JSON patch (RFC 6902).

use json_patch::PatchOperation;
use json_patch::jsonptr::{Pointer, PointerBuf};
use serde_json::Value;

use super::PatchError;

/// The API server's limit; `test` and `copy` make long patches costly.
const MAX_OPERATIONS: usize = 10_000;

/// The limit on the bytes that all `copy` operations copy, as in the API server's patch library: a chain of
/// copies doubles a document each time.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

pub(super) fn apply(current: &Value, patch: Value) -> Result<Value, PatchError> {
    if let Value::Array(operations) = &patch
        && operations.len() > MAX_OPERATIONS
    {
        let count = operations.len();
        let text = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
        return Err(PatchError::TooLarge(text));
    }
    let patch: json_patch::Patch = base::json::from_value(patch)
        .map_err(|e| PatchError::BadRequest(format!("error decoding patch: {e}")))?;
    let mut patched = current.clone();
    let mut copied = 0;
    // One by one, so that the size is checked between operations.
    for mut operation in patch.0 {
        replace_negative_indexes(&mut operation, &patched);
        if let PatchOperation::Copy(copy) = &operation {
            copied += copy.from.resolve(&patched).map_or(0, weight);
            if copied > MAX_COPIED_BYTES {
                return Err(PatchError::TooLarge(format!("limit is {MAX_COPIED_BYTES}")));
            }
        }
        if let PatchOperation::Test(test) = &operation
            && is_absent(&patched, test)
        {
            // An absent field is null, as in the API server's patch library: clients that add the first
            // finalizer or label test for that.
            if test.value.is_null() {
                continue;
            }
            return Err(refused(&operation, &json_patch::PatchErrorKind::TestFailed));
        }
        json_patch::patch(&mut patched, std::slice::from_ref(&operation))
            .map_err(|e| refused(&operation, &e.kind))?;
    }
    Ok(patched)
}

/// Replaces negative indexes, which RFC 6902 does not have and the API server's patch library has: -1 is the last element
/// of a list, or the place after it if the operation adds an element.
fn replace_negative_indexes(operation: &mut PatchOperation, document: &Value) {
    use PatchOperation::{Add, Copy, Move, Remove, Replace, Test};
    match operation {
        Add(o) => o.path = with_positions(&o.path, document, 1),
        Remove(o) => o.path = with_positions(&o.path, document, 0),
        Replace(o) => o.path = with_positions(&o.path, document, 0),
        Test(o) => o.path = with_positions(&o.path, document, 0),
        Copy(o) => {
            o.from = with_positions(&o.from, document, 0);
            o.path = with_positions(&o.path, document, 1);
        }
        Move(o) => {
            o.from = with_positions(&o.from, document, 0);
            let path = with_positions(&o.path, document, 1);
            // The removal shortens a list within which an element moves.
            let is_same_list = o.from.parent() == path.parent();
            o.path = if is_same_list { with_positions(&o.path, document, 0) } else { path };
        }
    }
}

/// Returns the path with positions instead of negative indexes; `places_after` is the number of places after the last
/// element that the path may name.
fn with_positions(path: &Pointer, document: &Value, places_after: usize) -> PointerBuf {
    let mut result = PointerBuf::new();
    let mut parent = Some(document);
    let mut remaining = path.count();
    for token in path.tokens() {
        remaining -= 1;
        let after = if remaining == 0 { places_after } else { 0 };
        let negative = token.decoded().parse::<isize>().ok().filter(|index| *index < 0);
        let list = parent.and_then(Value::as_array);
        let position =
            list.zip(negative).and_then(|(list, index)| (list.len() + after).checked_add_signed(index));
        match position {
            Some(position) => result.push_back(position.to_string()),
            None => result.push_back(token),
        }
        parent = result.resolve(document).ok();
    }
    result
}

/// Returns true if a test refers to an absent field of an existing object.
fn is_absent(document: &Value, test: &json_patch::TestOperation) -> bool {
    let Some((parent, _)) = test.path.split_back() else { return false };
    test.path.resolve(document).is_err() && parent.resolve(document).is_ok_and(Value::is_object)
}

fn refused(operation: &PatchOperation, kind: &json_patch::PatchErrorKind) -> PatchError {
    use PatchOperation::{Add, Copy, Move, Remove, Replace, Test};
    use json_patch::PatchErrorKind::TestFailed;
    let (name, path) = match operation {
        Add(o) => ("add", &o.path),
        Remove(o) => ("remove", &o.path),
        Replace(o) => ("replace", &o.path),
        Move(o) => ("move", &o.path),
        Copy(o) => ("copy", &o.path),
        Test(o) => ("test", &o.path),
    };
    match kind {
        TestFailed => PatchError::TestFailed(format!("testing value {path} failed: test failed")),
        kind => {
            let text = format!("{name} operation does not apply: doc is missing path: {path}: {kind}");
            PatchError::Unprocessable(text)
        }
    }
}

/// Returns the approximate size of a document in bytes.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => elements.iter().map(weight).sum::<usize>() + 2,
        Value::Object(entries) => entries.iter().map(|(k, v)| k.len() + 4 + weight(v)).sum::<usize>() + 2,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// kube-rs adds the first finalizer only where `test` says that there is none, as evanphx/json-patch takes it.
    #[test]
    fn a_field_that_is_not_there_is_null_to_a_test_api_2() {
        let current = json!({"metadata": {"name": "x", "empty": null}, "list": []});
        for (path, value, expected) in [
            ("/metadata/finalizers", json!(null), ""),
            ("/metadata/empty", json!(null), ""),
            ("/metadata/name", json!("x"), ""),
            ("/metadata/name", json!(null), "testing value /metadata/name failed: test failed"),
            ("/metadata/finalizers", json!([]), "testing value /metadata/finalizers failed: test failed"),
            ("/spec/replicas", json!(null), "doc is missing path: /spec/replicas"),
            ("/list/0", json!(null), "doc is missing path: /list/0"),
        ] {
            let patch = json!([{"op": "test", "path": path, "value": value},
                {"op": "add", "path": "/done", "value": true}]);
            let message = match apply(&current, patch) {
                Ok(patched) => {
                    assert_eq!(patched["done"], true);
                    String::new()
                }
                Err(PatchError::TestFailed(text) | PatchError::Unprocessable(text)) => text,
                Err(other) => panic!("{other:?}"),
            };
            assert!(
                if expected.is_empty() { message.is_empty() } else { message.contains(expected) },
                "{path}: {message}"
            );
        }
    }

    /// Regression: indexes from the end of a list were refused.
    #[test]
    fn negative_indexes_count_from_the_end_api_2() {
        let current = json!({"list": [1, 2, {"deep": [3]}], "-1": "key", "empty": []});
        for (operation, path, expected) in [
            (json!({"op": "remove", "path": "/list/-1"}), "/list", Some(json!([1, 2]))),
            (json!({"op": "replace", "path": "/list/-2", "value": 9}), "/list/1", Some(json!(9))),
            (json!({"op": "add", "path": "/list/-1", "value": 9}), "/list/3", Some(json!(9))),
            (json!({"op": "add", "path": "/list/-4", "value": 9}), "/list/0", Some(json!(9))),
            (
                json!({"op": "add", "path": "/list/-1/deep/-1", "value": 4}),
                "/list/2/deep",
                Some(json!([3, 4])),
            ),
            (json!({"op": "test", "path": "/list/-3", "value": 1}), "/list/0", Some(json!(1))),
            (json!({"op": "copy", "from": "/list/-2", "path": "/empty/-1"}), "/empty", Some(json!([2]))),
            (json!({"op": "move", "from": "/list/-3", "path": "/empty/0"}), "/empty", Some(json!([1]))),
            (json!({"op": "move", "from": "/list/0", "path": "/empty/-1"}), "/empty", Some(json!([1]))),
            (
                json!({"op": "move", "from": "/list/0", "path": "/list/-1"}),
                "/list",
                Some(json!([2, {"deep": [3]}, 1])),
            ),
            (json!({"op": "replace", "path": "/-1", "value": 9}), "/-1", Some(json!(9))),
            (json!({"op": "remove", "path": "/list/-4"}), "", None),
            (json!({"op": "add", "path": "/list/-5", "value": 9}), "", None),
        ] {
            let patched = apply(&current, json!([operation])).ok();
            let found = patched.as_ref().and_then(|patched| patched.pointer(path)).cloned();
            assert_eq!(found, expected, "{operation}");
        }
    }
}
