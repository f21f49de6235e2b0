//! Names of objects: the alphabet of generated ones, and any name in a path of the API.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Letters that form no words and are not mistaken for one another. Used for the suffix of a generated name and the
/// encoding of a template's hash.
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns a name as one segment of a path, percent-encoded: names of some kinds, such as ClusterRoles, may contain
/// signs with a meaning in a URL, and a user may type any text. Unencoded, `?` would name the whole collection.
pub fn path_segment(name: &str) -> Cow<'_, str> {
    const ENCODED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
    utf8_percent_encode(name, ENCODED).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_a_path_sec_2() {
        for (name, segment) in [
            ("web-0.a", "web-0.a"),
            ("system:node", "system:node"),
            ("?", "%3F"),
            ("a?b=c#d", "a%3Fb%3Dc%23d"),
            ("../pods/x", "..%2Fpods%2Fx"),
            ("50% ä", "50%25%20%C3%A4"),
            ("", ""),
        ] {
            assert_eq!(path_segment(name), segment, "{name}");
        }
    }
}
