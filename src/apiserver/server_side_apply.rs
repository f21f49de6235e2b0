//! Server-side apply over HTTP: a PATCH whose body is a configuration, in YAML or JSON.

use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::body::ReadValue;
use super::object_response::{respond_with_scale, respond_with_stored, scale_in};
use super::request::ResourceTarget;
use super::request_object::read_object;
use super::response_format::ResponseFormat;
use super::{Server, body, write_options};
use api::admission::Operation;
use api::{ApiError, Apply, Part, object_checks};
use apimachinery::patch::PatchType;
use object::{Key, Object, ServedKind};

/// Returns true if a PATCH is a server-side apply.
pub(super) fn is_apply(request: &Request) -> bool {
    PatchType::from_content_type(&body::media_type(request)) == Some(PatchType::Apply)
}

/// Applies the body to an object or to a part of one.
pub(super) async fn handle(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    part: Part,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let options = write_options::of_apply(format)?;
    let config = read(request, format).await?;
    let served = target.served;
    check_kind(&config, &served.api_version(), served.kind().info().name)?;
    let force = format.query.flag("force");
    let apply = Apply { served, key: key.clone(), part, subresource: None, config, force };
    let place = in_stored_version(target);
    let apply = || {
        let read = |value: Value| read_object(&server.api().kinds(), &place, value.into(), format);
        server.api().apply(&apply, &options, read)
    };
    let applied = server.run_queued(target, &[Operation::Create, Operation::Update], apply).await?;
    let status = if applied.before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    respond_with_stored(server, served, status, format, &options, &applied.object).await
}

/// Applies a Scale: the applier owns only the replica count.
pub(super) async fn handle_scale(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let options = write_options::of_apply(format)?;
    let scale = read(request, format).await?;
    check_kind(&scale, "autoscaling/v1", "Scale")?;
    let place = in_stored_version(target);
    let served = place.served;
    let mut config = json!({"apiVersion": served.api_version(), "kind": served.kind().info().name});
    for field in ["name", "resourceVersion"] {
        if let Some(value) = scale["metadata"].get(field) {
            config["metadata"][field] = value.clone();
        }
    }
    if let Some(count) = scale.pointer("/spec/replicas") {
        let count = count.as_i64().and_then(|count| i32::try_from(count).ok());
        let count = count.ok_or_else(|| {
            ApiError::BadRequest("cannot decode Scale: spec.replicas is not a 32-bit integer".into())
        })?;
        object_checks::check_scale(&key.name, count)?;
        set_replicas(server, served, &mut config, count)?;
    }
    let force = format.query.flag("force");
    let apply =
        Apply { served, key: key.clone(), part: Part::Main, subresource: Some("scale"), config, force };
    let apply = || {
        let read = |value: Value| read_object(&server.api().kinds(), &place, value.into(), format);
        server.api().apply(&apply, &options, read)
    };
    let applied = server.run_queued(target, &[Operation::Update], apply).await?;
    server.durable(server.api().revision()).await?;
    respond_with_scale(&scale_in(server, target.served, &applied.object).await?, server, format)
}

/// Sets the replica count in the kind's own field.
fn set_replicas(server: &Server, served: ServedKind, config: &mut Value, count: i32) -> Result<(), ApiError> {
    if !served.kind().is_custom() {
        config["spec"] = json!({"replicas": count});
        return Ok(());
    }
    let unreadable = |error: object::DecodeError| ApiError::Internal(error.to_string());
    let mut object = Object::from_value(served.kind(), config.clone()).map_err(unreadable)?;
    server.api().kinds().strategy_in(served).set_replicas(&mut object, count);
    *config = object.content();
    Ok(())
}

/// Reads the body as a configuration.
async fn read(request: Request, format: &ResponseFormat) -> Result<Value, ApiError> {
    let bytes = body::read_bytes(request).await?;
    body::refuse_oversized_patch(&bytes)?;
    let unreadable = |reason: String| ApiError::BadRequest(format!("error decoding YAML: {reason}"));
    let text = std::str::from_utf8(&bytes).map_err(|error| unreadable(error.to_string()))?;
    let ReadValue { value: config, duplicates } =
        body::parse_yaml(text).map_err(|error| unreadable(error.to_string()))?;
    if !config.is_object() {
        return Err(unreadable("the configuration is not an object".into()));
    }
    object_checks::check_parts(&config)?;
    match format.query.get("fieldValidation") {
        Some("Strict") => {
            if let [errors, ..] = duplicates.strict_errors().as_slice() {
                return Err(ApiError::BadRequest(format!(
                    "error strict decoding YAML: error converting YAML to JSON: {errors}"
                )));
            }
        }
        Some("Ignore") => {}
        // `read_object` refuses other values than Warn, the default.
        _ => format.warnings.warn(duplicates.findings()),
    }
    Ok(config)
}

fn check_kind(config: &Value, api_version: &str, kind: &str) -> Result<(), ApiError> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let (given_version, given_kind) = (text("apiVersion"), text("kind"));
    if given_version != api_version {
        return Err(ApiError::BadRequest(format!(
            "Incorrect version specified in apply patch. Specified patch version: {given_version}, expected: \
             {api_version}"
        )));
    }
    if given_kind != kind {
        return Err(ApiError::BadRequest(format!("invalid object type: {given_version}, Kind={given_kind}")));
    }
    Ok(())
}

/// Returns the target with its kind in the storage version.
fn in_stored_version(target: &ResourceTarget) -> ResourceTarget {
    let served = match target.served {
        ServedKind::Other(_) => target.kind().into(),
        same => same,
    };
    ResourceTarget { served, ..target.clone() }
}
