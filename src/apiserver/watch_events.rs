//! The content of a watch stream: events, one JSON document per line or protobuf, and the error that ends it.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::chunks::ChunkBuilder;
use super::connection::ReadMode;
use super::negotiate::MediaType;
use super::protobuf;
use super::respond::Responder;
use api::ApiError;

/// Returns the refusal of a watch: once the request is parsed, Kubernetes reports errors in the stream.
pub(super) fn refusal(media: MediaType, error: &ApiError) -> Response {
    let mut out = ChunkBuilder::default();
    put_error(&mut out, media, error);
    followed(media, out.next().unwrap_or_default().into())
}

/// Returns the response with a watch stream.
pub(super) fn followed(media: MediaType, body: Body) -> Response {
    let mut response = Responder::typed(StatusCode::OK, media.content_type(true), body);
    response.extensions_mut().insert(ReadMode::Followed);
    response
}

/// Writes the event that ends a watch with an error.
pub(super) fn put_error(out: &mut ChunkBuilder, media: MediaType, error: &ApiError) {
    let status = object::json_of(error.to_status());
    put_value(out, media, "ERROR", &status);
}

/// Returns the event that ends a watch with an error, in a response of this content type.
pub fn error_event(content_type: &str, error: &ApiError) -> Bytes {
    let is_json = content_type.starts_with(MediaType::Json.content_type(true));
    let mut out = ChunkBuilder::default();
    put_error(&mut out, if is_json { MediaType::Json } else { MediaType::Protobuf }, error);
    out.next().unwrap_or_default()
}

/// Writes an event of a value that is no stored object.
pub(super) fn put_value(out: &mut ChunkBuilder, media: MediaType, type_: &str, value: &Value) {
    let message = if media == MediaType::Protobuf { protobuf::of_value(value) } else { None };
    put_event(out, media, type_, message.unwrap_or_else(|| value.to_string().into_bytes()).into());
}

/// Writes an event of an encoded object.
pub(super) fn put_event(out: &mut ChunkBuilder, media: MediaType, type_: &str, object: Bytes) {
    if media == MediaType::Protobuf {
        return out.share(protobuf::event(type_, &object).into());
    }
    out.put(b"{\"type\":\"");
    out.put(type_.as_bytes());
    out.put(b"\",\"object\":");
    out.share(object);
    out.put(b"}\n");
}
