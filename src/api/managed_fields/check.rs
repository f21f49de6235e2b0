//! Checks a configuration before it is applied: unknown fields, values of wrong types, and elements without
//! an identity.

use std::collections::BTreeSet;

use serde_json::Value;

use super::types::{JsonType, OwnershipKind, Type};
use object::go_format::go_type;
use object::managed::{PathElement, path_text};

/// The limit on reported errors.
const MAX_REPORTED: usize = 32;

/// Returns the errors of a configuration, in Kubernetes' words; `None` if there are none.
pub(crate) fn faults(of: Type<'_>, config: &Value) -> Option<String> {
    let mut found = Faults { path: Vec::new(), faults: Vec::new() };
    found.value(of, config);
    match found.faults.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        many => Some(many.iter().fold("errors:".into(), |text, fault| format!("{text}\n  {fault}"))),
    }
}

/// Returns the paths of atomic lists and maps.
pub(crate) fn wholes(of: Type<'_>, config: &Value) -> Vec<String> {
    let mut found = Vec::new();
    add_wholes(of, config, "", &mut found);
    found
}

fn add_wholes(of: Type<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    let is_part = value.is_object() || value.is_array();
    if is_part && of.is_whole() && found.len() < MAX_REPORTED {
        found.push(path.to_string());
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                add_wholes(of.field(name).0, field, &format!("{path}.{name}"), found);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                add_wholes(of.item(), item, &format!("{path}[{i}]"), found);
            }
        }
        _ => {}
    }
}

struct Faults {
    path: Vec<PathElement>,
    faults: Vec<String>,
}

impl Faults {
    fn add(&mut self, error: &str) {
        if self.faults.len() < MAX_REPORTED {
            self.faults.push(format!("{}: {error}", path_text(&self.path)));
        }
    }

    fn below(&mut self, step: PathElement, inside: impl FnOnce(&mut Self)) {
        self.path.push(step);
        inside(self);
        self.path.pop();
    }

    fn value(&mut self, of: Type<'_>, value: &Value) {
        if value.is_null() {
            return;
        }
        let expected = match of.form() {
            JsonType::Text if !value.is_string() => Some(format!("string, got {}", wrapped(value))),
            JsonType::Number if !value.is_number() => {
                Some(format!("numeric (int or float), got {}", go_type(value)))
            }
            JsonType::Boolean if !value.is_boolean() => Some(format!("boolean, got {}", go_type(value))),
            JsonType::Scalar if value.is_object() || value.is_array() => {
                Some(format!("any scalar, got {}", wrapped(value)))
            }
            JsonType::List if !value.is_array() => Some(format!("list, got {}", format_value(value))),
            JsonType::Map if !value.is_object() => Some(format!("map, got {}", format_value(value))),
            _ => None,
        };
        if let Some(expected) = expected {
            self.add(&format!("expected {expected}"));
            return;
        }
        match (of.owned(value), value) {
            (_, Value::Object(fields)) if of.form() == JsonType::Map => {
                for (name, value) in fields {
                    let (type_, is_named) = of.field(name);
                    self.below(PathElement::field(name), |this| {
                        if is_named || of.takes_any_field() {
                            this.value(type_, value);
                        } else {
                            this.add("field not declared in schema");
                        }
                    });
                }
            }
            (owned @ (OwnershipKind::Set | OwnershipKind::Keyed(_)), Value::Array(items)) => {
                self.items(of, &owned, items);
            }
            (_, Value::Array(items)) if of.form() == JsonType::List => {
                for (at, item) in items.iter().enumerate() {
                    self.below(PathElement::Index(at as i64), |this| this.value(of.item(), item));
                }
            }
            _ => {}
        }
    }

    fn items(&mut self, of: Type<'_>, owned: &OwnershipKind<'_>, items: &[Value]) {
        let (mut seen, mut reported) = (BTreeSet::new(), BTreeSet::new());
        for (at, item) in items.iter().enumerate() {
            match of.step_to(owned, item) {
                Ok(step) => {
                    if !seen.insert(step.clone()) && reported.insert(step.clone()) {
                        self.add(&format!("duplicate entries for key {step}"));
                    }
                    self.below(step, |this| this.value(of.item(), item));
                }
                Err(fault) => self.add(&format!("element {at}: {fault}")),
            }
        }
    }
}

fn wrapped(value: &Value) -> String {
    let inner = match value {
        Value::Object(_) | Value::Array(_) => format!("{}{{}}", go_type(value)),
        other => other.to_string(),
    };
    format!("&value.valueUnstructured{{Value:{inner}}}")
}

fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("&{{{text}}}"),
        other => format!("&{{{other}}}"),
    }
}
