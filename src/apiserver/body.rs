//! Reading request bodies: JSON, YAML or protobuf, bounded.

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde_json::Value;

use super::connection::{BodyDeadline, MAX_BODY};
use super::protobuf;
use crate::audit::AuditContext;
use api::ApiError;
use api::object_checks::{self, MAX_OBJECT_BYTES, MAX_PARTS};
use apimachinery::schema::{DuplicateFields, duplicate_fields};

/// A body parsed as a value.
pub(super) struct ReadValue {
    pub(super) value: Value,
    pub(super) duplicates: DuplicateFields,
}

impl From<Value> for ReadValue {
    fn from(value: Value) -> Self {
        Self { value, duplicates: DuplicateFields::default() }
    }
}

/// Returns the request's media type without parameters.
pub(super) fn media_type(request: &Request) -> String {
    let given = request.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    given.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// Returns the whole body.
pub(super) async fn read_bytes(request: Request) -> Result<Bytes, ApiError> {
    let recording = audit_context_of(&request).map(|trail| (trail, media_type(&request)));
    let bytes = read_in_time(request).await?;
    if let Some((trail, media_type)) = recording {
        trail.record_request(&media_type, &bytes, value_of);
    }
    Ok(bytes)
}

/// Returns the audit context of a request.
fn audit_context_of(request: &Request) -> Option<AuditContext> {
    request.extensions().get::<AuditContext>().cloned()
}

async fn read_in_time(request: Request) -> Result<Bytes, ApiError> {
    let deadline = request.extensions().get::<BodyDeadline>().copied();
    let length =
        request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_BODY as u64) {
        return Err(too_large());
    }
    let read = read_all(request.into_body());
    let Some(BodyDeadline(at)) = deadline else { return read.await };
    let read = tokio::time::timeout_at(at, read).await;
    match read {
        Ok(Ok(bytes)) => Ok(bytes),
        // A client that sends nothing at all has also exceeded the time for its next chunk.
        Ok(Err(error)) if tokio::time::Instant::now() < at => Err(error),
        _ => Err(ApiError::Timeout("request did not complete within the allotted timeout".into())),
    }
}

async fn read_all(body: Body) -> Result<Bytes, ApiError> {
    let mut chunks = body.into_data_stream();
    let mut bytes = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk =
            chunk.map_err(|error| ApiError::BadRequest(format!("cannot read the request body: {error}")))?;
        if bytes.len() + chunk.len() > MAX_BODY {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

fn too_large() -> ApiError {
    ApiError::TooLarge(format!("Request entity too large: limit is {MAX_BODY}"))
}

/// Returns the body as a value.
pub(super) async fn read_value(request: Request) -> Result<ReadValue, ApiError> {
    let (media_type, trail) = (media_type(&request), audit_context_of(&request));
    let bytes = read_bytes(request).await?;
    refuse_oversized(&bytes)?;
    let read = decode(&media_type, &bytes)?;
    if let Some(trail) = trail {
        trail.record_object_identity(&read.value);
    }
    Ok(read)
}

/// Refuses a body with more content than an object may have, before it is parsed: a list of a million empty
/// elements is a hundred times as large in memory. White space outside of strings is not counted.
pub(super) fn refuse_oversized(bytes: &[u8]) -> Result<(), ApiError> {
    if bytes.len() > MAX_OBJECT_BYTES && JsonSize::of(bytes).bytes > MAX_OBJECT_BYTES {
        return Err(object_checks::too_large());
    }
    Ok(())
}

/// Refuses a patch with more content or parts than an object may have, before it is parsed.
pub(super) fn refuse_oversized_patch(bytes: &[u8]) -> Result<(), ApiError> {
    let extent = JsonSize::of(bytes);
    if extent.bytes > MAX_OBJECT_BYTES {
        Err(object_checks::too_large())
    } else if extent.parts > MAX_PARTS {
        Err(object_checks::too_many_parts())
    } else {
        Ok(())
    }
}

/// The extent of a JSON text.
#[derive(Debug, PartialEq, Eq)]
struct JsonSize {
    /// Excludes white space outside of strings.
    bytes: usize,
    /// Objects, and elements of lists; an empty list counts as one element.
    parts: usize,
}

impl JsonSize {
    fn of(text: &[u8]) -> Self {
        let (mut bytes, mut parts, mut in_string, mut escaped) = (0, 0, false, false);
        let mut open = Vec::new();
        for byte in text {
            if in_string {
                in_string = escaped || *byte != b'"';
                escaped = !escaped && *byte == b'\\';
            } else if byte.is_ascii_whitespace() {
                continue;
            } else {
                in_string = *byte == b'"';
                match byte {
                    b'{' | b'[' => {
                        parts += 1;
                        open.push(*byte);
                    }
                    b'}' | b']' => drop(open.pop()),
                    b',' if open.last() == Some(&b'[') => parts += 1,
                    _ => {}
                }
            }
            bytes += 1;
        }
        Self { bytes, parts }
    }
}

/// Returns the body as a value; `None` if it is empty.
pub(super) async fn read_optional_value(request: Request) -> Result<Option<Value>, ApiError> {
    let media_type = media_type(&request);
    let bytes = read_bytes(request).await?;
    if bytes.is_empty() { Ok(None) } else { decode(&media_type, &bytes).map(|read| Some(read.value)) }
}

/// Returns the body of a request or response for the audit log, patches included; `None` if it cannot be
/// parsed.
pub(super) fn value_of(media_type: &str, bytes: &[u8]) -> Option<Value> {
    match media_type {
        "application/yaml" | "application/apply-patch+yaml" => yaml(bytes).ok().map(|read| read.value),
        protobuf::MEDIA_TYPE => protobuf::decode(bytes).ok(),
        _ => serde_json::from_slice(bytes).ok(),
    }
}

fn decode(media_type: &str, bytes: &[u8]) -> Result<ReadValue, ApiError> {
    match media_type {
        "" | "application/json" => json(bytes),
        "application/yaml" => yaml(bytes),
        protobuf::MEDIA_TYPE => match protobuf::decode(bytes) {
            Ok(value) => Ok(value.into()),
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
        Ok(value) => {
            let duplicates = DuplicateFields::Json(duplicate_fields(bytes, &value));
            Ok(ReadValue { value, duplicates })
        }
        Err(error) => Err(ApiError::BadRequest(format!(
            "the object provided is unrecognized: couldn't get version/kind; json parse error: {error}"
        ))),
    }
}

fn yaml(bytes: &[u8]) -> Result<ReadValue, ApiError> {
    let unreadable = |reason: String| {
        ApiError::BadRequest(format!(
            "the object provided is unrecognized: couldn't get version/kind; yaml parse error: {reason}"
        ))
    };
    let text = std::str::from_utf8(bytes).map_err(|e| unreadable(e.to_string()))?;
    parse_yaml(text).map_err(|e| unreadable(e.to_string()))
}

/// Reads a YAML text; the last value of a key that is set again counts.
pub(super) fn parse_yaml(text: &str) -> Result<ReadValue, manifest::ManifestError> {
    let (value, duplicates) = manifest::from_yaml_with_duplicates(text)?;
    let texts = duplicates.iter().map(ToString::to_string).collect();
    Ok(ReadValue { value, duplicates: DuplicateFields::Yaml(texts) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit applies to the content of a request, not to its layout (SAFE-10).
    #[test]
    fn only_white_space_outside_of_strings_is_not_counted() {
        for (text, bytes, parts) in [
            ("{ \"a\" : [ 1,\n 2 ] }", 11, 3),
            (r#"{"a b": "\" \\"}"#, 15, 1),
            ("[ { } , { } ]", 7, 4),
            (r#"{"a,[{": ",\"{", "b": 1}"#, 21, 1),
            ("", 0, 0),
        ] {
            assert_eq!(JsonSize::of(text.as_bytes()), JsonSize { bytes, parts }, "{text}");
        }
        let list = |items: usize| format!("[{}]", vec!["{}"; items].join(", "));
        let most = MAX_OBJECT_BYTES / 3;
        assert!(refuse_oversized(list(most - 1).as_bytes()).is_ok());
        assert_eq!(refuse_oversized(list(most + 1).as_bytes()).unwrap_err().code(), 413);
    }
}
