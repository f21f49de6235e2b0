//! Validation of the schemas of a CRD: they must be structural and use only supported features.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value};

use crate::compiled_schema::CompiledSchema;
use crate::rule_costs;
use crate::schema_rules::SchemaRules;
use apimachinery::cel::Budget;
use apimachinery::pattern::MAX_PATTERNS;
use apimachinery::validate::{FieldErrors, Path};
use base::sort::CollectMap;

/// The position of a schema in the one that contains it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Validates the schema of a version. `is_unchanged`: the stored definition has the same schema.
pub(super) fn validate(
    root: &JSONSchemaProps,
    has_status: bool,
    is_unchanged: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let before = errors.count();
    if root.nullable == Some(true) {
        errors.forbidden(&path.child("nullable"), "nullable cannot be true at the root");
    }
    if has_status && root.type_.as_deref().is_some_and(|type_| type_ != "object") {
        errors.invalid(
            &path.child("type"),
            root.type_.as_deref().unwrap_or_default(),
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
             enabled",
        );
    }
    if has_status {
        root_fields(root, path, errors);
    }
    default_of_every_object(root, path, errors);
    if !is_unchanged {
        unique_items(root, path, errors);
    }
    let mut patterns = 0;
    let compiled = CompiledSchema::new(root.clone());
    supported(root, &compiled, path, &mut patterns, errors);
    if patterns > MAX_PATTERNS {
        errors.invalid_itself(path, format!("must have no more than {MAX_PATTERNS} patterns"));
    }
    structural(root, Level::Root, path, errors);
    if errors.count() == before {
        rule_costs::validate(&compiled.rules().costs, is_unchanged, path, errors);
    }
    for fault in &compiled.rules().faults {
        let below = path.child(&fault.field);
        let at = if fault.field.is_empty() { path } else { &below };
        match &fault.value {
            Some(value) => errors.invalid(at, value, fault.message.as_str()),
            None if fault.is_missing() => errors.required(at, fault.message.as_str()),
            None => errors.invalid_itself(at, fault.message.as_str()),
        }
    }
    if errors.count() == before {
        // An unchanged schema may be older than this check.
        let rules = (!is_unchanged).then_some(&compiled.rules().rules);
        defaults(root, rules, path, &mut Budget::default(), errors);
    }
}

/// Restricts the fields at the root, because the schema of the status subresource is taken out of the whole schema.
fn root_fields(root: &JSONSchemaProps, path: &Path<'_>, errors: &mut FieldErrors) {
    let others = [
        root.ref_path.is_some(),
        root.schema.is_some(),
        root.id.as_ref().is_some_and(|id| !id.is_empty()),
        root.default.is_some(),
        root.enum_.is_some(),
        root.max_properties.is_some(),
        root.min_properties.is_some(),
        root.all_of.is_some(),
        root.any_of.is_some(),
        root.one_of.is_some(),
        root.not.is_some(),
        root.additional_items.is_some(),
        root.additional_properties.is_some(),
        root.pattern_properties.is_some(),
        root.definitions.is_some(),
        root.dependencies.is_some(),
        root.x_kubernetes_embedded_resource == Some(true),
        root.x_kubernetes_int_or_string == Some(true),
        root.x_kubernetes_list_map_keys.is_some(),
        root.x_kubernetes_list_type.is_some(),
        root.x_kubernetes_map_type.is_some(),
    ];
    if others.contains(&true) {
        const ALLOWED: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                               MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                               ExternalDocs Example XPreserveUnknownFields XValidations]";
        let detail = format!(
            "only {ALLOWED} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.invalid_itself(path, detail);
    }
}

/// Refuses defaults in `apiVersion`, `kind` and `metadata`.
fn default_of_every_object(root: &JSONSchemaProps, path: &Path<'_>, errors: &mut FieldErrors) {
    let properties = path.child("properties");
    for (name, schema) in root.properties.iter().flatten() {
        if matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            no_defaults(schema, name, &properties.key(name), errors);
        }
    }
}

fn no_defaults(schema: &JSONSchemaProps, within: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if schema.default.is_some() {
        errors.forbidden(&path.child("default"), format!("must not be set in top-level {within}"));
    }
    each_below(schema, path, &mut |below, path, _| no_defaults(below, within, path, errors));
}

/// Requires atomic items in sets, and keys that are never null in maps: items of a set are compared as whole values,
/// those of a map by their keys.
fn unique_items(schema: &JSONSchemaProps, path: &Path<'_>, errors: &mut FieldErrors) {
    if let (Some(list_type @ ("set" | "map")), Some(JSONSchemaPropsOrArray::Schema(item))) =
        (schema.x_kubernetes_list_type.as_deref(), &schema.items)
    {
        let items = path.child("items");
        if list_type == "set" {
            atomic_item(item, &items, errors);
        }
        if item.nullable == Some(true) {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            errors.forbidden(&items.child("nullable"), detail);
        }
        let keys = schema.x_kubernetes_list_map_keys.iter().flatten().filter(|_| list_type == "map");
        let properties = items.child("properties");
        for key in keys {
            let field = item.properties.as_ref().and_then(|properties| properties.get(key));
            if field.is_some_and(|field| field.nullable == Some(true)) {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                errors.forbidden(&properties.key(key).child("nullable"), detail);
            }
        }
    }
    each_below(schema, path, &mut |below, path, _| unique_items(below, path, errors));
}

fn atomic_item(item: &JSONSchemaProps, path: &Path<'_>, errors: &mut FieldErrors) {
    let (field, given) = match item.type_.as_deref() {
        Some("array") => ("x-kubernetes-list-type", item.x_kubernetes_list_type.as_deref()),
        Some("object") => ("x-kubernetes-map-type", item.x_kubernetes_map_type.as_deref()),
        _ => return,
    };
    // Lists are atomic by default, and objects are not.
    if given != Some("atomic") && (given.is_some() || field == "x-kubernetes-map-type") {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.invalid(&path.child(field), &given.map(String::from), detail);
    }
}

/// Refuses features that Kubernetes does not support, at any depth.
fn supported(
    schema: &JSONSchemaProps,
    compiled: &CompiledSchema,
    path: &Path<'_>,
    patterns: &mut usize,
    errors: &mut FieldErrors,
) {
    let absent = [
        ("$ref", schema.ref_path.is_some(), "$ref is not supported"),
        ("id", schema.id.as_ref().is_some_and(|id| !id.is_empty()), "id is not supported"),
        ("definitions", schema.definitions.is_some(), "definitions is not supported"),
        ("dependencies", schema.dependencies.is_some(), "dependencies is not supported"),
        ("patternProperties", schema.pattern_properties.is_some(), "patternProperties is not supported"),
        ("additionalItems", schema.additional_items.is_some(), "additionalItems is not supported"),
        (
            "uniqueItems",
            schema.unique_items == Some(true),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            "type",
            schema.type_.as_deref() == Some("null"),
            "type cannot be set to null, use nullable as an alternative",
        ),
        (
            "items",
            matches!(schema.items, Some(JSONSchemaPropsOrArray::Schemas(_))),
            "items must be a schema object and not an array",
        ),
        (
            "additionalProperties",
            matches!(schema.additional_properties, Some(JSONSchemaPropsOrBool::Bool(false))),
            "additionalProperties cannot be set to false",
        ),
        (
            "additionalProperties",
            schema.additional_properties.is_some()
                && schema.properties.as_ref().is_some_and(|properties| !properties.is_empty()),
            "additionalProperties and properties are mutual exclusive",
        ),
    ];
    for (field, _, detail) in absent.into_iter().filter(|(_, found, _)| *found) {
        errors.forbidden(&path.child(field), detail);
    }
    if let Some(pattern) = schema.pattern.as_deref().filter(|pattern| !pattern.is_empty()) {
        *patterns += 1;
        if *patterns <= MAX_PATTERNS
            && let Some(reason) = compiled.pattern_fault(pattern)
        {
            let detail = format!("must be a valid regular expression, but isn't: {reason}");
            errors.invalid(&path.child("pattern"), pattern, detail);
        }
    }
    if let Some(type_) = schema.type_.as_deref().filter(|type_| !type_.is_empty()) {
        const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
        errors.one_of(&path.child("type"), type_, &TYPES);
    }
    extensions(schema, path, errors);
    each_below(schema, path, &mut |below, path, _| supported(below, compiled, path, patterns, errors));
}

/// Validates the `x-kubernetes-…` extensions.
fn extensions(schema: &JSONSchemaProps, path: &Path<'_>, errors: &mut FieldErrors) {
    let must_be = |expected: &str, of: &str, errors: &mut FieldErrors| {
        let detail = format!("must be {expected} if {of} is specified");
        match schema.type_.as_deref() {
            None | Some("") => errors.required(&path.child("type"), detail),
            Some(type_) if type_ != expected => errors.invalid(&path.child("type"), type_, detail),
            Some(_) => {}
        }
    };
    if schema.x_kubernetes_preserve_unknown_fields == Some(false) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.invalid(&path, &false, "must be true or undefined");
    }
    if let Some(map_type) = &schema.x_kubernetes_map_type {
        must_be("object", "x-kubernetes-map-type", errors);
        errors.one_of(&path.child("x-kubernetes-map-type"), map_type, &["atomic", "granular"]);
    }
    let keys = schema.x_kubernetes_list_map_keys.as_deref().unwrap_or_default();
    let type_path = path.child("x-kubernetes-list-type");
    if let Some(list_type) = &schema.x_kubernetes_list_type {
        must_be("array", "x-kubernetes-list-type", errors);
        errors.one_of(&type_path, list_type, &["atomic", "map", "set"]);
    }
    match schema.x_kubernetes_list_type.as_deref() {
        Some("map") => list_map(schema, keys, path, errors),
        None if !keys.is_empty() => {
            errors.required(&type_path, "must be map if x-kubernetes-list-map-keys is non-empty");
        }
        Some(other) if !keys.is_empty() => {
            errors.invalid(&type_path, other, "must be map if x-kubernetes-list-map-keys is non-empty");
        }
        _ => {}
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        for (field, set) in [
            ("x-kubernetes-preserve-unknown-fields", schema.x_kubernetes_preserve_unknown_fields),
            ("x-kubernetes-embedded-resource", schema.x_kubernetes_embedded_resource),
        ] {
            if set == Some(true) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                errors.invalid(&path.child(field), &true, detail);
            }
        }
    }
}

/// Requires that the keys of a list map are fields of its items that are always present.
fn list_map(schema: &JSONSchemaProps, keys: &[String], path: &Path<'_>, errors: &mut FieldErrors) {
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
    }
    let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items else {
        return errors.required(&path.child("items"), "must have a schema if x-kubernetes-list-type is map");
    };
    let items = path.child("items");
    if item.type_.as_deref() != Some("object") {
        errors.invalid(
            &items.child("type"),
            item.type_.as_deref().unwrap_or_default(),
            "must be object if parent array's x-kubernetes-list-type is map",
        );
    }
    let properties = items.child("properties");
    for (i, key) in keys.iter().enumerate() {
        if keys[..i].contains(key) {
            errors.invalid(&keys_path, &keys.to_vec(), "must not contain duplicate entries");
        }
        let Some(field) = item.properties.as_ref().and_then(|properties| properties.get(key)) else {
            let detail = "entries must all be names of item properties";
            errors.invalid(&keys_path, &keys.to_vec(), detail);
            continue;
        };
        if matches!(field.type_.as_deref(), Some("array" | "object")) {
            errors.invalid(
                &properties.key(key).child("type"),
                field.type_.as_deref().unwrap_or_default(),
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            );
        }
        let is_required = item.required.iter().flatten().any(|required| required == key);
        if !is_required && field.default.is_none() {
            errors.required(
                &properties.key(key).child("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                 property",
            );
        }
    }
}

/// Requires a structural schema: each value has one type, which is stated outside of `allOf`, `anyOf`, `oneOf` and
/// `not`.
fn structural(schema: &JSONSchemaProps, level: Level, path: &Path<'_>, errors: &mut FieldErrors) {
    let type_ = schema.type_.as_deref().unwrap_or_default();
    let preserves = schema.x_kubernetes_preserve_unknown_fields == Some(true);
    let embedded = schema.x_kubernetes_embedded_resource == Some(true);
    let int_or_string = schema.x_kubernetes_int_or_string == Some(true);
    let type_path = path.child("type");
    if type_ == "array" && schema.items.is_none() {
        errors.required(&path.child("items"), "must be specified");
    }
    if embedded && type_ != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        if type_.is_empty() {
            errors.required(&type_path, detail);
        } else {
            errors.invalid(&type_path, type_, detail);
        }
    } else if type_.is_empty() && !int_or_string && !preserves {
        errors.required(
            &type_path,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        );
    }
    if level == Level::Root && !type_.is_empty() && type_ != "object" {
        errors.invalid(&type_path, type_, "must be object at the root");
    }
    if embedded && !preserves && schema.properties.as_ref().is_none_or(std::collections::BTreeMap::is_empty) {
        errors.required(
            &path.child("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        );
    }
    if level == Level::Root || embedded {
        of_every_object(schema, path, errors);
    }
    junctors(schema, int_or_string, path, errors);
    each_below(schema, path, &mut |below, path, place| match place {
        SchemaPosition::Item => structural(below, Level::Item, path, errors),
        SchemaPosition::Field(_) | SchemaPosition::AnyField => structural(below, Level::Field, path, errors),
        SchemaPosition::Junctor => {}
    });
}

/// Validates the schemas of the fields that every object has: `apiVersion`, `kind` and `metadata`.
fn of_every_object(schema: &JSONSchemaProps, path: &Path<'_>, errors: &mut FieldErrors) {
    let field = |name: &str| schema.properties.as_ref().and_then(|properties| properties.get(name));
    let properties = path.child("properties");
    for name in ["apiVersion", "kind"] {
        if let Some(schema) = field(name)
            && schema.type_.as_deref() != Some("string")
        {
            let found = schema.type_.as_deref().unwrap_or_default();
            errors.invalid(&properties.key(name).child("type"), found, "must be string");
        }
    }
    let Some(metadata) = field("metadata") else { return };
    let path = properties.key("metadata");
    if metadata.type_.as_deref() != Some("object") {
        let found = metadata.type_.as_deref().unwrap_or_default();
        errors.invalid(&path.child("type"), found, "must be object");
    }
    let bare = JSONSchemaProps {
        type_: metadata.type_.clone(),
        description: metadata.description.clone(),
        properties: metadata.properties.clone(),
        required: metadata.required.clone(),
        ..JSONSchemaProps::default()
    };
    let mut names = metadata.properties.iter().flatten().map(|(name, _)| name.as_str());
    if bare != *metadata || !names.all(|name| matches!(name, "name" | "generateName")) {
        errors.forbidden(
            &path,
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        );
    }
}

/// Restricts `allOf`, `anyOf`, `oneOf` and `not`: they may only restrict the values of fields that are declared outside
/// of them.
fn junctors(schema: &JSONSchemaProps, int_or_string: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    each_junctor(schema, path, &mut |field, below, path| {
        let of_int_or_string = int_or_string && matches!(field, "anyOf" | "allOf");
        nested(below, schema, of_int_or_string, path, errors);
    });
}

fn nested(
    schema: &JSONSchemaProps,
    outer: &JSONSchemaProps,
    may_have_type: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    // Go clients write an absent text as an empty one.
    let is_given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let forbidden = [
        ("type", is_given(&schema.type_) && !may_have_type, "must be empty to be structural"),
        ("description", is_given(&schema.description), "must be empty to be structural"),
        ("title", is_given(&schema.title), "must be empty to be structural"),
        ("default", schema.default.is_some(), "must be undefined to be structural"),
        ("nullable", schema.nullable == Some(true), "must be false to be structural"),
        (
            "additionalProperties",
            schema.additional_properties.is_some(),
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-preserve-unknown-fields",
            schema.x_kubernetes_preserve_unknown_fields == Some(true),
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            schema.x_kubernetes_embedded_resource == Some(true),
            "must be false to be structural",
        ),
        (
            "x-kubernetes-int-or-string",
            schema.x_kubernetes_int_or_string == Some(true),
            "must be false to be structural",
        ),
        (
            "x-kubernetes-list-type",
            schema.x_kubernetes_list_type.is_some(),
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-list-map-keys",
            schema.x_kubernetes_list_map_keys.is_some(),
            "must be empty to be structural",
        ),
        (
            "x-kubernetes-validations",
            schema.x_kubernetes_validations.is_some(),
            "must be empty to be structural",
        ),
        (
            "x-kubernetes-map-type",
            schema.x_kubernetes_map_type.is_some(),
            "must be undefined to be structural",
        ),
    ];
    for (field, _, detail) in forbidden.into_iter().filter(|(_, found, _)| *found) {
        errors.forbidden(&path.child(field), detail);
    }
    let properties = path.child("properties");
    for (name, below) in schema.properties.iter().flatten() {
        let path = properties.key(name);
        match outer.properties.as_ref().and_then(|properties| properties.get(name)) {
            Some(known) => nested(below, known, false, &path, errors),
            None => errors.required(&path, format!("because it is defined in {path}")),
        }
    }
    if let Some(JSONSchemaPropsOrArray::Schema(below)) = &schema.items {
        let path = path.child("items");
        match &outer.items {
            Some(JSONSchemaPropsOrArray::Schema(known)) => nested(below, known, false, &path, errors),
            _ => errors.required(&path, format!("because it is defined in {path}")),
        }
    }
    each_junctor(schema, path, &mut |_, below, path| nested(below, outer, may_have_type, path, errors));
}

/// Requires that a default is valid, has no field that pruning would remove, and breaks none of the rules.
fn defaults(
    schema: &JSONSchemaProps,
    rules: Option<&SchemaRules>,
    path: &Path<'_>,
    budget: &mut Budget,
    errors: &mut FieldErrors,
) {
    if let Some(default) = &schema.default {
        check_default(schema, rules, &default.0, path, budget, errors);
    }
    each_below(schema, path, &mut |below, path, place| {
        let rules = match place {
            SchemaPosition::Item => rules.and_then(|rules| rules.items.as_deref()),
            SchemaPosition::Field(name) => rules.and_then(|rules| rules.fields.get(name)),
            SchemaPosition::AnyField => rules.and_then(|rules| rules.any_field.as_deref()),
            SchemaPosition::Junctor => return,
        };
        defaults(below, rules, path, budget, errors);
    });
}

fn check_default(
    schema: &JSONSchemaProps,
    rules: Option<&SchemaRules>,
    default: &Value,
    path: &Path<'_>,
    budget: &mut Budget,
    errors: &mut FieldErrors,
) {
    let path = path.child("default");
    // The default is validated as the only field of an object, so that the same rules apply as to any value.
    let holder = JSONSchemaProps {
        properties: Some([("default".to_string(), schema.clone())].collect_map()),
        ..JSONSchemaProps::default()
    };
    let holder = CompiledSchema::new(holder);
    let mut fields = Map::new();
    fields.insert("default".into(), default.clone());
    if let Some(unknown) = holder.prune(&mut fields).first() {
        let field = unknown.trim_start_matches("default").trim_start_matches('.');
        return errors.invalid(&path, default, format!("must not have unknown field {field:?}"));
    }
    let mut found = FieldErrors::default();
    holder.apply_defaults(&mut fields);
    holder.validate(&fields, None, &mut found);
    if let Some(rules) = rules.filter(|_| found.count() == 0) {
        rules.evaluate_default(schema, default, &path, budget, errors);
    }
    for error in found.into_vec() {
        let below = error.path.trim_start_matches("default").trim_start_matches('.').to_string();
        let message = error.message();
        let path_below = path.child(&below);
        let at = if below.is_empty() { &path } else { &path_below };
        errors.invalid_itself(at, message.trim_start_matches("Invalid value: ").to_string());
    }
}

/// The position of a schema in the one that contains it.
enum SchemaPosition<'n> {
    Item,
    Field(&'n str),
    /// `additionalProperties`.
    AnyField,
    Junctor,
}

/// Visits the schemas directly below one.
fn each_below(
    schema: &JSONSchemaProps,
    path: &Path<'_>,
    visit: &mut dyn FnMut(&JSONSchemaProps, &Path<'_>, SchemaPosition<'_>),
) {
    let properties = path.child("properties");
    for (name, below) in schema.properties.iter().flatten() {
        visit(below, &properties.key(name), SchemaPosition::Field(name));
    }
    if let Some(JSONSchemaPropsOrArray::Schema(below)) = &schema.items {
        visit(below, &path.child("items"), SchemaPosition::Item);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(below)) = &schema.additional_properties {
        visit(below, &path.child("additionalProperties"), SchemaPosition::AnyField);
    }
    each_junctor(schema, path, &mut |_, below, path| visit(below, path, SchemaPosition::Junctor));
}

fn each_junctor(
    schema: &JSONSchemaProps,
    path: &Path<'_>,
    visit: &mut dyn FnMut(&'static str, &JSONSchemaProps, &Path<'_>),
) {
    for (field, list) in [("allOf", &schema.all_of), ("anyOf", &schema.any_of), ("oneOf", &schema.one_of)] {
        let list_path = path.child(field);
        for (i, below) in list.iter().flatten().enumerate() {
            visit(field, below, &list_path.index(i));
        }
    }
    if let Some(below) = &schema.not {
        visit("not", below, &path.child("not"));
    }
}
