//! Requests for aggregated APIs: authorized here and proxied to the extension API server, with the front
//! proxy's statement of the user (kube-aggregator's proxy, API-17).
//!
//! Invariant: the request that is sent is the request that was authorized. The path is split and decoded as
//! in `request_info`, and encoded again; a path that a server could read differently (`..`, another encoding)
//! is refused or sent as it was authorized.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{AUTHORIZATION, EXPECT, HOST, LOCATION, SEC_WEBSOCKET_PROTOCOL};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::Server;
use super::auth::is_token;
use super::connection::ReadMode;
use super::proxy::{send, strip, strip_response, tell_forwarded, upgrade_of};
use super::query::Query;
use super::request_info::RequestInfo;
use super::respond::Responder;
use super::{request_metrics, upgrade};
use api::aggregation::GroupVersion;
use api::identity::User;
use api::{Api, ApiError};

/// Characters other than these are escaped in path segments and queries.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
/// The text of the response for an unavailable server, as in Kubernetes.
const UNAVAILABLE: &str = "service unavailable";

/// Returns the group and version of a resource path or of an OpenAPI path, if an extension API server serves
/// it.
pub(super) fn of_path(api: &Api, path: &str) -> Option<GroupVersion> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    let mut parts = decoded.split('/').filter(|part| !part.is_empty());
    let (group, version) = match parts.next()? {
        "apis" => (parts.next()?, parts.next()?),
        "openapi" => match (parts.next()?, parts.next()?) {
            ("v3", "apis") => (parts.next()?, parts.next()?),
            _ => return None,
        },
        _ => return None,
    };
    let of = GroupVersion::new(group, version);
    api.api_services().is_remote(&of).then_some(of)
}

/// Proxies a request and its response.
pub(super) async fn handle(
    server: &Server,
    of: &GroupVersion,
    request: Request,
    query: &Query,
    user: &User,
) -> Result<Response, ApiError> {
    let api = server.api();
    let service = api.api_services().get(of).ok_or(ApiError::NoSuchResource)?;
    let Some(remote) = service.remote else { return Err(ApiError::NoSuchResource) };
    if !service.is_available {
        return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE));
    }
    let dialler = match remote.dialer(api) {
        Ok(dialler) => dialler,
        Err(why) => return Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR, &why)),
    };
    let peer = match remote.peer(api) {
        Ok(peer) => peer,
        Err(why) => {
            tracing::debug!("cannot forward a request for {of:?}: {why}");
            return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE));
        }
    };
    let info = RequestInfo::of(request.method(), request.uri().path(), query)?;
    let is_upgrade = upgrade_of(request.headers()).is_some();
    let is_endless = is_upgrade || info.is_long_running();
    let most = api.timings().http_request_timeout.0;
    let onward = backend_request(request, &peer.to_string(), user)?;
    let (stopping, under_way) = (server.inner.stopping.clone(), request_metrics::current());
    // The request runs on the runtime of webhook calls, which uses the machine's clock instead of the
    // cluster's. It is cancelled if the client leaves.
    let sent = api.caller().execute(async move {
        let sent = async {
            let socket = Box::new(dialler.dial(peer).await?);
            send(stopping, socket, onward, (!is_endless).then_some(most)).await
        };
        let sent = async {
            match under_way {
                Some(request) => request.scope(sent).await,
                None => sent.await,
            }
        };
        // This limits the time until the response starts, also for endless requests. The connection's own
        // limit ends at the same moment; `biased` makes the timeout win.
        tokio::select! {
            biased;
            () = tokio::time::sleep(most) => Ok(None),
            sent = sent => Ok(Some(sent)),
        }
    });
    match sent.await.0 {
        Ok(Some(Ok(response))) => Ok(client_response(response, is_endless)),
        Ok(Some(Err(why))) | Err(why) => {
            Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, &format!("error trying to reach service: {why}")))
        }
        Ok(None) => Err(ApiError::Timeout("request did not complete within the allotted timeout".into())),
    }
}

/// Returns the response that Go's `http.Error` writes: text, not a Status.
fn refusal(status: StatusCode, text: &str) -> Response {
    Responder::text(status, format!("{text}\n"))
}

/// Returns the request as the extension API server gets it.
fn backend_request(mut request: Request, host: &str, user: &User) -> Result<Request, ApiError> {
    let unsayable = |error: &dyn std::fmt::Display| {
        ApiError::BadRequest(format!("cannot write the user into a header: {error}"))
    };
    let location: Authority = host.parse().map_err(|error| unsayable(&error))?;
    let upgrade = upgrade_of(request.headers());
    let is_upgrade = upgrade.is_some();
    let protocols = protocols(request.headers());
    strip(request.headers_mut(), upgrade);
    tell_forwarded(&mut request, is_upgrade, Some(("https", &location)));
    *request.uri_mut() = backend_uri(request.uri())?;
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    // The client's credentials must not leave this server, and its impersonation headers must not be
    // repeated.
    for name in [AUTHORIZATION, EXPECT, SEC_WEBSOCKET_PROTOCOL] {
        headers.remove(name);
    }
    let acts_as = |name: &&HeaderName| name.as_str().replace('_', "-").starts_with("impersonate-");
    let acting: Vec<HeaderName> = headers.keys().filter(acts_as).cloned().collect();
    for name in acting {
        headers.remove(name);
    }
    user.write_remote_headers(headers).map_err(|error| unsayable(&error))?;
    headers.insert(HOST, HeaderValue::try_from(host).map_err(|error| unsayable(&error))?);
    if let Some(protocols) = protocols {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols);
    }
    Ok(request)
}

/// Returns the protocols of a WebSocket, without the one that is a token.
fn protocols(headers: &HeaderMap) -> Option<HeaderValue> {
    let requested = upgrade::requested_protocols(headers);
    let retained: Vec<&str> =
        requested.iter().map(AsRef::as_ref).filter(|protocol| !is_token(protocol)).collect();
    (!retained.is_empty()).then(|| HeaderValue::try_from(retained.join(", ")).ok())?
}

/// Returns the URI for the server: path and query as they were authorized, in their only encoding.
fn backend_uri(requested: &Uri) -> Result<Uri, ApiError> {
    let bad = |reason: String| ApiError::BadRequest(reason);
    let decoded = percent_decode_str(requested.path())
        .decode_utf8()
        .map_err(|_| bad("the path is not valid UTF-8".into()))?;
    let mut uri = String::new();
    for part in decoded.split('/').filter(|part| !part.is_empty()) {
        if part == "." || part == ".." {
            return Err(bad("the path must not have segments that are \".\" or \"..\"".into()));
        }
        uri.push('/');
        uri.extend(utf8_percent_encode(part, ESCAPED));
    }
    if decoded.ends_with('/') {
        uri.push('/');
    }
    let mut separator = '?';
    for pair in requested.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        uri.push(separator);
        separator = '&';
        let (key, value) = match pair.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (pair, None),
        };
        for (mark, text) in [("", Some(key)), ("=", value)] {
            if let Some(text) = text {
                let plain = text.replace('+', " ");
                let bytes: Vec<u8> = percent_decode_str(&plain).collect();
                uri.push_str(mark);
                uri.extend(percent_encoding::percent_encode(&bytes, ESCAPED));
            }
        }
    }
    uri.parse().map_err(|error| bad(format!("{error}")))
}

/// Returns the response as the client gets it.
fn client_response(mut response: Response, is_endless: bool) -> Response {
    if response.status().is_redirection() && response.headers().contains_key(LOCATION) {
        // Following the redirect would lead the client, with its credential, to an address of the server's
        // choice.
        let text = "the backend attempted to redirect this request, which is not permitted";
        return Responder::typed(StatusCode::BAD_GATEWAY, "text/plain; charset=utf-8", Body::from(text));
    }
    strip_response(&mut response);
    // The content stays as the server wrote it.
    response.extensions_mut().insert(if is_endless { ReadMode::Interactive } else { ReadMode::Promptly });
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request that is sent is the one that was authorized: no server can read another path or query out
    /// of it.
    #[test]
    fn a_path_is_sent_as_it_was_judged_api_17() {
        let check = |requested: &str, expected: Option<&str>| {
            let sent = backend_uri(&requested.parse().unwrap());
            assert_eq!(sent.ok().map(|uri| uri.to_string()).as_deref(), expected, "{requested}");
        };
        check("/apis/g/v1/widgets", Some("/apis/g/v1/widgets"));
        check("/apis/g/v1/namespaces/a%2Fsecrets", Some("/apis/g/v1/namespaces/a/secrets"));
        check("//apis/g//v1/namespaces//a/widgets/", Some("/apis/g/v1/namespaces/a/widgets/"));
        check("/apis/g/v1/widgets/%2e%2e/secrets", None);
        check("/apis/g/v1/widgets/../secrets", None);
        check("/apis/g/v1/widgets/./x", None);
        check("/apis/g/v1/widgets/..%2fx", None);
        check("/apis/g/v1/widgets/%252e%252e/x", Some("/apis/g/v1/widgets/%252e%252e/x"));
        check("/apis/g/v1/widgets/a%3Fwatch=1", Some("/apis/g/v1/widgets/a%3Fwatch%3D1"));
        check("/apis/g/v1/widgets/a;b%0a%5c", Some("/apis/g/v1/widgets/a%3Bb%0A%5C"));
        check("/apis/g/v1/widgets/system:x/%C3%A9", Some("/apis/g/v1/widgets/system:x/%C3%A9"));
        check("/apis/g/v1/%FF", None);
        check(
            "/apis/g/v1/widgets?labelSelector=a+in+%28b%29&watch&x=",
            Some("/apis/g/v1/widgets?labelSelector=a%20in%20%28b%29&watch&x="),
        );
        check(
            "/apis/g/v1/widgets?limit=1;watch=1&%77atch=0",
            Some("/apis/g/v1/widgets?limit=1%3Bwatch%3D1&watch=0"),
        );
    }
}
