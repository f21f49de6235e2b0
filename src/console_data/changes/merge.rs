//! Three-way merge of two changes of one object: mine and theirs, both made from the same base.
//!
//! Works on values, field by field, so that changes of different fields never conflict; lists of named items
//! (containers, ports, environment) are merged by name. If both changed the same field to different values, it reports
//! the conflict and returns both results.

use serde_json::{Map, Value};

/// Fields that identify the items of a list; the first that applies to all items is used.
const KEYS: [&str; 9] =
    ["name", "mountPath", "devicePath", "containerPort", "port", "uid", "type", "key", "topologyKey"];

/// A field with two new values, or changed in one version and removed in the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The path: `spec.template.spec.containers[nginx].image`.
    pub path: String,
    /// The value that both started from.
    pub base: Option<Value>,
    /// My value.
    pub mine: Option<Value>,
    /// Their value.
    pub theirs: Option<Value>,
}

impl Conflict {
    /// Reports whether a change is of this field or of a part of it.
    pub fn covers(&self, change: &Change) -> bool {
        let rest = change.path.strip_prefix(&self.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

/// The result of merging two changes of one base.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeResult {
    /// The base with both changes; with my value where they conflict.
    pub with_mine: Value,
    /// The base with both changes; with their value where they conflict.
    pub with_theirs: Value,
    /// The conflicts; if there are none, both results are equal.
    pub conflicts: Vec<Conflict>,
}

/// A field that differs in a newer version.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The path.
    pub path: String,
    /// The old value.
    pub from: Option<Value>,
    /// The new value.
    pub to: Option<Value>,
}

/// Merges two changes of `base`.
pub fn merge(base: &Value, mine: &Value, theirs: &Value) -> MergeResult {
    let mut conflicts = Vec::new();
    let sides = MergeInput { base: Some(base), mine: Some(mine), theirs: Some(theirs) };
    let both = join("", sides, &mut conflicts);
    MergeResult {
        with_mine: both.mine.unwrap_or(Value::Null),
        with_theirs: both.theirs.unwrap_or(Value::Null),
        conflicts,
    }
}

/// Returns the differences, down to the smallest parts.
pub fn changes(from: &Value, to: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare("", Some(from), Some(to), &mut found);
    found
}

/// Returns the merge patch (RFC 7386) that turns `from` into `to`.
pub fn patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => {
                patch.insert(key.clone(), self::patch(before, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

#[derive(Clone, Copy)]
struct MergeInput<'a> {
    base: Option<&'a Value>,
    mine: Option<&'a Value>,
    theirs: Option<&'a Value>,
}

/// Both results for one field.
struct MergedPair {
    mine: Option<Value>,
    theirs: Option<Value>,
}

fn join(path: &str, sides: MergeInput<'_>, conflicts: &mut Vec<Conflict>) -> MergedPair {
    let MergeInput { base, mine, theirs } = sides;
    let agreed = match () {
        () if mine == theirs || theirs == base => Some(mine),
        () if mine == base => Some(theirs),
        () => None,
    };
    if let Some(agreed) = agreed {
        return MergedPair { mine: agreed.cloned(), theirs: agreed.cloned() };
    }
    match (mine, theirs) {
        (Some(Value::Object(mine)), Some(Value::Object(theirs))) => {
            let empty = Map::new();
            let base = base.and_then(Value::as_object).unwrap_or(&empty);
            return join_maps(path, (base, mine, theirs), conflicts);
        }
        (Some(Value::Array(mine)), Some(Value::Array(theirs))) => {
            let base = base.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if let Some(key) = key_of(&[base, mine, theirs]) {
                return join_lists(path, key, (base, mine, theirs), conflicts);
            }
        }
        _ => {}
    }
    conflicts.push(Conflict {
        path: path.to_owned(),
        base: base.cloned(),
        mine: mine.cloned(),
        theirs: theirs.cloned(),
    });
    MergedPair { mine: mine.cloned(), theirs: theirs.cloned() }
}

type Maps<'a> = (&'a Map<String, Value>, &'a Map<String, Value>, &'a Map<String, Value>);

fn join_maps(path: &str, (base, mine, theirs): Maps<'_>, conflicts: &mut Vec<Conflict>) -> MergedPair {
    let (mut with_mine, mut with_theirs) = (Map::new(), Map::new());
    let added = mine.keys().filter(|key| !theirs.contains_key(*key));
    for key in theirs.keys().chain(added) {
        let sides = MergeInput { base: base.get(key), mine: mine.get(key), theirs: theirs.get(key) };
        let both = join(&field(path, key), sides, conflicts);
        with_mine.extend(both.mine.map(|value| (key.clone(), value)));
        with_theirs.extend(both.theirs.map(|value| (key.clone(), value)));
    }
    MergedPair { mine: Some(Value::Object(with_mine)), theirs: Some(Value::Object(with_theirs)) }
}

type Lists<'a> = (&'a [Value], &'a [Value], &'a [Value]);

fn join_lists(
    path: &str,
    key: &str,
    (base, mine, theirs): Lists<'_>,
    conflicts: &mut Vec<Conflict>,
) -> MergedPair {
    let (mut with_mine, mut with_theirs) = (Vec::new(), Vec::new());
    let added = mine.iter().filter(|item| find(theirs, key, &item[key]).is_none());
    for item in theirs.iter().chain(added) {
        let name = &item[key];
        let sides = MergeInput {
            base: find(base, key, name),
            mine: find(mine, key, name),
            theirs: find(theirs, key, name),
        };
        let both = join(&format!("{path}[{}]", plain(name)), sides, conflicts);
        with_mine.extend(both.mine);
        with_theirs.extend(both.theirs);
    }
    MergedPair { mine: Some(Value::Array(with_mine)), theirs: Some(Value::Array(with_theirs)) }
}

fn find<'a>(list: &'a [Value], key: &str, name: &Value) -> Option<&'a Value> {
    list.iter().find(|item| item[key] == *name)
}

/// Returns the field that identifies the items of these lists.
fn key_of(lists: &[&[Value]]) -> Option<&'static str> {
    let is_unique = |key: &str, list: &[Value]| {
        list.iter().enumerate().all(|(at, item)| {
            let name = &item[key];
            (name.is_string() || name.is_number()) && list[..at].iter().all(|other| other[key] != *name)
        })
    };
    KEYS.into_iter().find(|key| lists.iter().all(|list| is_unique(key, list)))
}

fn compare(path: &str, from: Option<&Value>, to: Option<&Value>, found: &mut Vec<Change>) {
    if from == to {
        return;
    }
    match (from, to) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let removed = old.keys().filter(|key| !new.contains_key(*key));
            for key in new.keys().chain(removed) {
                compare(&field(path, key), old.get(key), new.get(key), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if key_of(&[old, new]).is_some() => {
            let key = key_of(&[old, new]).unwrap_or_default();
            let removed = old.iter().filter(|item| find(new, key, &item[key]).is_none());
            for item in new.iter().chain(removed) {
                let name = &item[key];
                compare(
                    &format!("{path}[{}]", plain(name)),
                    find(old, key, name),
                    find(new, key, name),
                    found,
                );
            }
        }
        _ => found.push(Change { path: path.to_owned(), from: from.cloned(), to: to.cloned() }),
    }
}

fn field(path: &str, key: &str) -> String {
    match () {
        () if path.is_empty() => key.to_owned(),
        () if key.contains('.') => format!("{path}[{key}]"),
        () => format!("{path}.{key}"),
    }
}

/// Formats a value on one line, strings without quotes; empty for null.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "literals read best at the call")]
    fn check(base: Value, mine: Value, theirs: Value, merged: Value, conflicts: &[&str]) {
        let result = merge(&base, &mine, &theirs);
        let paths: Vec<&str> = result.conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
        assert_eq!(paths, conflicts);
        assert_eq!(result.with_mine, merged);
        if conflicts.is_empty() {
            assert_eq!(result.with_theirs, merged, "without a clash there is one answer");
        }
    }

    /// CON-11: my edit is applied on top of theirs if they do not overlap.
    #[test]
    fn changes_of_different_fields_go_together() {
        check(
            json!({ "spec": { "replicas": 3, "paused": true, "a": 1 } }),
            json!({ "spec": { "replicas": 5, "paused": true, "a": 1, "mine": [1] } }),
            json!({ "spec": { "replicas": 3, "a": 2 } }),
            json!({ "spec": { "replicas": 5, "a": 2, "mine": [1] } }),
            &[],
        );
    }

    #[test]
    fn the_same_change_twice_is_one() {
        check(json!({ "a": 1 }), json!({ "a": 2 }), json!({ "a": 2 }), json!({ "a": 2 }), &[]);
        check(json!({ "a": 1 }), json!({}), json!({}), json!({}), &[]);
    }

    #[test]
    fn the_same_field_with_two_values_clashes() {
        check(
            json!({ "spec": { "replicas": 3, "x": 1 } }),
            json!({ "spec": { "replicas": 5, "x": 1 } }),
            json!({ "spec": { "replicas": 4, "x": 2 } }),
            json!({ "spec": { "replicas": 5, "x": 2 } }),
            &["spec.replicas"],
        );
        let removed = merge(&json!({ "a": { "b": 1 } }), &json!({}), &json!({ "a": { "b": 2 } }));
        assert_eq!(removed.conflicts[0].path, "a");
        assert_eq!((removed.with_mine, removed.with_theirs), (json!({}), json!({ "a": { "b": 2 } })));
    }

    #[test]
    fn lists_of_named_things_are_merged_by_name() {
        check(
            json!({ "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:1" }] }),
            json!({ "containers": [{ "name": "a", "image": "a:2" }, { "name": "b", "image": "b:1" },
                { "name": "mine" }] }),
            json!({ "containers": [{ "name": "side" }, { "name": "b", "image": "b:2" },
                { "name": "a", "image": "a:1" }] }),
            json!({ "containers": [{ "name": "side" }, { "name": "b", "image": "b:2" },
                { "name": "a", "image": "a:2" }, { "name": "mine" }] }),
            &[],
        );
        check(
            json!({ "args": ["a"] }),
            json!({ "args": ["b"] }),
            json!({ "args": ["c"] }),
            json!({ "args": ["b"] }),
            &["args"],
        );
    }

    #[test]
    fn changes_of_others_are_named_by_path() {
        let from = json!({ "metadata": { "labels": { "a.b/c": "1" } },
            "containers": [{ "name": "x", "image": "1" }] });
        let to = json!({ "metadata": { "labels": {} }, "containers": [{ "name": "x", "image": "2" }] });
        let paths: Vec<String> = changes(&from, &to).into_iter().map(|change| change.path).collect();
        assert_eq!(paths, ["containers[x].image", "metadata.labels[a.b/c]"]);
    }

    #[test]
    fn a_patch_takes_back_exactly_what_was_changed() {
        let old = json!({ "spec": { "replicas": 3, "gone": 1, "same": [1] } });
        let new = json!({ "spec": { "replicas": 5, "new": { "x": 1 }, "same": [1] } });
        assert_eq!(patch(&new, &old), json!({ "spec": { "replicas": 3, "gone": 1, "new": null } }));
        assert_eq!(patch(&old, &old), json!({}));
    }
}
