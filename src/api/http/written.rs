//! The answer to a write: the object as it is stored, once that is durable.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;

use super::Server;
use super::negotiate::Media;
use super::representation::encode_one;
use super::respond::Answer;
use super::response_format::ResponseFormat;
use super::shown::Shown;
use crate::{ApiError, WriteOptions};
use object::{Object, ServedKind};

pub(super) fn answer_one(
    server: &Server,
    served: ServedKind,
    status: StatusCode,
    wanted: &ResponseFormat,
    object: &Arc<Object>,
) -> Result<Response, ApiError> {
    let accepted = wanted.accepted();
    let bytes = encode_one(server.api(), served, accepted, wanted.query.include_object(), object)?;
    // YAML is made of finished answers.
    let media = if accepted.media == Media::Protobuf { Media::Protobuf } else { Media::Json };
    let response = Answer::typed(status, media.content_type(false), Body::from(bytes));
    Ok(Shown::up_to(object.revision(), response))
}

/// The object as it was stored, once it is durable.
pub(super) async fn answer_written(
    server: &Server,
    served: ServedKind,
    status: StatusCode,
    wanted: &ResponseFormat,
    options: &WriteOptions,
    stored: &Arc<Object>,
) -> Result<Response, ApiError> {
    server.settle(stored, options).await?;
    answer_one(server, served, status, wanted, stored)
}

impl Server {
    /// Waits until what was written survives a crash; a dry run wrote nothing.
    pub(super) async fn settle(&self, stored: &Arc<Object>, options: &WriteOptions) -> Result<(), ApiError> {
        if options.dry_run {
            return Ok(());
        }
        Ok(self.api().durable(stored.revision()).await?)
    }
}
