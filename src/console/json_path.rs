//! JSONPath in the syntax of `kubectl -o custom-columns` and k9s' views: `.metadata.labels.app`,
//! `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Braces, `$` and the first dot are optional. A dot within a key is written `\.`, or the key in brackets:
//! `['app.kubernetes.io/name']`. The results are bounded, regardless of the object's size.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// The maximum length of a path in characters.
const LONGEST: usize = 1024;
/// The maximum number of steps in a path.
const STEPS: usize = 64;
/// The maximum number of results; further ones are dropped.
const MAX_RESULTS: usize = 256;
/// The maximum number of values that `..` visits.
const MAX_VISITED: usize = 10_000;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<PathSegment>);

#[derive(Clone, Debug, PartialEq)]
enum PathSegment {
    Key(String),
    /// Counts from the end if negative.
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    /// The value and all its descendants.
    Descendants,
    Union(Vec<PathSegment>),
    Only(FilterSelector),
}

/// The condition for a list item.
#[derive(Clone, Debug, PartialEq)]
struct FilterSelector {
    left: Vec<PathSegment>,
    is: Option<(Comparison, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

impl JsonPath {
    /// Parses a path; an error has the reason and its position, counted in characters from one.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("longer than {LONGEST} characters"));
        }
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(trimmed);
        let mut reader = Reader { text: inner, rest: inner };
        let steps = reader.path(&[])?;
        if steps.is_empty() {
            return Err("the path is empty".to_owned());
        }
        Ok(Self(steps))
    }

    /// Reports whether the path reads only the object's metadata.
    pub(crate) fn is_of_metadata(&self) -> bool {
        matches!(self.0.first(), Some(PathSegment::Key(key)) if key == "metadata")
    }

    /// Returns the values at the path, in order.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        walk(&self.0, value)
    }
}

fn walk<'a>(steps: &[PathSegment], value: &'a Value) -> Vec<&'a Value> {
    let mut here = vec![value];
    for step in steps {
        let mut next = Vec::new();
        for value in here {
            one(step, value, &mut next);
            if *step != PathSegment::Descendants {
                next.truncate(MAX_RESULTS);
            }
        }
        here = next;
    }
    here.truncate(MAX_RESULTS);
    here
}

fn one<'a>(step: &PathSegment, value: &'a Value, found: &mut Vec<&'a Value>) {
    match (step, value) {
        (PathSegment::Key(key), Value::Object(fields)) => found.extend(fields.get(key)),
        (PathSegment::Index(index), Value::Array(items)) => {
            found.extend(resolve_index(*index, items.len()).and_then(|at| items.get(at)));
        }
        (PathSegment::Slice(from, to), Value::Array(items)) => {
            let bound = |at: i64| {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                usize::try_from(if at < 0 { (length + at).max(0) } else { at.min(length) }).unwrap_or(0)
            };
            let (from, to) = (from.map_or(0, bound), to.map_or(items.len(), bound));
            found.extend(items.get(from..to.max(from)).into_iter().flatten());
        }
        (PathSegment::All, Value::Array(items)) => found.extend(items.iter().take(MAX_RESULTS)),
        (PathSegment::All, Value::Object(fields)) => found.extend(fields.values().take(MAX_RESULTS)),
        (PathSegment::Descendants, value) => {
            let mut open = vec![value];
            while let Some(value) = open.pop().filter(|_| found.len() < MAX_VISITED) {
                found.push(value);
                match value {
                    Value::Array(items) => open.extend(items.iter().rev()),
                    Value::Object(fields) => {
                        let at = open.len();
                        open.extend(fields.values());
                        open[at..].reverse();
                    }
                    _ => {}
                }
            }
        }
        (PathSegment::Union(steps), value) => steps.iter().for_each(|step| one(step, value, found)),
        (PathSegment::Only(test), Value::Array(items)) => {
            found.extend(items.iter().filter(|item| test.holds(item)).take(MAX_RESULTS));
        }
        _ => {}
    }
}

fn resolve_index(index: i64, length: usize) -> Option<usize> {
    if index >= 0 {
        return usize::try_from(index).ok();
    }
    length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
}

impl FilterSelector {
    fn holds(&self, item: &Value) -> bool {
        let found = walk(&self.left, item);
        match &self.is {
            None => !found.is_empty(),
            Some((comparison, right)) => found.iter().any(|left| comparison.holds(left, right)),
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => {
                a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b))
            }
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ => (left == right).then_some(std::cmp::Ordering::Equal),
        };
        match self {
            Self::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
            Self::Unequal => !order.is_some_and(std::cmp::Ordering::is_eq),
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::AtMost => order.is_some_and(std::cmp::Ordering::is_le),
            Self::More => order.is_some_and(std::cmp::Ordering::is_gt),
            Self::AtLeast => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

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
        if !text.starts_with('.') || text.len() > LONGEST {
            return Ok(None);
        }
        let mut reader = Reader { text, rest: text };
        let Ok(steps) = reader.path(&["==", "!=", "<", ">", "~", " "]) else { return Ok(None) };
        reader.spaces();
        let is_like = reader.take("~");
        let comparison = COMPARISONS.iter().find(|(sign, _)| !is_like && reader.take(sign));
        if steps.is_empty() || (!is_like && comparison.is_none()) {
            return Ok(None);
        }
        let value = reader.value()?;
        let test = match (comparison, &value) {
            (Some((_, comparison)), _) => FilterTest::Is(*comparison, value),
            (None, Value::String(pattern)) => {
                let regex = RegexBuilder::new(pattern).size_limit(1 << 20).build();
                FilterTest::Like(regex.map_err(|_| format!("invalid regular expression {pattern:?}"))?)
            }
            (None, _) => return Err("expected a pattern after ~".to_owned()),
        };
        Ok(Some(Self { path: JsonPath(steps), test }))
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

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Reader<'_> {
    fn wrong<T>(&self, message: &str) -> Result<T, String> {
        let at = self.text[..self.text.len() - self.rest.len()].chars().count() + 1;
        Err(format!("character {at}: {message}"))
    }

    fn take(&mut self, start: &str) -> bool {
        match self.rest.strip_prefix(start) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Parses steps until the end of the text or one of these terminators.
    fn path(&mut self, ends: &[&str]) -> Result<Vec<PathSegment>, String> {
        let _ = self.take("$") || self.take("@");
        let mut steps = Vec::new();
        let mut first = true;
        loop {
            let is_over = self.rest.is_empty() || ends.iter().any(|end| self.rest.starts_with(end));
            if is_over {
                return Ok(steps);
            }
            if steps.len() >= STEPS {
                return self.wrong(&format!("more than {STEPS} steps"));
            }
            if self.take("[") {
                steps.push(self.bracket()?);
            } else if self.take("..") {
                steps.push(PathSegment::Descendants);
                if !self.rest.starts_with('[') {
                    steps.push(self.key(ends)?);
                }
            } else if self.take(".") {
                // `.` alone is the object itself, and `.[0]` is `[0]`.
                if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    steps.push(self.key(ends)?);
                }
            } else if first {
                steps.push(self.key(ends)?);
            } else {
                return self.wrong("expected a dot or a bracket before the next key");
            }
            first = false;
        }
    }

    fn key(&mut self, ends: &[&str]) -> Result<PathSegment, String> {
        if self.take("*") {
            return Ok(PathSegment::All);
        }
        let mut key = String::new();
        let mut chars = self.rest.char_indices();
        let mut length = self.rest.len();
        while let Some((at, c)) = chars.next() {
            let is_over = matches!(c, '.' | '[') || ends.iter().any(|end| self.rest[at..].starts_with(end));
            if is_over {
                length = at;
                break;
            }
            match c {
                '\\' => key.extend(chars.next().map(|(_, c)| c)),
                ']' | '{' | '}' | '(' | ')' | '|' => {
                    self.rest = &self.rest[at..];
                    return self.wrong(&format!("unexpected {c:?}"));
                }
                c => key.push(c),
            }
        }
        if key.is_empty() {
            return self.wrong("expected a key");
        }
        self.rest = &self.rest[length..];
        Ok(PathSegment::Key(key))
    }

    /// Parses the rest of a bracket expression after its opening bracket.
    fn bracket(&mut self) -> Result<PathSegment, String> {
        self.spaces();
        if self.take("?") {
            self.spaces();
            if !self.take("(") {
                return self.wrong("a parenthesis is missing: [?(@.type==\"Ready\")]");
            }
            let test = self.test()?;
            self.spaces();
            if !self.take("]") {
                return self.wrong("the bracket is not closed");
            }
            return Ok(PathSegment::Only(test));
        }
        let mut steps = Vec::new();
        loop {
            self.spaces();
            steps.push(self.inner()?);
            self.spaces();
            if self.take("]") {
                break;
            }
            if !self.take(",") {
                return self.wrong("the bracket is not closed");
            }
            if steps.len() >= STEPS {
                return self.wrong(&format!("more than {STEPS} in a bracket"));
            }
        }
        Ok(if steps.len() == 1 { steps.remove(0) } else { PathSegment::Union(steps) })
    }

    fn inner(&mut self) -> Result<PathSegment, String> {
        if self.take("*") {
            return Ok(PathSegment::All);
        }
        if self.rest.starts_with(['\'', '"']) {
            return Ok(PathSegment::Key(self.quoted()?));
        }
        let from = self.number()?;
        self.spaces();
        if self.take(":") {
            self.spaces();
            let to = self.number()?;
            return Ok(PathSegment::Slice(from, to));
        }
        match from {
            Some(index) => Ok(PathSegment::Index(index)),
            None => self.wrong("expected a number, a key in quotes, * or ?( in the bracket"),
        }
    }

    fn number(&mut self) -> Result<Option<i64>, String> {
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let length = digits.bytes().take_while(u8::is_ascii_digit).count() + self.rest.len() - digits.len();
        let (number, rest) = self.rest.split_at(length);
        if number.is_empty() {
            return Ok(None);
        }
        match number.parse() {
            Ok(number) => {
                self.rest = rest;
                Ok(Some(number))
            }
            Err(_) => self.wrong("invalid number"),
        }
    }

    fn quoted(&mut self) -> Result<String, String> {
        let Some(quote) = self.rest.chars().next() else { return self.wrong("expected a text in quotes") };
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        self.wrong("the quote is not closed")
    }

    /// Parses `@.type=="Ready"`, including its closing parenthesis.
    fn test(&mut self) -> Result<FilterSelector, String> {
        self.spaces();
        if !self.rest.starts_with('@') {
            return self.wrong("a test must begin with @");
        }
        let left = self.path(&["==", "!=", "<", ">", ")", " "])?;
        self.spaces();
        let comparison =
            COMPARISONS.iter().find(|(sign, _)| self.take(sign)).map(|(_, comparison)| *comparison);
        let is = match comparison {
            None => None,
            Some(comparison) => {
                self.spaces();
                Some((comparison, self.literal()?))
            }
        };
        self.spaces();
        if !self.take(")") {
            return self.wrong("the parenthesis is not closed; it takes one comparison");
        }
        Ok(FilterSelector { left, is })
    }

    /// Parses the rest as a value: a quoted text, a number, true, false, null, or a word.
    fn value(&mut self) -> Result<Value, String> {
        self.spaces();
        let value = if self.rest.starts_with(['\'', '"']) {
            Value::String(self.quoted()?)
        } else {
            let literal = std::mem::take(&mut self.rest).trim();
            if literal.is_empty() {
                return Err("expected a value".to_owned());
            }
            match serde_json::from_str(literal) {
                Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => value,
                _ => Value::String(literal.to_owned()),
            }
        };
        if self.rest.trim().is_empty() {
            Ok(value)
        } else {
            self.wrong("unexpected text after the value; `and` joins conditions")
        }
    }

    fn literal(&mut self) -> Result<Value, String> {
        if self.rest.starts_with(['\'', '"']) {
            return Ok(Value::String(self.quoted()?));
        }
        let length = self.rest.find([')', ' ']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        match serde_json::from_str(word) {
            Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => {
                self.rest = rest;
                Ok(value)
            }
            _ => self.wrong("expected a text in quotes, a number, true or false"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn object() -> Value {
        json!({
            "metadata": {"name": "web", "labels": {"app": "shop", "fred.io/x": "dotted"}},
            "spec": {"containers": [{"name": "a", "port": 80}, {"name": "b", "port": 8080}, {"name": "c"}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Other", "status": "False"},
            ]},
        })
    }

    #[test]
    fn paths_find_what_kubectl_finds_con_16() {
        for (path, found) in [
            (".metadata.name", json!(["web"])),
            ("metadata.name", json!(["web"])),
            ("{.metadata.name}", json!(["web"])),
            ("{$.metadata.name}", json!(["web"])),
            (r".metadata.labels.fred\.io/x", json!(["dotted"])),
            (".metadata.labels['fred.io/x']", json!(["dotted"])),
            (".metadata['labels']['app', \"fred.io/x\"]", json!(["shop", "dotted"])),
            (".metadata.labels.nope", json!([])),
            (".spec.containers[0].name", json!(["a"])),
            (".spec.containers[-1].name", json!(["c"])),
            (".spec.containers[0,2].name", json!(["a", "c"])),
            (".spec.containers[1:].name", json!(["b", "c"])),
            (".spec.containers[:-1].name", json!(["a", "b"])),
            (".spec.containers[7].name", json!([])),
            (".spec.containers[*].name", json!(["a", "b", "c"])),
            ("..port", json!([80, 8080])),
            (".metadata.labels.*", json!(["shop", "dotted"])),
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".status.conditions[?( @.type != 'Ready' )].status", json!(["False"])),
            (".spec.containers[?(@.port > 80)].name", json!(["b"])),
            (".spec.containers[?(@.port<=80)].name", json!(["a"])),
            (".spec.containers[?(@.port)].name", json!(["a", "b"])),
            ("$.spec.containers[0]['name']", json!(["a"])),
        ] {
            let object = object();
            let parsed = JsonPath::parse(path).expect(path);
            assert_eq!(json!(parsed.find(&object)), found, "{path}");
        }
        assert!(JsonPath::parse(".metadata.uid").expect("a path").is_of_metadata());
        assert!(!JsonPath::parse(".spec").expect("a path").is_of_metadata());
    }

    #[test]
    fn an_invalid_json_path_is_rejected_with_its_position_con_16() {
        for (path, why) in [
            ("", "the path is empty"),
            (".", "the path is empty"),
            (".a..", "character 5: expected a key"),
            (".a[", "character 4: expected a number, a key in quotes, * or ?( in the bracket"),
            (".a[0", "character 5: the bracket is not closed"),
            (".a['b]", "character 4: the quote is not closed"),
            (".a[?(x)]", "character 6: a test must begin with @"),
            (".a[?(@.b==)]", "character 11: expected a text in quotes, a number, true or false"),
            (
                ".a[?(@.b=='c' && @.d)]",
                "character 15: the parenthesis is not closed; it takes one comparison",
            ),
            (".a|.b", "character 3: unexpected '|'"),
            (".a[0]b", "character 6: expected a dot or a bracket before the next key"),
        ] {
            assert_eq!(JsonPath::parse(path).expect_err(path), why, "{path}");
        }
        assert!(JsonPath::parse(&"a".repeat(LONGEST + 1)).is_err());
    }

    #[test]
    fn a_path_never_finds_without_end_con_16() {
        let wide = json!({"a": vec![vec![json!({"b": 1}); 300]; 300]});
        for path in ["..*", "..b", ".a[*][*].b", "..[*]..[*]..b"] {
            assert!(JsonPath::parse(path).expect(path).find(&wide).len() <= MAX_RESULTS, "{path}");
        }
    }

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
        fn no_text_makes_it_panic_con_16(text in "[.$@a\\[\\]\\\\(){}?*'\":,<>=!~0-9 |-]{0,24}") {
            if let Ok(path) = JsonPath::parse(&text) {
                path.find(&object());
            }
            if let Ok(Some(conditions)) = Condition::parse_all(&text) {
                for condition in conditions {
                    condition.holds(&object());
                }
            }
        }
    }
}
