//! Responses with an object in the requested version. After a write, the response waits until the write is
//! durable.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use k8s_openapi::api::autoscaling::v1::Scale;
use serde_json::json;

use super::Server;
use super::durability::ShownRevision;
use super::negotiate::{MediaType, Representation};
use super::representation::encode_one;
use super::respond::Responder;
use super::response_format::ResponseFormat;
use super::table;
use api::conversion::Source;
use api::subresource::scale_of;
use api::{ApiError, WriteOptions};
use object::time::human_age_of;
use object::{Object, ServedKind};

/// Returns an object in the requested version and form.
pub(super) async fn respond_with_object(
    server: &Server,
    served: ServedKind,
    status: StatusCode,
    format: &ResponseFormat,
    object: &Arc<Object>,
) -> Result<Response, ApiError> {
    let shown = server.api().in_version(vec![object.clone()], served, Source::Uncached).await?;
    let shown = shown.first().unwrap_or(object);
    let accepted = format.accepted();
    let bytes = encode_one(server.api(), served, accepted, format.query.include_object(), shown)?;
    // For a client that accepts YAML, the final encoding converts this JSON.
    let media = if accepted.media == MediaType::Protobuf { MediaType::Protobuf } else { MediaType::Json };
    let response = Responder::typed(status, media.content_type(false), Body::from(bytes));
    Ok(ShownRevision::up_to(object.revision(), response))
}

/// Returns the object as it was stored, once it is durable. It is encoded while the disk writes: the disk then often
/// finds the encoding.
pub(super) async fn respond_with_stored(
    server: &Server,
    served: ServedKind,
    status: StatusCode,
    format: &ResponseFormat,
    options: &WriteOptions,
    stored: &Arc<Object>,
) -> Result<Response, ApiError> {
    let response = respond_with_object(server, served, status, format, stored).await;
    server.wait_durable(stored, options).await?;
    response
}

/// Returns the scale of an object, in the kind's version.
pub(super) async fn scale_in(
    server: &Server,
    served: ServedKind,
    object: &Arc<Object>,
) -> Result<Scale, ApiError> {
    let shown = server.api().in_version(vec![object.clone()], served, Source::Uncached).await?;
    scale_of(server.api(), shown.first().unwrap_or(object))
}

/// Responds with the scale of an object.
pub(super) fn respond_with_scale(
    scale: &Scale,
    server: &Server,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    match format.form() {
        Representation::Object => Responder::json(StatusCode::OK, scale),
        Representation::Metadata(version) => {
            Responder::json(StatusCode::OK, &version.partial(&scale.metadata))
        }
        Representation::Table(version) => {
            let now = server.api().server_clock().now();
            let desired = scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
            let available = scale.status.as_ref().map_or(0, |status| status.replicas);
            let age = human_age_of(scale.metadata.creation_timestamp.as_ref(), now);
            let columns =
                [("Name", "string"), ("Desired", "integer"), ("Available", "integer"), ("Age", "string")];
            let cells = json!([scale.metadata.name, desired, available, age]);
            let object = serde_json::to_value(scale).map_err(|e| ApiError::Internal(e.to_string()))?;
            let (include, rows) = (format.query.include_object(), std::iter::once((&object, cells)));
            Responder::json(StatusCode::OK, &table::of_rows(version, include, &columns, rows))
        }
    }
}

impl Server {
    /// Waits until the write is durable; a dry run wrote nothing.
    pub(super) async fn wait_durable(
        &self,
        stored: &Arc<Object>,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        if options.dry_run {
            return Ok(());
        }
        self.durable(stored.revision()).await
    }
}
