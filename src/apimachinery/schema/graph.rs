//! The type graph, and the parser of its table `types.txt`.
//!
//! A line is a type and its fields, `name:shape`. A shape is a leaf (`string`, `int32` …), `any`, the name of
//! another type, `[]` and the shape of a list's elements, or `{}` and that of a map's values. The common
//! prefix of names, `io.k8s.`, is left out. The table is generated from the schemas of `k8s-openapi`, whose
//! construction would cost twenty megabytes at each start.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::merge_keys::{MapType, MergeRule, atomic_type, merge_rules};
use super::roots;
use object::managed::compact::FieldName;

const TABLE: &str = include_str!("types.txt");

/// Returns the name of a schema without the common prefix.
pub(super) fn bare(name: &str) -> &str {
    name.strip_prefix("io.k8s.").unwrap_or(name)
}

/// A type of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(u16);

impl TypeId {
    /// Returns the index among all types.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

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
    /// A quantity like `100m`.
    Quantity,
}

impl Scalar {
    const ALL: [Self; 10] = [
        Self::String,
        Self::Bytes,
        Self::Time,
        Self::MicroTime,
        Self::Int32,
        Self::Int64,
        Self::Double,
        Self::Bool,
        Self::IntOrString,
        Self::Quantity,
    ];

    /// Returns the name in the table of types.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Time => "time",
            Self::MicroTime => "microtime",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::IntOrString => "int-or-string",
            Self::Quantity => "quantity",
        }
    }
}

/// The shape of a value.
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
    /// A map from names to values.
    Map(Box<Shape>),
}

/// One field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its JSON name.
    pub name: &'static str,
    /// The number of its name in field sets.
    pub number: Option<FieldName>,
    /// The shape of its value.
    pub shape: Shape,
    /// Its merge rule.
    pub merge: MergeRule,
}

impl Field {
    /// Returns the shape of a value of this field, which is a field of `holder`. In the schemas of
    /// definitions some fields accept values of several types; the value determines which.
    pub(super) fn shape_of(&self, holder: &ObjectType, value: &Value) -> Cow<'_, Shape> {
        let schema = holder.name.ends_with(SCHEMA).then(|| graph().named(holder.name)).flatten();
        let Some(schema) = schema.map(Shape::Object) else { return Cow::Borrowed(&self.shape) };
        let shape = match (self.name, value) {
            ("items", Value::Array(_)) => Shape::List(Box::new(schema)),
            ("additionalItems" | "additionalProperties", Value::Bool(_)) => Shape::Scalar(Scalar::Bool),
            ("items" | "additionalItems" | "additionalProperties", _) => schema,
            ("dependencies", Value::Object(all)) if all.values().all(Value::is_object) => {
                Shape::Map(Box::new(schema))
            }
            ("dependencies", _) => Shape::Map(Box::new(Shape::List(Box::new(Shape::Scalar(Scalar::String))))),
            _ => return Cow::Borrowed(&self.shape),
        };
        Cow::Owned(shape)
    }
}

/// The type of the schemas in definitions.
const SCHEMA: &str = ".JSONSchemaProps";

/// An object with known fields.
#[derive(Debug)]
pub struct ObjectType {
    /// The schema's name without the common prefix, e.g. `api.core.v1.PodSpec`.
    pub name: &'static str,
    /// Sorted by name.
    pub fields: Vec<Field>,
    /// The granularity of ownership in server-side apply.
    pub map: MapType,
}

impl ObjectType {
    /// Returns the field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|f| f.name.cmp(name)).ok().map(|i| &self.fields[i])
    }

    /// Returns the field of this name at or after a position, which is then advanced past it: faster than
    /// [`ObjectType::field`] for callers that visit all fields in order.
    pub fn field_behind(&self, name: &str, place: &mut usize) -> Option<&Field> {
        let at = *place + self.fields.get(*place..)?.iter().position(|field| field.name == name)?;
        *place = at + 1;
        self.fields.get(at)
    }

    /// Returns the Go type's name, as in error messages: `PodSpec`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

/// All types of the API.
#[derive(Debug)]
pub struct Graph {
    types: Vec<ObjectType>,
    /// By name.
    ids: HashMap<&'static str, TypeId>,
    roots: Vec<Option<TypeId>>,
}

/// Returns the single graph; the first call parses it (about a millisecond).
pub fn graph() -> &'static Graph {
    static GRAPH: OnceLock<Graph> = OnceLock::new();
    GRAPH.get_or_init(|| Graph::read(TABLE))
}

impl Graph {
    /// Returns all types, in the order of their ids.
    pub fn types(&self) -> impl Iterator<Item = &ObjectType> {
        self.types.iter()
    }

    /// Returns the type of a top-level kind.
    pub fn root(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let at = roots::all().position(|r| r.kind == kind && r.version == version && r.group == group)?;
        self.roots[at]
    }

    /// Returns the type whose schema has this name.
    pub fn named(&self, schema: &str) -> Option<TypeId> {
        self.ids.get(bare(schema)).copied()
    }

    /// Returns the type of an id.
    pub fn get(&self, id: TypeId) -> &ObjectType {
        &self.types[id.index()]
    }

    fn read(table: &'static str) -> Self {
        let lines = || table.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
        let ids = lines().zip(0..).map(|((name, _), at)| (name, TypeId(at))).collect();
        let types = lines().map(|(name, fields)| object_type(name, fields, &ids)).collect();
        let root = |root: &roots::Root| ids.get(bare(&root.schema())).copied();
        let roots = roots::all().map(root).collect();
        Self { types, ids, roots }
    }
}

fn object_type(name: &'static str, fields: &'static str, ids: &HashMap<&str, TypeId>) -> ObjectType {
    let map = if atomic_type(name) { MapType::Atomic } else { MapType::Granular };
    let merging = merge_rules(name);
    let fields = fields.split(' ').filter_map(|field| field.split_once(':'));
    let fields = fields.map(|(field, text)| Field {
        name: field,
        number: FieldName::of(field),
        shape: shape(text, ids),
        merge: merging.iter().find(|(of, _)| *of == field).map_or_else(MergeRule::default, |(_, rule)| *rule),
    });
    ObjectType { name, fields: fields.collect(), map }
}

fn shape(text: &str, ids: &HashMap<&str, TypeId>) -> Shape {
    if let Some(items) = text.strip_prefix("[]") {
        return Shape::List(Box::new(shape(items, ids)));
    }
    if let Some(values) = text.strip_prefix("{}") {
        return Shape::Map(Box::new(shape(values, ids)));
    }
    if let Some(id) = ids.get(text) {
        return Shape::Object(*id);
    }
    let leaf = Scalar::ALL.into_iter().find(|leaf| leaf.as_str() == text);
    leaf.map_or(Shape::Any, Shape::Scalar)
}
