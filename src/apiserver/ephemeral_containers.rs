//! The kind `EphemeralContainers`, the form of the subresource `ephemeralcontainers` in Kubernetes 1.16 to
//! 1.22.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::Server;
use super::request::ResourceTarget;
use super::request_object::read_object;
use super::respond::Responder;
use super::response_format::ResponseFormat;
use super::write_options;
use api::admission::Operation;
use api::{ApiError, Part};
use object::{Key, Object};

/// The kind's name.
pub(super) const KIND: &str = "EphemeralContainers";
const API_VERSION: &str = "v1";

/// Replaces a pod's ephemeral containers by those of an `EphemeralContainers`, and responds with that kind.
pub(super) async fn replace(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    mut given: Value,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let options = write_options::of_write(format)?;
    if given["apiVersion"] != API_VERSION {
        return Err(ApiError::BadRequest(format!(
            "the API version in the data ({}) does not match the expected API version ({API_VERSION})",
            given["apiVersion"].as_str().unwrap_or_default()
        )));
    }
    let containers = given["ephemeralContainers"].take();
    let change = || {
        server.api().change(target.kind(), key, Part::EphemeralContainers, &options, |current| {
            let mut value = target.served.value(current);
            for field in ["name", "namespace", "uid", "resourceVersion"] {
                if let Some(given) = given["metadata"].get(field) {
                    value["metadata"][field] = given.clone();
                }
            }
            value["spec"]["ephemeralContainers"] = containers.clone();
            read_object(&server.api().kinds(), target, value.into(), format)
        })
    };
    let stored = server.run_queued(target, &[Operation::Update], change).await?;
    server.wait_durable(&stored, &options).await?;
    Responder::json(StatusCode::OK, &to_response(&stored))
}

fn to_response(pod: &Object) -> Value {
    let pod = pod.to_value();
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata[field] = pod["metadata"][field].clone();
    }
    let containers = match &pod["spec"]["ephemeralContainers"] {
        Value::Null => json!([]),
        containers => containers.clone(),
    };
    json!({"kind": KIND, "apiVersion": API_VERSION, "metadata": metadata, "ephemeralContainers": containers})
}
