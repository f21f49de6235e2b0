//! The proxy subresource: an HTTP request to a port of a pod, or to one of a service's endpoints.
//!
//! Bodies stream in both directions and are never held; upgraded connections are relayed to their end. Links
//! in HTML and in `Location` that lead to the server itself are rewritten, so that they lead through the
//! proxy.

mod backend;
mod forwarded_headers;
mod links;
mod path;
mod start_tags;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, LOCATION,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio_util::sync::CancellationToken;

use super::Server;
use super::connection::ReadMode;
use super::request_metrics;
use api::ApiError;
use api::webhook_client::exchange;
use backend::Backend;
use base::dial::Dial;
use base::dial_error::dial_error;
use base::duplex::Duplex;
use base::insecure_verifier;
use base::tls_client::TlsClient;
pub(super) use forwarded_headers::set_forwarded_headers as tell_forwarded;
use object::{Key, Kind};
pub(super) use path::path_below;
use path::split;

/// Headers that concern one connection and not the message.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    UPGRADE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
];

pub(super) async fn handle(
    server: &Server,
    kind: Kind,
    key: &Key,
    request: Request,
) -> Result<Response, ApiError> {
    let (prefix, path) = split(kind, request.uri().path());
    let (prefix, path) = (prefix.to_string(), path.to_string());
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    if path.is_empty() && matches!(*request.method(), Method::GET | Method::HEAD) {
        // Relative links must resolve below this path, so it needs a slash at its end.
        return moved(&format!("{prefix}/{query}"));
    }
    let backend = Backend::find(server.api(), kind, key)?;
    let unreachable =
        |reason: String| ApiError::Unavailable(format!("error trying to reach service: {reason}"));
    let socket = connect(&*server.api().dialer(), &backend).await.map_err(unreachable)?;
    let stopping = server.inner.stopping.clone();
    let path = if path.is_empty() { "/" } else { &path };
    let uri = format!("{path}{query}").parse().map_err(|e| ApiError::BadRequest(format!("{e}")))?;
    let response =
        send(stopping, socket, backend_request(request, uri, &backend), None).await.map_err(unreachable)?;
    Ok(client_response(response, &prefix, &backend))
}

fn moved(to: &str) -> Result<Response, ApiError> {
    let location = HeaderValue::try_from(to).map_err(|e| ApiError::BadRequest(e.to_string()))?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

async fn connect(dialer: &dyn Dial, backend: &Backend) -> Result<Box<dyn Duplex>, String> {
    let address = backend.address;
    let stream = dialer.tcp(address).await;
    let stream = stream.map_err(|error| format!("dial tcp {address}: {}", dial_error(&error)))?;
    // Small writes may be keystrokes; Nagle's algorithm would delay them.
    let _ = stream.set_nodelay(true);
    if !backend.tls {
        return Ok(Box::new(stream));
    }
    let config = insecure_verifier::config().map_err(|error| error.to_string())?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TlsClient::connect(&connector, ServerName::from(address.ip()), stream).await;
    stream.map(|stream| Box::new(stream) as Box<dyn Duplex>).map_err(|error| error.to_string())
}

/// Returns the request as the pod sees it.
fn backend_request(mut request: Request, uri: Uri, backend: &Backend) -> Request {
    let upgrade = upgrade_of(request.headers());
    let is_upgrade = upgrade.is_some();
    strip(request.headers_mut(), upgrade);
    tell_forwarded(&mut request, is_upgrade, None);
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    // The API's credential must not leave this server.
    headers.remove(AUTHORIZATION);
    // Links cannot be rewritten in a compressed page.
    headers.remove(ACCEPT_ENCODING);
    if !headers.contains_key(HOST)
        && let Ok(host) = HeaderValue::try_from(backend.address.to_string())
    {
        headers.insert(HOST, host);
    }
    request
}

/// Returns the protocol to which a message requests an upgrade.
pub(super) fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut options = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let is_requested = options.any(|option| option.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| is_requested).cloned()
}

/// Removes hop-by-hop headers, and those that the message declares as such, except for the requested upgrade.
pub(super) fn strip(headers: &mut HeaderMap, upgrade: Option<HeaderValue>) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.into_iter().chain(named) {
        headers.remove(name);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade);
    }
}

/// Removes the headers that [`strip`] removes from a response, except for an upgrade that it accepts.
pub(super) fn strip_response(response: &mut Response) {
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let upgrade = upgrade_of(response.headers()).filter(|_| switches);
    strip(response.headers_mut(), upgrade);
}

/// Sends a request on a connection of its own and returns the response, whose body still streams. Dropping
/// the response closes the connection; so does `limit`.
pub(super) async fn send(
    stopping: CancellationToken,
    socket: Box<dyn Duplex>,
    mut request: Request,
    limit: Option<Duration>,
) -> Result<Response, String> {
    let client_upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let (mut response, open) = exchange(socket, request, &stopping, limit).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(ours) = client_upgrade
    {
        let (theirs, under_way) = (hyper::upgrade::on(&mut response), request_metrics::current());
        base::task::start(stopping.run_until_cancelled_owned(async move {
            let _guard = (under_way, open);
            if let Ok((ours, theirs)) = tokio::try_join!(ours, theirs) {
                let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
                // An error means that one side hung up, which ends both.
                let _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
            }
        }));
        return Ok(response.map(Body::new));
    }
    Ok(response.map(|body| open.holding(body)))
}

/// Returns the response as the client sees it.
fn client_response(mut response: Response, prefix: &str, backend: &Backend) -> Response {
    strip_response(&mut response);
    let headers = response.headers_mut();
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    if let Some(location) = location.and_then(|location| below(location, prefix, backend))
        && let Ok(location) = HeaderValue::try_from(location)
    {
        headers.insert(LOCATION, location);
    }
    response.extensions_mut().insert(ReadMode::Interactive);
    if !links::has_links(response.headers()) {
        return response;
    }
    response.headers_mut().remove(CONTENT_LENGTH);
    let (prefix, backend) = (prefix.to_string(), *backend);
    response.map(|body| Body::new(links::Links::rewritten(body, move |link| below(link, &prefix, &backend))))
}

/// Returns the outside path of a pod's own location; `None` if the location is not the pod's own.
fn below(location: &str, prefix: &str, backend: &Backend) -> Option<String> {
    let scheme = if backend.tls { "https" } else { "http" };
    let path = match location.strip_prefix(&format!("{scheme}://{}", backend.address)) {
        Some("") => "/",
        Some(path) => path,
        None => location,
    };
    let own = path.starts_with('/') && !path.starts_with("//") && !path.starts_with(prefix);
    own.then(|| format!("{prefix}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_of_the_pod_are_found_below_the_proxy_api_3() {
        let backend = Backend { address: "127.72.0.2:80".parse().unwrap(), tls: false };
        let check = |location, expected: Option<&str>| {
            assert_eq!(below(location, "/p/proxy", &backend).as_deref(), expected, "{location}");
        };
        check("/login?x=1", Some("/p/proxy/login?x=1"));
        check("http://127.72.0.2:80/login", Some("/p/proxy/login"));
        check("http://127.72.0.2:80", Some("/p/proxy/"));
        check("https://127.72.0.2:80/login", None);
        check("http://elsewhere/login", None);
        check("//elsewhere/login", None);
        check("login", None);
        check("/p/proxy/login", None);
    }

    #[test]
    fn hop_by_hop_headers_are_not_forwarded_api_3() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("connection", "close, x-own"), ("x-own", "1"), ("te", "trailers"), ("accept", "*/*")]
        {
            headers.append(name, HeaderValue::from_static(value));
        }
        strip(&mut headers, None);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
