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
    Template::new(
        Kind::CustomResourceDefinition,
        &list("…"),
        "spec.validation.openAPIV3Schema.properties[l]",
    )
    .check(
        r#"
x-kubernetes-list-type: set, items: {type: string}
x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic}
x-kubernetes-list-type: set, items: {type: array, items: {type: string}}
x-kubernetes-list-type: set, items: {type: object}
  ! .items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set
x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  ! .items.x-kubernetes-list-type: Invalid value: "set": must be atomic as item of a list with x-kubernetes-list-type=set
x-kubernetes-list-type: set, items: {type: string, nullable: true}
  ! .items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set
x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string, nullable: true}}}
  ! .items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable
x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, k, z], items: {type: object, required: [k], properties: {k: {type: string}}}
  ! .x-kubernetes-list-map-keys: Invalid value: ["k","k","z"]: must not contain duplicate entries
  ! .x-kubernetes-list-map-keys: Invalid value: ["k","k","z"]: entries must all be names of item properties
"#,
    );
    // A definition that was stored before the rule existed can be changed in other fields.
    let old = list("x-kubernetes-list-type: set, items: {type: object}");
    Template::new(Kind::CustomResourceDefinition, &old.replace("kind: Gadget", "kind: Gadget…"), "")
        .check_change(
            r"
<empty>
-> , shortNames: [gd]
",
        );
}

#[test]
fn the_root_of_a_schema_leaves_the_status_and_metadata_alone_api_14() {
    let root = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
    Template::new(Kind::CustomResourceDefinition, &definition("subresources: {status: {}},", "…"), "").check(
        &r"
properties: {spec: {type: object}, status: {type: object}}, required: [spec]
x-kubernetes-preserve-unknown-fields: true
maxProperties: 5, properties: {spec: {type: object}, status: {type: object}}, required: [spec]
  ! spec.validation.openAPIV3Schema: Invalid value: <root-fields>
anyOf: [{required: [spec]}], properties: {spec: {type: object}, status: {type: object}}, required: [spec]
  ! spec.validation.openAPIV3Schema: Invalid value: <root-fields>
"
        .replace("<root-fields>", root),
    );
    Template::new(Kind::CustomResourceDefinition, &definition("", "…"), "spec.validation.openAPIV3Schema")
        .check(
            r"
maxProperties: 5, properties: {spec: {type: object}, status: {type: object}}, required: [spec]
properties: {kind: {type: string, default: Gadget}, spec: {type: string, default: a}}
  ! .properties[kind].default: Forbidden: must not be set in top-level kind
properties: {metadata: {type: object, properties: {name: {type: string, default: a}}}}
  ! .properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata
",
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
    Template::new(
        Kind::CustomResourceDefinition,
        &of("…"),
        "spec.validation.openAPIV3Schema.properties[a]",
    )
    .check(
        r"
type: integer, default: 11, x-kubernetes-validations: [{rule: 'self > 10'}]
type: integer, default: 5, x-kubernetes-validations: [{rule: 'self > 10'}]
  ! .default: Invalid value: 5: failed rule: self > 10
type: integer, default: 5, x-kubernetes-validations: [{rule: 'self != oldSelf'}]
  ! .default: Invalid value: 5: failed rule: self != oldSelf
type: object, default: {b: 11}, properties: {b: {type: integer, x-kubernetes-validations: [{rule: 'self > 10'}]}}
type: object, default: {b: 5}, properties: {b: {type: integer, x-kubernetes-validations: [{rule: 'self > 10'}]}}
  ! .default.b: Invalid value: 5: failed rule: self > 10
type: array, items: {type: integer, default: 11, x-kubernetes-validations: [{rule: 'self > 10'}]}
type: array, items: {type: integer, default: 5, x-kubernetes-validations: [{rule: 'self > 10'}]}
  ! .items.default: Invalid value: 5: failed rule: self > 10
type: integer, default: 5, x-kubernetes-validations: [{rule: oldSelf.hasValue(), optionalOldSelf: true}]
  ! .default: Invalid value: 5: failed rule: oldSelf.hasValue()
",
    );
    // A definition that was stored before the rule was evaluated can be changed in other fields.
    let old = number("5", "self > 10");
    Template::new(Kind::CustomResourceDefinition, &old.replace("kind: Gadget", "kind: Gadget…"), "")
        .check_change(
            r"
<empty>
-> , shortNames: [gd]
",
        );
}

#[test]
fn a_version_that_was_stored_stays_api_14() {
    Template::new(
        Kind::CustomResourceDefinition,
        &definition("", "").replace("storedVersions: [v1]", "storedVersions: […]"),
        "status.storedVersions",
    )
    .check(
        r#"
v1, v0
  ! [1]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions
"#,
    );
}
