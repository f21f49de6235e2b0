//! Sessions over WebSocket (`v5.channel.k8s.io` and before).
//!
//! Channels: 0 stdin, 1 stdout, 2 stderr, 3 the final status, 4 resize; 255 (v5) closes the channel named by the
//! next byte.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::status::{StatusForm, resize};
use super::{SessionReader, SessionWriter, ends};
use crate::channels::Framing;
use crate::upgrade::{self, WebSocket, WebSocketRequest};
use api::ApiError;
use base::session::{SessionInput, SessionOutput};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// The time for a client to answer the first ping.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// The delay between the first pong and the first output. kubectl 1.30 to 1.32 discards output that arrives
/// before it has registered its streams, and reports "Unknown stream id". It starts reading and registers the
/// streams at the same time, so the streams are registered a moment after the pong. A distant server takes
/// longer than this anyway.
const SETTLE: Duration = Duration::from_millis(20);

/// Keeps idle sessions alive through middleboxes, and detects silent clients that have disappeared.
const PING_EVERY: Duration = Duration::from_secs(5);

const PROTOCOLS: &[&str] = &[
    "v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io",
    "base64.channel.k8s.io",
];

/// The encoding of one version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subprotocol {
    framing: Framing,
    status: StatusForm,
}

impl Subprotocol {
    /// Returns the version that the client prefers.
    pub(super) fn choose(upgrade: &mut WebSocketRequest) -> Result<Self, ApiError> {
        let protocol = upgrade.choose(PROTOCOLS, "channel.k8s.io")?;
        Ok(Self { framing: Framing::of(protocol), status: StatusForm::of_protocol(protocol) })
    }
}

/// Returns the input on a channel; `None` if it has no meaning here.
fn input(channel: u8, data: Bytes) -> Option<SessionInput> {
    match channel {
        STDIN if data.is_empty() => None,
        STDIN => Some(SessionInput::Stdin(data)),
        RESIZE => resize(&data).map(SessionInput::Resize),
        CLOSE if data.first() == Some(&STDIN) => Some(SessionInput::StdinClosed),
        _ => None,
    }
}

/// Returns both halves of a socket.
pub(super) fn split(socket: WebSocket, dialect: Subprotocol) -> (impl SessionReader, impl SessionWriter) {
    let (sink, stream) = socket.split();
    let (answered, ready) = oneshot::channel();
    let next_ping = Instant::now();
    (
        WebSocketReader { stream, framing: dialect.framing, answered: Some(answered) },
        WebSocketWriter { sink, dialect, next_ping, ready: Some(ready) },
    )
}

struct WebSocketReader {
    stream: SplitStream<WebSocket>,
    framing: Framing,
    /// Notified by the first pong.
    answered: Option<oneshot::Sender<()>>,
}

impl SessionReader for WebSocketReader {
    async fn next(&mut self) -> Option<SessionInput> {
        loop {
            let message = self.stream.next().await?.ok()?;
            match &message {
                Message::Close(_) => return None,
                Message::Pong(_) => drop(self.answered.take()),
                _ => {}
            }
            if let Some((channel, data)) = self.framing.content(message)
                && let Some(input) = input(channel, data)
            {
                return Some(input);
            }
        }
    }
}

struct WebSocketWriter {
    sink: SplitSink<WebSocket, Message>,
    dialect: Subprotocol,
    next_ping: Instant,
    /// Closed by the first pong; `None` once it was awaited.
    ready: Option<oneshot::Receiver<()>>,
}

impl WebSocketWriter {
    async fn ping(&mut self) -> bool {
        self.next_ping = Instant::now() + PING_EVERY;
        self.sink.send(Message::Ping(Bytes::new())).await.is_ok()
    }

    /// Waits until the client can take output.
    async fn wait_until_writable(&mut self) {
        if let Some(ready) = self.ready.take() {
            if self.next_ping <= Instant::now() && !self.ping().await {
                return;
            }
            let _ = tokio::time::timeout(READY_WITHIN, ready).await;
            tokio::time::sleep(SETTLE).await;
        }
    }
}

impl SessionWriter for WebSocketWriter {
    async fn send_output(&mut self, output: SessionOutput) -> bool {
        self.wait_until_writable().await;
        let Subprotocol { framing, status } = self.dialect;
        let message = match &output {
            SessionOutput::Stdout(data) => Some(framing.message(STDOUT, data)),
            SessionOutput::Stderr(data) => Some(framing.message(STDERR, data)),
            end => status.of(end).map(|text| framing.message(STATUS, text.as_bytes())),
        };
        if let Some(message) = message
            && self.sink.send(message).await.is_err()
        {
            return false;
        }
        !ends(&output) || self.sink.send(upgrade::normal_close()).await.is_ok()
    }

    async fn idle(&mut self) {
        loop {
            tokio::time::sleep_until(self.next_ping).await;
            if !self.ping().await {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::session::TerminalSize;

    #[test]
    fn channels_mean_what_kubernetes_says_eph_2() {
        let check = |channel, data: &'static [u8], expected: Option<SessionInput>| {
            assert_eq!(input(channel, Bytes::from_static(data)), expected, "{channel} {data:?}");
        };
        check(0, b"", None);
        check(0, b"ls", Some(SessionInput::Stdin(Bytes::from_static(b"ls"))));
        check(255, b"\x00", Some(SessionInput::StdinClosed));
        check(255, b"\x01", None);
        let size = TerminalSize { columns: 100, rows: 40 };
        check(4, b"{\"Width\":100,\"Height\":40}", Some(SessionInput::Resize(size)));
        check(4, b"{\"Width\":0,\"Height\":40}", None);
        check(4, b"nonsense", None);
        check(9, b"x", None);
    }
}
