//! The headers of forwarded messages: hop-by-hop headers are removed, and headers about the client are added.

use http::header::{
    CONNECTION, COOKIE, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::net::IpAddr;

/// Headers that belong to one connection and not to the message (RFC 9110, 7.6.1).
pub(super) const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    UPGRADE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) client: IpAddr,
    /// The host as the client named it.
    pub(super) host: &'a str,
    /// The port that the client connected to.
    pub(super) port: u16,
    pub(super) is_tls: bool,
}

/// Returns the protocol that a message asks to switch to; never HTTP/2, which is not started that way here.
pub(super) fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_requested = options(headers).any(|option| option.eq_ignore_ascii_case("upgrade"));
    let named = headers.get(UPGRADE).filter(|_| is_requested)?;
    (!named.as_bytes().to_ascii_lowercase().starts_with(b"h2c")).then(|| named.clone())
}

fn options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Removes hop-by-hop headers, except for the upgrade to another protocol.
pub(super) fn strip(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>) {
    let named: Vec<HeaderName> = options(headers).filter_map(|name| name.parse().ok()).collect();
    for name in named.into_iter().chain(HOP_BY_HOP) {
        // A client must not remove `Host` or `Content-Length` by naming them in `Connection`.
        if name != HOST && name != http::header::CONTENT_LENGTH {
            headers.remove(name);
        }
    }
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, upgrade.clone());
    }
}

/// Rewrites the headers of a request for an endpoint, leaving `Host` and the like as the client sent them. The client's
/// own headers about its origin prove nothing: they are replaced, as in ingress-nginx by default.
pub(super) fn rewrite_request(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>, origin: Origin<'_>) {
    let wants_trailers = headers.get(TE).is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    strip(headers, upgrade);
    if wants_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    // The proxy itself sends `100 Continue`, when the endpoint reads the body.
    headers.remove(EXPECT);
    // HTTP/2 clients may send cookies in several headers (RFC 9113, 8.2.3).
    let cookies: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1 {
        let joined = cookies.join(&b"; "[..]);
        set(headers, COOKIE, &joined);
    }
    let scheme = if origin.is_tls { "https" } else { "http" };
    let client = origin.client.to_canonical().to_string();
    for (name, value) in [
        ("x-forwarded-for", client.as_str()),
        ("x-real-ip", &client),
        ("x-forwarded-host", origin.host),
        ("x-forwarded-port", &origin.port.to_string()),
        ("x-forwarded-proto", scheme),
        ("x-forwarded-scheme", scheme),
        ("x-scheme", scheme),
    ] {
        set(headers, HeaderName::from_static(name), value.as_bytes());
    }
    let id = HeaderName::from_static("x-request-id");
    if !headers.contains_key(&id) {
        set(headers, id, format!("{:032x}", rand::random::<u128>()).as_bytes());
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    // The client's value is always removed, even if the proxy has none.
    headers.remove(&name);
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn origin() -> Origin<'static> {
        let client = IpAddr::from([127, 0, 0, 9]);
        Origin { client, host: "a.example.com:8443", port: 8443, is_tls: true }
    }

    #[test]
    fn hop_by_hop_headers_are_not_forwarded_net_9() {
        let mut sent = headers(&[
            ("host", "a.example.com:8443"),
            ("connection", "close, x-own, host, content-length"),
            ("x-own", "1"),
            ("keep-alive", "5"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("content-length", "3"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
            ("accept", "*/*"),
            ("x-forwarded-for", "6.6.6.6"),
            ("x-forwarded-for", "7.7.7.7"),
            ("x-forwarded-proto", "gopher"),
            ("x-request-id", "mine"),
        ]);
        rewrite_request(&mut sent, None, origin());
        for (name, expected) in [
            ("host", Some("a.example.com:8443")),
            ("connection", None),
            ("x-own", None),
            ("keep-alive", None),
            ("proxy-connection", None),
            ("te", Some("trailers")),
            ("expect", None),
            ("content-length", Some("3")),
            ("cookie", Some("a=1; b=2")),
            ("accept", Some("*/*")),
            ("x-forwarded-for", Some("127.0.0.9")),
            ("x-forwarded-proto", Some("https")),
            ("x-forwarded-host", Some("a.example.com:8443")),
            ("x-forwarded-port", Some("8443")),
            ("x-real-ip", Some("127.0.0.9")),
            ("x-request-id", Some("mine")),
        ] {
            let all: Vec<_> = sent.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
            assert_eq!(all, expected.into_iter().collect::<Vec<_>>(), "{name}");
        }
    }

    #[test]
    fn only_a_requested_protocol_upgrade_is_forwarded_net_9() {
        let upgrade = |pairs: &[(&'static str, &'static str)]| {
            let mut sent = headers(pairs);
            let upgrade = upgrade_of(&sent);
            rewrite_request(&mut sent, upgrade.as_ref(), origin());
            let value = |name: &str| sent.get(name).map(|value| value.to_str().unwrap().to_string());
            (value("connection"), value("upgrade"))
        };
        let websocket = (Some("upgrade".to_string()), Some("websocket".to_string()));
        assert_eq!(upgrade(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]), websocket);
        assert_eq!(upgrade(&[("upgrade", "websocket")]), (None, None));
        assert_eq!(upgrade(&[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")]), (None, None));
    }
}
