//! What the stream of a watch is made of: events of one JSON document a line or of protobuf, and the error that ends one.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::connection::Taken;
use super::negotiate::Media;
use super::pieces::Pieces;
use super::protobuf;
use super::respond::Answer;
use crate::ApiError;

/// A watch that cannot be: once the request is understood, Kubernetes tells so in the stream.
pub(super) fn refusal(media: Media, error: &ApiError) -> Response {
    let mut out = Pieces::default();
    put_error(&mut out, media, error);
    followed(media, out.next().unwrap_or_default().into())
}

/// The answer that is such a stream.
pub(super) fn followed(media: Media, body: Body) -> Response {
    let mut response = Answer::typed(StatusCode::OK, media.content_type(true), body);
    response.extensions_mut().insert(Taken::Followed);
    response
}

/// The event that ends a watch with an error.
pub(super) fn put_error(out: &mut Pieces, media: Media, error: &ApiError) {
    let status = serde_json::to_value(error.to_status()).unwrap_or_default();
    put_value(out, media, "ERROR", &status);
}

/// The event that ends a watch with an error, as an answer of this type has it.
pub fn error_event(content_type: &str, error: &ApiError) -> Bytes {
    let is_json = content_type.starts_with(Media::Json.content_type(true));
    let mut out = Pieces::default();
    put_error(&mut out, if is_json { Media::Json } else { Media::Protobuf }, error);
    out.next().unwrap_or_default()
}

/// What is no stored object.
pub(super) fn put_value(out: &mut Pieces, media: Media, type_: &str, value: &Value) {
    let message = if media == Media::Protobuf { protobuf::of_value(value) } else { None };
    put_event(out, media, type_, message.unwrap_or_else(|| value.to_string().into_bytes()).into());
}

/// An event of an object that is written already.
pub(super) fn put_event(out: &mut Pieces, media: Media, type_: &str, object: Bytes) {
    if media == Media::Protobuf {
        return out.share(protobuf::event(type_, &object).into());
    }
    out.put(b"{\"type\":\"");
    out.put(type_.as_bytes());
    out.put(b"\",\"object\":");
    out.share(object);
    out.put(b"}\n");
}
