//! Lists as their schema has them: a set is the same in any order, and so is one whose elements have keys; what is added to
//! one takes the place of what is there.

use std::collections::HashMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::Value;

use super::values::{Outcome, Val};
use super::{Budget, Error};

/// How elements of a list are told apart.
#[derive(Clone, Copy)]
enum Sort<'a> {
    /// By their place.
    Atomic,
    /// By their value, whatever the place.
    Set(&'a JSONSchemaProps),
    /// By these fields of theirs, whatever the place.
    Keyed(&'a JSONSchemaProps, &'a [String]),
}

impl<'a> Sort<'a> {
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

    /// What tells an element apart; none where that is its place.
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

/// Both lists together, as the first one's schema has it: of a set what is in either, of one with keys the elements of the
/// second in the place of those with the same keys.
pub(super) fn add<'a>(a: &Val<'a>, b: &Val<'a>, budget: &mut Budget) -> Outcome<'a> {
    let sort = Sort::of(a);
    let mut items = a.items().unwrap_or_default();
    let mut places = HashMap::new();
    for (place, item) in items.iter().enumerate() {
        places.extend(sort.key(item, budget)?.map(|key| (key, place)));
    }
    for item in b.items().unwrap_or_default() {
        let Some(key) = sort.key(&item, budget)? else {
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
    Ok(sort.list(items))
}

/// Whether two lists of the same length are equal, as the first one's schema has it.
pub(super) fn equal(a: &Val<'_>, b: &Val<'_>, budget: &mut Budget) -> Result<bool, Error> {
    let sort = Sort::of(a);
    let (items, others) = (a.items().unwrap_or_default(), b.items().unwrap_or_default());
    let mut by_key = HashMap::new();
    for (place, item) in items.iter().enumerate() {
        by_key.extend(sort.key(item, budget)?.map(|key| (key, place)));
    }
    for (place, other) in others.iter().enumerate() {
        let place = match sort.key(other, budget)? {
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
