//! Writes values as YAML, formatted as kubectl does: keys in alphabetical order, lists not indented.
//!
//! Strings that some YAML parser would read as another type (`yes`, `0755`, `12:30`, `2020-01-01`) are quoted, and
//! characters that control terminals are escaped.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::scalar;

/// Returns the value as a YAML document.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => mapping(&mut text, map, 0),
        Value::Array(list) if !list.is_empty() => sequence(&mut text, list, 0),
        other => {
            inline(&mut text, other, 0);
        }
    }
    text
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// Writes a map's entries at `indent`; the caller has indented the first one.
fn mapping(text: &mut String, map: &Map<String, Value>, indent: usize) {
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            pad(text, indent);
        }
        text.push_str(&plain_or_quoted(key));
        text.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                text.push('\n');
                pad(text, indent + 2);
                mapping(text, inner, indent + 2);
            }
            Value::Array(list) if !list.is_empty() => {
                text.push('\n');
                pad(text, indent);
                sequence(text, list, indent);
            }
            other => {
                text.push(' ');
                inline(text, other, indent);
            }
        }
    }
}

/// Writes a list's items at `indent`; the caller has indented the first one.
fn sequence(text: &mut String, list: &[Value], indent: usize) {
    for (i, item) in list.iter().enumerate() {
        if i > 0 {
            pad(text, indent);
        }
        text.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => mapping(text, map, indent + 2),
            Value::Array(inner) if !inner.is_empty() => sequence(text, inner, indent + 2),
            other => inline(text, other, indent),
        }
    }
}

/// Writes a value that starts on the current line, below a parent at `indent`, and ends the line.
fn inline(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(content) => {
            let written = block(content).unwrap_or_else(|| plain_or_quoted(content));
            for (i, line) in written.lines().enumerate() {
                if i > 0 && !line.is_empty() {
                    pad(text, indent);
                }
                text.push_str(line);
                text.push('\n');
            }
        }
        Value::Object(_) => text.push_str("{}\n"),
        Value::Array(_) => text.push_str("[]\n"),
        other => {
            let _ = writeln!(text, "{other}");
        }
    }
}

/// Returns a string of several lines as a literal block, if it can be one.
fn block(content: &str) -> Option<String> {
    let readable = content.contains('\n')
        && !content.starts_with([' ', '\n', '\t'])
        && content.lines().all(|line| !line.ends_with([' ', '\t', '\r']))
        && !content.chars().any(|c| needs_escape(c) && c != '\n');
    if !readable {
        return None;
    }
    serde_yaml::to_string(content).ok().filter(|text| text.starts_with('|'))
}

/// Returns a string on one line, in quotes if necessary.
fn plain_or_quoted(content: &str) -> String {
    if content.chars().any(needs_escape) {
        return escaped(content);
    }
    let is_ambiguous = !matches!(scalar::resolve(content), Ok(Value::String(_)))
        || scalar::is_time_or_sexagesimal(content)
        || matches!(content, "<<" | "=")
        || content.starts_with("---")
        || content.starts_with("...");
    if is_ambiguous {
        return format!("\"{}\"", content.replace('\\', "\\\\").replace('"', "\\\""));
    }
    serde_yaml::to_string(content)
        .map_or_else(|_| escaped(content), |text| text.trim_end_matches('\n').to_string())
}

/// Returns true for characters that are invisible, or that YAML reads as line breaks.
fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
}

fn escaped(content: &str) -> String {
    let mut text = String::from("\"");
    for c in content.chars() {
        match c {
            '"' | '\\' => {
                text.push('\\');
                text.push(c);
            }
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            c if needs_escape(c) => {
                let _ = write!(text, "\\u{:04x}", c as u32);
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::from_yaml;

    #[test]
    fn objects_read_as_kubectl_prints_them_api_12() {
        let value = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "labels": {}},
            "data": {"n": "y", "mode": "0755", "file": "a: 1\n  b\n", "esc": "\u{1b}[2J", "colon": "a: b", "z": null},
            "list": [{"name": "x", "ports": [80, {"b": [[1]]}]}, [], "plain text", true, 0.5]});
        let expected = r#"apiVersion: v1
data:
  colon: 'a: b'
  esc: "\u001b[2J"
  file: |
    a: 1
      b
  mode: "0755"
  "n": "y"
  z: null
kind: ConfigMap
list:
- name: x
  ports:
  - 80
  - b:
    - - 1
- []
- plain text
- true
- 0.5
metadata:
  labels: {}
  name: a
"#;
        assert_eq!(to_yaml(&value), expected);
        assert_eq!(from_yaml(expected).unwrap(), value);
    }

    #[test]
    fn strings_that_other_parsers_read_as_times_or_numbers_are_quoted_api_12() {
        for (text, is_quoted) in [
            ("2020-01-01", true),
            ("2026-11-29T13:15:48Z", true),
            ("2026-1-2 03:04:05", true),
            ("12:30:00", true),
            ("-1:30", true),
            ("190:20:30.15", true),
            ("2020-01-01-backup", false),
            ("2020-01", false),
            ("10.0.0.1", false),
            ("1:2:a", false),
        ] {
            let written = to_yaml(&Value::from(text));
            assert_eq!(written.starts_with('"'), is_quoted, "{text}: {written}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "\\PC{0,12}",
            "[a-c \n\t:#'\"\\\\|>-]{0,12}",
            "[0-9_.+xobeE-]{1,6}",
            prop::sample::select(vec![
                "y", "No", "~", "null", "<<", "=", "---", "...", "2001-01-01", "\u{85}", "\u{feff}", "",
                "- ", "? a", "*a", "&a", "!a", "%a", "@", "`"
            ])
            .prop_map(str::to_string),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(text.clone(), inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn written_yaml_is_read_back_unchanged_api_12(value in values()) {
            let text = to_yaml(&value);
            prop_assert_eq!(from_yaml(&text).map_err(|e| format!("{e} in {text:?}")), Ok(value), "{}", text);
        }
    }
}
