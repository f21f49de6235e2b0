//! Validations.

use serde_json::{Value, json};

use super::{api, create, extend};
use crate::warning_recorder::WarningRecorder;
use crate::{Api, DeleteOptions, Part, WriteOptions};
use object::{Key, Kind, Object};

/// Creates a policy `p` on config maps and its binding `b`, with additions to their specs.
fn configure(api: &Api, spec: Value, binding: Value) {
    let mut policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]}}});
    extend(&mut policy["spec"], spec);
    create(api, Kind::ValidatingAdmissionPolicy, policy).unwrap();
    let mut bound =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    extend(&mut bound["spec"], binding);
    create(api, Kind::ValidatingAdmissionPolicyBinding, bound).unwrap();
}

fn map(data: &Value) -> Value {
    json!({"metadata": {"name": "m", "namespace": "n", "labels": {"app": "x"}}, "data": data})
}

/// Returns the error when a config map with this data is created; empty if it is accepted.
fn create_error(api: &Api, data: &Value) -> String {
    create(api, Kind::ConfigMap, map(data)).map_or_else(|error| error.to_string(), |_| String::new())
}

const DENIED: &str =
    "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";

/// Validations that pass, validations that fail, and their messages.
#[tokio::test(start_paused = true)]
async fn expressions_decide_what_may_be_written_api_16() {
    for (spec, data, expected) in [
        (json!({"validations": [{"expression": "object.data.a == 'x'"}]}), json!({"a": "x"}), ""),
        (
            json!({"validations": [{"expression": "object.data.a == 'x'"}]}),
            json!({"a": "y"}),
            "failed expression: object.data.a == 'x'",
        ),
        (
            json!({"validations": [{"expression": "object.data.b == 'x'"}]}),
            json!({"a": "y"}),
            "expression 'object.data.b == 'x'' resulted in error: no such key: b",
        ),
        (
            json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.b == 'x'"}]}),
            json!({"a": "y"}),
            "",
        ),
        (
            json!({"validations": [{"expression": "false", "message": " no ", "messageExpression": "'not ' + object.data.a"}]}),
            json!({"a": "y"}),
            "not y",
        ),
        (
            json!({"validations": [{"expression": "false", "message": "no", "messageExpression": "object.data.b"}]}),
            json!({"a": "y"}),
            "no",
        ),
        (
            json!({"variables": [{"name": "all", "expression": "object.data"}, {"name": "a", "expression": "variables.all.a"}],
                "validations": [{"expression": "variables.a.size() < 3", "messageExpression": "variables.a + ' is long'"}]}),
            json!({"a": "yyy"}),
            "yyy is long",
        ),
        // A variable that is not read is not evaluated.
        (
            json!({"variables": [{"name": "none", "expression": "object.data.none"}],
                "validations": [{"expression": "has(object.data.none) ? variables.none == 'x' : true"}]}),
            json!({"a": "y"}),
            "",
        ),
        (
            json!({"matchConditions": [{"name": "big", "expression": "object.data.size() > 1"}],
                "validations": [{"expression": "false"}]}),
            json!({"a": "y"}),
            "",
        ),
        (
            json!({"matchConditions": [{"name": "broken", "expression": "object.data.b == 'x'"}],
                "validations": [{"expression": "true"}]}),
            json!({"a": "y"}),
            "expression 'object.data.b == 'x'' resulted in error: no such key: b",
        ),
        (
            json!({"validations": [{"expression": "request.operation == 'CREATE' && request.resource.resource == 'configmaps' \
                && request.namespace == 'n' && oldObject == null && namespaceObject.metadata.labels.team == 'a' \
                && !request.dryRun && request.userInfo.username == 'system:apiserver'"}]}),
            json!({}),
            "",
        ),
        (
            json!({"validations": [{"expression": "authorizer.serviceAccount('n', 'missing').group('').resource('secrets')\
                .namespace('n').check('get').allowed()", "message": "not authorized"}]}),
            json!({}),
            "not authorized",
        ),
        (
            json!({"validations": [{"expression": "authorizer.requestResource.check('create').allowed() \
                && !authorizer.path('/healthz').check('get').errored()"}]}),
            json!({}),
            "",
        ),
        (
            json!({"validations": [{"expression": "['a', 'b', 'c'].all(p, authorizer.path('/' + p).check('get').allowed())"}]}),
            json!({}),
            "…operation cancelled: actual cost limit exceeded",
        ),
        // An expensive expression is stopped.
        (
            json!({"validations": [{"expression": "['a', 'b', 'c', 'd'].all(a, [1, 2, 3, 4, 5, 6, 7, 8, 9].map(b, \
                [1, 2, 3, 4, 5, 6, 7, 8, 9].map(c, [1, 2, 3, 4, 5, 6, 7, 8, 9].map(d, [1, 2, 3, 4, 5, 6, 7, 8, 9].map(e, \
                [1, 2, 3, 4, 5, 6, 7, 8, 9].map(f, b * c * d * e * f))))).size() > 0)", "message": "no"}]}),
            json!({}),
            "…operation cancelled: actual cost limit exceeded",
        ),
    ] {
        let api = api();
        configure(&api, spec.clone(), json!({}));
        let message = create_error(&api, &data);
        match expected.strip_prefix('…') {
            Some(end) => assert!(message.ends_with(end), "{spec}: {message}"),
            None if expected.is_empty() => assert_eq!(message, "", "{spec}"),
            None => assert_eq!(message, format!("{DENIED}{expected}"), "{spec}"),
        }
    }
}

/// A policy's refusals reveal its parameters: its author must have permission to read them.
#[tokio::test(start_paused = true)]
async fn the_author_of_a_policy_must_have_read_access_to_its_parameters_api_16() {
    let api = api();
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {"paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false"}]}});
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"name": "s", "namespace": "n", "parameterNotFoundAction": "Deny"}}});
    let by_user = |kind: Kind, value: &Value| {
        let user = Some(std::sync::Arc::new(crate::identity::User::named("eve", Vec::new())));
        let options = WriteOptions { user, ..WriteOptions::default() };
        api.create(Object::from_value(kind, value.clone()).unwrap(), &options)
            .map_err(|error| error.to_string())
    };
    let refused = by_user(Kind::ValidatingAdmissionPolicy, &policy).unwrap_err();
    assert!(
        refused.contains("user \"eve\" does not have \"get\" permission on the object \"*\""),
        "{refused}"
    );
    create(&api, Kind::ValidatingAdmissionPolicy, policy.clone()).unwrap();
    let refused = by_user(Kind::ValidatingAdmissionPolicyBinding, &binding).unwrap_err();
    assert!(refused.contains("on the object \"n/s\" of the resource \"secrets\""), "{refused}");
    let role = json!({"metadata": {"name": "r", "namespace": "n"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"], "verbs": ["get"]}]});
    create(&api, Kind::Role, role).unwrap();
    let bound = json!({"metadata": {"name": "r", "namespace": "n"}, "subjects": [{"kind": "User", "name": "eve"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}});
    create(&api, Kind::RoleBinding, bound).unwrap();
    by_user(Kind::ValidatingAdmissionPolicyBinding, &binding).unwrap();
}

/// The cost of an authorizer check includes its strings.
#[tokio::test(start_paused = true)]
async fn long_questions_to_the_authorizer_end_api_16() {
    let api = api();
    let many = "[1, 2, 3, 4, 5, 6, 7].all(a, [1, 2, 3, 4, 5, 6, 7].map(b, authorizer.group(object.data.a).resource('x'))\
                .size() > 0)";
    configure(&api, json!({"validations": [{"expression": many}]}), json!({}));
    let message = create_error(&api, &json!({"a": "x".repeat(600_000)}));
    assert!(message.ends_with("operation cancelled: actual cost limit exceeded"), "{message}");
}

/// The response as clients get it.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_of_its_reason_api_16() {
    for (reason, expected) in [
        (None, (422, "Invalid")),
        (Some("Forbidden"), (403, "Forbidden")),
        (Some("RequestEntityTooLarge"), (413, "RequestEntityTooLarge")),
    ] {
        let api = api();
        let mut validation = json!({"expression": "false"});
        if let Some(reason) = reason {
            validation["reason"] = json!(reason);
        }
        configure(&api, json!({"validations": [validation]}), json!({}));
        let status = create(&api, Kind::ConfigMap, map(&json!({}))).unwrap_err().to_status();
        let details = status.details.unwrap();
        assert_eq!((status.code.unwrap(), status.reason.as_deref().unwrap()), expected);
        assert_eq!((details.kind.as_deref(), details.name.as_deref()), (Some("configmaps"), Some("m")));
        let message =
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: false";
        assert_eq!(details.causes.unwrap()[0].message.as_deref(), Some(message));
    }
}

/// Bindings define the scope of a policy, its parameters, and its actions.
#[tokio::test(start_paused = true)]
async fn bindings_say_where_a_policy_holds_api_16() {
    let never = json!({"validations": [{"expression": "false"}]});
    let of_params = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "validations": [{"expression": "params == null || object.data.a in params.stringData"}]});
    let limited = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "size(object.data.a) <= int(params.data.max)"}]});
    let by_name =
        |name: &str| json!({"paramRef": {"name": name, "namespace": "n", "parameterNotFoundAction": "Deny"}});
    let by_label = |value: &str| json!({"paramRef": {"selector": {"matchLabels": {"limit": value}}, "parameterNotFoundAction": "Allow"}});
    for (spec, binding, expected) in [
        (&never, json!({"matchResources": {"namespaceSelector": {"matchLabels": {"team": "b"}}}}), ""),
        (&never, json!({"matchResources": {"objectSelector": {"matchLabels": {"app": "y"}}}}), ""),
        (
            &never,
            json!({"matchResources": {"objectSelector": {"matchLabels": {"app": "x"}}}}),
            "failed expression: false",
        ),
        (
            &never,
            json!({"matchResources": {"excludeResourceRules": [
                {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"], "resourceNames": ["m"]}]}}),
            "",
        ),
        (&never, json!({"policyName": "another"}), ""),
        (&never, json!({"validationActions": ["Audit"]}), ""),
        (&of_params, json!({}), ""),
        (&limited, by_name("limits"), "failed expression: size(object.data.a) <= int(params.data.max)"),
        (
            &limited,
            by_name("none"),
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
        (&limited, by_label("big"), ""),
        (&limited, by_label("small"), "failed expression: size(object.data.a) <= int(params.data.max)"),
        (&limited, by_label("none"), ""),
        (
            &json!({"paramKind": {"apiVersion": "a.test/v1", "kind": "Limit"}, "validations": [{"expression": "true"}]}),
            by_name("x"),
            "failed to configure binding: failed to find resource referenced by paramKind: 'a.test/v1, Kind=Limit'",
        ),
    ] {
        let api = api();
        for (name, label, max) in [("limits", "small", "2"), ("more", "big", "9")] {
            let limit = json!({"metadata": {"name": name, "namespace": "n", "labels": {"limit": label}}, "data": {"max": max}});
            create(&api, Kind::ConfigMap, limit).unwrap();
        }
        configure(&api, spec.clone(), binding.clone());
        let expected = if expected.is_empty() { String::new() } else { format!("{DENIED}{expected}") };
        assert_eq!(create_error(&api, &json!({"a": "xxx"})), expected, "{spec} {binding}");
    }
}

/// Warnings reach clients that create and clients that delete.
#[tokio::test(start_paused = true)]
async fn a_binding_may_warn_api_16() {
    let api = api();
    configure(
        &api,
        json!({"validations": [{"expression": "request.operation != 'DELETE' && object == null"}]}),
        json!({"validationActions": ["Warn", "Audit"]}),
    );
    let expected = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: \
                    request.operation != 'DELETE' && object == null";
    assert_eq!(create(&api, Kind::ConfigMap, map(&json!({}))).unwrap(), [expected]);
    let options = DeleteOptions { warnings: WarningRecorder::for_listener(), ..DeleteOptions::default() };
    api.delete(Kind::ConfigMap, &Key::new("n", "m"), &options).unwrap();
    assert_eq!(options.warnings.take_warnings(), [expected]);
}

/// Updates, subresources and deletions are checked if rules name them; a change or deletion of the policy applies at
/// once.
#[tokio::test(start_paused = true)]
async fn a_policy_holds_from_the_write_that_makes_it_to_the_one_that_ends_it_api_16() {
    let api = api();
    create(&api, Kind::ConfigMap, map(&json!({"a": "1"}))).unwrap();
    configure(
        &api,
        json!({"validations": [{"expression": "request.operation == 'DELETE' ? oldObject.data.a != '1' : \
            request.operation != 'UPDATE' || object.data.a > oldObject.data.a"}]}),
        json!({}),
    );
    let key = Key::new("n", "m");
    let set = |value: &str| {
        let options = WriteOptions::default();
        api.change(Kind::ConfigMap, &key, Part::Main, &options, |map| {
            let mut next = map.to_value();
            next["data"]["a"] = json!(value);
            Ok(Object::from_value(Kind::ConfigMap, next).unwrap())
        })
        .map(drop)
    };
    assert!(set("0").unwrap_err().to_string().starts_with(DENIED));
    assert!(api.delete(Kind::ConfigMap, &key, &DeleteOptions::default()).is_err());
    set("2").unwrap();
    // Policies do not apply to themselves, or a faulty one could not be repaired.
    let policy = Key::new("", "p");
    api.delete(Kind::ValidatingAdmissionPolicy, &policy, &DeleteOptions::default()).unwrap();
    set("0").unwrap();
}

/// Invalid expressions are not stored.
#[tokio::test(start_paused = true)]
async fn faulty_expressions_are_refused_when_they_are_written_api_16() {
    let api = api();
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]);
    for (spec, expected) in [
        (json!({}), "spec.matchConstraints: Required value"),
        (
            json!({"matchConstraints": {"resourceRules": rules}, "validations": []}),
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
        ),
        (
            json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "object.a +"}]}),
            "spec.validations[0].expression: Invalid value: \"object.a +\": compilation failed: ",
        ),
        (
            json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "1"}]}),
            "cel expression must evaluate to a bool",
        ),
        (
            json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "params.a == 1"}]}),
            "undeclared reference to 'params'",
        ),
        (
            json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "variables.b"}],
                "variables": [{"name": "a", "expression": "true"}]}),
            "undefined field 'b'",
        ),
        (
            json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "request.usrInfo == ''"}]}),
            "undefined field 'usrInfo'",
        ),
        (
            json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}],
                "variables": [{"name": "in", "expression": "true"}]}),
            "spec.variables[0].name: Invalid value: \"in\": name is not a valid CEL identifier",
        ),
        (
            json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true", "reason": "Odd"}]}),
            "spec.validations[0].reason: Unsupported value: \"Odd\"",
        ),
        (
            json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}],
                "paramKind": {"apiVersion": "a/b/c", "kind": "K"}}),
            "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        ),
    ] {
        let policy = json!({"metadata": {"name": "p"}, "spec": spec});
        let error = create(&api, Kind::ValidatingAdmissionPolicy, policy).unwrap_err().to_string();
        assert!(error.contains(expected), "{spec}: {error}");
    }
    // Nested variables together are limited to the depth of one expression.
    let chain: Vec<Value> = (0..120)
        .map(|i| json!({"name": format!("v{i}"), "expression": if i == 0 { "1".into() } else { format!("variables.v{} + 1", i - 1) }}))
        .collect();
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "variables.v119 > 0"}],
        "variables": chain});
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    let error = create(&api, Kind::ValidatingAdmissionPolicy, policy).unwrap_err().to_string();
    assert!(error.contains("expression nests deeper than 100"), "{error}");
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny", "Warn"],
        "paramRef": {"namespace": "x"}}});
    let error = create(&api, Kind::ValidatingAdmissionPolicyBinding, binding).unwrap_err().to_string();
    assert!(
        error.contains("spec.paramRef: Required value: one of name or selector must be specified"),
        "{error}"
    );
    assert!(error.contains("must not contain both Deny and Warn"), "{error}");
}
