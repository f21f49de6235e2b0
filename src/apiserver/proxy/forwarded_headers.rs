//! The `X-Forwarded` headers of proxied requests: `-For`, and for requests without an upgrade also `-Uri`,
//! `-Host` and `-Proto` (apimachinery's `util/proxy`).

use axum::extract::Request;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::connection::PeerAddress;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Sets the headers of a request whose path is still the client's. Headers from the client are not trusted:
/// the peer's address is appended to `-For`, and `-Uri` is replaced. `-Host` and `-Proto` are replaced by
/// `location`, because Kubernetes' aggregator sets the server's scheme and address; for pods and services
/// `location` is `None`, and both headers stay.
pub(crate) fn set_forwarded_headers(
    request: &mut Request,
    is_upgrade: bool,
    location: Option<(&str, &Authority)>,
) {
    let peer = request.extensions().get::<PeerAddress>().map(|PeerAddress(address)| address.to_string());
    let uri = uri(request.uri().path());
    let headers = request.headers_mut();
    if let Some(peer) = peer {
        append(headers, &peer);
    }
    if is_upgrade {
        return;
    }
    replace(headers, URI, uri.as_bytes());
    if let Some((scheme, host)) = location {
        replace(headers, PROTO, scheme.as_bytes());
        replace(headers, HOST, host.as_str().as_bytes());
    }
}

/// Joins all values into one header, with the peer's address at the end.
fn append(headers: &mut HeaderMap, peer: &str) {
    let mut all = Vec::new();
    for value in headers.get_all(FOR) {
        all.extend_from_slice(value.as_bytes());
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(peer.as_bytes());
    replace(headers, FOR, &all);
}

fn replace(headers: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    // The client's header is removed even if the new value is invalid.
    headers.remove(&name);
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(name, value);
    }
}

/// Returns the path of a request as sent, cleaned like Go's `path.Join`: escapes stay.
fn uri(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let end = if path.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn the_forwarded_path_is_cleaned_and_stays_escaped_api_3() {
        for (path, expected) in [
            ("/api/v1/namespaces/a/pods/b/proxy", "/api/v1/namespaces/a/pods/b/proxy"),
            ("/api/v1/namespaces/a/pods/b/proxy/", "/api/v1/namespaces/a/pods/b/proxy/"),
            ("//a//b/./c/../d//", "/a/b/d/"),
            ("/a/%41%2Fb%20c", "/a/%41%2Fb%20c"),
            ("/a/..", "/"),
            ("/../../a", "/a"),
            ("/a/%0d%0ax-evil:1", "/a/%0d%0ax-evil:1"),
            ("/a/%C3%A9/%2e%2e", "/a/%C3%A9/%2e%2e"),
        ] {
            assert_eq!(uri(path), expected, "{path}");
        }
    }

    #[test]
    fn forwarded_headers_of_a_client_are_passed_or_replaced_as_in_kubernetes_api_17() {
        let authority: Authority = "10.0.0.7:443".parse().unwrap();
        let check = |peer: Option<&str>, is_upgrade: bool, is_located: bool, expected: [&[&str]; 4]| {
            let mut request = Request::builder().uri("/apis/g/v1/x?y=1");
            for (name, value) in [
                (FOR, "10.1.2.3"),
                (FOR, "10.1.2.4, 10.1.2.5"),
                (URI, "/evil"),
                (URI, "/worse"),
                (HOST, "client.example"),
                (PROTO, "gopher"),
            ] {
                request = request.header(name, value);
            }
            let mut request = request.body(Body::empty()).unwrap();
            if let Some(peer) = peer {
                request.extensions_mut().insert(PeerAddress(peer.parse().unwrap()));
            }
            set_forwarded_headers(&mut request, is_upgrade, is_located.then_some(("https", &authority)));
            for (name, expected) in [FOR, URI, HOST, PROTO].into_iter().zip(expected) {
                let found: Vec<_> = request.headers().get_all(&name).iter().collect();
                assert_eq!(found, expected, "{name} {peer:?} {is_upgrade} {is_located}");
            }
        };
        let three = &["10.1.2.3, 10.1.2.4, 10.1.2.5, fd00::9"][..];
        let as_received = &["10.1.2.3", "10.1.2.4, 10.1.2.5"][..];
        let (path, evil) = (&["/apis/g/v1/x"][..], &["/evil", "/worse"][..]);
        check(Some("fd00::9"), false, true, [three, path, &["10.0.0.7:443"], &["https"]]);
        check(Some("fd00::9"), false, false, [three, path, &["client.example"], &["gopher"]]);
        // A program in this process has no address.
        check(None, false, true, [as_received, path, &["10.0.0.7:443"], &["https"]]);
        check(Some("fd00::9"), true, true, [three, evil, &["client.example"], &["gopher"]]);
    }
}
