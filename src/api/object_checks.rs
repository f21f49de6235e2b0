//! Converts violations of objects' rules to errors of the API, and limits the size of objects.

use k8s_openapi::api::core::v1::Binding;
use serde_json::Value;

use super::{ApiError, Cause};
use apimachinery::validate::{FieldError, FieldErrors, Path};
use kinds::{binding_errors, new_event_errors};
use object::{Kind, Object};

/// The limit on one object's size as JSON: etcd's request limit, `--max-request-bytes`. Lists in a spec may
/// be as long as fits.
pub const MAX_OBJECT_BYTES: usize = 1536 * 1024;

/// Refuses an object that is too large, unless its former version was too large already and the object does
/// not grow.
pub(super) fn check_size(new: &Object, old: Option<&Object>) -> Result<(), ApiError> {
    new.hold_json();
    let bytes = new.size();
    if bytes > MAX_OBJECT_BYTES && old.is_none_or(|old| bytes > old.size()) {
        Err(too_large())
    } else {
        Ok(())
    }
}

/// Returns the refusal of an object larger than [`MAX_OBJECT_BYTES`], as etcd words it.
pub fn too_large() -> ApiError {
    ApiError::TooLarge("etcdserver: request is too large".into())
}

/// The limit on the number of parts of one object: elements of its lists, and objects within it. Kubernetes
/// has no such limit; here the code that reads, compares and copies objects shares memory with everything
/// else, and `{}` is three bytes as text and thousands as a volume. The largest object that Kubernetes itself
/// creates, an EndpointSlice of a thousand endpoints, has half as many.
pub const MAX_PARTS: usize = 20_000;

/// Refuses an object with too many parts. The fields in managedFields count as parts too.
pub fn check_parts(value: &Value) -> Result<(), ApiError> {
    let entries = value.pointer("/metadata/managedFields").and_then(Value::as_array);
    let mut rest = usize::MAX;
    for fields in entries.into_iter().flatten().filter_map(|entry| entry.get("fieldsV1")) {
        count_off(fields, &mut rest);
    }
    let mut left = MAX_PARTS + (usize::MAX - rest);
    if count_off(value, &mut left) { Ok(()) } else { Err(too_many_parts()) }
}

/// Deducts the value's parts from `left`; false if there are more.
fn count_off(value: &Value, left: &mut usize) -> bool {
    let mut take = |parts: usize| {
        let enough = parts <= *left;
        *left = left.saturating_sub(parts);
        enough
    };
    match value {
        Value::Array(elements) => {
            take(elements.len()) && elements.iter().all(|element| count_off(element, left))
        }
        Value::Object(fields) => take(1) && fields.values().all(|field| count_off(field, left)),
        _ => true,
    }
}

/// Returns the refusal of an object with more than [`MAX_PARTS`].
pub fn too_many_parts() -> ApiError {
    ApiError::TooLarge(format!("the object has more than {MAX_PARTS} objects and list elements"))
}

/// Refuses an invalid binding of a pod.
pub(super) fn check_binding(binding: &Binding, pod: &str) -> Result<(), ApiError> {
    refuse_if(Kind::Pod, pod, binding_errors(binding))
}

/// Refuses a new event in the form of events.k8s.io that breaks that form's rules.
pub fn check_new_event(object: &Object) -> Result<(), ApiError> {
    refuse(object, new_event_errors(object))
}

/// Refuses the object if there are errors.
pub fn refuse(object: &Object, errors: Vec<FieldError>) -> Result<(), ApiError> {
    refuse_if(object.kind(), object.name(), errors)
}

fn refuse_if(kind: Kind, name: &str, errors: Vec<FieldError>) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let causes = errors.into_iter().map(Cause::from).collect();
    Err(ApiError::Invalid { kind, name: name.into(), causes })
}

/// Refuses a negative scale.
pub fn check_scale(name: &str, replicas: i32) -> Result<(), ApiError> {
    let mut errors = FieldErrors::default();
    errors.non_negative(&Path::root("spec.replicas"), replicas);
    errors.refuse_request("Scale", "autoscaling", name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An object nested deeper than the store can read would be lost at the next start, as damaged.
    #[tokio::test(start_paused = true)]
    async fn an_object_nested_too_deeply_is_not_stored_safe_10() {
        let api = crate::test_api::api(&["n"]);
        let options = crate::WriteOptions::default();
        for (levels, code) in [(90, None), (120, Some(400))] {
            let data = (0..levels).fold(json!({}), |data, _| json!({"a": data}));
            let revision = json!({"metadata": {"name": format!("r{levels}"), "namespace": "n"}, "data": data, "revision": 1});
            let made = api.create(Object::from_value(Kind::ControllerRevision, revision).unwrap(), &options);
            assert_eq!(made.err().map(|error| error.code()), code, "{levels}");
        }
    }
}
