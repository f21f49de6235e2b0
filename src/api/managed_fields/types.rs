//! The type of a value for field ownership: a leaf, a struct or map, or a list that is atomic, a set, or
//! keyed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Value, json};

use apimachinery::schema::{ListType, MapType, MergeRule, ObjectType, Scalar, Shape, TypeId, graph};
use kinds::KindSchemas;
use object::managed::PathElement;
use object::{Kind, Object, ServedKind, split_api_version};

/// The schema of every object's metadata.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The types of the built-in kinds, by their index.
static ROOTS: LazyLock<Vec<Option<TypeId>>> = LazyLock::new(|| {
    let infos = Kind::BUILT_IN.iter().map(|kind| kind.info());
    infos.map(|info| graph().root(info.group, info.version, info.name)).collect()
});

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type<'a> {
    /// A value in a built-in kind.
    Shape(&'a Shape, MergeRule),
    /// An object with known fields.
    Struct(TypeId),
    /// A whole custom resource.
    Resource(&'a JSONSchemaProps),
    /// A value in a custom resource.
    Custom(&'a JSONSchemaProps),
    /// A string field that every object has.
    Text,
    /// Unknown: maps are owned key by key, all else is atomic.
    Unknown,
}

/// The granularity of ownership.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnershipKind<'a> {
    /// Atomic.
    Leaf,
    /// Field by field, or key by key.
    Map,
    /// A list, each value separately.
    Set,
    /// A list, by these key fields of its elements.
    Keyed(Vec<&'a str>),
}

/// The form of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    /// String, number or boolean.
    Scalar,
    List,
    Map,
}

impl Json {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Map,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Self::Scalar,
        }
    }
}

/// The JSON form that a type requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonType {
    Text,
    Number,
    Boolean,
    /// String, number or boolean.
    Scalar,
    List,
    Map,
    Any,
}

impl<'a> Type<'a> {
    /// Returns the type of an object, in its version.
    pub(crate) fn of(schemas: &'a KindSchemas, object: &Object) -> Self {
        let version = split_api_version(&object.api_version()).1.to_string();
        if let Some(schema) = schemas.named_or_stored(&version) {
            return Self::Resource(schema);
        }
        let root = ROOTS.get(object.kind().index()).copied().flatten();
        root.map_or(Type::Unknown, Type::Struct)
    }

    /// Returns the type of a kind in a version.
    pub(crate) fn served(schemas: &'a KindSchemas, served: ServedKind) -> Self {
        match schemas.named(served.version()) {
            Some(schema) => Self::Resource(schema),
            None => Self::built_in(served.group(), served.version(), served.kind().info().name),
        }
    }

    /// Returns the type of a built-in kind's objects; unknown if there is none.
    pub(crate) fn built_in(group: &str, version: &str, kind: &str) -> Type<'static> {
        graph().root(group, version, kind).map_or(Type::Unknown, Type::Struct)
    }

    /// Returns the granularity for a value of this type; a value of a wrong type is atomic.
    pub(crate) fn owned(self, value: &Value) -> OwnershipKind<'a> {
        self.owned_as(Json::of(value))
    }

    /// As [`Type::owned`], for any value of this form.
    pub(crate) fn owned_as(self, value: Json) -> OwnershipKind<'a> {
        let owned = match self {
            Self::Shape(shape, rule) => match shape {
                Shape::Any | Shape::Scalar(_) => OwnershipKind::Leaf,
                Shape::Object(id) => map(rule.map.unwrap_or(graph().get(*id).map) == MapType::Atomic),
                Shape::Map(_) => map(rule.map == Some(MapType::Atomic)),
                Shape::List(_) => match rule.list.unwrap_or_default() {
                    ListType::Atomic => OwnershipKind::Leaf,
                    ListType::Set => OwnershipKind::Set,
                    ListType::Map(keys) => OwnershipKind::Keyed(keys.to_vec()),
                },
            },
            Self::Struct(id) => map(graph().get(id).map == MapType::Atomic),
            Self::Resource(_) => OwnershipKind::Map,
            Self::Custom(schema) => match schema.type_.as_deref() {
                Some("array") => match schema.x_kubernetes_list_type.as_deref() {
                    Some("set") => OwnershipKind::Set,
                    Some("map") => {
                        let keys = schema.x_kubernetes_list_map_keys.iter().flatten();
                        OwnershipKind::Keyed(keys.map(String::as_str).collect())
                    }
                    _ => OwnershipKind::Leaf,
                },
                Some("object") => map(schema.x_kubernetes_map_type.as_deref() == Some("atomic")),
                _ if schema.x_kubernetes_preserve_unknown_fields == Some(true) => map(value != Json::Map),
                _ => OwnershipKind::Leaf,
            },
            Self::Text => OwnershipKind::Leaf,
            Self::Unknown => map(value != Json::Map),
        };
        let fits = match &owned {
            OwnershipKind::Leaf => true,
            OwnershipKind::Map => matches!(value, Json::Map | Json::Null),
            OwnershipKind::Set | OwnershipKind::Keyed(_) => matches!(value, Json::List | Json::Null),
        };
        if fits { owned } else { OwnershipKind::Leaf }
    }

    /// Returns true for atomic lists and maps.
    pub(crate) fn is_whole(self) -> bool {
        let like = match self.form() {
            JsonType::List => Json::List,
            JsonType::Map => Json::Map,
            _ => return false,
        };
        self.owned_as(like) == OwnershipKind::Leaf
    }

    /// Returns the fields of a built-in struct.
    pub(crate) fn named_fields(self) -> Option<&'static ObjectType> {
        match self {
            Self::Struct(id) | Self::Shape(&Shape::Object(id), _) => Some(graph().get(id)),
            _ => None,
        }
    }

    /// Returns the type of a field or of a map's value, and true if the type names the field.
    pub(crate) fn field(self, name: &str) -> (Self, bool) {
        let of_struct = |id: TypeId| match graph().get(id).field(name) {
            Some(field) => (Self::Shape(&field.shape, field.merge), true),
            None => (Self::Unknown, false),
        };
        match self {
            Self::Struct(id) => of_struct(id),
            Self::Shape(Shape::Object(id), _) => of_struct(*id),
            Self::Shape(Shape::Map(values), _) => (Self::Shape(values, MergeRule::default()), false),
            Self::Resource(schema) => match name {
                "apiVersion" | "kind" => (Self::Text, true),
                "metadata" => (graph().named(OBJECT_META).map_or(Self::Unknown, Self::Struct), true),
                _ => Self::Custom(schema).field(name),
            },
            Self::Custom(schema) => {
                let embedded = schema.x_kubernetes_embedded_resource == Some(true);
                match schema.properties.as_ref().and_then(|properties| properties.get(name)) {
                    _ if embedded && matches!(name, "apiVersion" | "kind" | "metadata") => {
                        Self::Resource(schema).field(name)
                    }
                    Some(schema) => (Self::Custom(schema), true),
                    None => match &schema.additional_properties {
                        Some(JSONSchemaPropsOrBool::Schema(values)) => (Self::Custom(values), false),
                        _ => (Self::Unknown, false),
                    },
                }
            }
            Self::Shape(..) | Self::Text | Self::Unknown => (Self::Unknown, false),
        }
    }

    /// Returns true if unknown fields are permitted.
    pub(crate) fn takes_any_field(self) -> bool {
        match self {
            Self::Struct(_) | Self::Shape(Shape::Object(_), _) => false,
            Self::Resource(schema) | Self::Custom(schema) => {
                schema.x_kubernetes_preserve_unknown_fields == Some(true)
                    || schema.additional_properties.is_some()
                    || schema.properties.as_ref().is_none_or(BTreeMap::is_empty)
                        && !matches!(self, Self::Resource(_))
            }
            _ => true,
        }
    }

    /// Returns the type of a list's elements.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Shape(Shape::List(items), _) => Self::Shape(items, MergeRule::default()),
            Self::Custom(JSONSchemaProps { items: Some(JSONSchemaPropsOrArray::Schema(items)), .. }) => {
                Self::Custom(items)
            }
            _ => Self::Unknown,
        }
    }

    /// Returns the type below a path element.
    pub(crate) fn below(self, step: &PathElement) -> Self {
        match step {
            PathElement::Field(name) => self.field(name).0,
            _ => self.item(),
        }
    }

    /// Returns the JSON form that the type requires.
    pub(crate) fn form(self) -> JsonType {
        match self {
            Self::Struct(_) | Self::Resource(_) => JsonType::Map,
            Self::Text => JsonType::Text,
            Self::Unknown => JsonType::Any,
            Self::Shape(shape, _) => match shape {
                Shape::Any => JsonType::Any,
                Shape::Object(_) | Shape::Map(_) => JsonType::Map,
                Shape::List(_) => JsonType::List,
                Shape::Scalar(scalar) => match scalar {
                    Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime => JsonType::Text,
                    Scalar::Int32 | Scalar::Int64 | Scalar::Double => JsonType::Number,
                    Scalar::Bool => JsonType::Boolean,
                    Scalar::IntOrString | Scalar::Quantity => JsonType::Scalar,
                },
            },
            Self::Custom(schema) => match schema.type_.as_deref() {
                Some("string") => JsonType::Text,
                Some("integer" | "number") => JsonType::Number,
                Some("boolean") => JsonType::Boolean,
                Some("array") => JsonType::List,
                Some("object") => JsonType::Map,
                _ if schema.x_kubernetes_int_or_string == Some(true) => JsonType::Scalar,
                _ => JsonType::Any,
            },
        }
    }

    /// Returns the default of a key field that an element omits.
    pub(crate) fn key_default(self, name: &str) -> Option<Value> {
        match self.item() {
            Type::Shape(..) => (name == "protocol").then(|| json!("TCP")),
            Type::Custom(schema) => Some(schema.properties.as_ref()?.get(name)?.default.as_ref()?.0.clone()),
            _ => None,
        }
    }

    /// Returns the path element of a list's element; the error says why it has no identity.
    pub(crate) fn step_to(self, owned: &OwnershipKind<'_>, item: &Value) -> Result<PathElement, String> {
        let OwnershipKind::Keyed(keys) = owned else {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".into())
                }
                value => Ok(PathElement::value(value.clone())),
            };
        };
        let Value::Object(fields) = item else {
            let subject = if item.is_null() { "a null element" } else { "non-map elements" };
            return Err(format!("associative list with keys may not have {subject}"));
        };
        let given = |name: &&str| {
            let value = fields.get(*name).cloned().or_else(|| self.key_default(name))?;
            Some(((*name).into(), value))
        };
        let values: Vec<(Box<str>, Value)> = keys.iter().filter_map(given).collect();
        if values.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields {keys:?} (and doesn't have \
                 default values for any key fields)"
            ));
        }
        Ok(PathElement::key(values))
    }
}

fn map(whole: bool) -> OwnershipKind<'static> {
    if whole { OwnershipKind::Leaf } else { OwnershipKind::Map }
}
