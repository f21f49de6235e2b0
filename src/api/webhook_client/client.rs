//! The HTTPS client of one webhook: certificates, a connection pool, bounds. Errors are worded as Go words
//! them, which users know.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::connector::{Connector, Peer};
use super::tls::{self, Trust};
use base::dial::{Dialer, LocalDialer};
use base::quote::{printable, quote};

/// The number of bytes of a webhook's error body that are passed on.
const MAX_ERROR_BODY_BYTES: usize = 1024;
/// Idle connections in the pool.
const MAX_IDLE: usize = 4;
/// The idle timeout of connections: Go's default.
const IDLE: Duration = Duration::from_secs(90);
/// The idle time after which an HTTP/2 connection is checked with a ping: Kubernetes' default. Calls share
/// one connection; without the ping, every call would time out on a connection whose peer has vanished
/// silently.
const PING_AFTER_IDLE: Duration = Duration::from_secs(30);
/// The timeout of that ping: Kubernetes' default.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// The error of a call that exceeded its time.
pub(crate) const DEADLINE_EXCEEDED: &str = "context deadline exceeded";

/// A client of one webhook.
#[derive(Clone)]
pub(super) struct WebhookClient {
    http: Client<Connector, Full<Bytes>>,
    uri: Uri,
    /// The server, and the dialer that connects to it.
    peer: Arc<Mutex<(Peer, Dialer)>>,
}

impl WebhookClient {
    /// Returns a client of `uri`, which must show a certificate of these authorities (empty: the system's).
    pub(super) fn new(uri: Uri, bundle: &[u8]) -> Result<Self, String> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_string();
        let peer = Peer { host: host.clone(), port: uri.port_u16().unwrap_or(443) };
        let peer: (Peer, Dialer) = (peer, Arc::new(LocalDialer));
        let peer = Arc::new(Mutex::new(peer));
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        let tls =
            TlsConnector::from(Arc::new(tls::config(Trust::Bundle(bundle), None, &[b"h2", b"http/1.1"])?));
        let connector = Connector { peer: peer.clone(), name, tls };
        let http = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(MAX_IDLE)
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(PING_AFTER_IDLE)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_keep_alive_while_idle(true)
            .build(connector);
        Ok(Self { http, uri, peer })
    }

    /// Sets the peer and the dialer of the next connection.
    pub(super) fn connect_to(&self, peer: Peer, dialer: Dialer) {
        *self.peer.lock() = (peer, dialer);
    }

    /// Sends a review and returns the response. Fails when the time is over or the response is longer than
    /// `most` bytes.
    pub(super) async fn post(self, body: Bytes, timeout: Duration, most: usize) -> Result<Bytes, String> {
        let uri = format!("{}?timeout={}s", self.uri, timeout.as_secs());
        let failed = |reason: String| format!("Post {}: {reason}", quote(&uri));
        let request = Request::builder()
            .method(Method::POST)
            .uri(&uri)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(body))
            .map_err(|error| failed(error.to_string()))?;
        let answered = async {
            let answer = self.http.request(request).await.map_err(|error| failed(error_message(&error)))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, most).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    return format!("the response is longer than {most} bytes");
                }
                format!("unexpected error when reading response body. Please retry. Original error: {error}")
            })?;
            let body = body.to_bytes();
            if head.status.is_success() { Ok(body) } else { Err(refusal(head.status, &body)) }
        };
        match tokio::time::timeout(timeout, answered).await {
            Ok(answered) => answered,
            Err(_) => Err(failed(DEADLINE_EXCEEDED.into())),
        }
    }
}

/// Returns the message of a response other than 200, in client-go's words. Redirects are not followed: the
/// server is fixed by the configuration.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    match status.as_u16() {
        400 => "the server rejected our request for an unknown reason".into(),
        401 => "the server has asked for the client to provide credentials".into(),
        404 => "the server could not find the requested resource".into(),
        405 => "the server does not allow this method on the requested resource".into(),
        429 => "the server has received too many requests and has asked us to try again later".into(),
        503 => "the server is currently unable to handle the request".into(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the \
                request"
            .into(),
        500.. => {
            let text = String::from_utf8_lossy(&body[..body.len().min(MAX_ERROR_BODY_BYTES)]);
            let text = text.trim();
            let text = if text.is_empty() { "unknown".to_string() } else { printable(text).into_owned() };
            format!("an error on the server ({}) has prevented the request from succeeding", quote(&text))
        }
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// Returns the reason why a request failed: the innermost error.
fn error_message(error: &ClientError) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<hyper::Error>() {
        Some(error) if error.is_incomplete_message() => "EOF".into(),
        _ => innermost.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use hyper::service::service_fn;
    use rcgen::{CertificateParams, KeyPair, SanType};
    use rustls::pki_types::PrivateKeyDer;
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsAcceptor;
    use tokio_util::sync::CancellationToken;

    use hyper_util::rt::TokioIo;

    use super::*;

    /// Starts a server that responds "yes" over HTTP/2; returns its address and certificate.
    async fn server() -> (SocketAddr, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let certificate = params.self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await.unwrap();
                    let service = service_fn(async |_| {
                        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(b"yes"))))
                    });
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        (address, certificate.pem().into_bytes())
    }

    /// Returns a relay to a server. Data in flight when it is cut is lost, and neither end notices.
    async fn wire(to: SocketAddr, cut: CancellationToken) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let cut = cut.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(to).await.unwrap();
                    let carried = tokio::io::copy_bidirectional(&mut near, &mut far);
                    if cut.is_cancelled() {
                        let _ = carried.await;
                    } else if cut.run_until_cancelled(carried).await.is_none() {
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        address
    }

    /// Regression: each call used a connection with a vanished peer, and timed out. Time stands still, and
    /// jumps, only while nothing arrives over the wire.
    #[tokio::test]
    async fn a_connection_to_a_vanished_peer_is_not_reused_api_16() {
        let (server, certificate) = server().await;
        let cut = CancellationToken::new();
        let address = wire(server, cut.clone()).await;
        let client =
            WebhookClient::new(format!("https://{address}/").parse().unwrap(), &certificate).unwrap();
        let call = async || client.clone().post(Bytes::new(), Duration::from_secs(10), 1024).await;
        assert_eq!(call().await.as_deref(), Ok(&b"yes"[..]));
        cut.cancel();
        // New connections are relayed again.
        tokio::time::pause();
        let message = call().await.unwrap_err();
        assert!(message.ends_with(DEADLINE_EXCEEDED), "{message}");
        tokio::time::sleep(PING_AFTER_IDLE + PING_TIMEOUT).await;
        tokio::time::resume();
        assert_eq!(call().await.as_deref(), Ok(&b"yes"[..]));
    }
}
