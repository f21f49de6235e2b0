//! Definitions of custom resources: their versions and schemas.

use super::*;

/// Returns a definition with these fields in its version, and these at the root of its schema.
fn definition(version: &str, schema: &str) -> String {
    format!(
        "metadata: {{name: gadgets.made.test}}
spec:
  group: made.test
  scope: Namespaced
  names: {{plural: gadgets, kind: Gadget}}
  versions:
  - {{name: v1, served: true, storage: true, {version} schema: {{openAPIV3Schema: {{type: object, {schema}}}}}}}
status: {{storedVersions: [v1]}}"
    )
}

#[test]
fn a_versions_warning_is_a_short_line_api_14() {
    let at = |value: &str, detail: &str| {
        format!("spec.versions[0].deprecationWarning: Invalid value: \"{value}\": {detail}")
    };
    let long = "x".repeat(257);
    for (version, expected) in [
        ("deprecated: true, deprecationWarning: 'use v2',".to_string(), vec![]),
        (
            "deprecationWarning: 'use v2',".into(),
            vec![at("use v2", "can only be set for deprecated versions")],
        ),
        ("deprecated: true, deprecationWarning: '',".into(), vec![at("", "must not be an empty string")]),
        (
            format!("deprecated: true, deprecationWarning: {long},"),
            vec![at(&long, "must be <= 256 characters long")],
        ),
        (
            "deprecated: true, deprecationWarning: \"a\\nb\",".into(),
            vec![at(
                "a\\nb",
                "must only contain printable UTF-8 characters; non-printable character found at index 1",
            )],
        ),
    ] {
        let text = definition(&version, "");
        assert_eq!(
            messages(&validate_create(&object(Kind::CustomResourceDefinition, &text))),
            expected,
            "{text}"
        );
    }
}

#[test]
fn sets_and_maps_have_items_with_distinct_keys_api_14() {
    let list = |rest: &str| definition("", &format!("properties: {{l: {{type: array, {rest}}}}}"));
    let at = |text: &str| format!("spec.validation.openAPIV3Schema.properties[l].{text}");
    let atomic = "must be atomic as item of a list with x-kubernetes-list-type=set";
    for (text, expected) in [
        (list("x-kubernetes-list-type: set, items: {type: string}"), vec![]),
        (list("x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic}"), vec![]),
        (list("x-kubernetes-list-type: set, items: {type: array, items: {type: string}}"), vec![]),
        (
            list("x-kubernetes-list-type: set, items: {type: object}"),
            vec![at(&format!("items.x-kubernetes-map-type: Invalid value: null: {atomic}"))],
        ),
        (
            list(
                "x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: set, items: {type: string}}",
            ),
            vec![at(&format!("items.x-kubernetes-list-type: Invalid value: \"set\": {atomic}"))],
        ),
        (
            list("x-kubernetes-list-type: set, items: {type: string, nullable: true}"),
            vec![at("items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set")],
        ),
        (
            list(
                "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string, nullable: true}}}",
            ),
            vec![at(
                "items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            )],
        ),
        (
            list(
                "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, k, z], items: {type: object, required: [k], properties: {k: {type: string}}}",
            ),
            vec![
                at(
                    "x-kubernetes-list-map-keys: Invalid value: [\"k\",\"k\",\"z\"]: must not contain duplicate entries",
                ),
                at(
                    "x-kubernetes-list-map-keys: Invalid value: [\"k\",\"k\",\"z\"]: entries must all be names of item properties",
                ),
            ],
        ),
    ] {
        assert_eq!(
            messages(&validate_create(&object(Kind::CustomResourceDefinition, &text))),
            expected,
            "{text}"
        );
    }
    // A definition that was stored before the rule existed can be changed in other fields.
    let old = list("x-kubernetes-list-type: set, items: {type: object}");
    let new = old.replace("kind: Gadget", "kind: Gadget, shortNames: [gd]");
    check_change(Kind::CustomResourceDefinition, &[(&old, &new, &[])]);
}

#[test]
fn the_root_of_a_schema_leaves_the_status_and_metadata_alone_api_14() {
    let status = "subresources: {status: {}},";
    let root = "spec.validation.openAPIV3Schema: Invalid value: only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
    let of = "properties: {spec: {type: object}, status: {type: object}}, required: [spec]";
    check(
        Kind::CustomResourceDefinition,
        &[
            (&definition(status, of), &[]),
            (&definition(status, "x-kubernetes-preserve-unknown-fields: true"), &[]),
            (&definition("", &format!("maxProperties: 5, {of}")), &[]),
            (&definition(status, &format!("maxProperties: 5, {of}")), &[root]),
            (&definition(status, &format!("anyOf: [{{required: [spec]}}], {of}")), &[root]),
            (
                &definition(
                    "",
                    "properties: {kind: {type: string, default: Gadget}, spec: {type: string, default: a}}",
                ),
                &[
                    "spec.validation.openAPIV3Schema.properties[kind].default: Forbidden: must not be set in top-level kind",
                ],
            ),
            (
                &definition(
                    "",
                    "properties: {metadata: {type: object, properties: {name: {type: string, default: a}}}}",
                ),
                &[
                    "spec.validation.openAPIV3Schema.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
                ],
            ),
        ],
    );
}

/// Kubernetes' `ValidateDefaults`: rules are evaluated for a default as for an update from the same value, and then as
/// for a new value.
#[test]
fn a_default_obeys_the_rules_of_its_schema_api_14() {
    let of = |schema: &str| definition("", &format!("properties: {{a: {{{schema}}}}}"));
    let rule = |rule: &str| format!("x-kubernetes-validations: [{{rule: '{rule}'}}]");
    let number =
        |default: &str, text: &str| of(&format!("type: integer, default: {default}, {}", rule(text)));
    let fields = |default: &str, text: &str| {
        let b = format!("b: {{type: integer, {}}}", rule(text));
        of(&format!("type: object, default: {default}, properties: {{{b}}}"))
    };
    let list = |item: &str, text: &str| {
        of(&format!("type: array, items: {{type: integer, default: {item}, {}}}", rule(text)))
    };
    let first_only = "x-kubernetes-validations: [{rule: oldSelf.hasValue(), optionalOldSelf: true}]";
    let at = |path: &str, value: &str, rule: &str| {
        format!(
            "spec.validation.openAPIV3Schema.properties[a]{path}: Invalid value: {value}: failed rule: {rule}"
        )
    };
    for (text, expected) in [
        (number("11", "self > 10"), vec![]),
        (number("5", "self > 10"), vec![at(".default", "5", "self > 10")]),
        (number("5", "self != oldSelf"), vec![at(".default", "5", "self != oldSelf")]),
        (fields("{b: 11}", "self > 10"), vec![]),
        (fields("{b: 5}", "self > 10"), vec![at(".default.b", "5", "self > 10")]),
        (list("11", "self > 10"), vec![]),
        (list("5", "self > 10"), vec![at(".items.default", "5", "self > 10")]),
        (
            of(&format!("type: integer, default: 5, {first_only}")),
            vec![at(".default", "5", "oldSelf.hasValue()")],
        ),
    ] {
        assert_eq!(
            messages(&validate_create(&object(Kind::CustomResourceDefinition, &text))),
            expected,
            "{text}"
        );
    }
    // A definition that was stored before the rule was evaluated can be changed in other fields.
    let old = number("5", "self > 10");
    let new = old.replace("kind: Gadget", "kind: Gadget, shortNames: [gd]");
    check_change(Kind::CustomResourceDefinition, &[(&old, &new, &[])]);
}

#[test]
fn a_version_that_was_stored_stays_api_14() {
    let text = definition("", "").replace("storedVersions: [v1]", "storedVersions: [v1, v0]");
    check(
        Kind::CustomResourceDefinition,
        &[(
            &text,
            &[
                "status.storedVersions[1]: Invalid value: \"v0\": missing from spec.versions; v0 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions",
            ],
        )],
    );
}
