//! Types of expressions, and their environment.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::decl_type::DeclType;
use super::values::{item_schema, value_schema};
use base::sort::CollectMap;

/// The fields of an object's `metadata` that a rule may read even if the object's schema omits them.
static OBJECT_META: LazyLock<JSONSchemaProps> = LazyLock::new(|| {
    let text = || JSONSchemaProps { type_: Some("string".into()), ..JSONSchemaProps::default() };
    let fields = ["name", "generateName"].into_iter().map(|name| (name.to_string(), text()));
    JSONSchemaProps {
        type_: Some("object".into()),
        properties: Some(fields.collect_map()),
        ..JSONSchemaProps::default()
    }
});

/// Returns true if a schema describes all of an object's metadata: built-in kinds' do, definitions' may not.
fn describes_metadata(schema: &JSONSchemaProps) -> bool {
    let metadata = schema.properties.as_ref().and_then(|fields| fields.get("metadata"));
    let fields = metadata.and_then(|metadata| metadata.properties.as_ref());
    fields.is_some_and(|fields| fields.contains_key("labels"))
}

/// The type of an expression, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub enum Type<'s> {
    /// Anything.
    Dyn,
    /// A truth value.
    Bool,
    /// A signed number.
    Int,
    /// An unsigned number.
    Uint,
    /// A floating-point number.
    Double,
    /// A string.
    Text,
    /// A sequence of bytes.
    Bytes,
    /// The null value.
    Null,
    /// A moment.
    Time,
    /// A duration.
    Duration,
    /// A list of any items.
    List,
    /// A map of any keys and values.
    Map,
    /// A value of a schema.
    Schema(&'s JSONSchemaProps),
    /// A whole object of a schema, with a name and a kind.
    Object(&'s JSONSchemaProps),
    /// An object literal: `Object{…}`.
    ObjectLiteral,
    /// A part of an object literal: `Object.spec{…}`.
    ObjectLiteralPart,
    /// The literal of a JSON patch operation.
    JsonPatch,
}

impl<'s> Type<'s> {
    /// Returns the type of a schema's values: a scalar type if the schema has one.
    pub(super) fn of_schema(schema: &'s JSONSchemaProps) -> Self {
        if schema.x_kubernetes_int_or_string == Some(true) {
            return Self::Dyn;
        }
        match (schema.type_.as_deref(), schema.format.as_deref()) {
            (Some("boolean"), _) => Self::Bool,
            (Some("integer"), _) => Self::Int,
            (Some("number"), _) => Self::Double,
            (Some("string"), Some("date" | "date-time")) => Self::Time,
            (Some("string"), Some("duration")) => Self::Duration,
            (Some("string"), Some("byte")) => Self::Bytes,
            (Some("string"), _) => Self::Text,
            (Some("array" | "object"), _) if schema.x_kubernetes_embedded_resource == Some(true) => {
                Self::Object(schema)
            }
            (Some("array" | "object"), _) => Self::Schema(schema),
            _ => Self::Dyn,
        }
    }

    /// Returns the type of a field that every whole object has, which its schema may omit and cannot change.
    pub(super) fn of_every_object(self, field: &str) -> Option<Self> {
        match (self, field) {
            (Self::Object(_), "apiVersion" | "kind") => Some(Self::Text),
            (Self::Object(schema), "metadata") if !describes_metadata(schema) => {
                Some(Self::Schema(&OBJECT_META))
            }
            _ => None,
        }
    }

    /// Returns the type without its schema.
    pub(super) fn without_schema(self) -> Type<'static> {
        match self {
            Self::Dyn | Self::Schema(_) | Self::Object(_) => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::Text => Type::Text,
            Self::Bytes => Type::Bytes,
            Self::Null => Type::Null,
            Self::Time => Type::Time,
            Self::Duration => Type::Duration,
            Self::List => Type::List,
            Self::Map => Type::Map,
            Self::ObjectLiteral => Type::ObjectLiteral,
            Self::ObjectLiteralPart => Type::ObjectLiteralPart,
            Self::JsonPatch => Type::JsonPatch,
        }
    }

    pub(super) fn resolved(self) -> Self {
        match self {
            Self::Schema(schema) => Self::of_schema(schema),
            other => other,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dyn => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::Time => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List => "list(dyn)",
            Self::Map => "map(dyn, dyn)",
            Self::Schema(schema) if is_list(schema) => "list(dyn)",
            Self::Schema(schema) if value_schema(schema).is_some() => "map(string, dyn)",
            Self::Schema(_) | Self::Object(_) => "object",
            Self::ObjectLiteral => "Object",
            Self::ObjectLiteralPart => "Object.*",
            Self::JsonPatch => "JSONPatch",
        }
    }

    pub(super) fn is_dyn(self) -> bool {
        matches!(self, Self::Dyn)
    }

    /// Returns the types of the keys and values of a map, or of the indices and items of a list; `None` for
    /// other types.
    pub(super) fn entries(self) -> Option<(Self, Self)> {
        match self {
            Self::Schema(schema) if is_list(schema) => {
                Some((Self::Int, item_schema(Some(schema)).map_or(Self::Dyn, Self::of_schema)))
            }
            Self::Schema(schema) => Some((Self::Text, Self::of_schema(value_schema(schema)?))),
            Self::List => Some((Self::Int, Self::Dyn)),
            Self::Map | Self::Dyn => Some((Self::Dyn, Self::Dyn)),
            _ => None,
        }
    }

    /// Returns the type of the values that a macro with one variable iterates over, and that `in` searches: the
    /// items of a list, the keys of a map.
    pub(super) fn iterated(self) -> Option<Self> {
        self.entries().map(|(key, value)| if matches!(key, Self::Int) { value } else { key })
    }

    /// Returns true if a value can have both types.
    pub(super) fn overlaps(self, other: Self) -> bool {
        let family = |type_: Self| type_.name().split('(').next();
        self.is_dyn()
            || other.is_dyn()
            || family(self) == family(other)
            || (matches!(self, Self::Null) && other.is_nullable())
            || (matches!(other, Self::Null) && self.is_nullable())
    }

    /// Returns true if null is a value of the type: cel-go's `isLegacyNullable`.
    fn is_nullable(self) -> bool {
        match self {
            Self::Schema(_) => self.entries().is_none(),
            Self::Time
            | Self::Duration
            | Self::Object(_)
            | Self::ObjectLiteral
            | Self::ObjectLiteralPart
            | Self::JsonPatch => true,
            _ => false,
        }
    }
}

fn is_list(schema: &JSONSchemaProps) -> bool {
    schema.type_.as_deref() == Some("array")
}

/// The names that an expression may use.
#[derive(Clone, Debug, Default)]
pub struct Environment<'s> {
    /// The variables, each with its type.
    pub variables: Vec<(&'s str, Type<'s>)>,
    /// Named expressions, which an expression reads as `variables.NAME`.
    composed: Vec<NamedExpression>,
    /// True if an expression may contain object literals: `Object{…}`, `JSONPatch{…}`.
    pub writes_objects: bool,
    /// The sizes of the variables' values, for cost estimates.
    pub(super) sizes: Option<&'s DeclType>,
}

/// An expression that others read.
#[derive(Clone, Debug)]
struct NamedExpression {
    name: String,
    type_: Type<'static>,
    depth: usize,
}

impl<'s> Environment<'s> {
    /// Returns an environment with only these variables.
    pub fn of(variables: Vec<(&'s str, Type<'s>)>) -> Self {
        Self { variables, ..Self::default() }
    }

    /// Adds sizes, from which the cost of expressions is estimated.
    pub fn with_sizes(self, sizes: Option<&'s DeclType>) -> Self {
        Self { sizes, ..self }
    }

    /// Adds an expression of this type and nesting, readable as `variables.NAME`.
    pub(super) fn compose(&mut self, name: &str, type_: Type<'static>, depth: usize) {
        self.composed.push(NamedExpression { name: name.into(), type_, depth });
    }

    /// Adds an expression of unknown type.
    pub fn compose_unknown(&mut self, name: &str) {
        self.compose(name, Type::Dyn, 0);
    }

    /// Returns true if any expression is readable as `variables.NAME`.
    pub(super) fn is_composed(&self) -> bool {
        !self.composed.is_empty()
    }

    /// Returns the type of the expression of this name, if there is one.
    pub(super) fn composed_type(&self, name: &str) -> Option<Type<'static>> {
        self.composed.iter().find(|named| named.name == name).map(|named| named.type_)
    }

    /// Returns the nesting of the expression of this name.
    pub(super) fn composed_depth(&self, name: &str) -> usize {
        self.composed.iter().find(|named| named.name == name).map_or(0, |named| named.depth)
    }
}
