//! Reports the server's warnings while manifests are applied: each warning once, as kubectl does.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use http::header::WARNING;

/// Code of the warnings to report. Other codes concern caches (RFC 7234, 5.5), and kubectl ignores them.
const MISCELLANEOUS: &str = "299";
/// Maximum number of remembered warnings; later ones may be reported repeatedly.
const MAX_REMEMBERED: usize = 4096;

/// Reports each distinct warning once.
pub struct Warnings {
    report: fn(&str),
    reported: Mutex<HashSet<String>>,
}

impl Warnings {
    /// Creates a collection that passes each new warning to `report`.
    pub fn new(report: fn(&str)) -> Self {
        Self { report, reported: Mutex::default() }
    }

    /// Reports the new warnings of a response.
    pub fn take(&self, headers: &HeaderMap) {
        for text in texts(headers) {
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.len() < MAX_REMEMBERED && !reported.insert(text.clone()) {
                continue;
            }
            drop(reported);
            (self.report)(&text);
        }
    }
}

/// The texts of a response's warnings. One header may hold several.
fn texts(headers: &HeaderMap) -> Vec<String> {
    let mut texts = Vec::new();
    for value in headers.get_all(WARNING) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let mut rest = value.trim();
        while let Some((code, text, after)) = first(rest) {
            if code == MISCELLANEOUS && !text.is_empty() {
                texts.push(text);
            }
            let Some(next) = after.trim_start().strip_prefix(',') else { break };
            rest = next.trim_start();
        }
    }
    texts
}

/// Splits the first warning off a header: its code, its text, and the rest. `None` if it is malformed.
fn first(header: &str) -> Option<(&str, String, &str)> {
    let (code, rest) = header.split_once(' ')?;
    let (_agent, rest) = rest.split_once(' ')?;
    let (text, rest) = quoted(rest)?;
    // A quoted date may follow the text.
    let rest = match quoted(rest.trim_start()) {
        Some((_date, rest)) => rest,
        None => rest,
    };
    Some((code, text, rest))
}

/// Splits a quoted text off the beginning, and returns it with the rest.
fn quoted(from: &str) -> Option<(String, &str)> {
    let inside = from.strip_prefix('"')?;
    let mut text = String::new();
    let mut letters = inside.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((text, &inside[at + 1..])),
            '\\' => text.push(letters.next()?.1),
            letter => text.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_as_servers_write_them_api_12() {
        let check = |values: &[&str], expected: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(WARNING, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            assert_eq!(texts(&headers), expected, "{values:?}");
        };
        check(&[], &[]);
        check(&[r#"299 - "a""#, r#"299 host:80 "b, c" "Sat, 25 Aug 2012 23:34:45 GMT""#], &["a", "b, c"]);
        check(&[r#"299 - "a \"b\" \\ c", 299 - "d""#], &[r#"a "b" \ c"#, "d"]);
        check(&[r#"199 - "cache", 299 - "x""#, r#"299 - """#], &["x"]);
        check(&["299 - \"\u{e9}\""], &["\u{e9}"]);
        for broken in ["", "299", "299 -", "299 - a", r#"299 - "a"#, r#"299 - "a\"#, ","] {
            check(&[broken], &[]);
        }
    }
}
