//! Merging an applied configuration into the live object, and removing fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::types::{OwnershipKind, Type};
use base::sort::CollectMap;
use object::managed::{FieldSet, PathElement};

/// Returns the live value with the configuration merged in; lists follow the configuration's order for
/// elements that it names.
pub(crate) fn merge(of: Type<'_>, live: &Value, config: &Value) -> Value {
    let owned = of.owned(config);
    if of.owned(live) != owned {
        return config.clone();
    }
    match (&owned, live, config) {
        (OwnershipKind::Map, Value::Object(live), Value::Object(config))
            if !(live.is_empty() && config.is_empty()) =>
        {
            let of_live = live.iter().map(|(name, value)| {
                let merged = match config.get(name) {
                    Some(config) => merge(of.field(name).0, value, config),
                    None => value.clone(),
                };
                (name.clone(), merged)
            });
            let of_config = config.iter().filter(|(name, _)| !live.contains_key(*name));
            let of_config = of_config.map(|(name, value)| (name.clone(), value.clone()));
            Value::Object(of_live.chain(of_config).collect_map())
        }
        (OwnershipKind::Map, Value::Object(live), Value::Null) if !live.is_empty() => {
            Value::Object(live.clone())
        }
        (OwnershipKind::Set | OwnershipKind::Keyed(_), Value::Array(live), config) if !live.is_empty() => {
            lists(of, &owned, live, config.as_array().map_or(&[], Vec::as_slice))
        }
        _ => config.clone(),
    }
}

fn lists(of: Type<'_>, owned: &OwnershipKind<'_>, live: &[Value], config: &[Value]) -> Value {
    // Live elements without an identity stay where they are.
    let steps = |items: &[Value]| -> Vec<Option<PathElement>> {
        items.iter().map(|item| of.step_to(owned, item).ok()).collect()
    };
    let (live_steps, config_steps) = (steps(live), steps(config));
    let index = |steps: &[Option<PathElement>]| -> BTreeMap<PathElement, usize> {
        let named = steps.iter().enumerate().rev();
        named.filter_map(|(at, step)| Some((step.clone()?, at))).collect_map()
    };
    let (in_live, in_config) = (index(&live_steps), index(&config_steps));
    let mut shared = config_steps
        .iter()
        .flatten()
        .filter(|step| in_live.contains_key(step))
        .collect::<Vec<_>>()
        .into_iter();
    let mut next_shared = shared.next();
    let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut l, mut c) = (0, 0);
    while l < live.len() || c < config.len() {
        if l < live.len() {
            let Some(step) = &live_steps[l] else {
                out.push(live[l].clone());
                l += 1;
                continue;
            };
            if c < config.len() {
                if config_steps[c].as_ref() == Some(step) {
                    merged.insert(step);
                    out.push(merge(of.item(), &live[l], &config[c]));
                    (l, c) = (l + 1, c + 1);
                    next_shared = shared.next();
                    continue;
                }
                if in_config.contains_key(step) && next_shared.is_some_and(|next| next != step) {
                    // The element is inserted later, at its position in the configuration.
                    l += 1;
                    continue;
                }
            }
            if !in_config.contains_key(step) {
                out.push(live[l].clone());
                l += 1;
                continue;
            }
            if merged.contains(step) {
                l += 1;
            }
        }
        if c < config.len() {
            let step = config_steps[c].as_ref();
            let there = step.and_then(|step| in_live.get(step));
            out.push(match there {
                Some(at) => merge(of.item(), &live[*at], &config[c]),
                None => config[c].clone(),
            });
            if let Some(step) = step {
                merged.insert(step);
                if next_shared == Some(step) {
                    next_shared = shared.next();
                }
            }
            c += 1;
        }
    }
    Value::Array(out)
}

/// Returns the value without the paths of a set; null if nothing remains.
pub(crate) fn remove(of: Type<'_>, value: &Value, set: &FieldSet) -> Value {
    if set.is_empty() {
        return value.clone();
    }
    let owned = of.owned(value);
    match (&owned, value) {
        (OwnershipKind::Leaf, Value::Object(_) | Value::Array(_)) => Value::Null,
        (OwnershipKind::Map, Value::Object(fields)) => {
            let mut left = Map::new();
            for (name, value) in fields {
                match set.at(&PathElement::field(name)) {
                    None => drop(left.insert(name.clone(), value.clone())),
                    Some(node) if node.member => {}
                    Some(node) => {
                        let rest = remove(of.field(name).0, value, &node.below);
                        if !rest.is_null() || value.is_null() {
                            left.insert(name.clone(), rest);
                        }
                    }
                }
            }
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        (OwnershipKind::Set | OwnershipKind::Keyed(_), Value::Array(items)) => {
            let remaining = |item: &Value| {
                let Ok(step) = of.step_to(&owned, item) else { return Some(item.clone()) };
                match set.at(&step) {
                    None => Some(item.clone()),
                    Some(node) if node.member => None,
                    Some(node) => Some(remove(of.item(), item, &node.below)),
                }
            };
            let left: Vec<Value> = items.iter().filter_map(remaining).collect();
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        _ => value.clone(),
    }
}
