//! The server's health: the checks behind `/healthz`, `/livez` and `/readyz`, one by one or together, and the
//! pages with the server's start time and flags.

use std::fmt::Write as _;

use axum::response::Response;
use http::StatusCode;
use http::header::HeaderValue;

use super::Server;
use super::discovery::KUBERNETES_VERSION;
use super::query::Query;
use super::respond::Responder;
use base::sort::SliceOrder;
use object::time::go_duration;

/// A health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// The server responds.
    Ping,
    /// Writes can be stored; named after the component that stores objects in Kubernetes.
    Etcd,
    /// The server is not shutting down.
    Shutdown,
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Etcd => "etcd",
            Self::Shutdown => "shutdown",
        }
    }

    fn run(self, server: &Server) -> Result<(), String> {
        match self {
            Self::Etcd => server.api().refuses_writes().map_or(Ok(()), Err),
            Self::Shutdown if server.inner.stopping.is_cancelled() => Err("process is shutting down".into()),
            Self::Ping | Self::Shutdown => Ok(()),
        }
    }
}

/// The endpoints and their checks. A server whose disk fails is alive: a restart would not help.
const ENDPOINTS: [(&str, &[Check]); 3] = [
    ("healthz", &[Check::Ping]),
    ("livez", &[Check::Ping]),
    ("readyz", &[Check::Ping, Check::Etcd, Check::Shutdown]),
];

/// Returns all paths of health endpoints.
pub(super) fn paths() -> impl Iterator<Item = String> {
    ENDPOINTS.iter().flat_map(|(name, checks)| {
        let each = checks.iter().map(move |check| format!("/{name}/{}", check.name()));
        std::iter::once(format!("/{name}")).chain(each)
    })
}

/// Returns the response of a health endpoint; `None` for other paths.
pub(super) fn handle(server: &Server, path: &str, query: &Query) -> Option<Response> {
    let (endpoint, one) = path.strip_prefix('/')?.split_once('/').unwrap_or((&path[1..], ""));
    let (name, checks) = ENDPOINTS.iter().find(|(name, _)| *name == endpoint)?;
    if one.is_empty() {
        return Some(all(server, name, checks, query));
    }
    let check = checks.iter().find(|check| check.name() == one)?;
    Some(match check.run(server) {
        Ok(()) => text(StatusCode::OK, "ok".into()),
        Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
    })
}

fn all(server: &Server, name: &str, checks: &[Check], query: &Query) -> Response {
    let mut excluded = query.all("exclude");
    let (mut report, mut failed) = (String::new(), false);
    for check in checks {
        let name = check.name();
        if excluded.iter().any(|excluded| excluded == name) {
            excluded.retain(|excluded| excluded != name);
            let _ = writeln!(report, "[+]{name} excluded: ok");
        } else if let Err(why) = check.run(server) {
            failed = true;
            let _ = writeln!(report, "[-]{name} failed: {why}");
        } else {
            let _ = writeln!(report, "[+]{name} ok");
        }
    }
    if !excluded.is_empty() {
        excluded.order();
        let quoted: Vec<String> = excluded.iter().map(|name| format!("\"{name}\"")).collect();
        let quoted = quoted.join(", ");
        let _ = writeln!(report, "warn: some health checks cannot be excluded: no matches for {quoted}");
    }
    if failed {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{report}{name} check failed\n"));
    }
    let verbose = query.has("verbose");
    text(StatusCode::OK, if verbose { format!("{report}{name} check passed\n") } else { "ok".into() })
}

fn text(status: StatusCode, text: String) -> Response {
    let mut response = Responder::text(status, text);
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

const FOR_PEOPLE: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting \
                          compatibility guarantees and is for debugging purposes only.";

/// `/statusz`: the server's start time and version.
pub(super) fn status_page(server: &Server) -> Response {
    let (started, now) = (server.inner.started, server.api().server_clock().now());
    let up = now.duration_since(started).as_secs().max(0);
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    let version = env!("CARGO_PKG_VERSION");
    Responder::text(
        StatusCode::OK,
        format!(
            "\nkube-apiserver statusz\n{FOR_PEOPLE}\n\nStarted: {}\nUp: {hours} hr {minutes:02} min {seconds:02} \
             sec\nBinary version: podium {version}\nEmulation version: {}\nPaths: /flagz /healthz /livez /readyz \
             /statusz /version\n",
            started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            KUBERNETES_VERSION.trim_start_matches('v'),
        ),
    )
}

/// `/flagz`: the server's configuration, as far as Kubernetes has flags for it.
pub(super) fn flag_page(server: &Server) -> Response {
    let (config, limits) = (server.api().config(), server.inner.config.limits);
    let service_ranges: Vec<String> = server.api().service_ranges().iter().map(ToString::to_string).collect();
    let flags = [
        ("advertise-address", server.address()),
        ("disable-admission-plugins", format!("[{}]", config.disabled_admission.join(","))),
        ("http2-max-streams-per-connection", super::connection::STREAMS.to_string()),
        ("max-connections", limits.connections.to_string()),
        ("request-timeout", go_duration(config.timings.http_request_timeout.0)),
        ("service-cluster-ip-range", service_ranges.join(",")),
    ];
    let flags = flags.map(|(name, value)| format!("{name}={value}\n")).concat();
    Responder::text(StatusCode::OK, format!("\nkube-apiserver flagz\n{FOR_PEOPLE}\n\n{flags}"))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Credentials, ServerConfig};
    use api::{Api, ApiConfig};
    use base::clock::Clock;
    use store::Store;

    /// The service range is shown as the flag is written, not as a number of free bits.
    #[tokio::test(start_paused = true)]
    async fn the_service_range_is_shown_with_its_prefix() {
        let config = ApiConfig { service_range: "127.32.0.0/21".parse().unwrap(), ..ApiConfig::default() };
        let api = Api::new(Store::ephemeral(), Clock::starting_at(jiff::Timestamp::UNIX_EPOCH), config);
        let server =
            Server::new(api, Credentials::new("t"), CancellationToken::new(), ServerConfig::default());
        let page = flag_page(&server).into_body().collect().await.unwrap().to_bytes();
        let page = String::from_utf8(page.to_vec()).unwrap();
        assert!(page.contains("service-cluster-ip-range=127.32.0.0/21\n"), "{page}");
    }
}
