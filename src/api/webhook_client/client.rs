//! The HTTPS client of one webhook: certificates, kept connections, bounds. What goes wrong is told in the words users know,
//! which are Go's.

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
use base::quote::{printable, quote};

/// Of what a webhook says went wrong, so much is passed on.
const MAX_COMPLAINT_BYTES: usize = 1024;
/// Connections that are kept for the next call.
const MAX_IDLE: usize = 4;
/// And for how long: Go's default.
const IDLE: Duration = Duration::from_secs(90);

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
        let tls =
            TlsConnector::from(Arc::new(tls::config(Trust::Bundle(bundle), None, &[b"h2", b"http/1.1"])?));
        let connector = Connector { peer: peer.clone(), name, tls };
        let http = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(MAX_IDLE)
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
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
            Err(_) => Err(failed("context deadline exceeded".into())),
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
