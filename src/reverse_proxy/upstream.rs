//! Connections to endpoints: opened, reused for further requests, and closed.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::body::RequestBody;
use super::options::Protocol;
use base::dial::Dialer;
use base::duplex::Duplex;
use base::insecure_verifier;
use base::task::Tasks;
use base::tls_client::TlsClient;

/// Timeout for a connection that waits for its next request: shorter than the idle timeout of most servers.
const IDLE: Duration = Duration::from_secs(4);
/// Maximum number of idle connections to one endpoint.
const MAX_IDLE: usize = 32;
/// Timeout for a connection to become ready for the next request.
const READY: Duration = Duration::from_secs(1);
/// Maximum size of a response's head in bytes.
const HEAD_BYTES: usize = 64 << 10;

/// A request on its way to an endpoint.
pub(super) type UpstreamRequest = http::Request<RequestBody>;

/// The destination of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    pub(super) protocol: Protocol,
}

/// All connections to endpoints.
pub(super) struct Upstreams {
    dialer: Dialer,
    tasks: Tasks,
    waiting: Mutex<HashMap<Endpoint, Vec<IdleConnection>>>,
}

struct IdleConnection {
    sender: Sender,
    since: Instant,
}

/// The sending half of a connection.
enum Sender {
    Http1(http1::SendRequest<RequestBody>),
    Http2(http2::SendRequest<RequestBody>),
}

/// A connection that is ready for a request.
pub(super) struct Connection {
    sender: Sender,
    endpoint: Endpoint,
    /// It has served requests before: the endpoint may just be closing it.
    pub(super) is_used: bool,
}

impl Upstreams {
    pub(super) fn new(dialer: Dialer, tasks: &Tasks) -> Arc<Self> {
        Arc::new(Self { dialer, tasks: tasks.clone(), waiting: Mutex::default() })
    }

    /// Returns an idle connection or opens a new one.
    pub(super) async fn obtain(&self, endpoint: Endpoint, timeout: Duration) -> io::Result<Connection> {
        if let Some(sender) = self.take(endpoint) {
            return Ok(Connection { sender, endpoint, is_used: true });
        }
        let sender = tokio::time::timeout(timeout, self.connect(endpoint)).await??;
        if let Sender::Http2(sender) = &sender {
            self.keep(endpoint, Sender::Http2(sender.clone()));
        }
        Ok(Connection { sender, endpoint, is_used: false })
    }

    fn take(&self, endpoint: Endpoint) -> Option<Sender> {
        let mut waiting = self.waiting.lock();
        let all = waiting.get_mut(&endpoint)?;
        all.retain(IdleConnection::is_good);
        match &all.last()?.sender {
            // HTTP/2 multiplexes many requests on one connection.
            Sender::Http2(sender) => {
                let sender = sender.clone();
                all.last_mut()?.since = Instant::now();
                Some(Sender::Http2(sender))
            }
            Sender::Http1(_) => all.pop().map(|waiting| waiting.sender),
        }
    }

    fn keep(&self, endpoint: Endpoint, sender: Sender) {
        // Endpoints change over time.
        self.tidy();
        let mut waiting = self.waiting.lock();
        let all = waiting.entry(endpoint).or_default();
        if all.len() < MAX_IDLE {
            all.push(IdleConnection { sender, since: Instant::now() });
        }
    }

    /// Closes connections that have been idle for a while, and removes endpoints without connections.
    pub(super) fn tidy(&self) {
        self.waiting.lock().retain(|_, all| {
            all.retain(IdleConnection::is_good);
            !all.is_empty()
        });
    }

    async fn connect(&self, endpoint: Endpoint) -> io::Result<Sender> {
        let stream = self.dialer.tcp(endpoint.address).await?;
        // Small writes may be keystrokes of an interactive session and must not be delayed.
        let _ = stream.set_nodelay(true);
        match endpoint.protocol {
            Protocol::Http => self.http1(Box::new(stream)).await,
            Protocol::Grpc => self.http2(Box::new(stream)).await,
            Protocol::Https => {
                let stream = tls(b"http/1.1", endpoint.address, stream).await?;
                self.http1(Box::new(stream)).await
            }
            Protocol::Grpcs => {
                let stream = tls(b"h2", endpoint.address, stream).await?;
                self.http2(Box::new(stream)).await
            }
        }
    }

    async fn http1(&self, stream: Box<dyn Duplex>) -> io::Result<Sender> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        self.tasks.spawn("reverse proxy endpoint", async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!("a connection to an endpoint ended: {error}");
            }
        });
        Ok(Sender::Http1(sender))
    }

    async fn http2(&self, stream: Box<dyn Duplex>) -> io::Result<Sender> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_header_list_size(HEAD_BYTES as u32);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        self.tasks.spawn("reverse proxy endpoint", async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection to an endpoint ended: {error}");
            }
        });
        Ok(Sender::Http2(sender))
    }
}

impl IdleConnection {
    fn is_good(&self) -> bool {
        let is_open = match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => !sender.is_closed(),
        };
        is_open && self.since.elapsed() < IDLE
    }
}

impl Connection {
    /// Sends a request; a request that was not sent at all is returned with the error.
    pub(super) async fn send(
        &mut self,
        request: UpstreamRequest,
    ) -> Result<http::Response<Incoming>, TrySendError<UpstreamRequest>> {
        match &mut self.sender {
            Sender::Http1(sender) => sender.try_send_request(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        }
    }

    /// Makes the connection available for the next request, once the response has been read completely.
    pub(super) async fn release(self, upstreams: &Upstreams) {
        let Sender::Http1(mut sender) = self.sender else { return };
        if matches!(tokio::time::timeout(READY, sender.ready()).await, Ok(Ok(()))) {
            upstreams.keep(self.endpoint, Sender::Http1(sender));
        }
    }
}

/// Opens TLS without verifying the endpoint's certificate, like ingress-nginx.
async fn tls(protocol: &[u8], address: SocketAddr, stream: TcpStream) -> io::Result<TlsClient<TcpStream>> {
    let mut config = insecure_verifier::config().map_err(io::Error::other)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    TlsClient::connect(&connector, ServerName::from(address.ip()), stream).await
}
