//! Listening for clients, and serving what they send: HTTP/1.1 and HTTP/2, with TLS and without.
//!
//! Nobody holds a connection without using it: one on which no request is under way ends after a minute, and much sooner
//! when there are few left. What takes time within a request has time-outs of its own (`body`, `forward`).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::client::{self, Client};
use super::forward::answer;
use super::{Port, ReverseProxy};

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long what is under way may take to end once a client was told to go.
const FAREWELL: Duration = Duration::from_secs(1);
/// How large a request's head may be, as in nginx.
const HEAD_BYTES: usize = 32 << 10;
/// Requests at once on a connection of HTTP/2; nginx's number.
const STREAMS: u32 = 128;

/// Opens a listening socket: where it is asked for, else at any free port there. The error says why not there.
pub(crate) async fn listen(address: SocketAddr) -> io::Result<(TcpListener, Option<io::Error>)> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok((listener, None)),
        Err(error) => {
            let any = TcpListener::bind(SocketAddr::new(address.ip(), 0)).await?;
            Ok((any, Some(error)))
        }
    }
}

/// That an address is the proxy's own, for as long as it listens there.
struct Own {
    proxy: Arc<ReverseProxy>,
    address: Option<SocketAddr>,
}

impl Own {
    fn new(proxy: &Arc<ReverseProxy>, address: Option<SocketAddr>) -> Self {
        proxy.own.write().extend(address);
        Self { proxy: proxy.clone(), address }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(address) = &self.address {
            self.proxy.own.write().remove(address);
        }
    }
}

/// Accepts for as long as the listener is wanted; connections outlive it.
pub(crate) async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, at: Port) {
    let (proxy, at) = (at.proxy.clone(), Arc::new(at));
    let own = Own::new(&proxy, listener.local_addr().ok());
    let port = own.address.map_or(0, |address| address.port());
    loop {
        // Never closed.
        let Ok(room) = proxy.connections.clone().acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: others are about to be closed.
                tracing::debug!("a connection was not accepted: {error}");
                sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let client = Client::new(address, port, tls.is_some(), room);
        let (tls, at) = (tls.clone(), at.clone());
        proxy.tasks.spawn("reverse proxy connection", async move { greet(stream, tls, client, at).await });
    }
}

async fn greet(stream: TcpStream, tls: Option<TlsAcceptor>, client: Arc<Client>, at: Arc<Port>) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(stream, client, at).await,
        Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                if let Some(name) = stream.get_ref().1.server_name() {
                    let _ = client.server_name.set(name.to_ascii_lowercase());
                }
                serve(stream, client, at).await;
            }
            Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    client: Arc<Client>,
    at: Arc<Port>,
) {
    let service = {
        let (client, at) = (client.clone(), at.clone());
        hyper::service::service_fn(move |request: Request<Incoming>| {
            let (client, at) = (client.clone(), at.clone());
            async move {
                let under_way = client.begins();
                let response = answer(&at, &client, request).await;
                Ok::<_, std::convert::Infallible>(response.map(|body| body.holding(under_way)))
            }
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(client::IDLE).max_buf_size(HEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_BYTES as u32);
    let mut connection =
        std::pin::pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!("a connection of {} ended: {error}", client.address);
            }
            return;
        }
        // It does not take what it asked for, so there is nothing to wait for.
        () = client.cut_off.cancelled() => return,
        () = client.idle(&at.proxy) => {}
    }
    // A request that is on its way just now is not lost.
    connection.as_mut().graceful_shutdown();
    let _ = timeout(FAREWELL, connection).await;
}
