//! Upgrading an HTTP request to a stream: the client's protocols, and the response that switches.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures::{Sink, SinkExt, Stream, StreamExt};
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

use super::respond::Responder;
use super::{Server, channels, request_metrics};
use api::ApiError;

const SPDY: &str = "SPDY/3.1";

/// The header with the SPDY client's protocols, and with our choice.
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The header with the protocols that we support.
const ACCEPTED_VERSIONS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// The longest WebSocket message that is read; clients send far smaller ones.
const MAX_MESSAGE: usize = 4 << 20;

/// A request for a stream, in the client's framing.
pub(super) enum Upgrade {
    /// WebSocket.
    WebSocket(Box<WebSocketRequest>),
    /// SPDY/3.1.
    Spdy(Box<SpdyUpgrade>),
}

/// A WebSocket, after the handshake.
pub(super) type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

/// A request to speak WebSocket.
pub(super) struct WebSocketRequest {
    key: HeaderValue,
    on_upgrade: OnUpgrade,
    /// The client's protocols, preferred first.
    requested: Vec<String>,
    chosen: Option<HeaderValue>,
}

/// A request to speak SPDY.
pub(super) struct SpdyUpgrade {
    headers: HeaderMap,
    on_upgrade: OnUpgrade,
}

impl Upgrade {
    /// Detects the upgrade that a request wants.
    pub(super) fn of(request: Request) -> Result<Self, ApiError> {
        let (mut parts, _) = request.into_parts();
        if is_web_socket(&parts.headers) {
            let request = WebSocketRequest::of(&mut parts)
                .map_err(|reason| ApiError::BadRequest(format!("unable to upgrade: {reason}")))?;
            return Ok(Self::WebSocket(Box::new(request)));
        }
        if requests_protocol(&parts.headers, SPDY)
            && let Some(on_upgrade) = parts.extensions.remove::<OnUpgrade>()
        {
            return Ok(Self::Spdy(Box::new(SpdyUpgrade { headers: parts.headers, on_upgrade })));
        }
        Err(ApiError::BadRequest("Upgrade request required".into()))
    }
}

/// Returns true for a WebSocket request.
pub(super) fn is_web_socket(headers: &HeaderMap) -> bool {
    requests_protocol(headers, "websocket")
}

/// Returns the protocols that a WebSocket client names, in the order of its header: the first supported one
/// is used.
pub(super) fn requested_protocols(headers: &HeaderMap) -> Vec<String> {
    listed(headers, &SEC_WEBSOCKET_PROTOCOL).map(ToString::to_string).collect()
}

fn requests_protocol(headers: &HeaderMap, protocol: &str) -> bool {
    let lists =
        |name: &HeaderName, token: &str| listed(headers, name).any(|one| one.eq_ignore_ascii_case(token));
    lists(&CONNECTION, "upgrade") && lists(&UPGRADE, protocol)
}

/// Returns the elements of a list header.
fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|one| !one.is_empty())
}

/// Returns the client's first protocol that we support; else Kubernetes' refusal.
pub(super) fn choose<'a>(requested: &[&str], served: &[&'a str]) -> Result<&'a str, String> {
    let chosen = requested.iter().find_map(|requested| served.iter().find(|served| *served == requested));
    chosen.copied().ok_or_else(|| {
        format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
            requested.join(" "),
            served.join(" ")
        )
    })
}

impl SpdyUpgrade {
    /// Returns the protocol inside SPDY, or the response that refuses.
    pub(super) fn choose(&self, served: &[&'static str]) -> Result<&'static str, Box<Response>> {
        let requested: Vec<&str> = listed(&self.headers, &PROTOCOL_VERSION).collect();
        if requested.is_empty() {
            let text = "unable to upgrade: X-Stream-Protocol-Version is required";
            return Err(Box::new(Responder::error(&ApiError::BadRequest(text.into()))));
        }
        choose(&requested, served).map_err(|text| {
            let mut refusal = Responder::error(&ApiError::NotPermitted(text));
            for version in served {
                refusal.headers_mut().append(ACCEPTED_VERSIONS, HeaderValue::from_static(version));
            }
            Box::new(refusal)
        })
    }

    /// Switches protocols, and runs the session on the socket until it ends or the server stops.
    pub(super) fn switch<F>(
        self,
        server: &Server,
        protocol: &'static str,
        speak: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let (stopping, under_way) = (server.inner.stopping.clone(), request_metrics::current());
        base::task::start(stopping.run_until_cancelled_owned(async move {
            let _guard = under_way;
            match self.on_upgrade.await {
                Ok(upgraded) => speak(TokioIo::new(upgraded)).await,
                Err(error) => tracing::debug!("an upgrade failed: {error}"),
            }
        }));
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(protocol));
        response
    }
}

impl WebSocketRequest {
    /// Reads a request, as RFC 6455, section 4.2.1 demands it; an error is the reason of the refusal.
    fn of(parts: &mut Parts) -> Result<Self, &'static str> {
        if parts.method != Method::GET {
            return Err("the request's method is not GET");
        }
        if parts.headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err("the request's Sec-WebSocket-Version is not 13");
        }
        Ok(Self {
            key: parts
                .headers
                .get(SEC_WEBSOCKET_KEY)
                .cloned()
                .ok_or("the request has no Sec-WebSocket-Key")?,
            on_upgrade: parts.extensions.remove().ok_or("the connection cannot be upgraded")?,
            requested: requested_protocols(&parts.headers),
            chosen: None,
        })
    }

    /// Returns the protocol over WebSocket; `none` is the protocol for clients that name none.
    pub(super) fn choose(
        &mut self,
        served: &[&'static str],
        none: &'static str,
    ) -> Result<&'static str, ApiError> {
        if self.requested.is_empty() {
            return Ok(none);
        }
        let requested: Vec<&str> = self.requested.iter().map(String::as_str).collect();
        let chosen = choose(&requested, served).map_err(ApiError::BadRequest)?;
        self.chosen = Some(HeaderValue::from_static(chosen));
        Ok(chosen)
    }

    /// Selects the client's first protocol that `is_one` accepts, under the client's name for it.
    pub(super) fn choose_any(&mut self, is_one: impl Fn(&str) -> bool) {
        let named = self.requested.iter().find(|requested| is_one(requested));
        self.chosen = named.and_then(|named| HeaderValue::from_str(named).ok());
    }

    /// Switches protocols, and runs the session on the socket until it ends or the server stops.
    pub(super) fn switch<F>(
        self,
        server: &Server,
        speak: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let accept = HeaderValue::try_from(derive_accept_key(self.key.as_bytes()));
        let (stopping, under_way) = (server.inner.stopping.clone(), request_metrics::current());
        base::task::start(stopping.run_until_cancelled_owned(async move {
            let _guard = under_way;
            match self.on_upgrade.await {
                Ok(upgraded) => {
                    let config = WebSocketConfig::default()
                        .max_message_size(Some(MAX_MESSAGE))
                        .max_frame_size(Some(MAX_MESSAGE));
                    let upgraded = TokioIo::new(upgraded);
                    speak(WebSocket::from_raw_socket(upgraded, Role::Server, Some(config)).await).await;
                }
                Err(error) => tracing::debug!("an upgrade failed: {error}"),
            }
        }));
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept.expect("base64 is valid in a header"));
        headers.extend(self.chosen.map(|chosen| (SEC_WEBSOCKET_PROTOCOL, chosen)));
        response
    }
}

/// Returns a node's error with the prefix that kubectl expects of a kubelet's errors. Always a Status:
/// kubectl decodes every body as one, and reads text such as `a: b`, which is YAML, as a Status without a
/// message.
pub(super) fn refusal(error: ApiError) -> ApiError {
    match error {
        ApiError::Internal(text) => ApiError::Failure(format!("unable to upgrade connection: {text}")),
        other => other,
    }
}

/// Returns the message that closes a WebSocket normally; without a code kubectl reports a broken connection.
pub(super) fn normal_close() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() }))
}

/// Sends messages and the close to a client from which only a close is expected. A client that does not take
/// a message in time is dropped.
pub(super) async fn send_to<E>(
    mut sink: impl Sink<Message> + Unpin,
    mut inward: impl Stream<Item = Result<Message, E>> + Unpin,
    messages: impl Stream<Item = Message>,
    timeout: Duration,
) {
    let outbound = async {
        let mut messages = std::pin::pin!(messages.chain(futures::stream::iter([normal_close()])));
        while let Some(message) = messages.next().await {
            if !matches!(tokio::time::timeout(timeout, sink.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
    };
    let inbound = async { while let Some(Ok(_)) = inward.next().await {} };
    tokio::select! {
        () = outbound => {}
        () = inbound => {}
    }
}

/// Returns the messages of a WebSocket as a byte stream in each direction.
pub(super) fn byte_stream(socket: WebSocket) -> impl AsyncRead + AsyncWrite + Send {
    let (sink, stream) = socket.split();
    let messages = stream.filter_map(|message| async {
        match message {
            Ok(message) => channels::data(message).map(Ok),
            Err(error) => Some(Err(std::io::Error::other(error))),
        }
    });
    let sink = sink
        .sink_map_err(std::io::Error::other)
        .with(|bytes: Bytes| std::future::ready(Ok::<_, std::io::Error>(Message::Binary(bytes))));
    tokio::io::join(StreamReader::new(Box::pin(messages)), SinkWriter::new(CopyToBytes::new(sink)))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// A client whose window is full. Regression: its watch stayed open for hours.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_no_message_is_left_api_19() {
        let events = || futures::stream::iter(["a", "b", "c"]).map(Message::from);
        let (sink, taken) = futures::channel::mpsc::channel(0);
        let inward = || futures::stream::pending::<Result<Message, std::convert::Infallible>>();
        let sending = send_to(sink, inward(), events(), Duration::from_mins(1));
        let ended = tokio::time::timeout(Duration::from_hours(1), sending).await;
        assert!(ended.is_ok(), "it waits for a client that does not read");
        drop(taken);
        let (sink, taken) = futures::channel::mpsc::channel(0);
        let sending = send_to(sink, inward(), events(), Duration::from_mins(1));
        let ((), taken) = tokio::join!(sending, taken.collect::<Vec<_>>());
        assert_eq!(taken.len(), 4);
        assert!(matches!(taken[3], Message::Close(_)));
    }

    #[tokio::test]
    async fn every_refusal_is_a_status_with_a_message_api_3() {
        let upgrade = |versions: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for version in versions {
                headers.append(PROTOCOL_VERSION, HeaderValue::from_static(version));
            }
            let on_upgrade = hyper::upgrade::on(Request::new(Body::empty()));
            SpdyUpgrade { headers, on_upgrade }
        };
        let served = ["v4.channel.k8s.io"];
        let unknown = *upgrade(&["v9.channel.k8s.io"]).choose(&served).unwrap_err();
        assert_eq!(unknown.headers()[ACCEPTED_VERSIONS], served[0]);
        let of_node = |text: &str| Responder::error(&refusal(ApiError::Internal(text.into())));
        for (answer, code, message) in [
            (*upgrade(&[]).choose(&served).unwrap_err(), 400, "X-Stream-Protocol-Version is required"),
            (unknown, 403, "unable to negotiate protocol: client supports [v9.channel.k8s.io]"),
            (
                of_node("container not found (\"c\")"),
                500,
                "unable to upgrade connection: container not found",
            ),
            (of_node("os: it failed"), 500, "unable to upgrade connection: os: it failed"),
        ] {
            assert_eq!(answer.status().as_u16(), code);
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &code.into()));
            assert!(status["message"].as_str().unwrap().contains(message), "{status}");
        }
    }

    /// The client's preferred protocol is chosen, not the first in sort order.
    #[test]
    fn protocols_are_tried_in_the_order_of_the_clients_header_api_3() {
        let chosen = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(value));
            }
            let requested = requested_protocols(&headers);
            let requested: Vec<&str> = requested.iter().map(String::as_str).collect();
            choose(&requested, &["v4.channel.k8s.io", "channel.k8s.io", "v5.channel.k8s.io"]).unwrap()
        };
        assert_eq!(
            chosen(&[
                "v5.channel.k8s.io,v4.channel.k8s.io, v3.channel.k8s.io,v2.channel.k8s.io,channel.k8s.io"
            ]),
            "v5.channel.k8s.io"
        );
        assert_eq!(chosen(&["v4.channel.k8s.io", "channel.k8s.io"]), "v4.channel.k8s.io");
        assert_eq!(chosen(&["nonsense", "channel.k8s.io , v5.channel.k8s.io"]), "channel.k8s.io");
    }

    #[test]
    fn the_clients_order_decides_api_3() {
        let served = ["v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"];
        assert_eq!(
            choose(&["v5.channel.k8s.io", "v3.channel.k8s.io", "v4.channel.k8s.io"], &served),
            Ok(served[1])
        );
        assert_eq!(
            choose(&["v9.channel.k8s.io", "x"], &served[..2]),
            Err("unable to upgrade: unable to negotiate protocol: client supports [v9.channel.k8s.io x], \
                 server accepts [v4.channel.k8s.io v3.channel.k8s.io]"
                .into())
        );
    }
}
