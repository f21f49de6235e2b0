//! Type errors of expressions for the types that they match.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde_json::{Value, json};

use super::{api, extend};
use crate::Api;

/// The warnings of a policy on Deployments with additions to its spec, each with its field.
fn warnings(api: &Api, more: Value) -> Vec<(String, String)> {
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule("apps", "v1", "deployments")]}});
    extend(&mut spec, more);
    let policy: ValidatingAdmissionPolicy =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    api.check_types(&policy).into_iter().map(|warning| (warning.field_ref, warning.warning)).collect()
}

fn rule(group: &str, version: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": [version], "operations": ["*"], "resources": [resource]})
}

fn rules(rules: &[Value]) -> Value {
    json!({"resourceRules": rules})
}

#[test]
fn type_errors_for_the_matched_types_are_reported_by_field_api_16() {
    let api = api();
    let text = "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo == 'bar'\n | ......^\n";
    for (more, expected) in [
        (
            json!({"validations": [{"expression": "object.spec.replicas > 1 && has(object.spec.template.spec.hostNetwork)"}]}),
            vec![],
        ),
        (
            json!({"validations": [{"expression": "object.foo == 'bar'"}]}),
            vec![("spec.validations[0].expression", text)],
        ),
        (
            json!({"validations": [{"expression": "object.spec.replicas > 1"}, {"expression": "object.spec.replicas == 'x'"}]}),
            vec![(
                "spec.validations[1].expression",
                "found no matching overload for '_==_' applied to '(int, string)'",
            )],
        ),
        (
            json!({"validations": [{"expression": "object.spec.template.spec.containers.all(c, c.imag != 'x')"}]}),
            vec![("spec.validations[0].expression", "undefined field 'imag'")],
        ),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "oldObject.bar"}]}),
            vec![("spec.validations[0].messageExpression", "undefined field 'bar'")],
        ),
        (
            json!({"validations": [{"expression": "object.metadata.labels['a'] == 'x' && request.operation == 'CREATE' \
                && namespaceObject.metadata.name == 'n' && authorizer.path('/x').check('get').allowed()"}]}),
            vec![],
        ),
        // A faulty variable causes no further errors where it is used; a missing one does.
        (
            json!({"variables": [{"name": "bad", "expression": "object.foo == 'str'"}],
                "validations": [{"expression": "variables.bad == object.spec.replicas"}]}),
            vec![],
        ),
        (
            json!({"variables": [{"name": "name", "expression": "'something'"}],
                "validations": [{"expression": "variables.name == object.spec.replicas"}]}),
            vec![(
                "spec.validations[0].expression",
                "found no matching overload for '_==_' applied to '(string, int)'",
            )],
        ),
        (
            json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "validations": [{"expression": "params != null && params.data.x == 'y'"}, {"expression": "params.spec == 1"}]}),
            vec![("spec.validations[1].expression", "undefined field 'spec'")],
        ),
    ] {
        let found = warnings(&api, more.clone());
        assert_eq!(found.len(), expected.len(), "{more}: {found:?}");
        for ((field, warning), (expected_field, text)) in found.iter().zip(expected) {
            assert_eq!(field, expected_field);
            assert!(
                warning.contains(text) && warning.starts_with("apps/v1, Kind=Deployment: ERROR: "),
                "{warning}\n{text}"
            );
        }
    }
}

#[test]
fn types_are_taken_from_rules_without_wildcards_and_ten_at_most_api_16() {
    let api = api();
    let validations = json!([{"expression": "object.foo == 'bar'"}]);
    let warnings_for = |matched: Value| -> Vec<String> {
        let found = warnings(&api, json!({"matchConstraints": matched, "validations": validations}));
        let lines = found.iter().flat_map(|(_, warning)| warning.lines());
        lines.filter_map(|line| line.split_once(": ERROR").map(|(type_, _)| type_.to_string())).collect()
    };
    assert!(
        warnings_for(rules(&[
            rule("*", "v1", "pods"),
            rule("apps", "*", "deployments"),
            rule("", "v1", "*")
        ]))
        .is_empty()
    );
    assert!(
        warnings_for(rules(&[rule("", "v1", "pods/status"), rule("nothing.test", "v1", "things")]))
            .is_empty()
    );
    assert_eq!(
        warnings_for(rules(&[
            rule("", "v1", "services"),
            rule("apps", "v1", "deployments"),
            rule("", "v1", "pods"),
            rule("", "v1", "pods")
        ])),
        ["/v1, Kind=Pod", "/v1, Kind=Service", "apps/v1, Kind=Deployment"]
    );
    let mut many = rule("", "v1", "pods");
    many["resources"] = json!([
        "configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes", "pods", "podtemplates",
        "replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services"
    ]);
    assert_eq!(warnings_for(rules(&[many])).len(), 10);
    // More combinations than could be enumerated, none of which exists.
    let names = |of: &str| -> Value { (0..1_000).map(|i| format!("{of}{i}")).collect() };
    let mut endless = rule("", "v1", "pods");
    (endless["apiGroups"], endless["apiVersions"], endless["resources"]) =
        (names("g"), names("v"), names("r"));
    assert!(warnings_for(rules(&[endless.clone()])).is_empty());
    assert!(
        warnings_for(rules(&[endless, rule("", "v1", "pods")])).is_empty(),
        "combinations beyond the limit are not checked"
    );
}

/// A policy may repeat a long expression hundreds of times; its status stays an object that can be stored.
#[test]
fn warnings_are_bounded_api_16() {
    let long = format!("object.foo == '{}'", "x".repeat(4000));
    let validations: Vec<Value> = (0..60).map(|_| json!({"expression": long})).collect();
    let mut many = rule("", "v1", "pods");
    many["resources"] = json!(["configmaps", "pods", "secrets", "services"]);
    let found = warnings(&api(), json!({"matchConstraints": rules(&[many]), "validations": validations}));
    let bytes: usize = found.iter().map(|(field, warning)| field.len() + warning.len()).sum();
    assert!((100_000..300_000).contains(&bytes), "{bytes}");
}
