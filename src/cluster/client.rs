//! A Kubernetes client for the API server in this process: HTTP over pipes in memory, without a socket; upgrades work.

use std::convert::Infallible;

use axum::body::Body;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::client::Body as KubeBody;

use apiserver::{Server, TrustedConnection};

/// A client for the server in this process, with these headers as defaults for its requests.
pub fn in_process(server: Server, headers: HeaderMap) -> kube::Client {
    let service = tower::service_fn(move |mut request: Request<KubeBody>| {
        add_missing(request.headers_mut(), &headers);
        send(server.clone(), request)
    });
    kube::Client::new(service, "default")
}

/// Sends a request over a pipe of its own: pipes are cheap, and no request waits for another's stream.
async fn send(server: Server, mut request: Request<KubeBody>) -> Result<Response<Incoming>, hyper::Error> {
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

/// Adds the headers of `defaults` whose names are missing.
fn add_missing(headers: &mut HeaderMap, defaults: &HeaderMap) {
    let missing: Vec<_> = defaults.keys().filter(|name| !headers.contains_key(*name)).collect();
    for name in missing {
        for value in defaults.get_all(name) {
            headers.append(name, value.clone());
        }
    }
}

async fn serve(server: Server, pipe: tokio::io::DuplexStream) {
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
