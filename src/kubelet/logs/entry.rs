//! One line of a log file in CRI's format.

/// One entry: its time, its text, and a flag for a line that continues in the next entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) at: &'a [u8],
    /// Empty if the line does not name it.
    pub(super) stream: &'a [u8],
    pub(super) text: &'a [u8],
    pub(super) partial: bool,
}

/// Splits `2026-11-21T03:27:14.1Z stdout F text`; a line of another form is taken as text.
pub(super) fn entry(line: &[u8]) -> Entry<'_> {
    let mut parts = line.splitn(4, |b| *b == b' ');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(at), Some(stream @ (b"stdout" | b"stderr")), Some(tag @ (b"F" | b"P")), text) => {
            Entry { at, stream, text: text.unwrap_or_default(), partial: tag == b"P" }
        }
        _ => Entry { at: b"", stream: b"", text: line, partial: false },
    }
}
