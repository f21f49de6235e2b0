//! Detects requests that a browser makes on behalf of another site's page.
//!
//! A token is sent by a client that knows it. A client certificate is sent by the browser for any page: a
//! page of another site, or one loaded under a name whose owner then points it here (DNS rebinding). Such
//! requests are unauthenticated. No response permits another site's page to read it (CORS): Kubernetes does
//! so only for origins in a flag.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Uri};

use object::ClusterDomain;

/// The header in which browsers report the origin of a request, and which no page can change.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns true if a browser makes this request for another site.
pub(super) fn is_cross_site(uri: &Uri, headers: &HeaderMap, domain: &ClusterDomain) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a header that is no text names no site")]
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let (origin, site) = (text(&ORIGIN), text(&SEC_FETCH_SITE));
    if origin.is_none() && site.is_none() {
        return false;
    }
    // HTTP/2 requests have the host in the URI's authority.
    let host = text(&HOST).or_else(|| uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default();
    let is_from_here = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from == host);
    matches!(site, Some("cross-site" | "same-site"))
        || origin.is_some_and(|origin| !is_from_here(origin))
        || !is_trusted_host(host, domain)
}

/// Returns true if no other party can point this name to this machine: an address, `localhost`, or a name of the
/// API in the cluster.
fn is_trusted_host(host: &str, domain: &ClusterDomain) -> bool {
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.to_ascii_lowercase();
    name.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || domain.api_names().contains(&name)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn requests_from_pages_of_other_sites_are_detected_sec_4() {
        for (host, origin, site, expected) in [
            // kubectl, client-go, curl.
            ("127.0.0.1:7443", None, None, false),
            ("my-alias:7443", None, None, false),
            // The user types the address; a page of this server, or at an address, makes the request.
            ("127.0.0.1:7443", None, Some("none"), false),
            ("localhost:7443", Some("https://localhost:7443"), Some("same-origin"), false),
            ("[::1]:7443", Some("https://[::1]:7443"), None, false),
            ("kubernetes.default.svc", Some("https://kubernetes.default.svc"), None, false),
            // A page of another site.
            ("127.0.0.1:7443", Some("https://evil.example"), Some("cross-site"), true),
            ("127.0.0.1:7443", Some("null"), None, true),
            ("127.0.0.1:7443", None, Some("cross-site"), true),
            ("127.0.0.1:7443", Some("https://127.0.0.1:8080"), Some("same-site"), true),
            // A name that was rebound to this server.
            ("evil.example:7443", None, Some("same-origin"), true),
            ("evil.example:7443", Some("https://evil.example:7443"), Some("same-origin"), true),
            ("localhost.evil.example", None, Some("none"), true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            let mut add = |name: HeaderName, value: Option<&'static str>| {
                value.map(|value| headers.insert(name, HeaderValue::from_static(value)))
            };
            add(ORIGIN, origin);
            add(SEC_FETCH_SITE, site);
            let found = is_cross_site(&Uri::from_static("/api"), &headers, &ClusterDomain::default());
            assert_eq!(found, expected, "{host} {origin:?} {site:?}");
        }
    }
}
