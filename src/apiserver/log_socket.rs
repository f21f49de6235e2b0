//! A log over WebSocket, for browsers: the text in messages, and nothing else.

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::Server;
use super::upgrade::{self, Upgrade};
use api::ApiError;

const BINARY: &str = "binary.k8s.io";
const BASE64: &str = "base64.binary.k8s.io";

/// Responds with the stream in messages.
pub(super) fn handle(
    server: &Server,
    upgrade: Upgrade,
    stream: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<Response, ApiError> {
    let Upgrade::WebSocket(mut socket) = upgrade else {
        return Err(ApiError::BadRequest("logs can be upgraded only to WebSocket".into()));
    };
    let protocol = socket.choose(&[BINARY, BASE64], BINARY)?;
    // A person reads the log, with pauses of hours.
    let timeout = server.api().timings().streaming_connection_idle_timeout.0;
    Ok(socket.switch(server, move |socket| {
        let (sink, inward) = socket.split();
        upgrade::send_to(sink, inward, messages(protocol, stream), timeout)
    }))
}

fn messages(protocol: &str, stream: impl Stream<Item = Bytes>) -> impl Stream<Item = Message> {
    let is_text = protocol == BASE64;
    // As in Kubernetes: an empty message announces the log before it has content.
    let stream = futures::stream::iter([Bytes::new()]).chain(stream);
    stream.map(move |bytes| {
        if is_text { Message::Text(Utf8Bytes::from(STANDARD.encode(bytes))) } else { Message::Binary(bytes) }
    })
}
