//! Exec and attach over WebSocket (`v5.channel.k8s.io`, `v4.channel.k8s.io`).
//!
//! The first byte of a frame names its channel: 0 stdin, 1 stdout, 2 stderr, 3 the final status, 4 resize,
//! 255 (v5) closes the channel named by the next byte.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Server;
use super::logs::container_of;
use super::request::Query;
use crate::api::ApiError;
use crate::api::session::{Session, SessionInput, SessionOutput, SessionStreams, TerminalSize};
use crate::object::{Key, Subresource};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// Keeps idle sessions alive through anything in between.
const PING_EVERY: Duration = Duration::from_secs(5);

/// The streams a query asks for.
pub(super) fn wanted_streams(query: &Query) -> Result<SessionStreams, ApiError> {
    let streams = SessionStreams {
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        stderr: query.flag("stderr"),
        tty: query.flag("tty"),
    };
    if !(streams.stdin || streams.stdout || streams.stderr) {
        return Err(ApiError::BadRequest("you must specify at least 1 of stdin, stdout, stderr".into()));
    }
    Ok(streams)
}

/// Starts what an exec or attach request asks for.
pub(super) async fn open(
    server: &Server,
    key: &Key,
    part: Subresource,
    query: &Query,
) -> Result<Session, ApiError> {
    let pod = server.api().get_as::<Pod>(key)?;
    let container = container_of(&pod, query.get("container"))?;
    let streams = wanted_streams(query)?;
    let node = server.node_of(&pod)?;
    if part == Subresource::Attach {
        return node.attach(pod, container, streams).await;
    }
    let command = query.all("command");
    if command.is_empty() {
        return Err(ApiError::BadRequest("you must specify at least 1 command for the container".into()));
    }
    node.exec(pod, container, command, streams).await
}

pub(super) async fn answer(
    server: &Server,
    key: &Key,
    part: Subresource,
    request: Request,
    query: &Query,
) -> Result<Response, ApiError> {
    let (mut parts, _) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &())
        .await
        .map_err(|_| {
            ApiError::BadRequest("unable to upgrade: only WebSocket upgrades are served here".into())
        })?
        .protocols(["v5.channel.k8s.io", "v4.channel.k8s.io"]);
    let session = open(server, key, part, query).await?;
    let stopping = server.inner.stopping.clone();
    Ok(upgrade
        .on_upgrade(async move |socket| {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = carry(socket, session) => {}
            }
        })
        .into_response())
}

/// Carries a session over a socket until either side ends.
async fn carry(socket: WebSocket, session: Session) {
    let (sink, stream) = socket.split();
    let Session { input, output } = session;
    let inbound = inbound(stream, input);
    let outbound = outbound(sink, output);
    tokio::pin!(inbound, outbound);
    tokio::select! {
        // The client left: dropping the output detaches.
        () = &mut inbound => {}
        () = &mut outbound => {}
    }
}

async fn inbound(mut stream: SplitStream<WebSocket>, input: mpsc::Sender<SessionInput>) {
    while let Some(Ok(message)) = stream.next().await {
        let Message::Binary(frame) = message else {
            if matches!(message, Message::Close(_)) {
                return;
            }
            continue;
        };
        if let Some(message) = decode(&frame)
            && input.send(message).await.is_err()
        {
            // The process takes no more input; its output goes on.
            std::future::pending::<()>().await;
        }
    }
}

/// What a client's frame says; None for frames without meaning here.
pub(super) fn decode(frame: &Bytes) -> Option<SessionInput> {
    match (*frame.first()?, frame.slice(1..)) {
        (STDIN, data) if data.is_empty() => None,
        (STDIN, data) => Some(SessionInput::Stdin(data)),
        (RESIZE, data) => resize(&data).map(SessionInput::Resize),
        (CLOSE, channel) if channel.first() == Some(&STDIN) => Some(SessionInput::StdinClosed),
        _ => None,
    }
}

/// A terminal size as clients send it: `{"Width":80,"Height":24}`.
pub(super) fn resize(data: &[u8]) -> Option<TerminalSize> {
    let size: Value = serde_json::from_slice(data).ok()?;
    let side = |name: &str| u16::try_from(size.get(name)?.as_u64()?).ok().filter(|n| *n > 0);
    Some(TerminalSize { columns: side("Width")?, rows: side("Height")? })
}

/// The final status of a session, as clients expect it.
pub(super) fn final_status(output: &SessionOutput) -> Value {
    match output {
        SessionOutput::Exited(0) => json!({"metadata": {}, "status": "Success"}),
        SessionOutput::Exited(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        SessionOutput::Failed(message) => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "message": message, "code": 500,
        }),
        SessionOutput::Stdout(_) | SessionOutput::Stderr(_) => Value::Null,
    }
}

fn frame(channel: u8, data: &[u8]) -> Message {
    let mut bytes = Vec::with_capacity(data.len() + 1);
    bytes.push(channel);
    bytes.extend_from_slice(data);
    Message::Binary(bytes.into())
}

async fn outbound(mut sink: SplitSink<WebSocket, Message>, mut output: mpsc::Receiver<SessionOutput>) {
    let mut ping = tokio::time::interval(PING_EVERY);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ping.tick().await;
    loop {
        let message = tokio::select! {
            message = output.recv() => message,
            _ = ping.tick() => {
                if sink.send(Message::Ping(Bytes::new())).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let message = message.unwrap_or_else(|| SessionOutput::Failed("the session was cut off".into()));
        let (sent, last) = match &message {
            SessionOutput::Stdout(data) => (sink.send(frame(STDOUT, data)).await, false),
            SessionOutput::Stderr(data) => (sink.send(frame(STDERR, data)).await, false),
            end => (sink.send(frame(STATUS, final_status(end).to_string().as_bytes())).await, true),
        };
        if sent.is_err() {
            return;
        }
        if last {
            // Without a code kubectl takes the end for a broken connection.
            let close = CloseFrame { code: close_code::NORMAL, reason: Utf8Bytes::default() };
            let _ = sink.send(Message::Close(Some(close))).await;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_carry_their_channel_eph_2() {
        let check = |bytes: &'static [u8], expected: Option<SessionInput>| {
            assert_eq!(decode(&Bytes::from_static(bytes)), expected, "{bytes:?}");
        };
        check(b"", None);
        check(b"\x00", None);
        check(b"\x00ls", Some(SessionInput::Stdin(Bytes::from_static(b"ls"))));
        check(b"\xff\x00", Some(SessionInput::StdinClosed));
        check(b"\xff\x01", None);
        check(
            b"\x04{\"Width\":100,\"Height\":40}",
            Some(SessionInput::Resize(TerminalSize { columns: 100, rows: 40 })),
        );
        check(b"\x04{\"Width\":0,\"Height\":40}", None);
        check(b"\x04nonsense", None);
        check(b"\x09x", None);
    }

    #[test]
    fn the_exit_code_is_told_as_clients_expect_eph_2() {
        assert_eq!(final_status(&SessionOutput::Exited(0))["status"], "Success");
        let failed = final_status(&SessionOutput::Exited(3));
        assert_eq!(failed["reason"], "NonZeroExitCode");
        assert_eq!(failed["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
    }
}
