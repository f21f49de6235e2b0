//! Header modifications of requests and responses: set, add, remove.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::headers::HOP_BY_HOP;

/// Header modifications of requests or responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Replace existing values.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Added to existing values.
    pub add: Vec<(HeaderName, HeaderValue)>,
    /// Removed before the others are set and added.
    pub remove: Vec<HeaderName>,
}

impl HeaderEdits {
    /// Modifies these headers.
    pub fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
        for (name, value) in &self.add {
            headers.append(name, value.clone());
        }
    }
}

/// Returns whether a header may be modified: not if it determines the end or the destination of a message, or belongs
/// to one connection.
pub fn may_be_edited(name: &HeaderName) -> bool {
    *name != HOST && *name != CONTENT_LENGTH && *name != CONNECTION && !HOP_BY_HOP.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_set_added_and_removed_net_9() {
        let pair = |name: &'static str, value: &'static str| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let edits = HeaderEdits {
            set: vec![pair("a", "new"), pair("b", "set")],
            add: vec![pair("c", "2"), pair("d", "1")],
            remove: vec![HeaderName::from_static("e")],
        };
        let mut headers: HeaderMap =
            [pair("a", "old"), pair("c", "1"), pair("e", "gone"), pair("f", "kept")].into_iter().collect();
        edits.apply(&mut headers);
        for (name, expected) in [
            ("a", vec!["new"]),
            ("b", vec!["set"]),
            ("c", vec!["1", "2"]),
            ("d", vec!["1"]),
            ("e", vec![]),
            ("f", vec!["kept"]),
        ] {
            let all: Vec<_> = headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
            assert_eq!(all, expected, "{name}");
        }
        for (name, expected) in [
            ("x-own", true),
            ("host", false),
            ("content-length", false),
            ("transfer-encoding", false),
            ("te", false),
        ] {
            assert_eq!(may_be_edited(&HeaderName::from_static(name)), expected, "{name}");
        }
    }
}
