//! Converts sets of paths to and from `fieldsV1`: `{"f:data":{".":{},"f:key":{}}}`.

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::{FieldSet, Node};

/// The deepest nesting of a set; no object is deeper.
const MAX_DEPTH: usize = 128;

impl FieldSet {
    /// Returns the set as JSON, in order.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.write(false))
    }

    fn write(&self, itself: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if itself && !self.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for (step, node) in self.nodes() {
            map.insert(step_text(step), Value::Object(node.below.write(node.member)));
        }
        map
    }

    /// Reads JSON; skips path elements of unknown types, as Kubernetes does.
    pub(crate) fn from_fields_v1(value: &Value) -> Result<Self, String> {
        read(value, 0).map(|node| node.below)
    }
}

fn read(value: &Value, depth: usize) -> Result<Node, String> {
    let Value::Object(entries) = value else { return Err("fieldsV1 must be made of objects".into()) };
    if depth > MAX_DEPTH {
        return Err("fieldsV1 is nested too deep".into());
    }
    let mut member = entries.is_empty();
    let mut below = Vec::with_capacity(entries.len());
    for (name, value) in entries {
        if name == "." {
            member = true;
        } else if let Some(step) = read_step(name)? {
            below.push((step, read(value, depth + 1)?));
        }
    }
    Ok(Node { member, below: below.into_iter().collect() })
}

fn step_text(step: &PathElement) -> String {
    match step {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Key(_) => format!("k:{}", value_text(step)),
        PathElement::Value(_) => format!("v:{}", value_text(step)),
        PathElement::Index(index) => format!("i:{index}"),
    }
}

/// Returns the JSON of a key or value.
pub(super) fn value_text(step: &PathElement) -> String {
    match step {
        PathElement::Key(values) => {
            let mut text = vec![b'{'];
            for (i, (name, value)) in values.iter().enumerate() {
                if i > 0 {
                    text.push(b',');
                }
                serde_json::to_writer(&mut text, name).expect("a text is JSON");
                text.push(b':');
                serde_json::to_writer(&mut text, value).expect("a value is JSON");
            }
            text.push(b'}');
            String::from_utf8(text).expect("JSON is UTF-8")
        }
        PathElement::Value(value) => value.to_string(),
        PathElement::Field(_) | PathElement::Index(_) => String::new(),
    }
}

/// Parses the JSON of a key.
pub(super) fn read_key(text: &str) -> Result<PathElement, String> {
    let values: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
    Ok(PathElement::key(values.into_iter().map(|(name, value)| (name.into(), value)).collect()))
}

/// Parses the JSON of a value.
pub(super) fn read_value(text: &str) -> Result<PathElement, String> {
    serde_json::from_str(text).map(PathElement::value).map_err(|error| format!("{text}: {error}"))
}

fn read_step(text: &str) -> Result<Option<PathElement>, String> {
    let Some((sort, rest)) = text.split_once(':') else {
        return Err(format!("missing colon: {text:?}"));
    };
    Ok(Some(match sort {
        "f" => PathElement::field(rest),
        "k" => read_key(rest)?,
        "v" => read_value(rest)?,
        "i" => PathElement::Index(rest.parse().map_err(|_| format!("no index: {rest:?}"))?),
        _ => return Ok(None),
    }))
}
