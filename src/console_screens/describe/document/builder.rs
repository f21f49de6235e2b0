//! The lines of a description and their alignment: keys of a block to the longest key, tables to the widest cell, as
//! kubectl's tab writer does.

use base::sort::SliceOrder;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

/// The meaning of a line, which decides its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Normal.
    #[default]
    Plain,
    /// Empty, such as `<none>`.
    Dim,
    /// Healthy.
    Good,
    /// Not healthy yet.
    Waiting,
    /// Unhealthy.
    Bad,
    /// Names of columns.
    Header,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Number of columns of indentation.
    pub(crate) indent: usize,
    /// The key with its colon, padded; empty in rows of tables and lines of text.
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) tone: Tone,
}

impl Line {
    /// Returns the line as text.
    pub(crate) fn text(&self) -> String {
        format!("{}{}{}", " ".repeat(self.indent), self.key, self.value).trim_end().to_owned()
    }
}

/// A description being written.
#[derive(Debug, Default)]
pub(crate) struct DocumentBuilder {
    lines: Vec<(Line, bool)>,
}

impl DocumentBuilder {
    /// Appends a key with its value; an empty value is `<none>`.
    pub(crate) fn field(&mut self, indent: usize, key: &str, value: impl Into<String>) {
        self.toned(indent, key, value, Tone::Plain);
    }

    /// Appends a key with its value in this tone.
    pub(crate) fn toned(&mut self, indent: usize, key: &str, value: impl Into<String>, tone: Tone) {
        let value = value.into();
        let (value, tone) = if value.is_empty() { ("<none>".to_owned(), Tone::Dim) } else { (value, tone) };
        for (index, part) in value.split('\n').enumerate() {
            let key = if index == 0 { format!("{key}:") } else { String::new() };
            self.lines.push((Line { indent, key, value: part.to_owned(), tone }, true));
        }
    }

    /// Appends a key with several values, one below another.
    pub(crate) fn list(&mut self, indent: usize, key: &str, values: impl IntoIterator<Item = String>) {
        let values: Vec<String> = values.into_iter().collect();
        self.field(indent, key, values.join("\n"));
    }

    /// Appends a key that heads a block.
    pub(crate) fn head(&mut self, indent: usize, key: &str) {
        self.lines.push((Line { indent, key: format!("{key}:"), ..Line::default() }, false));
    }

    /// Appends a line of text.
    pub(crate) fn line(&mut self, indent: usize, value: impl Into<String>, tone: Tone) {
        self.lines.push((Line { indent, key: String::new(), value: value.into(), tone }, false));
    }

    /// Appends a table below its column names; each row has a tone.
    pub(crate) fn table(&mut self, indent: usize, header: &[&str], rows: &[(Vec<String>, Tone)]) {
        let dashes: Vec<String> = header.iter().map(|name| "-".repeat(name.len())).collect();
        let names: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
        let mut widths: Vec<usize> = header.iter().map(|name| name.len()).collect();
        for (row, _) in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let header = [(names, Tone::Header), (dashes, Tone::Dim)];
        for (row, tone) in header.iter().chain(rows) {
            let mut text = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                text.push_str(cell);
                text.push_str(&" ".repeat(width + 2 - cell.width().min(*width)));
            }
            self.line(indent, text.trim_end(), *tone);
        }
    }

    /// Returns the lines, with the keys of each block aligned.
    pub(crate) fn finish(self) -> Vec<Line> {
        let mut lines = self.lines;
        let mut start = 0;
        while start < lines.len() {
            let indent = lines[start].0.indent;
            // A block ends at the first line with a smaller indent; lines with a larger indent belong to it.
            let end = (start..lines.len())
                .find(|at| {
                    let (line, field) = &lines[*at];
                    line.indent < indent || (!field && line.indent == indent && line.key.is_empty())
                })
                .unwrap_or(lines.len());
            let own = |line: &(Line, bool)| line.1 && line.0.indent == indent;
            let width =
                lines[start..end].iter().filter(|line| own(line)).map(|(line, _)| line.key.width()).max();
            if let Some(width) = width {
                for (line, field) in &mut lines[start..end] {
                    if *field && line.indent == indent {
                        let pad = (width + 2).saturating_sub(line.key.width());
                        line.key.push_str(&" ".repeat(pad));
                        // Each line is aligned once: an outer block would pad it again.
                        *field = false;
                    }
                }
            }
            start += 1;
            while start < lines.len() && !lines[start].1 {
                start += 1;
            }
        }
        lines.into_iter().map(|(line, _)| line).collect()
    }
}

/// Returns a scalar as text; empty for null.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the text at a path of keys: `/spec/nodeName`.
pub(crate) fn at(object: &Value, path: &str) -> String {
    object.pointer(path).map(text).unwrap_or_default()
}

/// Returns the items of a list at a path.
pub(crate) fn items<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// Returns `a=1` for each pair of a map at a path, in order of the keys.
pub(crate) fn pairs(object: &Value, path: &str, sign: &str) -> Vec<String> {
    let Some(map) = object.pointer(path).and_then(Value::as_object) else { return Vec::new() };
    let mut pairs: Vec<String> =
        map.iter().map(|(key, value)| format!("{key}{sign}{}", text(value))).collect();
    pairs.order();
    pairs
}

/// Appends the lines that every description starts with.
pub(crate) fn identity(doc: &mut DocumentBuilder, object: &Value) {
    doc.field(0, "Name", at(object, "/metadata/name"));
    if let Some(namespace) = object.pointer("/metadata/namespace") {
        doc.field(0, "Namespace", text(namespace));
    }
}

/// Appends labels and annotations; kubectl's own record of the last apply is left out, as kubectl does.
pub(crate) fn labels(doc: &mut DocumentBuilder, object: &Value) {
    doc.list(0, "Labels", pairs(object, "/metadata/labels", "="));
    let annotations = pairs(object, "/metadata/annotations", ": ");
    let shown =
        annotations.into_iter().filter(|pair| !pair.starts_with("kubectl.kubernetes.io/last-applied"));
    doc.list(0, "Annotations", shown);
}

/// Returns a time in kubectl's format: `Sat, 21 Nov 2026 03:27:14 +0000`.
pub(crate) fn time(value: &Value) -> String {
    let Some(raw) = value.as_str() else { return String::new() };
    match raw.parse::<jiff::Timestamp>() {
        Ok(at) => at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string(),
        Err(_) => raw.to_owned(),
    }
}

/// Returns the controller of an object as `ReplicaSet/web-1`.
pub(crate) fn controller(object: &Value) -> Option<String> {
    items(object, "/metadata/ownerReferences")
        .find(|reference| reference["controller"] == true)
        .map(|reference| format!("{}/{}", text(&reference["kind"]), text(&reference["name"])))
}

/// Returns a condition's tone: most are good when True, pressures when False.
pub(crate) fn condition_tone(condition: &Value) -> Tone {
    let name = text(&condition["type"]);
    let bad_when_true = name.ends_with("Pressure")
        || name.ends_with("Unavailable")
        || name.ends_with("Failure")
        || matches!(name.as_str(), "Failed" | "DisruptionTarget" | "FailureTarget");
    match (condition["status"].as_str(), bad_when_true) {
        (Some("True"), false) | (Some("False"), true) => Tone::Good,
        (Some("True"), true) => Tone::Bad,
        _ => Tone::Waiting,
    }
}

/// Returns a label selector as kubectl writes it.
pub(crate) fn selector(value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    let structured = value.get("matchLabels").is_some() || value.get("matchExpressions").is_some();
    if !structured {
        return pairs(value, "", "=").join(",");
    }
    let mut parts = pairs(value, "/matchLabels", "=");
    for expression in items(value, "/matchExpressions") {
        let values: Vec<String> = items(expression, "/values").map(text).collect();
        let key = text(&expression["key"]);
        parts.push(match expression["operator"].as_str() {
            Some("Exists") => key,
            Some("DoesNotExist") => format!("!{key}"),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            _ => format!("{key} in ({})", values.join(",")),
        });
    }
    parts.join(",")
}
