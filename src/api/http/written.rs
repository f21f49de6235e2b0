//! The answer to a write: the object as it is stored, once that is durable.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;

use super::Server;
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
) -> Response {
    let bytes = encode_one(server.api(), served, wanted.form(), wanted.query.include_object(), object);
    Shown::up_to(object.revision(), Answer::bytes(status, bytes))
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
    Ok(answer_one(server, served, status, wanted, stored))
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
