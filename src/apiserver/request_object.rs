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
    set_identity(target, fields)?;
    super::strict::object(kinds, target.served, read, format)
}

/// Sets the namespace and name of the path in the object; refuses an object that has others.
fn set_identity(
    target: &ResourceTarget,
    fields: &mut serde_json::Map<String, Value>,
) -> Result<(), ApiError> {
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return Ok(()) };
    let given = |metadata: &serde_json::Map<String, Value>, key: &str| {
        metadata.get(key).and_then(Value::as_str).filter(|v| !v.is_empty()).map(ToString::to_string)
    };
    if let Some(namespace) = &target.namespace {
        if given(metadata, "namespace").is_some_and(|n| n != *namespace) {
            return Err(ApiError::BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request"
                    .into(),
            ));
        }
        metadata.insert("namespace".into(), namespace.clone().into());
    }
    if let Some(name) = &target.name {
        match given(metadata, "name") {
            Some(other) if other != *name => {
                return Err(ApiError::BadRequest(format!(
                    "the name of the object ({other}) does not match the name on the URL ({name})"
                )));
            }
            _ => metadata.insert("name".into(), name.clone().into()),
        };
    }
    Ok(())
}
