//! The limit on the nesting of objects.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::Value;

use crate::ApiError;
use object::Object;

/// The maximum depth of the parts of an object that have no schema. The decoder of stored objects accepts 127 levels,
/// and managed fields nest a few levels deeper than the fields.
const MAX_DEPTH: usize = 100;

/// Refuses an object that nests too deep for the store to read it back.
pub fn check_object(object: &Object) -> Result<(), ApiError> {
    let of_custom = object.custom().into_iter().flat_map(|custom| custom.fields.values());
    let of_revision = object.get::<ControllerRevision>().map(|revision| &revision.data.0);
    let mut free = of_custom.chain(of_revision);
    if free.any(|value| is_deeper(value, MAX_DEPTH - 1)) { Err(too_deep()) } else { Ok(()) }
}

/// Refuses a value that nests deeper than an object may.
pub fn check_value(value: &Value) -> Result<(), ApiError> {
    if is_deeper(value, MAX_DEPTH) { Err(too_deep()) } else { Ok(()) }
}

fn too_deep() -> ApiError {
    ApiError::BadRequest(format!("the object nests deeper than {MAX_DEPTH} levels"))
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|field| is_deeper(field, levels - 1)),
        _ => false,
    }
}
