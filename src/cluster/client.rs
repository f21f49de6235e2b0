//! A Kubernetes client for the API server in this process: HTTP over pipes in memory, without a socket; upgrades work.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use futures::FutureExt;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::client::Body as KubeBody;
use tower::Service;

use apiserver::{Server, TrustedConnection};

/// A client for the server in this process, with these headers as defaults for its requests.
pub fn in_process(server: Server, headers: HeaderMap) -> kube::Client {
    kube::Client::new(PipeConnector { server: Arc::new(server), headers: Arc::new(headers) }, "default")
}

/// Opens a pipe for each request: pipes are cheap, and no request waits for another's stream.
#[derive(Clone)]
struct PipeConnector {
    server: Arc<Server>,
    headers: Arc<HeaderMap>,
}

type HttpResult = Result<Response<Incoming>, hyper::Error>;

impl Service<Request<KubeBody>> for PipeConnector {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = HttpResult> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<KubeBody>) -> Self::Future {
        let server = self.server.clone();
        add_missing(request.headers_mut(), &self.headers);
        async move {
            let (near, far) = tokio::io::duplex(64 * 1024);
            base::task::start(serve(server, far));
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
            base::task::start(async move {
                // The connection ends with the response's body; the reader of the body gets the errors.
                let _ = connection.with_upgrades().await;
            });
            // HTTP/1 requires a host and an origin-form path.
            let path = request.uri().path_and_query().map_or("/".into(), ToString::to_string);
            if let Ok(uri) = path.parse() {
                *request.uri_mut() = uri;
            }
            request.headers_mut().insert(http::header::HOST, http::HeaderValue::from_static("podium"));
            sender.send_request(request).await
        }
        .boxed()
    }
}

/// Adds the headers of `defaults` whose names are missing.
fn add_missing(headers: &mut HeaderMap, defaults: &HeaderMap) {
    let missing: Vec<_> = defaults.keys().filter(|name| !headers.contains_key(*name)).collect();
    for name in missing {
        for value in defaults.get_all(name) {
            headers.append(name, value.clone());
        }
    }
}

async fn serve(server: Arc<Server>, pipe: tokio::io::DuplexStream) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let server = server.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(TrustedConnection);
            Ok::<_, Infallible>(server.handle(request).await)
        }
    });
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(pipe), service);
    let _ = served.with_upgrades().await;
}
