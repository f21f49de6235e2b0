//! Conditions on JSON log lines: `.level == "error" and .status >= 500`.

use std::borrow::Cow;

use object::json_path::{Comparison, Dialect, JsonPath, MAX_PATH, PathReader};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// A condition for a JSON value: `.level == "error"`, `.status >= 500`, `.msg ~ "time.*out"`.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    path: JsonPath,
    test: FilterTest,
}

#[derive(Clone, Debug)]
enum FilterTest {
    Is(Comparison, Value),
    Like(Regex),
}

impl Condition {
    /// Parses conditions joined by `and`; `None` if the text is not a path with a comparison.
    pub(crate) fn parse_all(text: &str) -> Result<Option<Vec<Self>>, String> {
        let mut conditions = Vec::new();
        for part in text.split(" and ") {
            match Self::parse(part.trim())? {
                Some(condition) => conditions.push(condition),
                None if conditions.is_empty() => return Ok(None),
                None => {
                    return Err(format!("invalid condition {part:?}; write one like .level == \"error\""));
                }
            }
        }
        Ok(Some(conditions))
    }

    fn parse(text: &str) -> Result<Option<Self>, String> {
        if !text.starts_with('.') || text.len() > MAX_PATH {
            return Ok(None);
        }
        let mut reader = PathReader::new(text, Dialect::Columns);
        let Ok(path) = reader.path(&["==", "!=", "<", ">", "~", " "]) else { return Ok(None) };
        reader.spaces();
        let is_like = reader.take("~");
        let comparison = if is_like { None } else { reader.comparison() };
        if path.is_empty() || (!is_like && comparison.is_none()) {
            return Ok(None);
        }
        let value = literal(&mut reader)?;
        let test = match (comparison, &value) {
            (Some(comparison), _) => FilterTest::Is(comparison, value),
            (None, Value::String(pattern)) => {
                let regex = RegexBuilder::new(pattern).size_limit(1 << 20).build();
                FilterTest::Like(regex.map_err(|_| format!("invalid regular expression {pattern:?}"))?)
            }
            (None, _) => return Err("expected a pattern after ~".to_owned()),
        };
        Ok(Some(Self { path, test }))
    }

    /// Evaluates the condition. An absent value is unequal to every value.
    pub(crate) fn holds(&self, value: &Value) -> bool {
        let found = self.path.find(value);
        match &self.test {
            FilterTest::Like(regex) => found.iter().any(|value| regex.is_match(&plain(value))),
            FilterTest::Is(Comparison::Unequal, literal) => {
                !found.iter().any(|value| Comparison::Equal.holds(&like(value, literal), literal))
            }
            FilterTest::Is(comparison, literal) => {
                found.iter().any(|value| comparison.holds(&like(value, literal), literal))
            }
        }
    }
}

/// Converts a value to the type of the literal it is compared with: programs also write numbers as text.
fn like<'a>(value: &'a Value, literal: &Value) -> Cow<'a, Value> {
    match (value, literal) {
        (Value::String(text), Value::Number(_)) => match text.parse::<serde_json::Number>() {
            Ok(number) => Cow::Owned(Value::Number(number)),
            Err(_) => Cow::Borrowed(value),
        },
        (Value::Number(_) | Value::Bool(_), Value::String(_)) => {
            Cow::Owned(Value::String(plain(value).into_owned()))
        }
        _ => Cow::Borrowed(value),
    }
}

fn plain(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// Parses the rest as a value: a quoted text, a number, true, false, null, or a word.
fn literal(reader: &mut PathReader<'_>) -> Result<Value, String> {
    reader.spaces();
    if reader.at_quote() {
        let value = Value::String(reader.quoted()?);
        return if reader.is_at_end() {
            Ok(value)
        } else {
            reader.wrong("unexpected text after the value; `and` joins conditions")
        };
    }
    let literal = reader.take_rest().trim();
    if literal.is_empty() {
        return Err("expected a value".to_owned());
    }
    Ok(match serde_json::from_str(literal) {
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => value,
        _ => Value::String(literal.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn conditions_ask_json_by_path_con_10() {
        let line = json!({"level": "error", "status": 503, "code": "42", "ok": false,
            "http": {"path": "/a/b", "took": 1.5}, "tags": ["x", "y"]});
        for (text, holds) in [
            (".level == \"error\"", true),
            (".level == error", true),
            (".level=='info'", false),
            (".level != info", true),
            (".nothing != info", true),
            (".nothing == info", false),
            (".status >= 500", true),
            (".status < 500", false),
            (".status == \"503\"", true),
            (".code == 42", true),
            (".ok == false", true),
            (".http.took > 1", true),
            (".http.path ~ \"^/a\"", true),
            (".status ~ ^5", true),
            (".tags[*] == y", true),
            (".level == error and .status > 600", false),
            (".level == error and .status > 500", true),
        ] {
            let all = Condition::parse_all(text).expect(text).expect(text);
            assert_eq!(all.iter().all(|condition| condition.holds(&line)), holds, "{text}");
        }
        // Regular expressions that are not conditions stay regular expressions.
        for text in ["error", ".rror", ".", "a == b", ".*", ".a.b", ""] {
            assert!(Condition::parse_all(text).expect(text).is_none(), "{text}");
        }
        for (text, why) in [
            (".level == ", "expected a value"),
            (".level == \"a", "character 11: the quote is not closed"),
            (".level == \"a\" b", "character 14: unexpected text after the value; `and` joins conditions"),
            (".msg ~ \"(\"", "invalid regular expression \"(\""),
            (".a == b and c", "invalid condition \"c\"; write one like .level == \"error\""),
        ] {
            assert_eq!(Condition::parse_all(text).expect_err(text), why, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_con_10(text in "[.$@a\\[\\]\\\\(){}?*'\":,<>=!~0-9 |-]{0,24}") {
            if let Ok(Some(conditions)) = Condition::parse_all(&text) {
                for condition in conditions {
                    condition.holds(&json!({"a": [{"a": 1}, "a"]}));
                }
            }
        }
    }
}
