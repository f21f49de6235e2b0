//! Fields that are stored and have no effect here, with warnings for clients that write them (API-17).
//!
//! [`INERT`] is the only list of them: it decides the warnings, and docs/differences/fields.md is generated from it. A
//! test (`apiserver::tests::fields`) walks the schemas of the main kinds and checks for each other field that a test
//! shows its effect, or that it only has rules, or that it is refused.

mod inert;

pub use inert::INERT;

use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::Value;

use apimachinery::schema::{Shape, TypeId, graph};
use object::{Object, ObjectPart as _};

/// The maximum number of warnings about fields of one document.
const MAX_WARNINGS: usize = 64;

/// A field without effect.
pub struct InertField {
    /// The name of the type that has the field, as in the table of types.
    pub of: &'static str,
    /// The name of the field.
    pub field: &'static str,
    /// The values that have no effect.
    pub when: ValueCondition,
    /// The text of the warning, after the field's path.
    pub text: &'static str,
}

/// A condition on a field's value.
#[derive(Clone, Copy)]
pub enum ValueCondition {
    /// Any.
    Set,
    /// Only this one.
    Is(&'static str),
    /// Any value except this one.
    IsNot(&'static str),
    /// An object with a field of this name that differs from this text.
    FieldIsNot(&'static str, &'static str),
}

impl ValueCondition {
    fn matches(self, value: &Value) -> bool {
        let is = |value: &Value, text: &str| match value {
            Value::String(own) => own == text,
            other => serde_json::to_string(other).is_ok_and(|written| written == text),
        };
        match self {
            _ if value.is_null() || is(value, "") || value.as_array().is_some_and(Vec::is_empty) => false,
            Self::Set => true,
            Self::Is(text) => is(value, text),
            Self::IsNot(text) => !is(value, text),
            Self::FieldIsNot(field, text) => value.get(field).is_some_and(|own| !is(own, text)),
        }
    }
}

/// The fields without effect, by the index of the type that has them.
struct Index {
    fields: Vec<Vec<&'static InertField>>,
    /// True if values of the type can contain a field without effect.
    leads: Vec<bool>,
}

static INDEX: LazyLock<Index> = LazyLock::new(Index::build);

impl Index {
    fn build() -> Self {
        let graph = graph();
        let count = graph.types().count();
        let (mut fields, mut leads) = (vec![Vec::new(); count], vec![false; count]);
        for inert in INERT {
            if let Some(id) = graph.named(inert.of) {
                fields[id.index()].push(inert);
                leads[id.index()] = true;
            }
        }
        loop {
            let reached = graph.types().enumerate().filter(|(at, type_)| {
                !leads[*at]
                    && type_
                        .fields
                        .iter()
                        .any(|field| object_in(&field.shape).is_some_and(|id| leads[id.index()]))
            });
            let reached: Vec<usize> = reached.map(|(at, _)| at).collect();
            if reached.is_empty() {
                return Self { fields, leads };
            }
            for at in reached {
                leads[at] = true;
            }
        }
    }
}

/// Returns the type of the objects in a value of this shape.
pub fn object_in(shape: &Shape) -> Option<TypeId> {
    match shape {
        Shape::Object(id) => Some(*id),
        Shape::List(items) => object_in(items),
        Shape::Map(values) => object_in(values),
        Shape::Any | Shape::Scalar(_) => None,
    }
}

/// Returns warnings about the fields of an object that have no effect here.
pub(super) fn warnings(object: &Object) -> Vec<String> {
    let info = object.kind().info();
    let root = graph().root(info.group, info.version, info.name);
    let Some(root) = root.filter(|root| INDEX.leads[root.index()]) else { return Vec::new() };
    let mut walk = FieldWalk { path: String::new(), warnings: Vec::new() };
    walk.object(root, &object.content());
    walk.warnings
}

struct FieldWalk {
    path: String,
    warnings: Vec<String>,
}

impl FieldWalk {
    fn object(&mut self, id: TypeId, value: &Value) {
        let Value::Object(entries) = value else { return };
        let (type_, inert, top) = (graph().get(id), &INDEX.fields[id.index()], self.path.is_empty());
        for (name, value) in entries {
            // Controllers write the status, so it causes no warnings.
            let Some(field) = type_.field(name).filter(|_| !(top && name == "status")) else { continue };
            let length = self.path.len();
            let _ = write!(self.path, "{}{name}", if top { "" } else { "." });
            match inert.iter().find(|inert| inert.field == name && inert.when.matches(value)) {
                Some(inert) if self.warnings.len() < MAX_WARNINGS => {
                    self.warnings.push(format!("{}: {}", self.path, inert.text));
                }
                Some(_) => {}
                None => self.value(&field.shape, value),
            }
            self.path.truncate(length);
        }
    }

    fn value(&mut self, shape: &Shape, value: &Value) {
        if object_in(shape).is_none_or(|id| !INDEX.leads[id.index()]) {
            return;
        }
        let length = self.path.len();
        match (shape, value) {
            (Shape::Object(id), value) => self.object(*id, value),
            (Shape::List(items), Value::Array(elements)) => {
                for (at, element) in elements.iter().enumerate() {
                    let _ = write!(self.path, "[{at}]");
                    self.value(items, element);
                    self.path.truncate(length);
                }
            }
            (Shape::Map(values), Value::Object(entries)) => {
                for (key, entry) in entries {
                    let _ = write!(self.path, "[{key}]");
                    self.value(values, entry);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// Returns the source of a pod's volume that no node can mount, if the volume has such a source.
pub fn unmountable(volume: &k8s_openapi::api::core::v1::Volume) -> Option<&'static str> {
    let value = volume.to_value();
    let inert = INERT.iter().filter(|inert| inert.of == inert::VOLUME);
    inert.map(|inert| inert.field).find(|field| value.get(field).is_some_and(|source| !source.is_null()))
}
