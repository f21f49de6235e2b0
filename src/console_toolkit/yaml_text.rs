//! YAML as text: written, parsed, and coloured line by line.

use ratatui::text::{Line, Span};
use serde_json::Value;

use super::text::clean;
use super::theme::Theme;

/// Formats an object as YAML, in the order the server sent it.
pub fn write(value: &Value) -> String {
    manifest::to_yaml(value)
}

/// Parses YAML; an error has its line, if known.
pub fn read(text: &str) -> Result<Value, (Option<usize>, String)> {
    manifest::from_yaml(text).map_err(|error| {
        let field = error.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
        (error.position.map(|position| position.line), format!("{field}{}", error.message))
    })
}

/// Colours a line of YAML. It works line by line, so that only visible lines are coloured.
pub fn colour<'a>(line: &str, theme: &Theme) -> Line<'a> {
    let yaml = &theme.yaml;
    let indent = line.len() - line.trim_start().len();
    let mut rest = &line[indent..];
    let mut spans = vec![Span::raw(" ".repeat(indent))];
    if rest.starts_with('#') {
        spans.push(Span::styled(clean(rest).into_owned(), yaml.comment));
        return Line::from(spans);
    }
    while let Some(item) = rest.strip_prefix("- ") {
        spans.push(Span::styled("- ", yaml.comment));
        rest = item;
    }
    let key_end = if rest.starts_with(['"', '\'']) {
        let quote = &rest[..1];
        rest[1..].find(quote).map(|at| at + 2).filter(|end| rest[*end..].starts_with(':'))
    } else {
        rest.find(": ").or_else(|| rest.ends_with(':').then(|| rest.len() - 1))
    };
    if let Some(end) = key_end {
        spans.push(Span::styled(clean(&rest[..end]).into_owned(), yaml.key));
        spans.push(Span::styled(":", yaml.comment));
        rest = &rest[end + 1..];
    }
    let value = rest.trim();
    let style = match value {
        "true" | "false" | "null" | "~" | "{}" | "[]" => yaml.literal,
        _ if value.parse::<f64>().is_ok() => yaml.number,
        _ => yaml.text,
    };
    spans.push(Span::styled(clean(rest).into_owned(), style));
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn colours_never_change_the_text_con_3() {
        let theme = Theme::default();
        for line in [
            "metadata:", "  name: web", "  - name: a: b", "- - 1", "\"quoted: key\": 3", "  # remark",
            "  url: http://x:80/", "", "    plain words",
        ] {
            assert_eq!(colour(line, &theme).to_string(), line);
        }
    }

    #[test]
    fn yaml_goes_there_and_back() {
        let value = json!({"a": 1, "b": ["x", {"c": null}], "d": "yes", "e": "1"});
        let text = write(&value);
        assert_eq!(read(&text).expect("value"), value);
        assert!(read("a: [").expect_err("open").0.is_some());
    }
}
