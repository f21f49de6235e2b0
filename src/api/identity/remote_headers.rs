//! The headers that name the user to extension API servers, which trust them only from the front proxy.

use std::fmt::Write as _;

use http::header::InvalidHeaderValue;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::User;

/// The header with the user's name, as the ConfigMap `extension-apiserver-authentication` declares it.
pub const USERNAME_HEADER: &str = "X-Remote-User";
/// The user's uid.
pub const UID_HEADER: &str = "X-Remote-Uid";
/// The header with one of the user's groups; repeated for each group.
pub const GROUP_HEADER: &str = "X-Remote-Group";
/// The prefix of headers with extra attributes, followed by their keys.
pub const EXTRA_HEADER_PREFIX: &str = "X-Remote-Extra-";

/// The common prefix of these headers, in lower case.
const PREFIX: &str = "x-remote-";

impl User {
    /// Returns the user of Kubernetes' aggregator, as which servers are probed.
    pub(crate) fn aggregator() -> Self {
        Self::named("system:kube-aggregator", vec![super::MASTERS.into()])
    }

    /// Writes the user's headers, replacing earlier ones. Fails for a name that no header can contain.
    pub fn write_remote_headers(&self, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
        remove_remote_headers(headers);
        // Bytes, because names may be non-ASCII.
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes());
        let name = |text: String| HeaderName::from_bytes(text.to_ascii_lowercase().as_bytes());
        headers.insert("x-remote-user", value(&self.name)?);
        if let Some(uid) = &self.uid {
            headers.insert("x-remote-uid", value(uid)?);
        }
        for group in &self.groups {
            headers.append("x-remote-group", value(group)?);
        }
        for (key, values) in &self.extra {
            let Ok(name) = name(format!("{EXTRA_HEADER_PREFIX}{}", escaped(key))) else { continue };
            for text in values {
                headers.append(name.clone(), value(text)?);
            }
        }
        Ok(())
    }
}

/// Removes all headers that a server could take for the front proxy's: some servers treat `_` as `-`.
fn remove_remote_headers(headers: &mut HeaderMap) {
    let is_one = |name: &&HeaderName| name.as_str().replace('_', "-").starts_with(PREFIX);
    let names: Vec<HeaderName> = headers.keys().filter(is_one).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Returns a key for the end of a header name: invalid characters and the percent sign are percent-encoded.
fn escaped(key: &str) -> String {
    let mut text = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_the_api_stands_in_place_of_the_clients_api_17() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("x_remote_user", "root"),
            ("x-remote_group", "system:masters"),
            ("x-remote-uid", "0"),
            ("accept", "*/*"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut user = User::named("jané", vec!["a".into(), "b".into()]);
        user.extra.insert("example.com/pod name%".into(), vec!["x".into(), "y".into()]);
        user.write_remote_headers(&mut headers).unwrap();
        let mut actual: Vec<(String, String)> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        actual.sort();
        let expected = [
            ("accept", "*/*"),
            ("x-remote-extra-example.com%2fpod%20name%25", "x"),
            ("x-remote-extra-example.com%2fpod%20name%25", "y"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-user", "jané"),
        ];
        assert_eq!(actual, expected.map(|(name, value)| (name.to_string(), value.to_string())));
        assert!(User::named("a\nx-remote-group: b", Vec::new()).write_remote_headers(&mut headers).is_err());
    }
}
