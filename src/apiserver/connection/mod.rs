//! One client's connection: served in its protocol, and closed when the client makes no progress.
//!
//! No client holds a connection, or the memory of responses, without using it: there are timeouts for the
//! first request, for idleness, for bodies and for reading responses, and limits on all connections together
//! ([`Limits`]).
//!
//! Architecture Invariant: nothing here depends on the content of requests.

mod idle;
mod load;
mod request_body;
mod response_body;
mod responses;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, HeaderValue, Method, Request, Version};
use hyper::body::Body as _;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Server;
use super::client_certificate::CertifiedClient;
use idle::Idle;
pub use load::Limits;
pub(super) use load::Load;
pub(super) use request_body::MAX_BODY;
use request_body::{MAX_DRAINED, RequestBody};
use response_body::ResponseBody;
pub(super) use responses::ReadMode;
use responses::{CloseReason, ResponseTracker, Timeouts};

/// Concurrent requests on an HTTP/2 connection; Kubernetes' number.
pub(super) const STREAMS: u32 = 100;

/// The time for requests in progress to end once a client was notified of the shutdown.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, with upgrades.
    Http1,
    /// HTTP/2.
    Http2,
}

/// The deadline for receiving a request's body, for handlers that read it whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyDeadline(pub(super) Instant);

/// The address of a request's client.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddress(pub(super) IpAddr);

/// The peer of a connection.
#[derive(Clone, Default)]
pub(super) struct Peer {
    /// The client that the connection's certificate identifies.
    pub(super) client: Option<Arc<CertifiedClient>>,
    /// `None` if the peer is in this process.
    pub(super) address: Option<IpAddr>,
}

/// Serves one connection until it ends, or until a session takes it over.
pub async fn serve_connection<I>(server: Server, io: I, protocol: Protocol)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    serve_counted(server, io, protocol, None, Peer::default()).await;
}

/// Serves one connection, which is counted until it is closed.
pub(super) async fn serve_counted<I>(
    server: Server,
    io: I,
    protocol: Protocol,
    counted: Option<OwnedSemaphorePermit>,
    peer: Peer,
) where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let timings = server.api().timings();
    let io = Idle::new(io, timings.streaming_connection_idle_timeout.0, counted);
    let timeouts = Timeouts {
        header: timings.http_header_timeout.0,
        idle: timings.http_idle_timeout.0,
        request: timings.http_request_timeout.0,
    };
    let answers = ResponseTracker::new(server.load().clone(), timeouts, protocol == Protocol::Http2);
    let service = {
        let answers = answers.clone();
        hyper::service::service_fn(move |request| {
            let (server, answers, peer) = (server.clone(), answers.clone(), peer.clone());
            async move {
                let mut request: Request<hyper::body::Incoming> = request;
                if let Some(client) = peer.client {
                    request.extensions_mut().insert(client);
                }
                if let Some(address) = peer.address {
                    request.extensions_mut().insert(PeerAddress(address));
                }
                Ok::<_, std::convert::Infallible>(handle(server, &answers, timeouts, request).await)
            }
        })
    };
    match protocol {
        Protocol::Http1 => {
            let mut builder = http1::Builder::new();
            // The idle timeout applies from the end of a response to the end of the next request's header.
            builder.timer(TokioTimer::new()).header_read_timeout(timeouts.idle);
            let connection = builder.serve_connection(io, service).with_upgrades();
            run(connection, http1::UpgradeableConnection::graceful_shutdown, &answers).await;
        }
        Protocol::Http2 => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
            let connection = builder.serve_connection(io, service);
            run(connection, http2::Connection::graceful_shutdown, &answers).await;
        }
    }
}

async fn run<C>(connection: C, farewell: impl FnOnce(Pin<&mut C>), answers: &ResponseTracker)
where
    C: Future<Output = Result<(), hyper::Error>>,
{
    let mut connection = std::pin::pin!(connection);
    let overdue = tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!("a connection ended: {error}");
            }
            return;
        }
        overdue = answers.overdue() => overdue,
    };
    tracing::debug!(?overdue, "closing a connection");
    if overdue == CloseReason::Idle {
        // The client is notified first, so that a request that is just arriving is still served.
        farewell(connection.as_mut());
        let _ = tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, connection).await;
    }
}

async fn handle(
    server: Server,
    tracker: &Arc<ResponseTracker>,
    timeouts: Timeouts,
    request: Request<hyper::body::Incoming>,
) -> http::Response<ResponseBody> {
    let record = tracker.begin();
    let closes = request.version() < Version::HTTP_2 && leaves_body(request.headers());
    let mut request = request.map(|body| Body::new(RequestBody::new(body, timeouts.request)));
    request.extensions_mut().insert(BodyDeadline(Instant::now() + timeouts.request));
    let is_head = request.method() == Method::HEAD;
    let mut response: Response = server.handle(request).await;
    if is_head {
        response = without_body(response);
    }
    if closes && response.status().is_client_error() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    record.ready(response.extensions().get::<ReadMode>().copied().unwrap_or_default());
    response.map(|body| ResponseBody::new(body, record))
}

/// Returns the response to a HEAD request, with the length of the body that a GET would have. HTTP/2 treats a body there
/// as an error.
fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact()
        && !response.headers().contains_key(CONTENT_LENGTH)
    {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    response.map(|_| Body::empty())
}

/// Returns true if a refused request's body is not read to its end: it exceeds the drain limit, or the client
/// waits for a `100 Continue`.
fn leaves_body(headers: &HeaderMap) -> bool {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    headers.contains_key(EXPECT) || length.is_some_and(|length| length > MAX_DRAINED as u64)
}
