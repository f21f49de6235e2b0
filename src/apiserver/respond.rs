//! Building responses.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER, WARNING};
use http::{HeaderValue, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::Serialize;

use crate::flow_control::Flow;
use api::ApiError;
use base::quote::printable;

/// The limit on the bytes of a response's warnings, as in Kubernetes: headers cannot hold thousands.
const MAX_WARNINGS: usize = 4096;
/// The limit on the bytes of each warning, if all together exceed [`MAX_WARNINGS`].
const MAX_OF_MANY: usize = 256;

/// The unique id of a response, for searches in logs.
pub(super) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// Builds responses; has no state.
pub(super) struct Responder;

impl Responder {
    /// Responds with JSON that is already encoded.
    pub(super) fn bytes(status: StatusCode, bytes: Bytes) -> Response {
        Self::typed(status, "application/json", Body::from(bytes))
    }

    /// Responds with a value as JSON.
    pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, ApiError> {
        let bytes = serde_json::to_vec(value).map_err(|e| ApiError::Internal(e.to_string()))?;
        Ok(Self::bytes(status, bytes.into()))
    }

    /// Responds with plain text.
    pub(super) fn text(status: StatusCode, text: impl Into<Body>) -> Response {
        Self::typed(status, "text/plain; charset=utf-8", text.into())
    }

    /// Responds with a body of any content type.
    pub(super) fn typed(status: StatusCode, content_type: &'static str, body: Body) -> Response {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    }

    /// Responds with an error as a `Status`.
    pub(super) fn error(error: &ApiError) -> Response {
        let status = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let status_object = error.to_status();
        let bytes = serde_json::to_vec(&status_object).expect("a Status is JSON");
        let mut response = Self::bytes(status, bytes.into());
        response.extensions_mut().insert(Arc::new(status_object));
        if let Some(seconds) = error.retry_after_seconds() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// Responds with the result of an action without an object.
    pub(super) fn outcome(code: StatusCode, outcome: Status) -> Result<Response, ApiError> {
        let mut response = Self::json(code, &outcome)?;
        response.extensions_mut().insert(Arc::new(outcome));
        Ok(response)
    }

    /// Sets the headers of every response: a unique id, unless it has one, and a ban on shared caching.
    pub(super) fn marked(mut response: Response, id: Option<&str>) -> Response {
        let headers = response.headers_mut();
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
        let id = id.map_or_else(base::random::uuid, ToString::to_string);
        if let Ok(id) = HeaderValue::try_from(id) {
            headers.entry(AUDIT_ID).or_insert(id);
        }
        response
    }

    /// Adds the flow schema and priority level that admitted the request, as Kubernetes does.
    pub(super) fn of_flow(mut response: Response, flow: Option<&Flow>) -> Response {
        if let Some(flow) = flow {
            for (name, uid) in [(SCHEMA_UID, flow.schema_uid()), (LEVEL_UID, flow.level_uid())] {
                if let Ok(uid) = HeaderValue::try_from(uid) {
                    response.headers_mut().insert(name, uid);
                }
            }
        }
        response
    }

    /// Adds warnings, which clients print; beyond [`MAX_WARNINGS`] they are shortened, then left out.
    pub(super) fn warn(mut response: Response, warnings: &[String]) -> Response {
        let too_much = warnings.iter().map(String::len).sum::<usize>() > MAX_WARNINGS;
        let mut left = MAX_WARNINGS;
        for warning in warnings {
            let end = if too_much { warning.floor_char_boundary(MAX_OF_MANY) } else { warning.len() };
            let Some(less) = left.checked_sub(end) else { break };
            left = less;
            let quoted: String = printable(&warning[..end])
                .chars()
                .flat_map(|c| match c {
                    '"' | '\\' => vec!['\\', c],
                    c if c.is_control() => vec![' '],
                    c => vec![c],
                })
                .collect();
            if let Ok(value) = HeaderValue::try_from(format!("299 - \"{quoted}\"")) {
                response.headers_mut().append(WARNING, value);
            }
        }
        response
    }
}
