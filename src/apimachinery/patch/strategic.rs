//! Strategic merge patch: a merge patch that knows which lists merge and by which key.
//!
//! The directives `$patch`, `$retainKeys`, `$setElementOrder/LIST` and `$deleteFromPrimitiveList/LIST` are
//! consumed here and never reach the result. Source: "Strategic merge patch" of the Kubernetes API conventions.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::PatchError;
use super::order::{Identity, in_requested_order};
use crate::schema::{Field, Graph, MergeRule, PatchStrategy, Shape, TypeId, graph};
use base::sort::{CollectMap, SliceOrder};
use object::go_format::go_type;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

type Entries = Map<String, Value>;

pub(super) fn apply(root: TypeId, current: &Value, patch: Value) -> Result<Value, PatchError> {
    let (Value::Object(current), Value::Object(patch)) = (current, patch) else {
        return Err(PatchError::BadRequest("Invalid JSON document".into()));
    };
    merge_maps(current.clone(), patch, &Shape::Object(root), PatchStrategy::Unset).map(Value::Object)
}

/// The schema and merge rule of a field in a value of some shape.
struct FieldRule<'a> {
    shape: &'a Shape,
    rule: MergeRule,
}

impl<'a> FieldRule<'a> {
    fn of(holder: &'a Shape, field: &str) -> Self {
        const ANYTHING: &Shape = &Shape::Any;
        let graph: &'static Graph = graph();
        match holder {
            Shape::Object(id) => match graph.get(*id).field(field) {
                Some(Field { shape, merge, .. }) => Self { shape, rule: *merge },
                None => Self { shape: ANYTHING, rule: MergeRule::default() },
            },
            Shape::Map(values) => Self { shape: values, rule: MergeRule::default() },
            _ => Self { shape: ANYTHING, rule: MergeRule::default() },
        }
    }

    fn element(&self) -> &'a Shape {
        match self.shape {
            Shape::List(items) => items,
            other => other,
        }
    }
}

fn merge_maps(
    mut live: Entries,
    mut patch: Entries,
    shape: &Shape,
    strategy: PatchStrategy,
) -> Result<Entries, PatchError> {
    match patch.get(PATCH).map(Value::as_str) {
        None => {}
        Some(Some("replace")) => return Ok(without_directives(patch)),
        Some(Some("delete")) => return Ok(Entries::new()),
        Some(Some("merge")) => {
            patch.remove(PATCH);
        }
        Some(_) => return Err(bad_patch_type(&patch)),
    }
    if strategy == PatchStrategy::Replace {
        return Ok(without_directives(patch));
    }
    retain_keys(&mut live, &mut patch)?;
    merge_ordered_lists(&mut live, &mut patch, shape)?;
    for (name, patch_value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_PRIMITIVES) {
            delete_primitives(&mut live, list, patch_value)?;
            continue;
        }
        merge_field(&mut live, name, patch_value, shape)?;
    }
    Ok(live)
}

fn merge_field(
    live: &mut Entries,
    name: String,
    patch_value: Value,
    holder: &Shape,
) -> Result<(), PatchError> {
    if patch_value.is_null() {
        live.remove(&name);
        return Ok(());
    }
    let field_rule = FieldRule::of(holder, &name);
    let merged = match (live.get_mut(&name).map(Value::take), patch_value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            Value::Object(merge_maps(old, new, field_rule.shape, field_rule.rule.strategy)?)
        }
        (Some(Value::Array(old)), Value::Array(new)) if field_rule.rule.strategy.merges() => {
            Value::Array(merge_lists(old, new, &field_rule)?)
        }
        (_, patch_value) => {
            let Some(value) = new_value(patch_value) else {
                live.remove(&name);
                return Ok(());
            };
            value
        }
    };
    live.insert(name, merged);
    Ok(())
}

/// Removes the keys that `$retainKeys` does not name; the patch may set no other.
fn retain_keys(live: &mut Entries, patch: &mut Entries) -> Result<(), PatchError> {
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".into());
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else { return Err(bad()) };
    let keeps = |name: &str| retained.iter().any(|key| key.as_str() == Some(name));
    let stray = patch.iter().any(|(name, value)| {
        !value.is_null()
            && !name.starts_with(DELETE_PRIMITIVES)
            && !name.starts_with(ELEMENT_ORDER)
            && !keeps(name)
    });
    if stray {
        return Err(bad());
    }
    live.retain(|name, _| keeps(name));
    Ok(())
}

/// Merges every list that `$setElementOrder/LIST` orders, and removes the list and the directive from the
/// patch.
fn merge_ordered_lists(live: &mut Entries, patch: &mut Entries, holder: &Shape) -> Result<(), PatchError> {
    let directives: Vec<String> =
        patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let order = list(patch.remove(&directive).unwrap_or_default())?;
        let name = &directive[ELEMENT_ORDER.len()..];
        let field_rule = FieldRule::of(holder, name);
        let key = field_rule.rule.merge_key;
        if matches!(patch.get(name), Some(Value::Null)) {
            continue;
        }
        let requested = patch.remove(name).map(list).transpose()?;
        let old = live.get(name).cloned().map(list).transpose()?;
        check_order(requested.as_deref().unwrap_or(&[]), &order, key)?;
        let before = old.clone().unwrap_or_default();
        let merged = match (old, requested) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(new_value).collect(),
            (Some(old), Some(new)) if field_rule.rule.strategy.merges() => {
                merge_lists(old, new, &field_rule)?
            }
            (Some(_), Some(new)) => new,
        };
        require_key(&merged, key)?;
        require_key_or_value(&order, key)?;
        // The order may list whole elements or, for callers in this process, only their keys.
        live.insert(
            name.to_string(),
            Value::Array(in_requested_order(merged, &order, &before, Identity(key))),
        );
    }
    Ok(())
}

/// Checks that the patch's elements appear in the patch's own order.
fn check_order(requested: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    let by = Identity(key);
    let mut rest = order.iter();
    let directive = |e: &&Value| !key.is_empty() && e.get(PATCH).is_some();
    for element in requested.iter().filter(|e| !directive(e)) {
        if !rest.any(|o| by.same(o, element)) {
            return Err(PatchError::BadRequest(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                go_list(requested),
                go_list(order)
            )));
        }
    }
    Ok(())
}

fn merge_lists(
    live: Vec<Value>,
    patch: Vec<Value>,
    field_rule: &FieldRule<'_>,
) -> Result<Vec<Value>, PatchError> {
    if live.is_empty() && patch.is_empty() {
        return Ok(live);
    }
    let objects = list_of_objects(&live, &patch)?;
    if !objects {
        let by = Identity("");
        let merged = unique(live.iter().chain(&patch).cloned());
        return Ok(in_requested_order(merged, &patch, &live, by));
    }
    let key = field_rule.rule.merge_key;
    if key.is_empty() {
        let name = match field_rule.element() {
            Shape::Object(id) => graph().get(*id).short_name(),
            _ => "",
        };
        return Err(PatchError::Unprocessable(format!("cannot merge lists without merge key for {name}")));
    }
    let by = Identity(key);
    let (before, patch) = list_directives(live, patch, key)?;
    let mut merged = before.clone();
    let mut places = by.positions(&merged);
    for element in &patch {
        let Value::Object(fields) = element else { continue };
        let text = by.text(element).ok_or_else(|| no_merge_key(fields, key))?;
        if let Some(at) = places.get(&text).copied() {
            if let Value::Object(entries) = merged[at].take() {
                let entries =
                    merge_maps(entries, fields.clone(), field_rule.element(), PatchStrategy::Unset)?;
                merged[at] = Value::Object(entries);
            }
        } else if let Some(new) = new_value(element.clone()) {
            places.insert(text, merged.len());
            merged.push(new);
        }
    }
    require_key(&merged, key)?;
    Ok(in_requested_order(merged, &patch, &before, by))
}

/// Executes the elements `{"$patch": "delete", KEY: …}` and `{"$patch": "replace"}`.
fn list_directives(
    mut live: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let (mut replace, mut gone) = (false, HashSet::new());
    for element in patch {
        let Value::Object(entries) = &element else { continue };
        match entries.get(PATCH).map(Value::as_str) {
            None => rest.push(element),
            Some(Some("delete")) => {
                let value = entries.get(key).ok_or_else(|| no_merge_key(entries, key))?;
                gone.insert(value.to_string());
            }
            Some(Some("replace")) => replace = true,
            Some(Some("merge")) => {
                return Err(PatchError::Unprocessable(
                    "merging lists cannot yet be specified in the patch".into(),
                ));
            }
            Some(_) => return Err(bad_patch_type(entries)),
        }
    }
    if !gone.is_empty() {
        live.retain(|old| !old.get(key).is_some_and(|value| gone.contains(&value.to_string())));
    }
    if replace {
        Ok((rest.into_iter().filter_map(new_value).collect(), Vec::new()))
    } else {
        Ok((live, rest))
    }
}

fn delete_primitives(live: &mut Entries, name: &str, deleted: Value) -> Result<(), PatchError> {
    let Value::Array(gone) = deleted else {
        return Err(PatchError::BadRequest("invalid patch format of primitive list".into()));
    };
    if let Some(Value::Array(elements)) = live.get_mut(name) {
        let deleted = Identity("").positions(&gone);
        elements.retain(|element| !deleted.contains_key(&element.to_string()));
    }
    Ok(())
}

/// Returns a value without a counterpart: without directives and nulls; `None` if it is only a directive.
fn new_value(value: Value) -> Option<Value> {
    match value {
        Value::Object(entries) => match entries.get(PATCH).map(Value::as_str) {
            Some(Some("replace" | "merge")) | None => Some(Value::Object(without_directives(entries))),
            Some(_) => None,
        },
        Value::Array(elements) => Some(Value::Array(elements.into_iter().filter_map(new_value).collect())),
        other => Some(other),
    }
}

fn without_directives(entries: Entries) -> Entries {
    entries
        .into_iter()
        .filter(|(name, value)| {
            !value.is_null()
                && name != PATCH
                && name != RETAIN_KEYS
                && !name.starts_with(ELEMENT_ORDER)
                && !name.starts_with(DELETE_PRIMITIVES)
        })
        .filter_map(|(name, value)| Some((name, new_value(value)?)))
        .collect_map()
}

fn list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(elements) => Ok(elements),
        other => {
            let found = go_type(&other);
            Err(PatchError::Unprocessable(format!("expected a []interface {{}}, but received a {found}")))
        }
    }
}

/// Returns true if the lists hold objects; both must agree and hold no lists.
fn list_of_objects(live: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let mut all = live.iter().chain(patch);
    let objects = all.clone().next().is_some_and(Value::is_object);
    if all.clone().any(Value::is_array) {
        return Err(PatchError::Unprocessable("lists of lists are not supported".into()));
    }
    if all.any(|element| element.is_object() != objects) {
        return Err(PatchError::Unprocessable("list element types are not identical".into()));
    }
    Ok(objects)
}

fn require_key(elements: &[Value], key: &str) -> Result<(), PatchError> {
    let stray =
        elements.iter().filter_map(Value::as_object).find(|e| !key.is_empty() && !e.contains_key(key));
    stray.map_or(Ok(()), |entries| Err(no_merge_key(entries, key)))
}

fn require_key_or_value(order: &[Value], key: &str) -> Result<(), PatchError> {
    if !key.is_empty() && order.iter().any(|element| !element.is_object()) {
        return Err(PatchError::BadRequest("invalid patch format of setElementOrder list".into()));
    }
    require_key(order, key)
}

fn unique(elements: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    elements.filter(|element| seen.insert(element.to_string())).collect()
}

fn no_merge_key(entries: &Entries, key: &str) -> PatchError {
    PatchError::Unprocessable(format!("map: {} does not contain declared merge key: {key}", go_map(entries)))
}

fn bad_patch_type(entries: &Entries) -> PatchError {
    let directive = entries.get(PATCH).map(go_value).unwrap_or_default();
    PatchError::Unprocessable(format!("unknown patch type: {directive} in map: {}", go_map(entries)))
}

/// Returns a map as Go prints it: sorted, without quotes.
fn go_map(entries: &Entries) -> String {
    let mut parts: Vec<String> =
        entries.iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
    parts.order();
    format!("map[{}]", parts.join(" "))
}

fn go_list(elements: &[Value]) -> String {
    format!("[{}]", elements.iter().map(go_value).collect::<Vec<_>>().join(" "))
}

fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(elements) => go_list(elements),
        Value::Object(entries) => go_map(entries),
        other => other.to_string(),
    }
}
