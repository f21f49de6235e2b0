//! The structural schema of a custom resource: pruning, defaulting and validation of objects.
//!
//! Kubernetes' rules for structural schemas: fields without a schema are pruned, defaults are filled in, and the rest
//! is validated in the words of kube-openapi. `schema_rules` evaluates the CEL rules.

use std::cell::Cell;
use std::collections::HashSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Map, Value};

use super::compiled_schema::{CompiledSchema, Pattern};
use super::previous_items::PreviousItems;
use super::schema_fields::{FieldSchema, OF_EVERY_OBJECT, is_embedded};
use super::{defaulting, embedded, pruning};
use apimachinery::cel::{field_schema, item_schema};
use apimachinery::formats;
use apimachinery::validate::{FieldErrors, Path};
use base::quote::quote;
use base::sort::CollectMap;

/// The limit on the cost of pattern matching for one object, because the time for a match grows with the text and with
/// the pattern. A match costs the length of the text in bytes times the length of the pattern in characters, after its
/// repetitions are written out. Two megabytes of text may be matched against a pattern of a hundred characters, which
/// takes seconds in the worst case.
const MAX_MATCHING_COST: u64 = 200_000_000;

impl CompiledSchema {
    /// Removes the fields that the schema does not cover, including those of embedded metadata, and returns their
    /// paths.
    pub(super) fn prune(&self, fields: &mut Map<String, Value>) -> Vec<String> {
        let mut unknown = pruning::prune(&self.root, fields);
        embedded::coerce(&self.root, fields, &mut unknown);
        unknown
    }

    /// Fills in defaults. Treats a null as missing if the schema neither allows nulls nor has a default.
    pub(super) fn apply_defaults(&self, fields: &mut Map<String, Value>) {
        defaulting::apply(&self.root, fields);
    }

    /// Returns whether filling in defaults would add a field.
    pub(super) fn lacks_defaults(&self, fields: &Map<String, Value>) -> bool {
        self.has_defaults && defaulting::is_needed(&self.root, fields)
    }

    /// Evaluates the CEL rules of an object that is valid otherwise; `old` is the object that it replaces.
    pub(super) fn evaluate_rules(&self, new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
        self.rules().rules.evaluate_rules(&self.root, new, old, errors);
    }

    /// Validates an object's own fields. Errors in parts that are unchanged are not reported: they must not block a
    /// client that changes something else (ratcheting).
    pub(super) fn validate(
        &self,
        fields: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        errors: &mut FieldErrors,
    ) {
        let validator = Validator { compiled: self, matching_budget: Cell::new(MAX_MATCHING_COST) };
        validator.validate_root(&self.root, fields, old, errors);
        let of_lists = |fields: &Map<String, Value>| {
            let mut found = FieldErrors::default();
            validate_lists(&self.root, fields, None, &mut found);
            found.count() > 0
        };
        if of_lists(fields) && !old.is_some_and(of_lists) {
            validate_lists(&self.root, fields, None, errors);
        }
    }
}

/// One validation of an object.
struct Validator<'s> {
    compiled: &'s CompiledSchema,
    /// The part of [`MAX_MATCHING_COST`] that is left.
    matching_budget: Cell<u64>,
}

impl Validator<'_> {
    /// Validates an object without its metadata, which has rules of its own.
    fn validate_root(
        &self,
        root: &JSONSchemaProps,
        fields: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        errors: &mut FieldErrors,
    ) {
        self.validate_fields(root, fields, old, None, errors);
        for all in root.all_of.iter().flatten() {
            self.validate_root(all, fields, old, errors);
        }
        if old == Some(fields) {
            return;
        }
        let holds = |schema: &JSONSchemaProps| {
            let mut errors = FieldErrors::default();
            self.validate_root(schema, fields, None, &mut errors);
            errors.count() == 0
        };
        report_junctors(root, &Path::root("<nil>"), "", "", holds, errors);
    }

    fn validate_fields(
        &self,
        schema: &JSONSchemaProps,
        fields: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        path: Option<&Path<'_>>,
        errors: &mut FieldErrors,
    ) {
        for name in schema.required.iter().flatten() {
            let of_every = path.is_none() && OF_EVERY_OBJECT.contains(&name.as_str());
            if !of_every && !fields.contains_key(name) {
                errors.required(&child(path, name), "");
            }
        }
        for (name, value) in fields {
            let path = child(path, name);
            if let Some(schema) = field_schema(Some(schema), name) {
                let old = old.and_then(|old| old.get(name));
                self.validate_value(schema, value, old, &path, errors);
            }
        }
        if let Some(path) = path {
            let count = fields.len() as i64;
            if schema.max_properties.is_some_and(|most| count > most) {
                let most = schema.max_properties.unwrap_or(0);
                errors.invalid(path, &count, format!("{path} in body should have at most {most} properties"));
            }
            if schema.min_properties.is_some_and(|least| count < least) {
                let least = schema.min_properties.unwrap_or(0);
                errors.invalid(
                    path,
                    &count,
                    format!("{path} in body should have at least {least} properties"),
                );
            }
        }
    }

    fn validate_value(
        &self,
        schema: &JSONSchemaProps,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut FieldErrors,
    ) {
        if old == Some(value) || (value.is_null() && schema.nullable == Some(true)) {
            return;
        }
        if !has_type(schema, value) {
            let found = type_of(value);
            let expected = schema.type_.as_deref().unwrap_or("integer,string");
            let detail = format!("{path} in body must be of type {expected}: {}", quote(found));
            errors.wrong_type(path, found, detail);
            return;
        }
        if let Some(possible) = &schema.enum_
            && !possible.iter().any(|one| one.0 == *value)
        {
            let texts: Vec<String> = possible.iter().map(|one| plain(&one.0)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            errors.unsupported(path, value, &texts);
        }
        if value.is_null() {
            return;
        }
        match value {
            Value::Object(fields) => {
                if is_embedded(schema) {
                    embedded::validate(fields, path, errors);
                }
                let old = old.and_then(Value::as_object);
                self.validate_fields(schema, fields, old, Some(path), errors);
            }
            Value::Array(items) => self.validate_items(schema, items, old, path, errors),
            Value::String(text) => self.validate_text(schema, text, path, errors),
            Value::Number(number) => validate_number(schema, number, path, errors),
            Value::Bool(_) | Value::Null => {}
        }
        self.validate_junctors(schema, value, old, path, errors);
    }

    fn validate_items(
        &self,
        schema: &JSONSchemaProps,
        items: &[Value],
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut FieldErrors,
    ) {
        let count = items.len();
        if let Some(most) = schema.max_items.and_then(|most| usize::try_from(most).ok())
            && count > most
        {
            errors.too_many(path, count, most);
        }
        if let Some(least) = schema.min_items.filter(|least| (count as i64) < *least) {
            errors.invalid(
                path,
                &(count as i64),
                format!("{path} in body should have at least {least} items"),
            );
        }
        if let Some(of_item) = item_schema(Some(schema)) {
            let old = PreviousItems::of(schema, old);
            for (i, item) in items.iter().enumerate() {
                self.validate_value(of_item, item, old.get(item), &path.index(i), errors);
            }
        }
    }

    /// Returns whether a text matches a pattern; `None` if the budget does not suffice to find out.
    fn matches(&self, pattern: &Pattern, text: &str) -> Option<bool> {
        let cost = (text.len() as u64 + 1).saturating_mul(pattern.weight);
        self.matching_budget.set(self.matching_budget.get().checked_sub(cost)?);
        Some(pattern.regex.is_match(text))
    }

    fn validate_text(&self, schema: &JSONSchemaProps, text: &str, path: &Path<'_>, errors: &mut FieldErrors) {
        // OpenAPI's lengths are in characters, although Kubernetes' message for a text that is too long says bytes.
        let length = text.chars().count();
        if let Some(most) = schema.max_length.and_then(|most| usize::try_from(most).ok())
            && length > most
        {
            errors.too_long(path, most);
        }
        if let Some(least) = schema.min_length.filter(|least| (length as i64) < *least) {
            errors.invalid(path, text, format!("{path} in body should be at least {least} chars long"));
        }
        if let Some((pattern, compiled)) = schema
            .pattern
            .as_ref()
            .and_then(|pattern| self.compiled.pattern(pattern).map(|one| (pattern, one)))
        {
            match self.matches(compiled, text) {
                Some(true) => {}
                Some(false) => {
                    errors.invalid(path, text, format!("{path} in body should match '{pattern}'"));
                }
                None => errors.invalid_itself(
                    path,
                    format!(
                        "{path} in body cannot be matched against '{pattern}': the strings of the object are too long \
                         together"
                    ),
                ),
            }
        }
        if let Some(format) = schema.format.as_deref()
            && formats::is_supported(format)
            && !formats::holds(format, text)
        {
            errors.wrong_type(
                path,
                text,
                format!("{path} in body must be of type {format}: {}", quote(text)),
            );
        }
    }

    /// Validates `allOf`, `anyOf`, `oneOf` and `not`. The alternatives of the last three are validated without the old
    /// value: ratcheting would accept an unchanged value in every alternative, or refuse it in every one, independently
    /// of its content.
    fn validate_junctors(
        &self,
        schema: &JSONSchemaProps,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut FieldErrors,
    ) {
        let holds = |schema: &JSONSchemaProps| {
            let mut errors = FieldErrors::default();
            self.validate_value(schema, value, None, path, &mut errors);
            errors.count() == 0
        };
        for all in schema.all_of.iter().flatten() {
            self.validate_value(all, value, old, path, errors);
        }
        report_junctors(schema, path, &path.to_string(), &plain(value), holds, errors);
    }
}

/// Reports violations of `anyOf`, `oneOf` and `not`; `holds` validates the value against one of their schemas.
fn report_junctors(
    schema: &JSONSchemaProps,
    path: &Path<'_>,
    field: &str,
    value: &str,
    holds: impl Fn(&JSONSchemaProps) -> bool,
    errors: &mut FieldErrors,
) {
    let place = quote(field);
    if let Some(any) = &schema.any_of
        && !any.iter().any(&holds)
    {
        errors.invalid(path, value, format!("{place} must validate at least one schema (anyOf)"));
    }
    if let Some(one) = &schema.one_of {
        let count = one.iter().filter(|schema| holds(schema)).count();
        if count != 1 {
            let found = if count == 0 { "Found none valid" } else { "Found more than one valid" };
            let detail = format!("{place} must validate one and only one schema (oneOf). {found}");
            errors.invalid(path, value, detail);
        }
    }
    if schema.not.as_ref().is_some_and(|not| holds(not)) {
        errors.invalid(path, value, format!("{place} must not validate the schema (not)"));
    }
}

/// Reports duplicate elements in lists that are sets or maps.
fn validate_lists(
    schema: &JSONSchemaProps,
    fields: &Map<String, Value>,
    path: Option<&Path<'_>>,
    errors: &mut FieldErrors,
) {
    for (name, value) in fields {
        match (FieldSchema::of(schema, name), path) {
            (FieldSchema::Named(schema), _) | (FieldSchema::Additional(Some(schema)), None) => {
                validate_lists_in(schema, value, &child(path, name), errors);
            }
            (FieldSchema::Additional(Some(schema)), Some(path)) => {
                validate_lists_in(schema, value, &path.key(name), errors);
            }
            (FieldSchema::Additional(None) | FieldSchema::Unknown, _) => {}
        }
    }
}

fn validate_lists_in(schema: &JSONSchemaProps, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let items = match value {
        Value::Object(fields) => return validate_lists(schema, fields, Some(path), errors),
        Value::Array(items) => items,
        _ => return,
    };
    if let Some(of_item) = item_schema(Some(schema)) {
        for (i, item) in items.iter().enumerate() {
            validate_lists_in(of_item, item, &path.index(i), errors);
        }
    }
    let mut seen = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        let key = match schema.x_kubernetes_list_type.as_deref() {
            Some("set") => item.clone(),
            Some("map") => {
                let keys = schema.x_kubernetes_list_map_keys.iter().flatten();
                let values = keys.filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
                Value::Object(values.collect_map())
            }
            _ => break,
        };
        if !seen.insert(key.to_string()) {
            errors.duplicate(&path.index(i), &key);
        }
    }
}

fn validate_number(
    schema: &JSONSchemaProps,
    number: &serde_json::Number,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let value = number.as_f64().unwrap_or(0.0);
    let shown = Value::Number(number.clone());
    if let Some(most) = schema.maximum {
        let exclusive = schema.exclusive_maximum == Some(true);
        if value > most || (exclusive && value >= most) {
            let than = if exclusive { "less than" } else { "less than or equal to" };
            errors.invalid(path, &shown, format!("{path} in body should be {than} {most}"));
        }
    }
    if let Some(least) = schema.minimum {
        let exclusive = schema.exclusive_minimum == Some(true);
        if value < least || (exclusive && value <= least) {
            let than = if exclusive { "greater than" } else { "greater than or equal to" };
            errors.invalid(path, &shown, format!("{path} in body should be {than} {least}"));
        }
    }
    if let Some(unit) = schema.multiple_of.filter(|unit| *unit > 0.0)
        && (value / unit).fract() != 0.0
    {
        errors.invalid(path, &shown, format!("{path} in body should be a multiple of {unit}"));
    }
}

fn child<'a>(parent: Option<&'a Path<'a>>, name: &'a str) -> Path<'a> {
    parent.map_or_else(|| Path::root(name), |parent| parent.child(name))
}

/// Returns whether the value has the schema's type; any value does if the schema names none.
fn has_type(schema: &JSONSchemaProps, value: &Value) -> bool {
    let is_integer = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    if schema.x_kubernetes_int_or_string == Some(true) {
        return value.is_string() || (value.is_number() && is_integer());
    }
    match schema.type_.as_deref() {
        Some("integer") => value.is_number() && is_integer(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    }
}

/// Returns kube-openapi's name of the value's type.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> CompiledSchema {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4},
                "port": {"x-kubernetes-int-or-string": true},
                "tags": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "parts": {"type": "array", "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "kind": {"type": "string", "default": "wheel"}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "note": {"type": "string", "nullable": true}}},
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}});
        of(&schema)
    }

    fn of(schema: &Value) -> CompiledSchema {
        CompiledSchema::new(serde_json::from_value(schema.clone()).unwrap())
    }

    fn fields(spec: Value) -> Map<String, Value> {
        Map::from_iter([("spec".to_string(), spec)])
    }

    #[test]
    fn unknown_fields_are_pruned_and_missing_ones_defaulted_api_7() {
        let mut object = fields(json!({"size": 1, "extra": 1, "free": {"a": {"b": 1}}, "labels": {"x": "y"},
            "parts": [{"name": "a", "x": 1}]}));
        object.insert("other".into(), json!(1));
        let schema = schema();
        assert_eq!(schema.prune(&mut object), ["other", "spec.extra", "spec.parts[0].x"]);
        schema.apply_defaults(&mut object);
        assert_eq!(
            object["spec"],
            json!({"size": 1, "free": {"a": {"b": 1}}, "labels": {"x": "y"}, "color": "red",
                "parts": [{"name": "a", "kind": "wheel"}]})
        );
        assert!(schema.prune(&mut object).is_empty());
    }

    /// A chart of KubeRay writes nulls for all values that it leaves unset.
    #[test]
    fn a_null_where_none_may_be_is_as_if_it_were_not_there_api_14() {
        let mut object = fields(json!({"size": 1, "color": null, "code": null, "note": null, "tags": [null],
            "labels": {"x": null}, "free": {"a": null}, "parts": [{"name": null}]}));
        schema().apply_defaults(&mut object);
        assert_eq!(
            object["spec"],
            json!({"size": 1, "color": "red", "note": null, "tags": [null], "labels": {}, "free": {"a": null},
                "parts": [{"kind": "wheel"}]})
        );
    }

    #[test]
    fn schema_errors_read_as_in_kubernetes_api_7() {
        let messages = |spec: Value| {
            let mut errors = FieldErrors::default();
            schema().validate(&fields(spec), None, &mut errors);
            errors.into_vec().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for (spec, expected) in [
            (json!({"size": 1, "port": "http", "note": null}), vec![]),
            (json!({}), vec!["spec.size: Required value"]),
            (
                json!({"size": 10}),
                vec!["spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"],
            ),
            (
                json!({"size": "big"}),
                vec![
                    "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
                ],
            ),
            (
                json!({"size": 1, "color": "green"}),
                vec!["spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""],
            ),
            (
                json!({"size": 1, "code": "A"}),
                vec!["spec.code: Invalid value: \"A\": spec.code in body should match '^[a-z]+$'"],
            ),
            (json!({"size": 1, "code": "abcde"}), vec!["spec.code: Too long: may not be more than 4 bytes"]),
            (
                json!({"size": 1, "code": "éééé"}),
                vec!["spec.code: Invalid value: \"éééé\": spec.code in body should match '^[a-z]+$'"],
            ),
            (json!({"size": 1, "tags": ["a", "a"]}), vec!["spec.tags[1]: Duplicate value: \"a\""]),
            (
                json!({"size": 1, "tags": ["a", "b", "c"]}),
                vec!["spec.tags: Too many: 3: must have at most 2 items"],
            ),
            (
                json!({"size": 1, "port": true}),
                vec![
                    "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
                ],
            ),
        ] {
            assert_eq!(messages(spec.clone()), expected, "{spec}");
        }
    }

    #[test]
    fn objects_without_newer_defaults_are_detected_api_14() {
        let schema = schema();
        for (spec, lacks) in [
            (json!({"size": 1, "color": "red"}), false),
            (json!({"size": 1}), true),
            (json!({"size": 1, "color": null}), true),
            (json!({"size": 1, "color": "red", "parts": [{"kind": "a"}, {"name": "x"}]}), true),
            (json!({"size": 1, "color": "red", "parts": [{"kind": "a"}], "note": null}), false),
        ] {
            let mut object = fields(spec.clone());
            assert_eq!(schema.lacks_defaults(&object), lacks, "{spec}");
            schema.apply_defaults(&mut object);
            assert!(!schema.lacks_defaults(&object), "{spec}");
        }
        let none = of(&json!({"type": "object", "properties": {"spec": {"type": "object"}}}));
        assert!(!none.lacks_defaults(&fields(json!({}))));
    }

    /// Matching a pattern with a text of the maximum size of an object may take minutes.
    #[test]
    fn matching_ends_api_14() {
        let pattern = "^(a?){1000}(b?){1000}$";
        let schema = of(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "short": {"type": "string", "pattern": pattern},
            "plain": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
            "all": {"type": "string", "allOf": [{"pattern": pattern}, {"pattern": pattern}]}}}}}));
        let faults = |spec: Value| {
            let mut errors = FieldErrors::default();
            schema.validate(&fields(spec), None, &mut errors);
            errors.into_vec().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(faults(json!({"short": "ab", "plain": "a".repeat(1_500_000), "all": "aabb"})).is_empty());
        for field in ["short", "all"] {
            let found = faults(json!({field: "c".repeat(1_500_000)}));
            let (named, expected) =
                (format!("spec.{field} in body"), "the strings of the object are too long together");
            let is_expected = |fault: &String| fault.contains(&named) && fault.ends_with(expected);
            assert!(found.iter().any(is_expected), "{found:?}");
        }
    }

    /// Kubernetes' validation ratcheting: the schema became stricter than stored objects.
    #[test]
    fn unchanged_invalid_values_are_accepted_api_14() {
        let schema = of(
            &json!({"type": "object", "required": ["data"], "properties": {"spec": {"type": "object",
            "required": ["must"], "properties": {
                "size": {"type": "integer", "maximum": 9},
                "deep": {"type": "object", "properties": {
                    "a": {"type": "string", "enum": ["x"]}, "b": {"type": "string"}}, "maxProperties": 1},
                "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {
                        "name": {"type": "string"}, "port": {"type": "integer", "minimum": 10}}}},
                "plain": {"type": "array", "items": {"type": "integer", "minimum": 10}},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "any": {"anyOf": [{"required": ["x"]}, {"required": ["y"]}], "type": "object",
                    "properties": {"x": {"type": "string"}, "y": {"type": "string"}, "z": {"type": "string"}}}}}}}),
        );
        let faults = |old: Value, new: Value| {
            let mut errors = FieldErrors::default();
            schema.validate(&fields(new), Some(&fields(old)), &mut errors);
            let fault = |error: &apimachinery::validate::FieldError| error.path.clone();
            errors.into_vec().iter().map(fault).collect::<Vec<_>>().join(" ")
        };
        let spec = |more: Value| {
            let mut spec = json!({"must": 1});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        for (old, new, expected) in [
            (json!({"size": 20}), json!({"size": 20, "set": []}), "data"),
            (json!({"size": 20}), json!({"size": 21}), "data spec.size"),
            (json!({"size": 1}), json!({"size": 20}), "data spec.size"),
            (json!({"deep": {"a": "q"}}), json!({"deep": {"a": "q"}, "size": 1}), "data"),
            (json!({"deep": {"a": "q"}}), json!({"deep": {"a": "r"}}), "data spec.deep.a"),
            (json!({"deep": {"a": "q"}}), json!({"deep": {"a": "q", "b": "1"}}), "data spec.deep"),
            (
                json!({"keyed": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}),
                json!({"keyed": [{"name": "b", "port": 2}, {"name": "c", "port": 30}, {"name": "a", "port": 1}]}),
                "data",
            ),
            (
                json!({"keyed": [{"name": "a", "port": 1}]}),
                json!({"keyed": [{"name": "a", "port": 2}]}),
                "data spec.keyed[0].port",
            ),
            (json!({"plain": [1, 2]}), json!({"plain": [1, 2], "size": 3}), "data"),
            (json!({"plain": [1, 2]}), json!({"plain": [1, 2, 30]}), "data spec.plain[0] spec.plain[1]"),
            (json!({"set": ["a", "a"]}), json!({"set": ["a", "a", "b"]}), "data"),
            (json!({"set": ["a"]}), json!({"set": ["a", "a"]}), "data spec.set[1]"),
            (json!({"any": {"z": "1"}}), json!({"any": {"z": "1"}, "size": 1}), "data"),
            (json!({"any": {"z": "1"}}), json!({"any": {"z": "2"}}), "data spec.any"),
        ] {
            assert_eq!(faults(spec(old.clone()), spec(new.clone())), expected, "{old} {new}");
        }
        // The branch of a union is determined independently of the changes.
        let schema = of(&json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"type": {"type": "string"}, "a": {"type": "integer"}, "b": {"type": "integer"},
                "x": {"type": "integer"}},
            "oneOf": [{"properties": {"type": {"enum": ["A"]}}}, {"properties": {"type": {"enum": ["B"]}}}],
            "not": {"properties": {"x": {"maximum": 5}}, "required": ["x"]},
            "anyOf": [{"properties": {"a": {"minimum": 5}}, "required": ["a"]},
                {"properties": {"b": {"minimum": 5}}, "required": ["b"]}]}}}));
        let count = |old: Value, new: Value| {
            let mut errors = FieldErrors::default();
            schema.validate(&fields(new), Some(&fields(old)), &mut errors);
            errors.into_vec().len()
        };
        let union = |a: i64, b: i64, x: i64| json!({"type": "A", "a": a, "b": b, "x": x});
        for (old, new, expected) in [
            (union(9, 1, 10), union(9, 2, 10), 0),
            (union(9, 1, 10), union(9, 1, 11), 0),
            (union(1, 7, 10), union(1, 1, 10), 1),
            (union(9, 1, 1), union(9, 1, 2), 1),
            (union(9, 1, 1), union(9, 1, 1), 0),
        ] {
            assert_eq!(count(old.clone(), new.clone()), expected, "{old} {new}");
        }
        // An object with a missing field is refused as soon as it changes.
        assert_eq!(faults(json!({"size": 1}), json!({"size": 1})), "data");
        assert_eq!(faults(json!({"size": 1}), json!({"size": 2})), "data spec.must");
    }
}
