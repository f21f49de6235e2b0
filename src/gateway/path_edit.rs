//! Path modification by rewrites and redirects.

use percent_encoding::percent_decode_str;

use super::problem::Cause;
use super::resources::PathModifier;
use reverse_proxy::{RequestPath, escaped};

/// A modification of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathEdit {
    Full(String),
    /// Replaces the prefix that matched.
    Prefix(String),
}

impl PathEdit {
    /// Reads a path modifier.
    pub(super) fn read(of: &PathModifier) -> Result<Self, Cause> {
        let text = |value: Option<&String>| {
            let text = value.map(String::as_str).unwrap_or_default();
            let is_of_path = |c: u8| {
                c.is_ascii_graphic()
                    && !matches!(
                        c,
                        b'"' | b'#' | b'<' | b'>' | b'?' | b'`' | b'\\' | b'^' | b'{' | b'|' | b'}'
                    )
            };
            let is_right = text.bytes().all(is_of_path) && (text.is_empty() || text.starts_with('/'));
            if is_right {
                Ok(text.to_string())
            } else {
                Err(Cause::unsupported(format!("invalid path \"{text}\"")))
            }
        };
        match of.type_.as_str() {
            "ReplaceFullPath" => Ok(Self::Full(text(of.replace_full_path.as_ref())?)),
            "ReplacePrefixMatch" => Ok(Self::Prefix(text(of.replace_prefix_match.as_ref())?)),
            other => Err(Cause::unsupported(format!("path modifier {other} is not supported"))),
        }
    }

    /// Modifies a request's path, of which `prefix` has matched.
    pub(super) fn apply(&self, path: &RequestPath, prefix: &str) -> String {
        let made = match self {
            Self::Full(full) => full.clone(),
            Self::Prefix(instead) => {
                format!("{}{}", instead.trim_end_matches('/'), rest_of(path, prefix))
            }
        };
        if made.is_empty() { "/".into() } else { made }
    }
}

/// Returns the part after a prefix: as the client has encoded it, if the end of the prefix can be found in the encoded
/// path.
fn rest_of(path: &RequestPath, prefix: &str) -> String {
    let sent = &path.encoded;
    let ends = sent.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([sent.len()]);
    for end in std::iter::once(0).chain(ends) {
        let decoded = percent_decode_str(&sent[..end]).decode_utf8_lossy();
        let mut plain = String::with_capacity(decoded.len());
        for c in decoded.chars() {
            if c != '/' || !plain.ends_with('/') {
                plain.push(c);
            }
        }
        if plain.trim_end_matches('/') == prefix {
            return sent[end..].to_string();
        }
        if plain.len() > prefix.len() + 1 {
            break;
        }
    }
    // The client has sent a slash of the prefix encoded.
    escaped(path.decoded.get(prefix.len()..).unwrap_or_default()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API's table, with encoded paths added.
    #[test]
    fn a_prefix_is_replaced_as_the_api_documents_net_9() {
        for (path, prefix, instead, expected) in [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo/", "/foo", "/xyz", "/xyz/"),
            ("/foo/bar", "/foo", "", "/bar"),
            ("/foo/", "/foo", "", "/"),
            ("/foo", "/foo", "", "/"),
            ("/foo/", "/foo", "/", "/"),
            ("/foo", "/foo", "/", "/"),
            ("/foo/bar", "", "/xyz", "/xyz/foo/bar"),
            ("/", "", "/xyz", "/xyz/"),
            ("/a/b/c%20d", "/a/b", "/x", "/x/c%20d"),
            ("//a//b/c", "/a/b", "/x", "/x/c"),
            ("/%61/b", "/a", "/x", "/x/b"),
            ("/a%2Fb/c", "/a/b", "/x", "/x/c"),
            ("/a%2Fb%2Fc%3Fd", "/a/b", "/x", "/x/c%3Fd"),
        ] {
            let read = RequestPath::read(path).unwrap();
            assert_eq!(
                PathEdit::Prefix(instead.into()).apply(&read, prefix),
                expected,
                "{path} {prefix} {instead}"
            );
        }
        let read = RequestPath::read("/a/b").unwrap();
        assert_eq!(PathEdit::Full("/c".into()).apply(&read, "/a"), "/c");
    }
}
