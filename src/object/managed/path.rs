//! The elements of a path into an object, as in field ownership.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use serde_json::Value;

/// One element of a path.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// The field of this name, or the value of this key of a map.
    Field(Box<str>),
    /// The element of a list identified by these fields' values.
    Key(Box<[(Box<str>, Value)]>),
    /// The element of a set with this value.
    Value(Box<Value>),
    /// The element at this index.
    Index(i64),
}

impl PathElement {
    /// Returns the path element of a field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Returns the path element with these values, sorted by name.
    pub fn key(mut values: Vec<(Box<str>, Value)>) -> Self {
        values.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(values.into())
    }

    /// Returns the path element of a set's value.
    pub fn value(value: Value) -> Self {
        Self::Value(value.into())
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let pairs = a.iter().zip(b.iter());
                pairs
                    .map(|(a, b)| a.0.cmp(&b.0).then_with(|| order(&a.1, &b.1)))
                    .find(|order| order.is_ne())
                    .unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => order(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// Compares values in Kubernetes' order: numbers, texts, booleans, lists, maps, null.
fn order(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
            a.to_string().cmp(&b.to_string())
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(values) => {
                f.write_char('[')?;
                for (i, (name, value)) in values.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_char(']')
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Formats a path as `.spec.ports[port=80,protocol="TCP"].name`.
pub fn path_text(path: &[PathElement]) -> String {
    path.iter().fold(String::new(), |mut text, step| {
        let _ = write!(text, "{step}");
        text
    })
}
