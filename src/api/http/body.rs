//! Reading request bodies: JSON, YAML or protobuf, bounded.

use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::protobuf;
use crate::api::ApiError;
use crate::api::schema::duplicate_fields;

/// No body is larger; Kubernetes' own limit.
pub(super) const MAX_BODY: usize = 3 * 1024 * 1024;

/// How much of a body that is too large is read and thrown away: clients still sending when the answer
/// comes see a broken stream instead of the answer.
const MAX_DRAINED: usize = 8 * MAX_BODY;

/// A body that was read as a value.
pub(super) struct ReadValue {
    pub(super) value: Value,
    /// Fields given twice; the last one won.
    pub(super) duplicates: Vec<String>,
}

/// The request's media type without parameters.
pub(super) fn media_type(request: &Request) -> String {
    let given = request.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    given.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// The whole body.
pub(super) async fn read_bytes(request: Request) -> Result<Bytes, ApiError> {
    let mut chunks = request.into_body().into_data_stream();
    let (mut bytes, mut length) = (BytesMut::new(), 0_usize);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk
            .map_err(|error| ApiError::BadRequest(format!("the request body could not be read: {error}")))?;
        length += chunk.len();
        if length <= MAX_BODY {
            bytes.extend_from_slice(&chunk);
        } else if length > MAX_DRAINED {
            break;
        }
    }
    if length > MAX_BODY {
        return Err(ApiError::TooLarge(format!("Request entity too large: limit is {MAX_BODY}")));
    }
    Ok(bytes.freeze())
}

/// The body as a value.
pub(super) async fn read_value(request: Request) -> Result<ReadValue, ApiError> {
    let media_type = media_type(&request);
    let bytes = read_bytes(request).await?;
    decode(&media_type, &bytes)
}

/// The body as a value; None when it is empty.
pub(super) async fn read_optional_value(request: Request) -> Result<Option<Value>, ApiError> {
    let media_type = media_type(&request);
    let bytes = read_bytes(request).await?;
    if bytes.is_empty() { Ok(None) } else { decode(&media_type, &bytes).map(|read| Some(read.value)) }
}

fn decode(media_type: &str, bytes: &[u8]) -> Result<ReadValue, ApiError> {
    match media_type {
        "" | "application/json" => json(bytes),
        "application/yaml" => yaml(bytes),
        protobuf::MEDIA_TYPE => match protobuf::decode(bytes) {
            Ok(value) => Ok(ReadValue { value, duplicates: Vec::new() }),
            Err(error) => Err(ApiError::BadRequest(format!("the object provided is unrecognized: {error}"))),
        },
        other => Err(ApiError::UnsupportedMediaType(format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf (got {other})"
        ))),
    }
}

fn json(bytes: &[u8]) -> Result<ReadValue, ApiError> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(ReadValue { value, duplicates: duplicate_fields(bytes) }),
        Err(error) => Err(ApiError::BadRequest(format!(
            "the object provided is unrecognized: couldn't get version/kind; json parse error: {error}"
        ))),
    }
}

fn yaml(bytes: &[u8]) -> Result<ReadValue, ApiError> {
    let unreadable = |why: String| {
        ApiError::BadRequest(format!(
            "the object provided is unrecognized: couldn't get version/kind; yaml parse error: {why}"
        ))
    };
    let text = std::str::from_utf8(bytes).map_err(|e| unreadable(e.to_string()))?;
    // A field given twice is refused by the reader.
    let value = crate::manifest::from_yaml(text).map_err(|e| unreadable(e.to_string()))?;
    Ok(ReadValue { value, duplicates: Vec::new() })
}
