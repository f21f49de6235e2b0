//! JSONPath in the syntax of kubectl and its custom columns: `.metadata.labels.app`,
//! `.status.conditions[?(@.type=="Ready")].status`.
//!
//! The one implementation for printer columns of custom resources and for columns of the console. RFC 9535 is another
//! dialect: it has no escaped dots, no names with hyphens, and no `[]`. The work and the results are bounded, regardless
//! of the path and the object.

mod reader;

use std::cmp::Ordering;

use serde_json::Value;

pub use reader::PathReader;

/// The maximum length of a path in bytes.
pub const MAX_PATH: usize = 1024;
/// The maximum number of steps in a path.
const STEPS: usize = 64;
/// The maximum depth of filters within filters.
const MAX_FILTER_DEPTH: usize = 4;
/// The maximum number of results; further ones are dropped.
const MAX_RESULTS: usize = 256;
/// The maximum number of values that are visited.
const MAX_VISITED: usize = 100_000;

/// The strictness of the syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// As users write columns: braces, `$` and the first dot are optional. A dot within a key is written `\.`, or the
    /// key in brackets: `['app.kubernetes.io/name']`.
    Columns,
    /// As the apiextensions server reads printer columns: a path begins with a dot or a bracket, and a dot without a
    /// backslash separates keys in quotes too.
    Definitions,
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<PathSegment>);

#[derive(Clone, Debug, PartialEq)]
enum PathSegment {
    Key(String),
    /// Counts from the end if negative.
    Index(i64),
    /// The places from the first to before the second, each this many.
    Slice(Option<i64>, Option<i64>, usize),
    All,
    /// The value and all its descendants.
    Descendants,
    /// The results of each path.
    Union(Vec<Vec<PathSegment>>),
    Only(FilterSelector),
}

/// The condition for a list item.
#[derive(Clone, Debug, PartialEq)]
struct FilterSelector {
    left: Vec<PathSegment>,
    is: Option<(Comparison, Operand)>,
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    /// A path from the item.
    Path(Vec<PathSegment>),
}

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
}

/// Each comparison with its sign; a sign comes before its own beginning.
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
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, String> {
        if text.len() > MAX_PATH {
            return Err(format!("longer than {MAX_PATH} characters"));
        }
        let mut path = text.trim();
        match dialect {
            Dialect::Columns => {
                path = path.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(path);
            }
            Dialect::Definitions if path.starts_with(['.', '[']) => {}
            Dialect::Definitions => return Err("must begin with a dot".to_owned()),
        }
        let path = PathReader::new(path, dialect).path(&[])?;
        if path.0.is_empty() {
            return Err("the path is empty".to_owned());
        }
        Ok(path)
    }

    /// Reports whether the path reads only the object's metadata.
    pub fn is_of_metadata(&self) -> bool {
        matches!(self.0.first(), Some(PathSegment::Key(key)) if key == "metadata")
    }

    /// Reports whether the path has no steps: its result is the value itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the values at the path, in order.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        Walk { visits_left: MAX_VISITED }.path(&self.0, value)
    }
}

/// The evaluation of a path.
struct Walk {
    visits_left: usize,
}

impl Walk {
    /// Counts a visit to a value; false if there were too many.
    fn visit(&mut self) -> bool {
        let left = self.visits_left.checked_sub(1);
        self.visits_left = left.unwrap_or(0);
        left.is_some()
    }

    fn path<'a>(&mut self, steps: &[PathSegment], value: &'a Value) -> Vec<&'a Value> {
        let mut here = vec![value];
        for step in steps {
            let mut next = Vec::new();
            for value in here {
                self.step(step, value, &mut next);
                if *step != PathSegment::Descendants {
                    next.truncate(MAX_RESULTS);
                }
            }
            here = next;
        }
        here.truncate(MAX_RESULTS);
        here
    }

    fn step<'a>(&mut self, step: &PathSegment, value: &'a Value, found: &mut Vec<&'a Value>) {
        if !self.visit() {
            return;
        }
        match (step, value) {
            (PathSegment::Key(key), Value::Object(fields)) => found.extend(fields.get(key)),
            (PathSegment::Index(index), Value::Array(items)) => {
                found.extend(resolve_index(*index, items.len()).and_then(|at| items.get(at)));
            }
            (PathSegment::Slice(from, to, each), Value::Array(items)) => {
                let bound = |at: i64| {
                    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                    let at = if at < 0 { length.saturating_add(at).max(0) } else { at.min(length) };
                    usize::try_from(at).unwrap_or(0)
                };
                let (from, to) = (from.map_or(0, bound), to.map_or(items.len(), bound));
                let items = items.get(from..to.max(from)).into_iter().flatten();
                found.extend(items.step_by(*each).take(MAX_RESULTS));
            }
            (PathSegment::All, Value::Array(items)) => found.extend(items.iter().take(MAX_RESULTS)),
            (PathSegment::All, Value::Object(fields)) => found.extend(fields.values().take(MAX_RESULTS)),
            (PathSegment::Descendants, value) => {
                let mut open = vec![value];
                while let Some(value) = open.pop().filter(|_| self.visit()) {
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
            (PathSegment::Union(paths), value) => {
                for path in paths {
                    found.extend(self.path(path, value));
                }
            }
            (PathSegment::Only(filter), Value::Array(items)) => {
                found.extend(items.iter().filter(|item| self.holds(filter, item)).take(MAX_RESULTS));
            }
            _ => {}
        }
    }

    fn holds(&mut self, filter: &FilterSelector, item: &Value) -> bool {
        let found = self.path(&filter.left, item);
        match &filter.is {
            None => !found.is_empty(),
            Some((comparison, Operand::Literal(right))) => {
                found.iter().any(|left| comparison.holds(left, right))
            }
            Some((comparison, Operand::Path(right))) => {
                let right = self.path(right, item);
                found.iter().zip(right).any(|(left, right)| comparison.holds(left, right))
            }
        }
    }
}

fn resolve_index(index: i64, length: usize) -> Option<usize> {
    if index >= 0 {
        return usize::try_from(index).ok();
    }
    length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
}

impl Comparison {
    /// Compares two values. Values of different types are only unequal.
    pub fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => {
                a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b))
            }
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ => (left == right).then_some(Ordering::Equal),
        };
        match self {
            Self::Equal => order.is_some_and(Ordering::is_eq),
            Self::Unequal => !order.is_some_and(Ordering::is_eq),
            Self::Less => order.is_some_and(Ordering::is_lt),
            Self::AtMost => order.is_some_and(Ordering::is_le),
            Self::More => order.is_some_and(Ordering::is_gt),
            Self::AtLeast => order.is_some_and(Ordering::is_ge),
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
            (".spec.containers[0:3:2].name", json!(["a", "c"])),
            (".spec.containers[].name", json!(["a", "b", "c"])),
            (".spec.containers[?(@.port==@.port)].name", json!(["a", "b"])),
        ] {
            let object = object();
            let parsed = JsonPath::parse(path, Dialect::Columns).expect(path);
            assert_eq!(json!(parsed.find(&object)), found, "{path}");
        }
        assert!(JsonPath::parse(".metadata.uid", Dialect::Columns).expect("a path").is_of_metadata());
        assert!(!JsonPath::parse(".spec", Dialect::Columns).expect("a path").is_of_metadata());
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
            (".a[::0]", "character 7: the step of a slice must be positive"),
            (".a[?(@[?(@[?(@[?(@[?(@", "character 22: more than 4 filters within each other"),
            (".a[0]b", "character 6: expected a dot or a bracket before the next key"),
        ] {
            assert_eq!(JsonPath::parse(path, Dialect::Columns).expect_err(path), why, "{path}");
        }
        assert!(JsonPath::parse(&"a".repeat(MAX_PATH + 1), Dialect::Columns).is_err());
    }

    #[test]
    fn a_path_never_finds_without_end_con_16() {
        let wide = json!({"a": vec![vec![json!({"b": 1}); 300]; 300]});
        for path in ["..*", "..b", ".a[*][*].b", "..[*]..[*]..b", "..[?(@..[?(@..[?(@..b)])])]"] {
            assert!(
                JsonPath::parse(path, Dialect::Columns).expect(path).find(&wide).len() <= MAX_RESULTS,
                "{path}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_con_16(text in "[.$@a\\[\\]\\\\(){}?*'\":,<>=!~0-9 |-]{0,24}") {
            for dialect in [Dialect::Columns, Dialect::Definitions] {
                if let Ok(path) = JsonPath::parse(&text, dialect) {
                    path.find(&object());
                }
            }
        }
    }
}
