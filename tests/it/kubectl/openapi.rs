//! Definitions and their objects with a kubectl that parses OpenAPI version 2 itself: the steps of upstream's
//! conformance suite (`crd_publish_openapi.go`), and lists of definitions (API-6).

use serde_json::{Value, json};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{needs, old_kubectl};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

fn run(instance: &Instance, arguments: &[&str]) -> Result<String, String> {
    let output = instance.kubectl_of(&old_kubectl().unwrap(), arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = text(&output.stdout) + &text(&output.stderr);
    if output.status.success() { Ok(all) } else { Err(all) }
}

fn definition(plural: &str, kind: &str, schema: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.openapi.test")},
        "spec": {"group": "openapi.test", "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural.trim_end_matches('s'), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// Upstream's three specs on definitions that preserve unknown fields, with client-side validation as well.
#[test]
fn an_old_kubectl_takes_unknown_fields_where_a_definition_preserves_them_api_6() {
    needs!(Kubectl);
    needs!(OldKubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0"]);
    let waldo = json!({
        "spec": {"description": "Specification of Waldo", "type": "object", "properties": {
            "dummy": {"description": "Dummy property.", "type": "object"}}},
        "status": {"description": "Status of Waldo", "type": "object", "properties": {
            "bars": {"description": "List of Bars.", "type": "array", "items": {"type": "object"}}}}});
    let mut nested = waldo.clone();
    nested["spec"][PRESERVE] = true.into();
    let root = "preserve-unknown-properties at root for Testing";
    let in_nested = "preserve-unknown-properties in nested field for Testing";
    for (plural, kind, schema, fields, explained) in [
        (
            "empties",
            "Empty",
            json!({"type": "object", PRESERVE: true}),
            json!({"a": {"b": [{"c": "d"}]}}),
            "<empty>",
        ),
        (
            "roots",
            "Root",
            json!({"description": root, PRESERVE: true, "type": "object", "properties": waldo}),
            json!({"a": {"b": [{"c": "d"}]}}),
            "Root",
        ),
        (
            "nests",
            "Nest",
            json!({"description": in_nested, "type": "object", "properties": nested}),
            json!({"spec": {"a": null, "b": [{"c": "d"}]}}),
            in_nested,
        ),
    ] {
        let (crd, object) = (home.path(&format!("{plural}-crd.json")), home.path(&format!("{plural}.json")));
        std::fs::write(&crd, definition(plural, kind, &schema).to_string()).unwrap();
        let mut made =
            json!({"kind": kind, "apiVersion": "openapi.test/v1", "metadata": {"name": "test-cr"}});
        made.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        std::fs::write(&object, made.to_string()).unwrap();
        let (crd, object) = (crd.to_str().unwrap(), object.to_str().unwrap());
        run(&instance, &["apply", "-f", crd]).unwrap();
        run(&instance, &["wait", "--for=condition=Established", "-f", crd]).unwrap();
        let name = format!("{plural}/test-cr");
        for verb in ["create", "apply"] {
            // kubectl validates these itself, by the schema that it read.
            let client_side = ["--validate=true", "--dry-run=client"];
            let arguments = [&[verb, "-f", object], &client_side[..]].concat();
            // kubectl caches discovery for a while.
            wait_for("discovery", || run(&instance, &arguments).ok());
            run(&instance, &[verb, "-f", object]).unwrap();
            run(&instance, &["delete", &name]).unwrap();
        }
        let text = run(&instance, &["explain", plural]).unwrap();
        assert!(text.contains(explained), "{plural}: {text}");
    }
}

/// The union types of schemas have no type of their own in version 2, and any kubectl validates a list by it.
#[test]
fn a_list_of_definitions_with_items_and_additional_properties_is_applied_api_6() {
    needs!(Kubectl);
    needs!(OldKubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0"]);
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": true}}}},
        "map": {"type": "object", "additionalProperties": {"type": "string", "default": "x"}},
        "any": {"type": "object", "additionalProperties": true},
        "choice": {"type": "string", "enum": ["a", "b"], "default": "a", "example": "b"}}}}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        definition("firsts", "First", &schema), definition("seconds", "Second", &schema)]});
    let manifest = home.path("list.json");
    std::fs::write(&manifest, list.to_string()).unwrap();
    let manifest = manifest.to_str().unwrap();
    run(&instance, &["apply", "--validate=true", "-f", manifest]).unwrap();
    instance.kubectl(&["delete", "-f", manifest]);
    instance.kubectl(&["apply", "--validate=true", "-f", manifest]);
}
