//! The host of a request.

use http::HeaderMap;
use http::Uri;
use http::header::HOST;

/// Maximum length: the longest DNS name, and space for a port.
const MAX_HOST_BYTES: usize = 300;

/// The host of a request: as the client wrote it, with the port, and the name that rules are matched with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHost {
    /// The host as it is forwarded.
    pub authority: String,
    /// In lower case, without the port.
    pub name: String,
}

impl RequestHost {
    /// Reads the host of a request; `None` if it names no host, several, or an invalid one.
    pub fn of(uri: &Uri, headers: &HeaderMap) -> Option<Self> {
        let mut named = headers.get_all(HOST).iter();
        let header = named.next();
        if named.next().is_some() {
            return None;
        }
        // RFC 9112, 3.2.2: the target's own host takes precedence over the header.
        let authority = match uri.authority() {
            Some(authority) => authority.as_str(),
            None => header?.to_str().ok()?,
        };
        Self::read(authority)
    }

    /// Parses `HOST[:PORT]`.
    fn read(authority: &str) -> Option<Self> {
        let (name, port) = match authority.rfind(':') {
            Some(colon) if !authority.ends_with(']') => (&authority[..colon], &authority[colon + 1..]),
            _ => (authority, ""),
        };
        let is_address = name.starts_with('[') && name.ends_with(']');
        let inner = if is_address { &name[1..name.len() - 1] } else { name };
        let is_of_name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_');
        let is_of_address = |c: u8| c.is_ascii_hexdigit() || matches!(c, b':' | b'.');
        let is_right = inner.bytes().all(|c| if is_address { is_of_address(c) } else { is_of_name(c) });
        if inner.is_empty() || !is_right || authority.len() > MAX_HOST_BYTES {
            return None;
        }
        if !port.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        (!name.is_empty()).then(|| Self { authority: authority.into(), name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_nothing_net_9() {
        let check = |authority: &str, expected: Option<&str>| {
            let read = RequestHost::read(authority).map(|host| host.name);
            assert_eq!(read.as_deref(), expected, "{authority}");
        };
        check("a.example.com", Some("a.example.com"));
        check("A.Example.COM:8080", Some("a.example.com"));
        check("a.example.com.", Some("a.example.com"));
        check("a_b", Some("a_b"));
        check("127.0.0.1:80", Some("127.0.0.1"));
        check("[::1]:80", Some("[::1]"));
        check("[::1]", Some("[::1]"));
        for wrong in ["", ":80", ".", "a b", "a/b", "a@b", "a:b", "a,b", "a%00", "::1", "[a", "a\"", "[g::]"]
        {
            check(wrong, None);
        }
        check(&"a".repeat(301), None);
    }

    #[test]
    fn a_request_has_one_host_net_9() {
        let of = |uri: &str, hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, http::HeaderValue::from_static(host));
            }
            RequestHost::of(&uri.parse().unwrap(), &headers).map(|host| host.name)
        };
        assert_eq!(of("/", &["a"]).as_deref(), Some("a"));
        assert_eq!(of("http://b/", &["a"]).as_deref(), Some("b"));
        assert_eq!(of("/", &[]), None);
        assert_eq!(of("/", &["a", "a"]), None);
    }
}
