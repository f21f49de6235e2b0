//! The sizes of values by their schema: the maximum number of items, entries and letters, and the minimum
//! number of bytes in JSON. Without a bound in the schema, the largest request that Kubernetes accepts is the
//! bound.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use base::sort::CollectMap;

/// Kubernetes' `MaxRequestSizeBytes`, which its estimates use; requests here are limited to less.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;
/// The longest name of an object.
const MAX_NAME: i64 = 253;
/// The maximum letters of a duration or a time.
const MAX_TIME_LETTERS: u64 = 32;
/// The bytes of a date, with its quotation marks.
const DATE_BYTES: u64 = 12;
/// The bytes of the shortest time, with its quotation marks.
const MIN_TIME_BYTES: u64 = 21;
/// The bytes of the shortest duration, `"0"`.
const MIN_DURATION_BYTES: u64 = 3;
const MIN_TEXT_BYTES: u64 = 2;

/// The keys of a map have no bound of their own: Kubernetes counts them as size zero.
pub(super) static KEY: DeclType = DeclType::simple(DeclTypeKind::Text, 0, MIN_TEXT_BYTES);

/// A value as declared by its schema.
#[derive(Clone, Debug)]
pub struct DeclType {
    pub(super) kind: DeclTypeKind,
    /// The maximum number of items, entries, letters or bytes; 0 for other types.
    pub(super) max: u64,
    /// The minimum number of bytes in JSON.
    min_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) enum DeclTypeKind {
    Dyn,
    Bool,
    Int,
    Double,
    Text,
    Bytes,
    Time,
    Duration,
    List(Box<DeclType>),
    Map(Box<DeclType>),
    Object(BTreeMap<String, DeclType>),
}

impl DeclType {
    /// Returns the declaration of a schema; `None` if it does not define the type. `is_resource`: the values
    /// are whole objects.
    pub fn of(schema: &JSONSchemaProps, is_resource: bool) -> Option<Self> {
        if schema.x_kubernetes_int_or_string == Some(true) {
            return Some(Self::simple(DeclTypeKind::Dyn, letters(schema, MAX_REQUEST_BYTES - 2), 1));
        }
        match schema.type_.as_deref()? {
            "array" => {
                let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items else { return None };
                let item = Self::of(items, is_embedded(items))?;
                let most = schema.max_items.map_or((MAX_REQUEST_BYTES - 2) / (item.min_bytes + 1), count);
                Some(Self::simple(DeclTypeKind::List(Box::new(item)), most, 2))
            }
            "object" => Self::of_object(schema, is_resource),
            "string" => Some(Self::of_text(schema)),
            "boolean" => Some(Self::simple(DeclTypeKind::Bool, 0, 4)),
            "number" => Some(Self::simple(DeclTypeKind::Double, 0, 1)),
            "integer" => Some(Self::simple(DeclTypeKind::Int, 0, 1)),
            _ => None,
        }
    }

    const fn simple(kind: DeclTypeKind, max: u64, min_bytes: u64) -> Self {
        Self { kind, max, min_bytes }
    }

    fn of_object(schema: &JSONSchemaProps, is_resource: bool) -> Option<Self> {
        if let Some(JSONSchemaPropsOrBool::Schema(any)) = &schema.additional_properties {
            let value = Self::of(any, is_embedded(any))?;
            // A key takes at least two bytes, and its quotation marks, colon and comma four.
            let most = schema.max_properties.map_or((MAX_REQUEST_BYTES - 2) / (value.min_bytes + 6), count);
            return Some(Self::simple(DeclTypeKind::Map(Box::new(value)), most, 2));
        }
        let required = schema.required.as_deref().unwrap_or_default();
        let (mut fields, mut min_bytes) = (BTreeMap::new(), 2_u64);
        let of_resource = if is_resource { object_meta(schema) } else { Vec::new() };
        let replaced = |name: &str| of_resource.iter().any(|(own, _)| *own == name);
        for (name, below) in schema.properties.iter().flatten().filter(|(name, _)| !replaced(name)) {
            let Some(field) = Self::of(below, is_embedded(below)) else { continue };
            // A required field with a default may be omitted.
            if required.contains(name) && below.default.is_none() {
                min_bytes = min_bytes.saturating_add(name.len() as u64 + field.min_bytes + 4);
            }
            fields.insert(name.clone(), field);
        }
        for (name, field) in of_resource {
            if required.iter().any(|required| required == name) {
                min_bytes += name.len() as u64 + field.min_bytes + 4;
            }
            fields.insert(name.into(), field);
        }
        Some(Self::simple(DeclTypeKind::Object(fields), 0, min_bytes))
    }

    fn of_text(schema: &JSONSchemaProps) -> Self {
        match schema.format.as_deref() {
            Some("byte") => {
                let most = schema.max_length.map_or(MAX_REQUEST_BYTES - 2, count);
                Self::simple(DeclTypeKind::Bytes, most, MIN_TEXT_BYTES)
            }
            Some("duration") => Self::simple(DeclTypeKind::Duration, MAX_TIME_LETTERS, MIN_DURATION_BYTES),
            Some("date") => Self::simple(DeclTypeKind::Time, DATE_BYTES, DATE_BYTES),
            Some("date-time") => Self::simple(DeclTypeKind::Time, MAX_TIME_LETTERS, MIN_TIME_BYTES),
            _ => {
                let values = schema.enum_.iter().flatten();
                let longest = values.map(|value| value.0.as_str().map_or(0, str::len) as u64).max();
                let most = letters(schema, longest.unwrap_or(MAX_REQUEST_BYTES - 2));
                Self::simple(DeclTypeKind::Text, most, MIN_TEXT_BYTES)
            }
        }
    }

    /// Returns the declaration of an object's field; `None` for fields that the schema does not name.
    pub fn field(&self, name: &str) -> Option<&Self> {
        match &self.kind {
            DeclTypeKind::Object(fields) => fields.get(name),
            _ => None,
        }
    }

    /// Returns the declaration of a list's items, or of a map's values.
    pub fn element(&self) -> Option<&Self> {
        match &self.kind {
            DeclTypeKind::List(element) | DeclTypeKind::Map(element) => Some(element),
            _ => None,
        }
    }

    /// Returns the maximum number of values of this type in one object, if nothing else bounds it.
    pub fn max_per_request(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_bytes + 1)
    }
}

fn is_embedded(schema: &JSONSchemaProps) -> bool {
    schema.x_kubernetes_embedded_resource == Some(true)
}

fn count(bound: i64) -> u64 {
    u64::try_from(bound).unwrap_or(0)
}

/// Returns the maximum bytes of a string: a letter takes up to four.
fn letters(schema: &JSONSchemaProps, unbounded: u64) -> u64 {
    schema.max_length.map_or(unbounded, |most| count(most).saturating_mul(4))
}

/// Returns the fields that rules of a whole object can always read; empty if its schema names them all
/// itself.
fn object_meta(schema: &JSONSchemaProps) -> Vec<(&'static str, DeclType)> {
    let property = |of: &JSONSchemaProps, name: &str, type_: &str| {
        let found = of.properties.as_ref().and_then(|properties| properties.get(name));
        found.filter(|found| found.type_.as_deref() == Some(type_)).cloned()
    };
    let metadata = property(schema, "metadata", "object");
    let names = metadata.as_ref().is_some_and(|metadata| {
        ["name", "generateName"].iter().all(|name| property(metadata, name, "string").is_some())
    });
    if names && ["kind", "apiVersion"].iter().all(|name| property(schema, name, "string").is_some()) {
        return Vec::new();
    }
    let capped = |name: &str, most: i64| {
        let own = metadata.as_ref().and_then(|metadata| metadata.properties.as_ref()?.get(name)?.max_length);
        let most = own.map_or(most, |own| own.min(most));
        (name.to_string(), DeclType::simple(DeclTypeKind::Text, count(most) * 4, MIN_TEXT_BYTES))
    };
    let text = || DeclType::simple(DeclTypeKind::Text, MAX_REQUEST_BYTES - 2, MIN_TEXT_BYTES);
    let meta = [capped("name", MAX_NAME), capped("generateName", MAX_NAME - 1)].collect_map();
    let meta = DeclType::simple(DeclTypeKind::Object(meta), 0, 2);
    vec![("apiVersion", text()), ("kind", text()), ("metadata", meta)]
}
