//! Stand-ins for small images of Kubernetes' documentation: hello-app, liveness, agnhost and fluentd-elasticsearch
//! (IMG-2). Each behaves as the pages that use it describe, and prints a note if the real program does more.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::Instant;

use super::pause;
use super::web::{Body, full, listen, listening};

/// The port of hello-app and of the liveness server, unless `PORT` gives hello-app another.
const PORT: u16 = 8080;
/// The time for which the liveness server is healthy.
const HEALTHY: Duration = Duration::from_secs(10);
/// Timeout for a client to send its request.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);

/// Answers every request with a greeting, its version and the pod's name.
pub(super) async fn hello_app() -> io::Result<()> {
    let port = match std::env::var("PORT") {
        Ok(text) => text.parse().map_err(|_| io::Error::other(format!("invalid PORT {text:?}")))?,
        Err(_) => PORT,
    };
    let version = std::env::var("HELLO_APP_VERSION").unwrap_or_else(|_| "1.0.0".to_owned());
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let greeting = greeting(&version, &hostname);
    serve("hello-app", port, move |path| {
        eprintln!("Serving request: {path}");
        (StatusCode::OK, greeting.clone())
    })
    .await
}

fn greeting(version: &str, hostname: &str) -> String {
    format!("Hello, world!\nVersion: {version}\nHostname: {hostname}\n")
}

/// A server whose `/healthz` succeeds for ten seconds and fails from then on.
pub(super) async fn liveness() -> io::Result<()> {
    let start = Instant::now();
    serve("liveness", PORT, move |path| health(path, start.elapsed())).await
}

/// Returns the liveness server's response, given the time since it started.
fn health(path: &str, running: Duration) -> (StatusCode, String) {
    let seconds = running.as_secs_f64();
    match path {
        "/healthz" if running > HEALTHY => (StatusCode::INTERNAL_SERVER_ERROR, format!("error: {seconds}")),
        "/healthz" => (StatusCode::OK, "ok".to_owned()),
        "/started" => (StatusCode::OK, format!("{seconds}s")),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

/// Runs one of the two commands of agnhost that are built in: pause (the default) and liveness.
pub(super) async fn agnhost(arguments: &[String]) -> io::Result<()> {
    match arguments.first().map_or("pause", String::as_str) {
        "pause" => pause::wait().await,
        "liveness" => liveness().await,
        other => Err(io::Error::other(format!(
            "Podium's stand-in for agnhost has the commands pause and liveness, not {other:?}: load the real image \
             with \"podium image load FILE\""
        ))),
    }
}

/// Runs until it is stopped, and ships no logs.
pub(super) async fn fluentd() -> io::Result<()> {
    println!("fluentd: this is Podium's stand-in for the image: it runs, but reads and sends no logs");
    pause::wait().await
}

/// Answers GET requests by path, until a signal ends the process.
async fn serve<F>(program: &'static str, port: u16, answer: F) -> io::Result<()>
where
    F: Fn(&str) -> (StatusCode, String) + Clone + Send + Sync + 'static,
{
    let listener = listen(&listening(), port, program).await?;
    eprintln!("{program}: listening on {}", listener.local_addr()?);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // The client has disconnected, or no descriptor is free: both are temporary.
            Err(error) => {
                eprintln!("{program}: accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let answer = answer.clone();
        let service = hyper::service::service_fn(move |request| {
            let response = respond(&request, &answer);
            async { Ok::<_, Infallible>(response) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        // A client that disconnects ends its own connection only.
        base::task::start(async { drop(connection.await) });
    }
}

fn respond<B>(request: &Request<B>, answer: &impl Fn(&str) -> (StatusCode, String)) -> Response<Body> {
    let (status, text) = answer(request.uri().path());
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-2: the liveness example is restarted because its server fails after ten seconds.
    #[test]
    fn the_liveness_server_is_healthy_for_ten_seconds_img_2() {
        let table = [
            ("/healthz", 0, 200, "ok"),
            ("/healthz", 10, 200, "ok"),
            ("/healthz", 11, 500, "error: 11"),
            ("/started", 3, 200, "3s"),
            ("/", 3, 404, "404 page not found\n"),
        ];
        for (path, seconds, status, text) in table {
            let (found, body) = health(path, Duration::from_secs(seconds));
            assert_eq!((found.as_u16(), body.as_str()), (status, text), "{path} after {seconds} s");
        }
    }

    #[test]
    fn hello_app_greets_with_version_and_pod_name_img_2() {
        assert_eq!(greeting("2.0.0", "pod1"), "Hello, world!\nVersion: 2.0.0\nHostname: pod1\n");
    }
}
