//! Connections to external servers: dialled and encrypted within a time limit.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use base::dial::{Dial, Dialer, dial};
use base::dial_error::dial_error;
use base::server_trust::tls_error;
use base::tls_client::TlsClient;

/// The time limit of TCP and TLS together, even if the webhook has more time: Go's default for dialling.
const DIAL: Duration = Duration::from_secs(30);

/// The destination of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// A name or an address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Connects to this peer, whose certificate must be valid for `name`.
pub(crate) async fn connect(
    dialer: &dyn Dial,
    peer: &Peer,
    name: ServerName<'static>,
    tls: &TlsConnector,
) -> Result<TlsClient<TcpStream>, io::Error> {
    let connected = async {
        let dialled = dial(dialer, &peer.host, peer.port).await;
        let stream = dialled.map_err(|error| {
            io::Error::new(error.kind(), format!("dial tcp {peer}: {}", dial_error(&error)))
        })?;
        // A request is a single write; Nagle's algorithm would delay it.
        let _ = stream.set_nodelay(true);
        let stream = TlsClient::connect(tls, name, stream).await;
        stream.map_err(|error| io::Error::new(error.kind(), tls_error(&error)))
    };
    tokio::time::timeout(DIAL, connected).await.unwrap_or_else(|_| Err(io::Error::other("i/o timeout")))
}

/// Opens connections to a webhook.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) peer: Arc<Mutex<(Peer, Dialer)>>,
    /// The name that the server's certificate must be valid for.
    pub(super) name: ServerName<'static>,
    pub(super) tls: TlsConnector,
}

impl tower::Service<Uri> for Connector {
    type Response = TlsConnection;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<TlsConnection, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { peer, name, tls } = self.clone();
        Box::pin(async move {
            let (peer, dialer) = peer.lock().clone();
            let stream = connect(&*dialer, &peer, name, &tls).await?;
            let is_http2 = stream.alpn_protocol() == Some(b"h2");
            Ok(TlsConnection { stream: TokioIo::new(stream), is_http2 })
        })
    }
}

/// A connection and its negotiated protocol.
pub(super) struct TlsConnection {
    stream: TokioIo<TlsClient<TcpStream>>,
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
