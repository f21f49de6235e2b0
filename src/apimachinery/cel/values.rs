//! Values of expressions: JSON values borrowed from the object, typed by its schema, and computed values.

use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use super::authorization_check::Authority;
use super::doubles;
use super::durations::duration;
use super::semver::SemanticVersion;
use super::syntax::Literal;
use super::{Budget, Error};
use object::quantity::Amount;

/// A string, borrowed from the object or the program, or computed.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Borrowed from the object or the program.
    Lent(&'a str),
    /// Computed.
    Owned(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Lent(text) => text,
            Self::Owned(text) => text,
        }
    }
}

/// A value, or the error.
pub(super) type Outcome<'a> = Result<Val<'a>, Error>;

/// The result of a function; `None` if there is no function of this name for these values.
pub(super) type FunctionResult<'a> = Result<Option<Val<'a>>, Error>;

/// A value.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    /// The null value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    Text(Text<'a>),
    /// A sequence of bytes.
    Bytes(Rc<[u8]>),
    /// A list.
    List(Rc<Vec<Val<'a>>>),
    /// A concatenated list that retains its schema: a set, or a keyed list.
    Joined(Rc<Vec<Val<'a>>>, &'a JSONSchemaProps),
    /// A map, as pairs of keys and values.
    Map(Rc<Vec<(Val<'a>, Val<'a>)>>),
    /// A borrowed JSON list or object, with its schema if known.
    Json(&'a Value, Option<&'a JSONSchemaProps>),
    /// A moment.
    Time(Timestamp),
    /// A duration.
    Duration(SignedDuration),
    /// A quantity of Kubernetes.
    Quantity(Amount),
    /// A semantic version.
    SemanticVersion(Rc<SemanticVersion>),
    /// An IP address.
    Address(IpAddr),
    /// A range of IP addresses.
    Range(IpNet),
    /// A URL.
    Url(Rc<http::Uri>),
    /// One of Kubernetes' named formats.
    Format(&'static str),
    /// A type, by its name.
    Type(&'static str),
    /// An optional value.
    Optional(Option<Rc<Val<'a>>>),
    /// An authorizer check, or its result.
    Authority(Rc<Authority<'a>>),
}

impl<'a> Val<'a> {
    /// Returns a JSON value, typed by its schema.
    pub fn of_json(value: &'a Value, schema: Option<&'a JSONSchemaProps>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => {
                let is_double = schema.is_some_and(|schema| schema.type_.as_deref() == Some("number"));
                match number.as_i64().filter(|_| !is_double) {
                    Some(number) => Self::Int(number),
                    None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
                }
            }
            Value::String(text) => {
                let format = schema.and_then(|schema| schema.format.as_deref());
                Self::formatted(text, format).unwrap_or(Self::Text(Text::Lent(text)))
            }
            Value::Array(_) | Value::Object(_) => Self::Json(value, schema),
        }
    }

    fn formatted(text: &str, format: Option<&str>) -> Option<Self> {
        match format? {
            "date-time" => text.parse().ok().map(Self::Time),
            "date" => format!("{text}T00:00:00Z").parse().ok().map(Self::Time),
            "duration" => duration(text).map(Self::Duration),
            "byte" => STANDARD.decode(text).ok().map(|bytes| Self::Bytes(bytes.into())),
            _ => None,
        }
    }

    pub(super) fn of_literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::Uint(value) => Self::Uint(*value),
            Literal::Double(value) => Self::Double(*value),
            Literal::Text(text) => Self::Text(Text::Lent(text)),
            Literal::Bytes(bytes) => Self::Bytes(bytes.as_slice().into()),
        }
    }

    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(Text::Owned(text.into()))
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(items))
    }

    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// Returns the string, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number of its parts: letters, items, entries.
    pub(super) fn size(&self) -> Option<usize> {
        Some(match self {
            Self::Text(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(items) | Self::Joined(items, _) => items.len(),
            Self::Map(entries) => entries.len(),
            Self::Json(Value::Array(items), _) => items.len(),
            Self::Json(Value::Object(fields), _) => fields.len(),
            _ => return None,
        })
    }

    /// Its items, if it is a list.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(items) | Self::Joined(items, _) => Some(items.to_vec()),
            Self::Json(Value::Array(items), schema) => {
                let schema = item_schema(*schema);
                Some(items.iter().map(|item| Self::of_json(item, schema)).collect())
            }
            _ => None,
        }
    }

    /// Returns the values that a macro iterates over: the items of a list, the keys of a map.
    pub(super) fn iterated(&self) -> Option<Vec<Self>> {
        match self {
            Self::Map(entries) => Some(entries.iter().map(|(key, _)| key.clone()).collect()),
            Self::Json(Value::Object(fields), _) => {
                Some(fields.keys().map(|key| Self::Text(Text::Lent(key))).collect())
            }
            list => list.items(),
        }
    }

    /// Returns the cost of converting a JSON field to this value: bytes are decoded again at each read.
    pub(super) fn decoding_cost(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64 / 10,
            _ => 0,
        }
    }

    /// Returns the cost of finding an entry: a computed map is searched linearly.
    pub(super) fn search_cost(&self) -> u64 {
        match self {
            Self::Map(entries) => entries.len() as u64 / 10,
            _ => 0,
        }
    }

    /// Returns the entries of a map, or the items of a list with their indices.
    pub(super) fn pairs(&self) -> Option<Vec<(Self, Self)>> {
        match self {
            Self::Map(entries) => Some(entries.to_vec()),
            Self::Json(Value::Object(fields), schema) => Some(
                fields
                    .iter()
                    .map(|(key, value)| {
                        (Self::Text(Text::Lent(key)), Self::of_json(value, field_schema(*schema, key)))
                    })
                    .collect(),
            ),
            list => {
                let items = list.items()?.into_iter().enumerate();
                Some(items.map(|(i, item)| (Self::Int(i64::try_from(i).unwrap_or(i64::MAX)), item)).collect())
            }
        }
    }

    /// Returns the value as JSON; fails if a part has no JSON form, such as a function's special type, or if
    /// there is too much of it: a small value may contain the same part many times.
    pub fn to_json(&self, budget: &mut Budget) -> Result<Value, Error> {
        budget.take(1 + self.size().unwrap_or_default() as u64 / 10)?;
        Ok(match self {
            Self::Null | Self::Optional(None) => Value::Null,
            Self::Bool(value) => Value::from(*value),
            Self::Int(value) => Value::from(*value),
            Self::Uint(value) => Value::from(*value),
            Self::Double(value) => serde_json::Number::from_f64(*value).map_or(Value::Null, Value::Number),
            Self::Text(text) => Value::from(&**text),
            Self::Bytes(bytes) => Value::from(STANDARD.encode(bytes)),
            Self::Json(value, _) => {
                budget.take(parts(value))?;
                (*value).clone()
            }
            Self::List(items) | Self::Joined(items, _) => {
                items.iter().map(|item| item.to_json(budget)).collect::<Result<Vec<_>, _>>()?.into()
            }
            Self::Map(entries) => {
                let mut fields = serde_json::Map::new();
                for (key, value) in &**entries {
                    let name = key.as_text().ok_or_else(|| no_json(key))?;
                    fields.insert(name.to_string(), value.to_json(budget)?);
                }
                Value::Object(fields)
            }
            Self::Optional(Some(value)) => value.to_json(budget)?,
            Self::Format(_) | Self::Type(_) | Self::Authority(_) => return Err(no_json(self)),
            _ => Value::from(self.to_display_string()),
        })
    }

    /// Returns the entry of a map, or the field of an object; the inner `None` if it is missing, the outer
    /// one for other values.
    #[expect(clippy::option_option, reason = "no entry in a map is not the same as no map")]
    pub(super) fn entry(&self, key: &Val<'_>) -> Option<Option<Self>> {
        match self {
            Self::Map(entries) => Some(
                entries.iter().find(|(known, _)| known.equals_plainly(key)).map(|(_, value)| value.clone()),
            ),
            Self::Json(Value::Object(fields), schema) => Some(
                key.as_text()
                    .and_then(|name| Some(Self::of_json(fields.get(name)?, field_schema(*schema, name)))),
            ),
            _ => None,
        }
    }

    /// Returns the value as a string, as in `string()`.
    pub(super) fn to_display_string(&self) -> String {
        match self {
            Self::Text(text) => text.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => doubles::shortest(*value),
            Self::Time(time) => time.to_string(),
            Self::Duration(duration) => {
                let seconds = format!("{}.{:09}", duration.as_secs().abs(), duration.subsec_nanos().abs());
                let sign = if duration.is_negative() { "-" } else { "" };
                format!("{sign}{}s", seconds.trim_end_matches('0').trim_end_matches('.'))
            }
            Self::Quantity(amount) => amount.to_decimal().0,
            Self::Address(address) => address.to_string(),
            Self::Range(range) => range.to_string(),
            Self::Url(url) => url.to_string(),
            Self::Type(name) | Self::Format(name) => (*name).to_string(),
            _ => self.type_name().to_string(),
        }
    }

    /// Returns the name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) | Self::Joined(..) | Self::Json(Value::Array(_), _) => "list",
            Self::Map(_) | Self::Json(..) => "map",
            Self::Time(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::SemanticVersion(_) => "kubernetes.Semver",
            Self::Address(_) => "net.IP",
            Self::Range(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Authority(authority) => authority.type_name(),
        }
    }
}

fn no_json(value: &Val<'_>) -> Error {
    Error::Other(format!("cannot encode a {} as JSON", value.type_name()))
}

/// Returns the cost of traversing a value once.
fn parts(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(parts).sum::<u64>(),
        Value::Object(fields) => {
            1 + fields.iter().map(|(name, field)| name.len() as u64 / 10 + parts(field)).sum::<u64>()
        }
        Value::String(text) => 1 + text.len() as u64 / 10,
        _ => 1,
    }
}

/// Returns the schema of the items of a list.
pub fn item_schema(schema: Option<&JSONSchemaProps>) -> Option<&JSONSchemaProps> {
    match &schema?.items {
        Some(JSONSchemaPropsOrArray::Schema(schema)) => Some(schema),
        _ => None,
    }
}

/// Returns the schema of a field.
pub fn field_schema<'a>(schema: Option<&'a JSONSchemaProps>, name: &str) -> Option<&'a JSONSchemaProps> {
    let schema = schema?;
    schema.properties.as_ref().and_then(|properties| properties.get(name)).or(value_schema(schema))
}

/// Returns the schema of the values of a map.
pub(super) fn value_schema(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(any)) => Some(any),
        _ => None,
    }
}
