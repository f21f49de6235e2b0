//! An extension server for tests: HTTPS on a thread of its own, for clients with the front proxy's certificate. It
//! records the requests and gives the responses that a test defines.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::webhooks::server::server_config;

/// A response of the server.
pub(crate) enum Reply {
    /// A response with status 200.
    Json(Value),
    Text(u16, String),
    /// A redirect.
    Moved(&'static str),
    /// Chunks as they come; the sender learns that no client reads them any more. An error breaks the connection off.
    Stream(mpsc::Receiver<std::io::Result<Bytes>>),
    /// No response.
    Hangs,
    /// Another protocol, in which the server echoes everything.
    Echoes,
}

#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body_bytes: usize,
}

impl ReceivedRequest {
    /// All values of a header, in order.
    pub(crate) fn header(&self, name: &str) -> Vec<String> {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        self.headers.get_all(name).iter().map(text).collect()
    }
}

type Handler = dyn Fn(&ReceivedRequest) -> Reply + Send + Sync;

/// A running server; it stops when it is dropped.
pub(crate) struct Extension {
    pub(crate) address: SocketAddr,
    /// The authority that has signed its certificate, in PEM.
    pub(crate) authority: String,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Extension {
    /// Starts a server with a certificate for this name, for clients with certificates signed by this authority.
    pub(crate) fn start(
        name: &str,
        clients: &str,
        handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (authority, config) = server_config(ip, name, Some(clients));
        let mut config = (*config).clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let listener = std::net::TcpListener::bind((ip, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, stop): (Arc<Mutex<Vec<ReceivedRequest>>>, _) = (Arc::default(), CancellationToken::new());
        let state = (seen.clone(), Arc::new(handler) as Arc<Handler>);
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let listener = runtime.block_on(async { tokio::net::TcpListener::from_std(listener).unwrap() });
            runtime.block_on(stopped.run_until_cancelled(serve(listener, Arc::new(config), state)));
        });
        Self { address, authority, seen, stop, thread: Some(thread) }
    }

    /// Takes the recorded requests.
    pub(crate) fn take_seen(&self) -> Vec<ReceivedRequest> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type State = (Arc<Mutex<Vec<ReceivedRequest>>>, Arc<Handler>);

async fn serve(listener: tokio::net::TcpListener, config: Arc<rustls::ServerConfig>, state: State) {
    let acceptor = TlsAcceptor::from(config);
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), state.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| answer(request, state.clone()));
            let server = hyper::server::conn::http1::Builder::new();
            let _ = server.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
        });
    }
}

async fn answer(
    mut request: Request<Incoming>,
    (seen, handler): State,
) -> Result<Response<Body>, Infallible> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (head, mut body) = request.into_parts();
    let mut body_bytes = 0;
    while let Some(Ok(frame)) = body.frame().await {
        body_bytes += frame.data_ref().map_or(0, Bytes::len);
    }
    let received =
        ReceivedRequest { method: head.method, uri: head.uri.to_string(), headers: head.headers, body_bytes };
    seen.lock().unwrap().push(received.clone());
    let json = |code: u16, body: Body| {
        let answer = Response::builder().status(code).header("content-type", "application/json");
        answer.body(body).unwrap()
    };
    Ok(match handler(&received) {
        Reply::Json(value) => json(200, value.to_string().into()),
        Reply::Text(code, text) => json(code, text.into()),
        Reply::Moved(to) => {
            let mut answer = json(307, Body::empty());
            answer.headers_mut().insert("location", to.parse().unwrap());
            answer
        }
        Reply::Stream(mut pieces) => {
            let pieces = futures::stream::poll_fn(move |cx| pieces.poll_recv(cx));
            json(200, Body::from_stream(pieces))
        }
        Reply::Hangs => std::future::pending().await,
        Reply::Echoes => {
            tokio::spawn(async move {
                if let Ok(upgraded) = upgrade.await {
                    let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                }
            });
            let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            answer.header("connection", "Upgrade").header("upgrade", "echo").body(Body::empty()).unwrap()
        }
    })
}
