//! Conditional and range requests: pure decisions on headers.

use http::{HeaderMap, header};

/// Identifies a file's content by its time and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// The time of the last write, in seconds since 1970.
    pub(super) modified: i64,
    /// Its length in bytes.
    pub(super) length: u64,
}

/// The response that a request's conditions require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evaluation {
    /// All of the file.
    Whole,
    /// Nothing: the client has the current content.
    NotModified,
    /// `length` bytes from `from` on.
    Part { from: u64, length: u64 },
    /// A part that the file does not have.
    OutOfRange,
}

impl Version {
    /// `"hex-hex"`.
    pub(super) fn etag(self) -> String {
        format!("\"{:x}-{:x}\"", self.modified, self.length)
    }

    /// Formats the time as `Sat, 21 Nov 2026 03:27:14 GMT`.
    pub(super) fn last_modified(self) -> String {
        #[expect(
            clippy::disallowed_methods,
            reason = "a time beyond the calendar says nothing: 1970 serves as well"
        )]
        let time = jiff::Timestamp::from_second(self.modified).unwrap_or_default();
        time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    /// Evaluates the conditions in a request's headers.
    pub(super) fn evaluate(self, headers: &HeaderMap) -> Evaluation {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let not_modified = match text(header::IF_NONE_MATCH) {
            Some(tags) => self.is_among(tags),
            None => {
                text(header::IF_MODIFIED_SINCE).and_then(seconds).is_some_and(|since| self.modified <= since)
            }
        };
        if not_modified {
            return Evaluation::NotModified;
        }
        let unchanged = match text(header::IF_RANGE) {
            Some(date) if !date.starts_with(['"', 'W']) => seconds(date) == Some(self.modified),
            Some(tag) => tag == self.etag(),
            None => true,
        };
        match text(header::RANGE).filter(|_| unchanged).and_then(|range| range.strip_prefix("bytes=")) {
            Some(range) => self.part(range),
            None => Evaluation::Whole,
        }
    }

    fn is_among(self, tags: &str) -> bool {
        let own = self.etag();
        tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == own)
    }

    /// Evaluates a header with one range. A request for several ranges gets the whole file, as the standard allows.
    fn part(self, range: &str) -> Evaluation {
        let Some((from, to)) = range.split_once('-').map(|(from, to)| (from.trim(), to.trim())) else {
            return Evaluation::Whole;
        };
        let number = |text: &str| text.parse::<u64>().ok();
        let (from, to) = match (from, to) {
            ("", last) => match number(last) {
                Some(0) => return Evaluation::OutOfRange,
                Some(last) => (self.length.saturating_sub(last), u64::MAX),
                None => return Evaluation::Whole,
            },
            (from, "") => match number(from) {
                Some(from) => (from, u64::MAX),
                None => return Evaluation::Whole,
            },
            (from, to) => match (number(from), number(to)) {
                (Some(from), Some(to)) if from <= to => (from, to),
                _ => return Evaluation::Whole,
            },
        };
        if from >= self.length {
            return Evaluation::OutOfRange;
        }
        Evaluation::Part { from, length: to.min(self.length - 1) - from + 1 }
    }
}

fn seconds(date: &str) -> Option<i64> {
    jiff::fmt::rfc2822::parse(date).ok().map(|time| time.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-2: conditional requests and ranges, as browsers and download programs send them.
    #[test]
    fn conditions_and_ranges() {
        let version = Version { modified: 1_600_000_000, length: 100 };
        assert_eq!(version.last_modified(), "Sun, 13 Sep 2020 12:26:40 GMT");
        let same = version.etag();
        let same = same.as_str();
        let part = |from, length| Evaluation::Part { from, length };
        let table: &[(&[(&str, &str)], Evaluation)] = &[
            (&[], Evaluation::Whole),
            (&[("if-none-match", same)], Evaluation::NotModified),
            (&[("if-none-match", "\"other\", W/\"5f5e1000-64\"")], Evaluation::NotModified),
            (&[("if-none-match", "*")], Evaluation::NotModified),
            (&[("if-none-match", "\"other\"")], Evaluation::Whole),
            (&[("if-modified-since", "Sun, 13 Sep 2020 12:26:40 GMT")], Evaluation::NotModified),
            (&[("if-modified-since", "Sun, 13 Sep 2020 12:26:39 GMT")], Evaluation::Whole),
            (&[("if-modified-since", "yesterday")], Evaluation::Whole),
            // The entity tag takes precedence over the time.
            (
                &[("if-none-match", "\"x\""), ("if-modified-since", "Sun, 13 Sep 2026 12:26:40 GMT")],
                Evaluation::Whole,
            ),
            (&[("range", "bytes=0-9")], part(0, 10)),
            (&[("range", "bytes=90-")], part(90, 10)),
            (&[("range", "bytes=90-1000")], part(90, 10)),
            (&[("range", "bytes=-7")], part(93, 7)),
            (&[("range", "bytes=-700")], part(0, 100)),
            (&[("range", "bytes=100-")], Evaluation::OutOfRange),
            (&[("range", "bytes=-0")], Evaluation::OutOfRange),
            (&[("range", "bytes=9-1")], Evaluation::Whole),
            (&[("range", "bytes=0-1,5-6")], Evaluation::Whole),
            (&[("range", "bytes=18446744073709551616-")], Evaluation::Whole),
            (&[("range", "lines=1-2")], Evaluation::Whole),
            (&[("range", "bytes=0-9"), ("if-range", same)], part(0, 10)),
            (&[("range", "bytes=0-9"), ("if-range", "\"other\"")], Evaluation::Whole),
            (&[("range", "bytes=0-9"), ("if-range", "Sun, 13 Sep 2020 12:26:40 GMT")], part(0, 10)),
        ];
        for (headers, expect) in table {
            let mut map = HeaderMap::new();
            for (name, value) in *headers {
                map.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            assert_eq!(version.evaluate(&map), *expect, "{headers:?}");
        }
    }
}
