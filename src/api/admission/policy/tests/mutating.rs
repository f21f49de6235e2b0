//! Mutations of written objects.

use serde_json::{Value, json};

use super::{api, create, extend};
use crate::{Api, ApiError};
use object::{Key, Kind};

/// Creates a policy of this name on pods, with additions to its spec, and a binding of the same name.
fn configure(api: &Api, name: &str, spec: Value) {
    let mut policy = json!({"metadata": {"name": name}, "spec": {"reinvocationPolicy": "Never", "matchConstraints": {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}}});
    extend(&mut policy["spec"], spec);
    create(api, Kind::MutatingAdmissionPolicy, policy).unwrap();
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    create(api, Kind::MutatingAdmissionPolicyBinding, binding).unwrap();
}

fn apply(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]})
}

fn patch(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]})
}

/// Creates a pod with a container; returns it as stored.
fn create_pod(api: &Api) -> Result<Value, ApiError> {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "pause", "args": ["a"]}]}});
    create(api, Kind::Pod, pod)?;
    Ok(api.get(Kind::Pod, &Key::new("n", "p")).unwrap().to_value())
}

/// Configurations are merged as by server-side apply; JSON patches as by any patch.
#[tokio::test(start_paused = true)]
async fn objects_are_changed_on_their_way_api_16() {
    for (spec, pointer, expected) in [
        (
            apply(
                "Object{metadata: Object.metadata{labels: {'team': namespaceObject.metadata.labels.team}}}",
            ),
            "/metadata/labels",
            json!({"app": "web", "team": "a"}),
        ),
        (
            apply(
                "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'mesh', image: 'proxy', \
                 restartPolicy: 'Always'}]}}",
            ),
            "/spec/initContainers/0/image",
            json!("proxy"),
        ),
        (
            apply(
                "Object{spec: Object.spec{containers: object.spec.containers.map(c, \
                   Object.spec.containers{name: c.name, imagePullPolicy: 'Never'})}}",
            ),
            "/spec/containers/0",
            json!({"name": "c", "image": "pause", "imagePullPolicy": "Never"}),
        ),
        (
            apply(
                "has(object.spec.priorityClassName) ? Object{} : Object{spec: Object.spec{?nodeName: optional.none(), \
                   terminationGracePeriodSeconds: 7}}",
            ),
            "/spec/terminationGracePeriodSeconds",
            json!(7),
        ),
        (
            patch(
                "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), value: 'd'}, \
                   JSONPatch{op: 'replace', path: '/spec/containers/0/image', value: object.spec.containers[0].image + ':1'}]",
            ),
            "/metadata/labels/a.b~1c",
            json!("d"),
        ),
        (
            patch(
                "[JSONPatch{op: 'add', path: '/spec/tolerations', value: [Object.spec.tolerations{key: 'k', operator: 'Exists'}]}]",
            ),
            "/spec/tolerations/0/key",
            json!("k"),
        ),
        // A failed test leaves everything unchanged.
        (
            patch(
                "[JSONPatch{op: 'test', path: '/metadata/labels/app', value: 'db'}, \
                   JSONPatch{op: 'remove', path: '/metadata/labels/app'}]",
            ),
            "/metadata/labels",
            json!({"app": "web"}),
        ),
    ] {
        let api = api();
        configure(&api, "p", spec.clone());
        let pod = create_pod(&api).unwrap_or_else(|error| panic!("{spec}: {error}"));
        let found = pod.pointer(pointer).unwrap_or_else(|| panic!("{spec}: no {pointer} in {pod}"));
        match (found, &expected) {
            (Value::Object(found), Value::Object(expected_fields)) => {
                for (name, value) in expected_fields {
                    assert_eq!(found.get(name), Some(value), "{spec}");
                }
            }
            (found, expected) => assert_eq!(found, expected, "{spec}"),
        }
    }
}

/// A mutation that fails is a refusal, unless failures are ignored.
#[tokio::test(start_paused = true)]
async fn a_mutation_that_fails_is_a_refusal_api_16() {
    for (spec, expected) in [
        (
            apply("Object{metadata: Object.metadata{labels: {'team': object.metadata.labels.none}}}"),
            "no such key: none",
        ),
        (
            apply("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['b']}]}}"),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
             .spec.containers[0].args",
        ),
        (
            apply("Object{spec: Object.spec{colour: 'red'}}"),
            "error applying patch: failed to convert patch object to typed object: .spec.colour: field not declared in \
             schema",
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/metadata/annotations/a'}]"),
            "JSONPath: remove operation does not apply: doc is missing path: /metadata/annotations/a: ",
        ),
        (patch("[{'op': 'hop'}]"), "JSONPath: error decoding patch: "),
        (
            patch("[JSONPatch{op: 'replace', path: '/metadata/namespace', value: 'other'}]"),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let api = api();
        configure(&api, "p", spec.clone());
        let error = create_pod(&api).unwrap_err();
        let text = error.to_string();
        let whole = format!("policy 'p' with binding 'p' denied request: {expected}");
        assert!(text.starts_with(&whole), "{text}\n{whole}");
        let status = error.to_status();
        assert_eq!((status.code, status.reason.as_deref()), (Some(403), Some("Invalid")));
        let api = super::api();
        let mut lenient = spec;
        lenient["failurePolicy"] = json!("Ignore");
        configure(&api, "p", lenient);
        assert!(create_pod(&api).is_ok());
    }
}

/// A policy sees the changes of later policies only if it requests reinvocation.
#[tokio::test(start_paused = true)]
async fn a_policy_may_see_what_later_ones_have_made_api_16() {
    let count =
        "Object{metadata: Object.metadata{annotations: {'seen': string(size(object.metadata.labels))}}}";
    let label = "Object{metadata: Object.metadata{labels: {'more': 'x'}}}";
    for (reinvocation, expected) in [("Never", "1"), ("IfNeeded", "2")] {
        let api = api();
        let mut first = apply(count);
        first["reinvocationPolicy"] = json!(reinvocation);
        configure(&api, "a", first);
        configure(&api, "b", apply(label));
        let pod = create_pod(&api).unwrap();
        assert_eq!(pod.pointer("/metadata/annotations/seen"), Some(&json!(expected)), "{reinvocation}");
    }
}

/// Mutated objects are treated like a client's: defaulted, validated, and checked by the validating policies.
#[tokio::test(start_paused = true)]
async fn mutated_objects_are_validated_api_16() {
    let api = api();
    configure(&api, "p", apply("Object{spec: Object.spec{restartPolicy: 'Sometimes'}}"));
    let error = create_pod(&api).unwrap_err().to_string();
    assert!(error.contains("spec.restartPolicy: Unsupported value: \"Sometimes\""), "{error}");
}

/// Invalid expressions are not stored.
#[tokio::test(start_paused = true)]
async fn faulty_mutations_are_refused_when_they_are_written_api_16() {
    let api = api();
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}]);
    for (spec, expected) in [
        (json!({}), "spec.mutations: Required value: mutations must contain at least one item"),
        (json!({"reinvocationPolicy": ""}), "spec.reinvocationPolicy: Required value"),
        (
            json!({"mutations": [{"patchType": "Other"}]}),
            "spec.mutations[0].patchType: Unsupported value: \"Other\"",
        ),
        (
            json!({"mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}]}),
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
        ),
        (apply("{'a': 1}"), "cel expression must evaluate to a Object"),
        (apply("Object{spec: Object.status{}}"), "expected type of field 'spec' is 'Object.spec'"),
        (apply("Pod{}"), "undeclared reference to 'Pod'"),
        (patch("JSONPatch{op: 'add'}"), "cel expression must evaluate to a list(dyn)"),
        (patch("[JSONPatch{verb: 'add'}]"), "undefined field 'verb'"),
    ] {
        let mut policy = json!({"metadata": {"name": "p"}, "spec": {"reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": rules}}});
        extend(&mut policy["spec"], spec.clone());
        let error = create(&api, Kind::MutatingAdmissionPolicy, policy).unwrap_err().to_string();
        assert!(error.contains(expected), "{spec}: {error}");
    }
}
