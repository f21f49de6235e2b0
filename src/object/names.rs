//! Names of objects: the alphabet of generated ones, and any name in a path of the API.

use std::borrow::Cow;

/// Letters that form no words and are not mistaken for one another. Used for the suffix of a generated name and the
/// encoding of a template's hash.
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns a name as one segment of a path, percent-encoded: names of some kinds, such as ClusterRoles, may contain
/// signs with a meaning in a URL, and a user may type any text. Unencoded, `?` would name the whole collection.
pub fn path_segment(name: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    if name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let encode =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    Cow::Owned(name.bytes().map(encode).collect())
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
