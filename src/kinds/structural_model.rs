//! Compares structural schemas with a model of Kubernetes' rules. The model reads the schema's JSON, decides about one
//! path at a time from the root, and shares no code with the implementation that it checks.

use std::collections::BTreeSet;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::compiled_schema::CompiledSchema;
use apimachinery::validate::FieldErrors;

const FIELDS: [&str; 6] = ["a", "b", "c", "apiVersion", "kind", "metadata"];
const METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

#[derive(Clone, Debug)]
enum PathElement {
    Field(String),
    Item,
}

fn is(schema: &Value, extension: &str) -> bool {
    schema[extension] == true
}

/// The decision about a value: everything in it stays, or a schema decides; `keeps` preserves unknown fields.
#[derive(Clone, Copy)]
enum PruneDecision<'a> {
    Stays,
    Decided { schema: Option<&'a Value>, keeps: bool },
}

impl<'a> PruneDecision<'a> {
    fn of(schema: Option<&'a Value>) -> Self {
        Self::Decided { schema, keeps: schema.is_some_and(|schema| is(schema, PRESERVE)) }
    }

    fn after(self, step: &PathElement, is_root: bool) -> Option<Self> {
        let Self::Decided { schema, keeps } = self else { return Some(self) };
        let name = match step {
            PathElement::Item => {
                return Some(match schema.and_then(|schema| schema.get("items")) {
                    None if keeps => Self::Stays,
                    Some(items) if keeps => Self::Decided { schema: Some(items), keeps: true },
                    items => Self::of(items),
                });
            }
            PathElement::Field(name) => name,
        };
        let unknown = keeps.then_some(Self::Stays);
        if (is_root || schema.is_some_and(|schema| is(schema, EMBEDDED))) && METADATA.contains(&name.as_str())
        {
            return Some(Self::Stays);
        }
        let Some(schema) = schema else { return unknown };
        match (schema["properties"].get(name), schema.get("additionalProperties")) {
            (Some(named), _) => Some(Self::of(Some(named))),
            (None, Some(Value::Bool(_))) => Some(Self::of(None)),
            (None, Some(any)) => Some(Self::of(Some(any))),
            (None, None) => unknown,
        }
    }
}

/// Returns whether pruning keeps the value at a path.
fn survives(root: &Value, path: &[PathElement]) -> bool {
    let mut decision = Some(PruneDecision::of(Some(root)));
    for (depth, step) in path.iter().enumerate() {
        decision = decision.and_then(|fate| fate.after(step, depth == 0));
    }
    decision.is_some()
}

/// Returns whether the schema declares the object at a path an embedded resource.
fn is_embedded_at(root: &Value, path: &[PathElement]) -> bool {
    let mut schema = Some(root);
    for step in path {
        schema = schema.and_then(|schema| match step {
            PathElement::Item => schema.get("items"),
            PathElement::Field(name) => schema["properties"]
                .get(name)
                .or_else(|| schema.get("additionalProperties").filter(|any| any.is_object())),
        });
    }
    !path.is_empty() && schema.is_some_and(|schema| is(schema, EMBEDDED))
}

fn pruned(root: &Value, value: &Value, path: &mut Vec<PathElement>) -> Value {
    match value {
        Value::Object(fields) => {
            let is_embedded = is_embedded_at(root, path);
            let mut left = Map::new();
            for (name, value) in fields {
                path.push(PathElement::Field(name.clone()));
                if survives(root, path) {
                    let below = pruned(root, value, path);
                    let is_meta = is_embedded && name == "metadata";
                    left.insert(name.clone(), if is_meta { prune_metadata(below) } else { below });
                }
                path.pop();
            }
            Value::Object(left)
        }
        Value::Array(items) => {
            let mut left = Vec::new();
            for item in items {
                path.push(PathElement::Item);
                left.push(pruned(root, item, path));
                path.pop();
            }
            Value::Array(left)
        }
        other => other.clone(),
    }
}

/// Returns the known fields of metadata; of the fields in [`FIELDS`] and `name`, only `name` is known.
fn prune_metadata(value: Value) -> Value {
    match &value {
        Value::Object(fields) => match fields.get("name") {
            Some(Value::String(name)) if !name.is_empty() => json!({"name": name}),
            None | Some(Value::Null | Value::String(_)) => json!({}),
            Some(_) => value,
        },
        Value::Null => json!({}),
        _ => value,
    }
}

fn field_schema<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let additional = schema.get("additionalProperties").filter(|any| any.is_object());
    schema["properties"].get(name).or(additional)
}

fn is_refused_null(schema: &Value, value: &Value) -> bool {
    value.is_null() && schema["nullable"] != true
}

/// Removes nulls that are neither allowed nor defaulted.
fn without_nulls(schema: Option<&Value>, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let below = fields.iter().filter_map(|(name, value)| {
                let of_field = schema.and_then(|schema| field_schema(schema, name));
                let goes = of_field.is_some_and(|s| is_refused_null(s, value) && s.get("default").is_none());
                (!goes).then(|| (name.clone(), without_nulls(of_field, value)))
            });
            Value::Object(below.collect())
        }
        Value::Array(items) => {
            let of_item = schema.and_then(|schema| schema.get("items"));
            items.iter().map(|item| without_nulls(of_item, item)).collect()
        }
        other => other.clone(),
    }
}

fn defaulted(schema: Option<&Value>, value: &Value) -> Value {
    let Some(schema) = schema else { return value.clone() };
    let element = |of: &Value, value: &Value| match of.get("default") {
        Some(default) if is_refused_null(of, value) => defaulted(Some(of), default),
        _ => defaulted(Some(of), value),
    };
    match value {
        Value::Object(fields) => {
            let mut all: Map<String, Value> = fields
                .iter()
                .map(|(name, value)| match field_schema(schema, name) {
                    Some(of) => (name.clone(), element(of, value)),
                    None => (name.clone(), value.clone()),
                })
                .collect();
            for (name, of) in schema["properties"].as_object().into_iter().flatten() {
                if let (Some(default), None) = (of.get("default"), fields.get(name)) {
                    all.insert(name.clone(), defaulted(Some(of), default));
                }
            }
            Value::Object(all)
        }
        Value::Array(items) => match schema.get("items") {
            Some(of) => items.iter().map(|item| element(of, item)).collect(),
            None => value.clone(),
        },
        other => other.clone(),
    }
}

/// Collects the paths of values that a schema refuses.
fn refused(schema: &Value, value: &Value, path: &str, found: &mut BTreeSet<String>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    let is_number = value.is_i64();
    let fits = match schema["type"].as_str() {
        _ if is(schema, INT_OR_STRING) => is_number || value.is_string(),
        Some("string") => value.is_string(),
        Some("integer") => is_number,
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    if !fits {
        found.insert(path.to_string());
        return;
    }
    let below = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
    if let Value::Object(fields) = value {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                found.insert(below(name));
            }
        }
        for (name, value) in fields {
            if let Some(of) = field_schema(schema, name) {
                refused(of, value, &below(name), found);
            }
        }
        if is(schema, EMBEDDED) {
            for name in ["apiVersion", "kind"] {
                if fields.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                    found.insert(below(name));
                }
            }
            let meta = fields.get("metadata").unwrap_or(&Value::Null);
            let name = meta.get("name").unwrap_or(&Value::Null);
            if !(meta.is_object() || meta.is_null()) || !(name.is_string() || name.is_null()) {
                found.insert(below("metadata"));
            }
        }
    }
    if let (Value::Array(items), Some(of)) = (value, schema.get("items")) {
        for (i, item) in items.iter().enumerate() {
            refused(of, item, &format!("{path}[{i}]"), found);
        }
    }
}

fn schemas() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        (prop_oneof![
            Just(("string", json!("d"))),
            Just(("integer", json!(7))),
            Just(("boolean", json!(true)))
        ])
        .prop_flat_map(|(type_, default)| {
            (any::<bool>(), any::<bool>()).prop_map(move |(nullable, has_default)| {
                let mut schema = json!({"type": type_, "nullable": nullable});
                if has_default {
                    schema["default"] = default.clone();
                }
                schema
            })
        }),
        Just(json!({INT_OR_STRING: true})),
        Just(json!({PRESERVE: true})),
        Just(json!({"type": "object", "additionalProperties": true})),
    ];
    leaf.prop_recursive(4, 24, 3, |below| {
        let named = ["a", "b", "c"].map(String::from).to_vec();
        let properties = || btree_map(proptest::sample::select(named.clone()), below.clone(), 0..3);
        let flags = || (any::<bool>(), any::<bool>(), any::<bool>());
        let object = (properties(), flags()).prop_map(|(properties, (preserves, nullable, has_default))| {
            let required: Vec<&String> = properties.keys().take(usize::from(nullable)).collect();
            let mut schema = json!({"type": "object", "properties": properties, "nullable": nullable, "required": required});
            flag(&mut schema, PRESERVE, preserves);
            if has_default && required.is_empty() {
                schema["default"] = json!({});
            }
            schema
        });
        let map = (below.clone(), any::<bool>()).prop_map(|(values, preserves)| {
            let mut schema = json!({"type": "object", "additionalProperties": values});
            flag(&mut schema, PRESERVE, preserves);
            schema
        });
        let list = (below.clone(), any::<bool>()).prop_map(|(items, preserves)| {
            let mut schema = json!({"type": "array", "items": items});
            flag(&mut schema, PRESERVE, preserves);
            schema
        });
        let embedded = (properties(), any::<bool>()).prop_map(|(properties, preserves)| {
            let mut schema = json!({"type": "object", "properties": properties, EMBEDDED: true});
            flag(&mut schema, PRESERVE, preserves);
            schema
        });
        let untyped = (properties(), option::of(below.clone())).prop_map(|(properties, items)| {
            let mut schema = json!({"properties": properties, PRESERVE: true});
            if let Some(items) = items {
                schema["items"] = items;
            }
            schema
        });
        prop_oneof![3 => object, 2 => map, 3 => list, 2 => embedded, 1 => untyped]
    })
    .boxed()
}

fn flag(schema: &mut Value, name: &str, is_set: bool) {
    if is_set {
        schema[name] = true.into();
    }
}

fn roots() -> impl Strategy<Value = Value> {
    let named = ["a", "b", "c"].map(String::from).to_vec();
    (btree_map(proptest::sample::select(named), schemas(), 1..4), any::<bool>()).prop_map(
        |(properties, preserves)| {
            let mut schema = json!({"type": "object", "properties": properties});
            flag(&mut schema, PRESERVE, preserves);
            schema
        },
    )
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        Just(json!(1)),
        Just(json!("x")),
        Just(json!({"name": "x", "a": 1})),
        Just(json!({"name": 1})),
        Just(json!({"apiVersion": "v1", "kind": "X", "a": {"b": 1}, "metadata": {"name": "x", "b": {}}})),
    ];
    leaf.prop_recursive(5, 40, 4, |below| {
        let names = FIELDS.map(String::from).to_vec();
        prop_oneof![
            3 => btree_map(proptest::sample::select(names), below.clone(), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            2 => vec(below, 0..3).prop_map(Value::Array),
        ]
    })
}

/// Generates objects with fields that a generated schema may declare.
fn objects() -> impl Strategy<Value = Map<String, Value>> {
    let names = ["a", "b", "c", "d"].map(String::from).to_vec();
    btree_map(proptest::sample::select(names), values(), 0..4).prop_map(|fields| fields.into_iter().collect())
}

fn read(schema: &Value) -> CompiledSchema {
    CompiledSchema::new(serde_json::from_value(schema.clone()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// The extensions and `additionalProperties` occur at every position.
    #[test]
    fn pruning_is_kubernetes_api_7(schema in roots(), object in objects()) {
        let expected = pruned(&schema, &Value::Object(object.clone()), &mut Vec::new());
        let mut found = object;
        let structural = read(&schema);
        let removed = structural.prune(&mut found);
        prop_assert_eq!(Value::Object(found.clone()), expected, "{} {:?}", schema, removed);
        prop_assert!(structural.prune(&mut found).is_empty(), "{}", schema);
    }

    #[test]
    fn defaulting_is_kubernetes_api_7(schema in roots(), object in objects()) {
        let expected = without_nulls(Some(&schema), &Value::Object(object.clone()));
        let expected = defaulted(Some(&schema), &expected);
        let mut found = object;
        let structural = read(&schema);
        structural.apply_defaults(&mut found);
        prop_assert!(!structural.lacks_defaults(&found), "{}", schema);
        prop_assert_eq!(Value::Object(found), expected, "{}", schema);
    }

    #[test]
    fn validation_is_kubernetes_api_7(schema in roots(), object in objects()) {
        let mut expected = BTreeSet::new();
        refused(&schema, &Value::Object(object.clone()), "", &mut expected);
        let mut errors = FieldErrors::default();
        read(&schema).validate(&object, None, &mut errors);
        let found: BTreeSet<String> = errors.into_vec().into_iter().map(|error| error.path).collect();
        prop_assert_eq!(found, expected, "{} {:?}", schema, object);
    }
}

/// A list that preserves unknown fields keeps those of its items, and not those of covered fields below.
#[test]
fn a_list_that_preserves_unknown_fields_keeps_those_of_its_items_api_7() {
    let schema = read(&json!({"type": "object", "properties": {
        "parts": {"type": "array", PRESERVE: true, "items": {"type": "object"}},
        "deep": {"type": "array", PRESERVE: true, "items": {"type": "array", "items": {"type": "object",
            "properties": {"known": {"type": "object"}}}}}}}));
    let mut fields = Map::new();
    fields.insert("parts".into(), json!([{"left.id": "main"}]));
    fields.insert("deep".into(), json!([[{"x": 1, "known": {"y": 1}}]]));
    assert_eq!(schema.prune(&mut fields), ["deep[0][0].known.y"]);
    assert_eq!(fields["parts"], json!([{"left.id": "main"}]));
    assert_eq!(fields["deep"], json!([[{"x": 1, "known": {}}]]));
}
