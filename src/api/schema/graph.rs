//! The type graph and how it is read out of the schemas.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::merge_keys::{MapType, MergeRule, atomic_type, merge_rule};
use super::roots;
use object::managed::compact::FieldName;

/// A type of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(u16);

/// A leaf value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// Base64 text in JSON.
    Bytes,
    /// RFC 3339 in seconds.
    Time,
    /// RFC 3339 in microseconds.
    MicroTime,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number.
    Double,
    /// True or false.
    Bool,
    /// `int32` or text.
    IntOrString,
    /// An amount like `100m`.
    Quantity,
}

/// What a value looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Any JSON: embedded objects, patches, managed fields.
    Any,
    /// A leaf.
    Scalar(Scalar),
    /// An object with known fields.
    Object(TypeId),
    /// A list.
    List(Box<Shape>),
    /// Names to values.
    Map(Box<Shape>),
}

/// One field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its JSON name.
    pub(crate) name: String,
    /// Its name's number, as sets of fields have it.
    pub(crate) number: Option<FieldName>,
    /// What it holds.
    pub shape: Shape,
    /// How it merges.
    pub merge: MergeRule,
}

/// An object with known fields.
#[derive(Debug)]
pub struct ObjectType {
    /// The schema's name, e.g. `io.k8s.api.core.v1.PodSpec`.
    pub(crate) name: String,
    /// Sorted by name.
    pub(crate) fields: Vec<Field>,
    /// Whether server-side apply owns it as a whole.
    pub(crate) map: MapType,
}

impl ObjectType {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|f| f.name.as_str().cmp(name)).ok().map(|i| &self.fields[i])
    }

    /// The field of this name at or behind a place, which becomes the place behind it: quicker than [`ObjectType::field`]
    /// for who comes by all fields in order.
    pub(crate) fn field_behind(&self, name: &str, place: &mut usize) -> Option<&Field> {
        let at = *place + self.fields.get(*place..)?.iter().position(|field| field.name == name)?;
        *place = at + 1;
        self.fields.get(at)
    }

    /// The Go type's name, as error messages have it: `PodSpec`.
    pub(crate) fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// Every type the API takes.
#[derive(Debug)]
pub struct Graph {
    types: Vec<ObjectType>,
    shapes: HashMap<String, Shape>,
    roots: Vec<Option<TypeId>>,
}

/// The one graph; the first call makes it (some milliseconds).
pub fn graph() -> &'static Graph {
    static GRAPH: OnceLock<Graph> = OnceLock::new();
    GRAPH.get_or_init(|| Graph::read(&roots::definitions(roots::all())))
}

impl Graph {
    /// All types.
    #[cfg(test)]
    pub(crate) fn types(&self) -> impl Iterator<Item = &ObjectType> {
        self.types.iter()
    }

    /// The type of a top-level kind.
    pub fn root(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let at = roots::all().position(|r| r.kind == kind && r.version == version && r.group == group)?;
        self.roots[at]
    }

    /// The type whose schema has this name.
    pub(crate) fn named(&self, schema: &str) -> Option<TypeId> {
        match self.shapes.get(schema) {
            Some(Shape::Object(id)) => Some(*id),
            _ => None,
        }
    }

    /// What a type id stands for.
    pub fn get(&self, id: TypeId) -> &ObjectType {
        &self.types[usize::from(id.0)]
    }

    fn read(definitions: &Map<String, Value>) -> Self {
        let mut shapes = HashMap::new();
        let mut objects: Vec<(&String, &Map<String, Value>)> = Vec::new();
        for (name, schema) in definitions {
            let shape = match schema.get("properties") {
                Some(Value::Object(properties)) => {
                    objects.push((name, properties));
                    Shape::Object(TypeId((objects.len() - 1) as u16))
                }
                _ => leaf(name, schema),
            };
            shapes.insert(name.clone(), shape);
        }
        let types = objects
            .into_iter()
            .map(|(name, properties)| {
                let mut fields: Vec<Field> = properties
                    .iter()
                    .map(|(field, schema)| Field {
                        name: field.clone(),
                        number: FieldName::of(field),
                        shape: shape(schema, &shapes),
                        merge: merge_rule(name, field),
                    })
                    .collect();
                fields.sort_by(|a, b| a.name.cmp(&b.name));
                let map = if atomic_type(name) { MapType::Atomic } else { MapType::Granular };
                ObjectType { name: name.clone(), fields, map }
            })
            .collect();
        let roots = roots::all()
            .map(|r| match shapes.get(&(r.schema)()) {
                Some(Shape::Object(id)) => Some(*id),
                _ => None,
            })
            .collect();
        Self { types, shapes, roots }
    }
}

/// A definition without properties: a named leaf, or anything at all.
fn leaf(name: &str, schema: &Value) -> Shape {
    match name.rsplit('.').next().unwrap_or(name) {
        "Quantity" => Shape::Scalar(Scalar::Quantity),
        "IntOrString" => Shape::Scalar(Scalar::IntOrString),
        "Time" => Shape::Scalar(Scalar::Time),
        "MicroTime" => Shape::Scalar(Scalar::MicroTime),
        _ => shape(schema, &HashMap::new()),
    }
}

fn shape(schema: &Value, named: &HashMap<String, Shape>) -> Shape {
    // A reference with siblings stands in an `allOf` of one.
    if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        return shape(only, named);
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return named.get(name).cloned().unwrap_or(Shape::Any);
    }
    let format = schema.get("format").and_then(Value::as_str).unwrap_or("");
    match schema.get("type").and_then(Value::as_str) {
        Some("string") if format == "byte" => Shape::Scalar(Scalar::Bytes),
        Some("string") => Shape::Scalar(Scalar::String),
        Some("boolean") => Shape::Scalar(Scalar::Bool),
        Some("integer") if format == "int32" => Shape::Scalar(Scalar::Int32),
        Some("integer") => Shape::Scalar(Scalar::Int64),
        Some("number") => Shape::Scalar(Scalar::Double),
        Some("array") => Shape::List(Box::new(schema.get("items").map_or(Shape::Any, |s| shape(s, named)))),
        Some("object") => match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => Shape::Map(Box::new(shape(values, named))),
            _ => Shape::Any,
        },
        _ => Shape::Any,
    }
}
