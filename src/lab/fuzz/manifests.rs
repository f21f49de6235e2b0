//! Manifests: every reported position is in the text, and a parsed document survives writing and parsing.

use manifest::{from_yaml, parse_bytes, to_yaml};

/// Maximum size of a document, after expansion of its aliases, that is written and parsed again; the parser's own limit
/// is larger.
const MAX_ROUND_TRIP_BYTES: usize = 64 << 10;

/// Input: the content of a file.
pub(super) fn check(bytes: &[u8]) {
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r')).count();
    for result in parse_bytes(bytes, "fuzz") {
        let document = match result {
            Ok(document) => document,
            Err(error) => {
                assert!(error.position.is_none_or(|at| at.line <= lines + 1), "{error}");
                continue;
            }
        };
        assert!((1..=lines).contains(&document.line), "line {} of {lines}", document.line);
        if let Err(error) = document.object() {
            assert!(error.position.is_none_or(|at| at.line <= lines + 1), "{error}");
        }
        let json = document.value.to_string();
        if json.len() < MAX_ROUND_TRIP_BYTES {
            assert_eq!(from_yaml(&json).ok().as_ref(), Some(&document.value), "{json:?}");
            let yaml = to_yaml(&document.value);
            assert_eq!(from_yaml(&yaml).ok().as_ref(), Some(&document.value), "{yaml:?}");
        }
    }
}
