//! Listens for clients and serves them: HTTP/1.1 and HTTP/2, with and without TLS.
//!
//! A connection without a request under way is closed after a minute, and much sooner when few connections are left, so
//! that idle clients cannot exhaust them. The phases of a request have timeouts of their own (`body`, `forward`).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::client::{self, Client};
use super::forward::handle_request;
use super::{Port, ReverseProxy};
use base::duplex::Duplex;

/// Timeout for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Timeout for requests to finish during a graceful shutdown of their connection.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of a request's head, as in nginx.
const HEAD_BYTES: usize = 32 << 10;
/// Maximum number of concurrent requests on an HTTP/2 connection; nginx's default.
const STREAMS: u32 = 128;

/// Opens a listening socket at an address, or else at any free port of the same IP, with the error that prevented the
/// requested one.
pub async fn listen(address: SocketAddr) -> io::Result<(TcpListener, Option<io::Error>)> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok((listener, None)),
        Err(error) => {
            let any = TcpListener::bind(SocketAddr::new(address.ip(), 0)).await?;
            Ok((any, Some(error)))
        }
    }
}

/// Marks an address as the proxy's own until it is dropped.
struct ListenGuard {
    proxy: Arc<ReverseProxy>,
    address: Option<SocketAddr>,
}

impl ListenGuard {
    fn new(proxy: &Arc<ReverseProxy>, address: Option<SocketAddr>) -> Self {
        proxy.own.write().extend(address);
        Self { proxy: proxy.clone(), address }
    }
}

impl Drop for ListenGuard {
    fn drop(&mut self) {
        if let Some(address) = &self.address {
            self.proxy.own.write().remove(address);
        }
    }
}

/// Accepts until the task is stopped; connections outlive it.
pub async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, at: Port) {
    let (proxy, at) = (at.proxy.clone(), Arc::new(at));
    let own = ListenGuard::new(&proxy, listener.local_addr().ok());
    let port = own.address.map_or(0, |address| address.port());
    loop {
        // The semaphore is never closed.
        let Ok(room) = proxy.connections.clone().acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely the process is out of descriptors, and other connections will close soon.
                tracing::debug!("cannot accept a connection: {error}");
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
        None => serve(Box::new(stream), client, at).await,
        Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                if let Some(name) = stream.get_ref().1.server_name() {
                    let _ = client.server_name.set(name.to_ascii_lowercase());
                }
                serve(Box::new(stream), client, at).await;
            }
            Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
}

async fn serve(stream: Box<dyn Duplex>, client: Arc<Client>, at: Arc<Port>) {
    let service = {
        let (client, at) = (client.clone(), at.clone());
        hyper::service::service_fn(move |request: Request<Incoming>| {
            let (client, at) = (client.clone(), at.clone());
            async move {
                let guard = client.begins();
                let response = handle_request(&at, &client, request).await;
                Ok::<_, std::convert::Infallible>(response.map(|body| body.holding(guard)))
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
        // The client does not read its response, so waiting for the connection is pointless.
        () = client.cut_off.cancelled() => return,
        () = client.idle(&at.proxy) => {}
    }
    // A graceful shutdown does not lose a request that is just arriving.
    connection.as_mut().graceful_shutdown();
    let _ = timeout(SHUTDOWN_TIMEOUT, connection).await;
}
