//! The object in a request's body.

use serde_json::{Value, json};

use super::body;
use super::request::ResourceTarget;
use super::response_format::ResponseFormat;
use api::ApiError;
use api::served_kinds::Kinds;
use object::Object;

/// Returns the object in a request's body, checked against the path.
pub(super) fn read_object(
    kinds: &Kinds,
    target: &ResourceTarget,
    mut read: body::ReadValue,
    format: &ResponseFormat,
) -> Result<Object, ApiError> {
    let kind = target.kind();
    let info = kind.info();
    let Some(fields) = read.value.as_object_mut() else {
        return Err(ApiError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind",
            info.name
        )));
    };
    let text = |fields: &serde_json::Map<String, Value>, key: &str| {
        fields.get(key).and_then(Value::as_str).unwrap_or_default().to_string()
    };
    let (api_version, name) = (text(fields, "apiVersion"), text(fields, "kind"));
    if !name.is_empty() && name != info.name {
        return Err(ApiError::BadRequest(format!(
            "{name} in version \"{api_version}\" cannot be handled as a {}: converting ({api_version}.{name}) to \
             ({}.{}): unknown conversion",
            info.name,
            target.served.version(),
            info.name
        )));
    }
    let expected = target.served.api_version();
    if !api_version.is_empty() && api_version != expected {
        return Err(ApiError::BadRequest(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    fields.insert("apiVersion".into(), expected.into());
    fields.insert("kind".into(), info.name.into());
    set_namespace(target, fields)?;
    if let Some(name) = &target.name {
        check_name(&read.value, name)?;
    }
    super::strict::object(kinds, target.served, read, format)
}

/// Sets the namespace of the path in the object, or removes that of a cluster-scoped object, which has none; refuses an
/// object that has another namespace than the path.
fn set_namespace(
    target: &ResourceTarget,
    fields: &mut serde_json::Map<String, Value>,
) -> Result<(), ApiError> {
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return Ok(()) };
    let Some(namespace) = &target.namespace else {
        metadata.remove("namespace");
        return Ok(());
    };
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != namespace {
        return Err(ApiError::BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request".into(),
        ));
    }
    metadata.insert("namespace".into(), namespace.clone().into());
    Ok(())
}

/// Refuses an object that does not have the name on the URL (Kubernetes' `checkName`).
pub(super) fn check_name(object: &Value, name: &str) -> Result<(), ApiError> {
    let given = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if given == name {
        return Ok(());
    }
    Err(ApiError::BadRequest(if given.is_empty() {
        format!("the name of the object ({name} based on URL) was undeterminable: name must be provided")
    } else {
        format!("the name of the object ({given}) does not match the name on the URL ({name})")
    }))
}
