//! Answers health checks of load balancers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::task::JoinSet;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use object::Key;

/// Timeout for a whole request, from connecting to reading the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a request's head in bytes; the smallest that hyper accepts.
const HEAD: usize = 8 << 10;

/// Serves connections for as long as it is polled. Each connection has one request.
pub(super) async fn serve(
    listener: TcpListener,
    service: Key,
    local: Arc<AtomicUsize>,
    askers: Arc<Semaphore>,
) {
    let mut checks = JoinSet::new();
    loop {
        while checks.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely the process is out of descriptors, and other connections will close soon.
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        // The semaphore is never closed.
        let Ok(room) = askers.clone().acquire_owned().await else { return };
        let (service, local) = (service.clone(), local.clone());
        checks.spawn(async move {
            let answer = |_: Request<Incoming>| {
                let response = health_response(&service, local.load(Ordering::Relaxed));
                async move { Ok::<_, Infallible>(response) }
            };
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).keep_alive(false).max_buf_size(HEAD);
            let serving = builder.serve_connection(TokioIo::new(stream), hyper::service::service_fn(answer));
            let _ = timeout(REQUEST_TIMEOUT, serving).await;
            drop(room);
        });
    }
}

fn health_response(service: &Key, local: usize) -> Response<Full<Bytes>> {
    let status = if local > 0 { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "service": {"namespace": service.namespace, "name": service.name},
        "localEndpoints": local,
        "serviceProxyHealthy": true,
    });
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", http::HeaderValue::from_static("application/json"));
    headers.insert("x-content-type-options", http::HeaderValue::from_static("nosniff"));
    headers.insert("x-load-balancing-endpoint-weight", http::HeaderValue::from(local));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_node_with_endpoints_is_healthy_and_another_is_not_net_6() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, local) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(2)));
        let askers = Arc::new(Semaphore::new(1));
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let idle = tokio::spawn(serve(other, Key::new("d", "idle"), local.clone(), askers.clone()));
        let serving = tokio::spawn(serve(listener, Key::new("d", "web"), local.clone(), askers));
        let fetch = async || {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            text
        };
        for (count, status) in [(2, "HTTP/1.1 200 OK"), (0, "HTTP/1.1 503 Service Unavailable")] {
            local.store(count, Ordering::Relaxed);
            let text = fetch().await;
            assert!(text.starts_with(status), "{text}");
            let body: serde_json::Value =
                serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
            assert_eq!(body["localEndpoints"], count, "{text}");
            assert_eq!(body["service"], json!({"namespace": "d", "name": "web"}), "{text}");
        }
        serving.abort();
        idle.abort();
    }
}
