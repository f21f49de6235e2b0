//! Parses text to documents. JSON is parsed as YAML, so that it has positions too.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use granit_parser::{Event, Parser};
use serde_json::Value;

use super::document::{self, Document};
use super::error::{Fault, ManifestError, Position};
use super::node::{self, Builder, DuplicateKey, DuplicateKeys, Node};

/// The maximum size of a text in bytes.
const MAX_TEXT_BYTES: usize = 32 * 1024 * 1024;

const BOM: char = '\u{feff}';

/// Reads text that should be UTF-8. See [`parse`].
pub fn parse_bytes(bytes: &[u8], source: &str) -> Vec<Result<Document, ManifestError>> {
    let message = match std::str::from_utf8(bytes) {
        Ok(text) => return parse(text, source),
        Err(_) if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) => {
            "the text is UTF-16; save it as UTF-8".to_string()
        }
        Err(error) => {
            let line = bytes[..error.valid_up_to()].split(|b| *b == b'\n').count();
            format!("line {line} contains a byte that is not UTF-8; is this a text file?")
        }
    };
    vec![Err(ManifestError::of_file(source, message))]
}

/// Reads every document of a text: YAML documents between `---` lines, JSON, and the items of `List` kinds. Empty
/// documents are skipped. An unreadable document is an error, and the others are still read.
pub fn parse(text: &str, source: &str) -> Vec<Result<Document, ManifestError>> {
    let source: Arc<str> = source.into();
    if text.len() > MAX_TEXT_BYTES {
        return vec![Err(too_large(&source))];
    }
    let mut results = Vec::new();
    for (lines_before, part) in parts(text.strip_prefix(BOM).unwrap_or(text)) {
        match trees(part, lines_before) {
            Ok(roots) => {
                for root in roots {
                    document::from_tree(&source, &root, &mut results);
                }
            }
            Err(fault) => results.push(Err(ManifestError::of_fault(&source, fault))),
        }
    }
    results
}

/// Reads a config file's values: every document of a text, and each item of a document that is a list. The caller
/// interprets them.
pub fn parse_values(text: &str, source: &str) -> Vec<Result<Document, ManifestError>> {
    let source: Arc<str> = source.into();
    if text.len() > MAX_TEXT_BYTES {
        return vec![Err(ManifestError::of_file(&source, "the text is too large"))];
    }
    match trees(text.strip_prefix(BOM).unwrap_or(text), 0) {
        Ok(roots) => roots.iter().flat_map(|root| document::values(&source, root)).collect(),
        Err(fault) => vec![Err(ManifestError::of_fault(&source, fault))],
    }
}

/// Returns the document of a text that has only one, with the keys that it sets again; `None` if the text is empty.
pub(super) fn single(
    text: &str,
    source: &Arc<str>,
    duplicate_keys: DuplicateKeys,
) -> Result<(Option<Arc<Node>>, Vec<DuplicateKey>), ManifestError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_large(source));
    }
    let mut builder = Builder::new(0, duplicate_keys);
    let roots = build(text.strip_prefix(BOM).unwrap_or(text), 0, &mut builder)
        .map_err(|fault| ManifestError::of_fault(source, fault))?;
    match roots.as_slice() {
        [] => Ok((None, Vec::new())),
        [root] => Ok((Some(root.clone()), builder.into_duplicates())),
        [_, second, ..] => {
            Err(ManifestError::at(source, second.start, "the text has more than one document"))
        }
    }
}

fn too_large(source: &str) -> ManifestError {
    ManifestError::of_file(source, format!("larger than {} MiB", MAX_TEXT_BYTES / 1024 / 1024))
}

/// Splits a text at its `---` lines, so that an error in one document leaves the others readable; each part comes with
/// the number of lines before it. In YAML, only a line between documents can start with `---`.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut begin, mut begin_line, mut offset) = (0, 0, 0);
    let mut has_content = false;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        let is_marker = bare == "---" || bare.starts_with("--- ") || bare.starts_with("---\t");
        // Directives belong to the document after the marker.
        if is_marker && has_content {
            parts.push((begin_line, &text[begin..offset]));
            (begin, begin_line, has_content) = (offset, number, false);
        }
        let is_content = !bare.is_empty() && !bare.starts_with(['#', '%']);
        has_content |= is_content;
        offset += line.len();
    }
    if has_content {
        parts.push((begin_line, &text[begin..]));
    }
    parts
}

/// Escapes a text that may be JSON for YAML: JSON strings may contain control characters (U+007F to U+009F) that YAML
/// accepts only as escapes.
fn with_controls_by_number(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| matches!(c, '\u{7f}'..='\u{9f}');
    if !text.trim_start().starts_with(['{', '[']) || !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let (mut written, mut in_string, mut escaped) = (String::with_capacity(text.len() * 2), false, false);
    for c in text.chars() {
        if in_string && is_control(c) {
            let _ = write!(written, "\\u{:04x}", u32::from(c));
        } else {
            written.push(c);
        }
        in_string = if in_string { escaped || c != '"' } else { c == '"' };
        escaped = in_string && !escaped && c == '\\';
    }
    Cow::Owned(written)
}

/// Returns the documents of a part, without empty ones: usually one.
fn trees(text: &str, lines_before: usize) -> Result<Vec<Arc<Node>>, Fault> {
    build(text, lines_before, &mut Builder::new(lines_before, DuplicateKeys::Refused))
}

fn build(text: &str, lines_before: usize, builder: &mut Builder) -> Result<Vec<Arc<Node>>, Fault> {
    let mut roots = Vec::new();
    for next in Parser::new_from_str(&with_controls_by_number(text)) {
        let (event, span) = next.map_err(|error| {
            let marker = error.marker();
            let position = Position { line: marker.line() + lines_before, column: marker.col() + 1 };
            (position, error.info())
        })?;
        if matches!(event, Event::DocumentEnd) {
            let is_null = |root: &Arc<Node>| matches!(root.content, node::Content::Scalar(Value::Null));
            roots.extend(builder.take().filter(|root| !is_null(root)));
        } else {
            builder.event(event, &span)?;
        }
    }
    Ok(roots)
}
