//! The path of a request: as rules match it, and as it is forwarded.
//!
//! Invariant: the endpoint gets the same path that the rules matched. Dot segments are resolved before both (RFC 3986,
//! 6.2.2.3); a path that the proxy and an endpoint may read differently (`..%2f`) is refused.

use std::iter::successors;

use percent_encoding::{AsciiSet, CONTROLS, PercentEncode, percent_decode_str, utf8_percent_encode};

/// Characters that must be escaped in a path that is assembled from decoded parts.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'%');

/// Escapes a decoded part of a path.
pub fn escaped(part: &str) -> PercentEncode<'_> {
    utf8_percent_encode(part, ESCAPED)
}

/// Returns a path without its trailing slash, and its parents down to the root, which is empty.
pub fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    successors(Some(path.trim_end_matches('/')), |&path| path.rfind('/').map(|end| &path[..end]))
}

/// The path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath {
    /// The path to forward: as the client sent it, but without dot segments.
    pub encoded: String,
    /// The path to match with rules: decoded and without empty segments, as in nginx.
    pub decoded: String,
}

impl RequestPath {
    /// Parses a path; `None` if it must not be served: it leads above the root, hides dot segments that only one side
    /// may see, or contains NUL.
    pub fn read(path: &str) -> Option<Self> {
        if !path.starts_with('/') {
            return None;
        }
        let mut retained: Vec<&str> = Vec::new();
        let mut ends_open = false;
        for segment in path.split('/').skip(1) {
            let decoded: Vec<u8> = percent_decode_str(segment).collect();
            ends_open = matches!(&decoded[..], b"." | b"..");
            match &decoded[..] {
                b"." => {}
                b".." => drop(retained.pop()?),
                _ => retained.push(segment),
            }
        }
        let mut sent = String::with_capacity(path.len());
        for segment in &retained {
            sent.push('/');
            sent.push_str(segment);
        }
        // `/a/b/..` is the directory `/a/`.
        if ends_open || sent.is_empty() {
            sent.push('/');
        }
        let text = percent_decode_str(&sent).decode_utf8_lossy();
        let is_hidden = |segment: &str| matches!(segment, "." | "..");
        if text.contains('\0') || text.split(['/', '\\']).any(is_hidden) {
            return None;
        }
        let mut decoded = String::with_capacity(text.len());
        for c in text.chars() {
            if c != '/' || !decoded.ends_with('/') {
                decoded.push(c);
            }
        }
        Some(Self { encoded: sent, decoded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_passed_on_as_it_was_judged_net_9() {
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let read = RequestPath::read(path).map(|read| (read.encoded, read.decoded));
            let read = read.as_ref().map(|(sent, decoded)| (sent.as_str(), decoded.as_str()));
            assert_eq!(read, expected, "{path}");
        };
        check("/", Some(("/", "/")));
        check("/a/b", Some(("/a/b", "/a/b")));
        check("/a//b/", Some(("/a//b/", "/a/b/")));
        check("//admin", Some(("//admin", "/admin")));
        check("/%61dmin", Some(("/%61dmin", "/admin")));
        check("/a%2Fb", Some(("/a%2Fb", "/a/b")));
        check("/a/./b/../c", Some(("/a/c", "/a/c")));
        check("/a/%2e%2E/c", Some(("/c", "/c")));
        check("/a/b/..", Some(("/a/", "/a/")));
        check("/a/.", Some(("/a/", "/a/")));
        check("/a/...", Some(("/a/...", "/a/...")));
        check("/%C3%A9/%ff", Some(("/%C3%A9/%ff", "/é/\u{fffd}")));
        check("/%252e%252e/x", Some(("/%252e%252e/x", "/%2e%2e/x")));
        check("/..", None);
        check("/a/../../b", None);
        check("/public/..%2fadmin", None);
        check("/public/%2e%2e%5cadmin", None);
        check("/public/..\\admin", None);
        check("/a%00b", None);
        check("*", None);
        check("", None);
    }
}
