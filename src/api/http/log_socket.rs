//! A log over WebSocket, for browsers: the text in messages, and nothing else.

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{SinkExt, Stream, StreamExt};

use super::Server;
use super::upgrade::{self, Upgrade};
use crate::ApiError;

const BINARY: &str = "binary.k8s.io";
const BASE64: &str = "base64.binary.k8s.io";

/// Answers with the stream in messages.
pub(super) fn answer(
    server: &Server,
    upgrade: Upgrade,
    stream: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<Response, ApiError> {
    let Upgrade::WebSocket(mut upgrade) = upgrade else {
        return Err(ApiError::BadRequest("a log is carried by WebSocket alone".into()));
    };
    let protocol = upgrade.choose(&[BINARY, BASE64], BINARY)?;
    Ok(upgrade.switch(server, move |socket| carry(socket, protocol, stream)))
}

async fn carry(socket: WebSocket, protocol: &str, stream: impl Stream<Item = Bytes>) {
    let message = |bytes: Bytes| {
        if protocol == BASE64 {
            Message::Text(Utf8Bytes::from(STANDARD.encode(bytes)))
        } else {
            Message::Binary(bytes)
        }
    };
    let (mut sink, mut inward) = socket.split();
    let outbound = async {
        // As Kubernetes: an empty message tells that the log begins, before there is any.
        let mut stream = std::pin::pin!(stream);
        let mut next = Some(Bytes::new());
        while let Some(bytes) = next {
            if sink.send(message(bytes)).await.is_err() {
                return;
            }
            next = stream.next().await;
        }
        let _ = sink.send(upgrade::normal_close()).await;
    };
    // The client has nothing to say but that it leaves.
    let inbound = async { while let Some(Ok(_)) = inward.next().await {} };
    tokio::select! {
        () = outbound => {}
        () = inbound => {}
    }
}
