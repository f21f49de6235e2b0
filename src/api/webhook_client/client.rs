//! The HTTPS client of one webhook: certificates, kept connections, bounds. What goes wrong is told in the words users know,
//! which are Go's.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use base::dial_error::dial_error;
use base::quote::{printable, quote};

/// Of what a webhook says went wrong, so much is passed on.
const MAX_COMPLAINT_BYTES: usize = 1024;
/// Connections that are kept for the next call.
const MAX_IDLE: usize = 4;
/// And for how long: Go's default.
const IDLE: Duration = Duration::from_secs(90);
/// A connection of HTTP/2 on which nothing has come for so long is asked for a sign of life: Kubernetes' default. Calls
/// share one, so that of a peer that has vanished without a word each would otherwise wait in vain.
const SILENCE: Duration = Duration::from_secs(30);
/// And has so long to give it: Kubernetes' default.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// TCP and TLS may take so long together, also where a webhook may take longer: Go's default of a dial.
const DIAL: Duration = Duration::from_secs(30);

/// What is said of a call whose time is over.
pub(super) const TOO_LATE: &str = "context deadline exceeded";

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// A name or an address.
    pub(super) host: String,
    pub(super) port: u16,
}

/// A client of one webhook.
#[derive(Clone)]
pub(super) struct WebhookClient {
    http: Client<Connector, Full<Bytes>>,
    uri: Uri,
    peer: Arc<Mutex<Peer>>,
}

impl WebhookClient {
    /// A client that asks `uri` of who can show a certificate of these authorities (none: of the system's).
    pub(super) fn new(uri: Uri, bundle: &[u8]) -> Result<Self, String> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_string();
        let peer = Arc::new(Mutex::new(Peer { host: host.clone(), port: uri.port_u16().unwrap_or(443) }));
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        let tls = TlsConnector::from(Arc::new(tls(bundle)?));
        let connector = Connector { peer: peer.clone(), name, tls };
        let http = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(MAX_IDLE)
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(SILENCE)
            .http2_keep_alive_timeout(SIGN_OF_LIFE)
            .http2_keep_alive_while_idle(true)
            .build(connector);
        Ok(Self { http, uri, peer })
    }

    /// The next connection goes there.
    pub(super) fn connect_to(&self, peer: Peer) {
        *self.peer.lock() = peer;
    }

    /// Sends a review and gives the answer. Beyond the time, or when the answer is longer than `most` bytes, it is given up.
    pub(super) async fn post(self, body: Bytes, timeout: Duration, most: usize) -> Result<Bytes, String> {
        let uri = format!("{}?timeout={}s", self.uri, timeout.as_secs());
        let failed = |why: String| format!("Post {}: {why}", quote(&uri));
        let request = Request::builder()
            .method(Method::POST)
            .uri(&uri)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(body))
            .map_err(|error| failed(error.to_string()))?;
        let answered = async {
            let answer = self.http.request(request).await.map_err(|error| failed(told(&error)))?;
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
            Err(_) => Err(failed(TOO_LATE.into())),
        }
    }
}

/// What an answer other than 200 means to client-go. A redirection is not followed: who is asked is configured.
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
            let text = String::from_utf8_lossy(&body[..body.len().min(MAX_COMPLAINT_BYTES)]);
            let text = text.trim();
            let text = if text.is_empty() { "unknown".to_string() } else { printable(text).into_owned() };
            format!("an error on the server ({}) has prevented the request from succeeding", quote(&text))
        }
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// Why a request came to nothing: the innermost error says it.
fn told(error: &ClientError) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<hyper::Error>() {
        Some(error) if error.is_incomplete_message() => "EOF".into(),
        _ => innermost.to_string(),
    }
}

/// Who may answer: whoever has a certificate of these authorities, or one of the bundle's own.
fn tls(bundle: &[u8]) -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = if bundle.is_empty() {
        builder.with_root_certificates(system_roots()).with_no_client_auth()
    } else {
        let known: Vec<_> = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(known.iter().cloned());
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let signed = signed.map_err(|_| {
            "unable to load root certificates: unable to parse bytes as PEM block".to_string()
        })?;
        let verifier = BundleVerifier { signed, known };
        builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The authorities that this machine trusts, read once.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    ROOTS.get_or_init(read).clone()
}

/// As Go judges a bundle: a certificate in it vouches for itself, also where it is no authority. Small webhooks have one
/// that they signed themselves.
#[derive(Debug)]
struct BundleVerifier {
    signed: Arc<WebPkiServerVerifier>,
    known: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.known.iter().any(|known| known == end_entity) {
            return self.signed.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        let bad = |why| Err(rustls::Error::InvalidCertificate(why));
        let Ok((_, read)) = x509_parser::parse_x509_certificate(end_entity) else {
            return bad(CertificateError::BadEncoding);
        };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let validity = read.validity();
        if now < validity.not_before.timestamp() || now > validity.not_after.timestamp() {
            return bad(CertificateError::Expired);
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// Opens connections to a webhook.
#[derive(Clone)]
struct Connector {
    peer: Arc<Mutex<Peer>>,
    /// Who its certificate is for.
    name: ServerName<'static>,
    tls: TlsConnector,
}

impl Connector {
    async fn connect(self) -> Result<TlsConnection, io::Error> {
        let peer = self.peer.lock().clone();
        let dialled = TcpStream::connect((peer.host.as_str(), peer.port)).await;
        let stream = dialled.map_err(|error| {
            let text = format!("dial tcp {}:{}: {}", peer.host, peer.port, dial_error(&error));
            io::Error::new(error.kind(), text)
        })?;
        // A review is one write, which nobody should wait for.
        let _ = stream.set_nodelay(true);
        let stream = self.tls.connect(self.name, stream).await;
        let stream = stream.map_err(|error| io::Error::new(error.kind(), tls_error(&error)))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(TlsConnection { stream: TokioIo::new(stream), is_http2 })
    }
}

fn tls_error(error: &io::Error) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => why,
        Some(other) => return format!("tls: {other}"),
        None => {
            return if error.kind() == io::ErrorKind::UnexpectedEof {
                "EOF".into()
            } else {
                dial_error(error)
            };
        }
    };
    let why = match why {
        // Signed by somebody else of the same name, which Go says in brackets.
        UnknownIssuer | BadSignature => "x509: certificate signed by unknown authority".to_string(),
        Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => {
            "x509: certificate has expired or is not yet valid".into()
        }
        NotValidForNameContext { expected, presented } => {
            // As in `DnsName("a")`.
            let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_string();
            let names: Vec<_> = presented.iter().map(bare).collect();
            let expected = expected.to_str();
            format!("x509: certificate is valid for {}, not {expected}", names.join(", "))
        }
        NotValidForName => "x509: certificate is not valid for any names".into(),
        other => format!("x509: {other}"),
    };
    format!("tls: failed to verify certificate: {why}")
}

impl tower::Service<Uri> for Connector {
    type Response = TlsConnection;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<TlsConnection, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connected = tokio::time::timeout(DIAL, self.clone().connect());
        Box::pin(async { connected.await.unwrap_or_else(|_| Err(io::Error::other("i/o timeout"))) })
    }
}

/// A connection, and which protocol was agreed on.
struct TlsConnection {
    stream: TokioIo<TlsStream<TcpStream>>,
    is_http2: bool,
}

impl Connection for TlsConnection {
    fn connected(&self) -> Connected {
        if self.is_http2 { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl Read for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, to)
    }
}

impl Write for TlsConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use hyper::service::service_fn;
    use rcgen::{CertificateParams, KeyPair, SanType};
    use rustls::pki_types::PrivateKeyDer;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// A server that answers "yes" over HTTP/2; its certificate.
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

    /// A way to a server. What it carries when it is cut is lost, and neither end hears of that.
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

    /// Each call went to a connection that nobody answered on, and ended with its time. Time stands still, and jumps, only
    /// where nothing comes over the wire.
    #[tokio::test]
    async fn a_connection_whose_peer_has_vanished_is_left_api_16() {
        let (server, certificate) = server().await;
        let cut = CancellationToken::new();
        let address = wire(server, cut.clone()).await;
        let client =
            WebhookClient::new(format!("https://{address}/").parse().unwrap(), &certificate).unwrap();
        let call = async || client.clone().post(Bytes::new(), Duration::from_secs(10), 1024).await;
        assert_eq!(call().await.as_deref(), Ok(&b"yes"[..]));
        cut.cancel();
        // Connections that are made from now on are carried again.
        tokio::time::pause();
        let told = call().await.unwrap_err();
        assert!(told.ends_with(TOO_LATE), "{told}");
        tokio::time::sleep(SILENCE + SIGN_OF_LIFE).await;
        tokio::time::resume();
        assert_eq!(call().await.as_deref(), Ok(&b"yes"[..]));
    }
}
