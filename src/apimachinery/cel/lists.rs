//! Lists by their schema's type: the order of sets and keyed lists does not matter, and concatenation
//! replaces equal elements.

use std::collections::HashMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::Value;

use super::values::{Outcome, Val};
use super::{Budget, Error};

/// The identity of list elements.
#[derive(Clone, Copy)]
enum ListKind<'a> {
    /// Elements are identified by their index.
    Atomic,
    /// Elements are identified by their value; their order does not matter.
    Set(&'a JSONSchemaProps),
    /// Elements are identified by these fields; their order does not matter.
    Keyed(&'a JSONSchemaProps, &'a [String]),
}

impl<'a> ListKind<'a> {
    fn of(list: &Val<'a>) -> Self {
        let (Val::Json(_, Some(schema)) | Val::Joined(_, schema)) = list else { return Self::Atomic };
        let schema: &'a JSONSchemaProps = schema;
        match schema.x_kubernetes_list_type.as_deref() {
            Some("set") => Self::Set(schema),
            Some("map") => {
                Self::Keyed(schema, schema.x_kubernetes_list_map_keys.as_deref().unwrap_or_default())
            }
            _ => Self::Atomic,
        }
    }

    /// Returns the identity of an element; `None` if elements are identified by their index.
    fn key(self, item: &Val<'_>, budget: &mut Budget) -> Result<Option<String>, Error> {
        match self {
            Self::Atomic => Ok(None),
            Self::Set(_) => Ok(Some(item.to_json(budget)?.to_string())),
            Self::Keyed(_, keys) => {
                let mut values = Vec::with_capacity(keys.len());
                for key in keys {
                    let field = item.entry(&Val::text(key.as_str())).flatten();
                    values.push(field.map_or(Ok(Value::Null), |field| field.to_json(budget))?);
                }
                Ok(Some(Value::Array(values).to_string()))
            }
        }
    }

    fn list(self, items: Vec<Val<'a>>) -> Val<'a> {
        match self {
            Self::Atomic => Val::list(items),
            Self::Set(schema) | Self::Keyed(schema, _) => Val::Joined(items.into(), schema),
        }
    }
}

/// Concatenates lists by the first one's schema: a set becomes the union; in a keyed list, elements of the
/// second replace those with the same keys.
pub(super) fn add<'a>(a: &Val<'a>, b: &Val<'a>, budget: &mut Budget) -> Outcome<'a> {
    let kind = ListKind::of(a);
    let mut items = a.items().unwrap_or_default();
    let mut places = HashMap::new();
    for (place, item) in items.iter().enumerate() {
        places.extend(kind.key(item, budget)?.map(|key| (key, place)));
    }
    for item in b.items().unwrap_or_default() {
        let Some(key) = kind.key(&item, budget)? else {
            items.push(item);
            continue;
        };
        if let Some(place) = places.get(&key) {
            items[*place] = item;
        } else {
            places.insert(key, items.len());
            items.push(item);
        }
    }
    Ok(kind.list(items))
}

/// Compares two lists of the same length by the first one's schema.
pub(super) fn equal(a: &Val<'_>, b: &Val<'_>, budget: &mut Budget) -> Result<bool, Error> {
    let kind = ListKind::of(a);
    let (items, others) = (a.items().unwrap_or_default(), b.items().unwrap_or_default());
    let mut by_key = HashMap::new();
    for (place, item) in items.iter().enumerate() {
        by_key.extend(kind.key(item, budget)?.map(|key| (key, place)));
    }
    for (place, other) in others.iter().enumerate() {
        let place = match kind.key(other, budget)? {
            None => Some(place),
            Some(key) => by_key.get(&key).copied(),
        };
        let Some(item) = place.and_then(|place| items.get(place)) else { return Ok(false) };
        if !item.equals(other, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}
