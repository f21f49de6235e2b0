//! The stream of a watch: events and bookmarks, one JSON document per line or protobuf, and the error that ends it.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::Server;
use super::chunks::ChunkBuilder;
use super::connection::ReadMode;
use super::negotiate::{MediaType, MediaTypeOptions, Representation};
use super::on_demand::{self, ChunkSender, ReaderGone};
use super::protobuf;
use super::respond::Responder;
use api::{Api, ApiError};
use object::Revision;
use object::well_known::annotation::INITIAL_EVENTS_END;

/// Starts a watch, and returns the response with its stream: `send` writes it, until the client leaves, the watch
/// has lasted for `timeout`, or the server stops.
pub(super) fn start<F>(
    server: &Server,
    media: MediaType,
    timeout: Duration,
    send: impl FnOnce(ChunkSender) -> F,
) -> Response
where
    F: Future<Output = Result<(), ReaderGone>> + Send + 'static,
{
    let (outlet, stream) = on_demand::pair(server.api().timings().http_request_timeout.0);
    let stopping = server.inner.stopping.clone();
    let sending = send(outlet);
    base::task::start(async move {
        tokio::select! {
            () = stopping.cancelled() => {}
            () = tokio::time::sleep(timeout) => {}
            _ = sending => {}
        }
    });
    followed(media, Body::from_stream(stream.map(Ok::<_, Infallible>)))
}

/// Returns the times at which a watch sends bookmarks.
pub(super) fn bookmark_interval(api: &Api) -> Interval {
    let every = api.timings().bookmark_interval.0;
    let mut interval = tokio::time::interval_at(Instant::now() + every, every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Returns the refusal of a watch: once the request is parsed, Kubernetes reports errors in the stream.
pub(super) fn refusal(media: MediaType, error: &ApiError) -> Response {
    let mut out = ChunkBuilder::default();
    put_error(&mut out, media, error);
    followed(media, out.next().unwrap_or_default().into())
}

/// Returns the response with a watch stream.
fn followed(media: MediaType, body: Body) -> Response {
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

/// Writes a bookmark of a kind's watch: the client has received all changes up to `revision`.
pub(super) fn put_bookmark(
    out: &mut ChunkBuilder,
    accepted: MediaTypeOptions,
    (kind, api_version): (&str, &str),
    revision: Revision,
    ends_initial: bool,
) {
    let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
    if ends_initial {
        metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    let object = match accepted.form {
        Representation::Object => json!({"kind": kind, "apiVersion": api_version, "metadata": metadata}),
        Representation::Metadata(version) => version.partial(&metadata),
        Representation::Table(version) => json!({"kind": "Table", "apiVersion": version.api_version(),
            "metadata": {"resourceVersion": revision.to_string()}, "columnDefinitions": null,
            "rows": [{"cells": [], "object": version.partial(&metadata)}]}),
    };
    put_value(out, accepted.media, "BOOKMARK", &object);
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

/// Sends all chunks, full or not.
pub(super) async fn send_all(out: &mut ChunkBuilder, to: &mut ChunkSender) -> Result<(), ReaderGone> {
    while let Some(piece) = out.next() {
        to.send(piece).await?;
    }
    Ok(())
}
