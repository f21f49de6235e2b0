//! Tables of permissions by the default roles and by changing bindings.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use serde_json::{Value, json};

use super::*;
use crate::test_api;
use crate::{DeleteOptions, WriteOptions};
use object::{Key, Object};

const NAMESPACES: [&str; 5] = ["a", "b", "kube-system", "kube-public", "kube-node-lease"];

pub(super) fn api() -> Api {
    let api = test_api::api(&NAMESPACES);
    api.reconcile_default_roles().unwrap();
    api
}

pub(super) fn create(api: &Api, kind: Kind, value: Value) {
    as_user(api, None, kind, value).unwrap();
}

pub(super) fn as_user(api: &Api, user: Option<User>, kind: Kind, value: Value) -> Result<(), ApiError> {
    let options = WriteOptions { user: user.map(std::sync::Arc::new), ..WriteOptions::default() };
    api.create(Object::from_value(kind, value).unwrap(), &options).map(drop)
}

#[expect(clippy::needless_pass_by_value, reason = "subjects are written where they stand")]
fn bind(api: &Api, namespace: Option<&str>, name: &str, role: (&str, &str), subject: Value) {
    let kind = if namespace.is_some() { Kind::RoleBinding } else { Kind::ClusterRoleBinding };
    let binding = json!({"metadata": {"name": name, "namespace": namespace},
        "roleRef": {"kind": role.0, "name": role.1}, "subjects": [subject]});
    create(api, kind, binding);
}

pub(super) fn user(name: &str) -> User {
    User::named(name, vec!["system:authenticated".into()])
}

/// The decision on a request in text form: `VERB GROUP/RESOURCE[/SUB] [in NAMESPACE] [named NAME]`, or `VERB
/// /PATH`.
pub(super) fn may(api: &Api, user: &User, line: &str) -> Decision {
    let words: Vec<&str> = line.split(' ').collect();
    let after = |word: &str| words.iter().position(|w| *w == word).map_or("", |i| words[i + 1]);
    let on = match words[1].split_once('/') {
        Some(("", _)) => RequestTarget::Path(words[1]),
        Some((group, resource)) => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            RequestTarget::Resource(ResourceAttributes {
                group: if group == "core" { "" } else { group },
                resource,
                subresource,
                name: after("named"),
                namespace: after("in"),
                on_node: after("on"),
            })
        }
        None => panic!("{line}"),
    };
    api.decide(&Attributes { user, verb: words[0], on })
}

pub(super) fn check(api: &Api, user: &User, lines: &[(&str, bool)]) {
    for (line, expected) in lines {
        let decision = may(api, user, line);
        assert_eq!(decision.allowed, *expected, "{}: {line}: {}", user.name, decision.reason);
    }
}

#[tokio::test]
async fn the_default_roles_allow_what_kubernetes_do_sec_4() {
    let api = api();
    let role = |name| ("ClusterRole", name);
    bind(&api, None, "reads", role("system:aggregate-to-view"), json!({"kind": "User", "name": "viewer"}));
    bind(
        &api,
        Some("a"),
        "edits",
        role("system:aggregate-to-edit"),
        json!({"kind": "Group", "name": "team"}),
    );
    let account = json!({"kind": "ServiceAccount", "name": "robot"});
    bind(&api, Some("a"), "robot", role("system:aggregate-to-view"), account);

    check(
        &api,
        &user("stranger"),
        &[
            ("get /healthz", true),
            ("get /api", true),
            ("get /apis/apps/v1", true),
            ("get /openapi/v3/apis/apps/v1", true),
            ("get /metrics", false),
            ("post /healthz", false),
            ("create authorization.k8s.io/selfsubjectaccessreviews", true),
            ("create authorization.k8s.io/subjectaccessreviews", false),
            ("list core/pods in a", false),
        ],
    );
    check(
        &api,
        &User::anonymous(),
        &[("get /version", true), ("get /api", false), ("list core/pods in a", false)],
    );
    check(
        &api,
        &user("viewer"),
        &[
            ("list core/pods", true),
            ("watch core/pods in b", true),
            ("get core/pods/log in b named p", true),
            ("get core/secrets in b named s", false),
            ("get core/pods/exec in b named p", false),
            ("create core/pods in b", false),
            ("get core/namespaces in b named b", true),
            ("list core/nodes", false),
            ("deletecollection core/pods in a", false),
        ],
    );
    let member = User::named("jane", vec!["system:authenticated".into(), "team".into()]);
    check(
        &api,
        &member,
        &[
            ("create core/pods in a", true),
            ("create core/pods/exec in a named p", true),
            ("deletecollection apps/deployments in a", true),
            ("update apps/deployments/scale in a named d", true),
            ("update apps/deployments/status in a named d", false),
            ("get core/secrets in a named s", true),
            ("create core/pods in b", false),
            ("create core/pods", false),
            ("create rbac.authorization.k8s.io/rolebindings in a", false),
            ("update core/resourcequotas in a named q", false),
        ],
    );
    check(
        &api,
        &user("system:serviceaccount:a:robot"),
        &[("list core/pods in a", true), ("list core/pods in b", false), ("list core/secrets in a", false)],
    );
    let owner = User::owner();
    check(&api, &owner, &[("delete core/nodes named n", true), ("get /anything", true)]);
    check(
        &api,
        &user("system:kube-scheduler"),
        &[
            ("create core/pods/binding in a named p", true),
            ("update coordination.k8s.io/leases in kube-system named kube-scheduler", true),
            ("update coordination.k8s.io/leases in a named kube-scheduler", true),
            ("update coordination.k8s.io/leases in a named other", false),
            // The user may write any lease in the namespace of its leader election.
            ("update coordination.k8s.io/leases in kube-system named other", true),
            ("create core/pods in a", false),
        ],
    );
}

#[tokio::test]
async fn names_wildcards_and_subresources_mean_what_kubernetes_means_sec_4() {
    let api = api();
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["*"]},
        {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["get"]},
        {"apiGroups": ["*"], "resources": ["jobs", "pods/log"], "verbs": ["list", "get"]},
    ]);
    create(&api, Kind::Role, json!({"metadata": {"name": "r", "namespace": "a"}, "rules": rules}));
    bind(&api, Some("a"), "b", ("Role", "r"), json!({"kind": "User", "name": "u"}));
    let paths = json!([{"nonResourceURLs": ["/logs/*", "/exact"], "verbs": ["get"]}]);
    create(&api, Kind::ClusterRole, json!({"metadata": {"name": "paths"}, "rules": paths}));
    bind(&api, None, "paths", ("ClusterRole", "paths"), json!({"kind": "User", "name": "u"}));
    check(
        &api,
        &user("u"),
        &[
            ("get core/secrets in a named mine", true),
            ("get core/secrets in a named other", false),
            // With a field selector on the name, a list has one.
            ("list core/secrets in a named mine", true),
            ("list core/secrets in a", false),
            ("create core/secrets in a", false),
            ("deletecollection core/secrets in a", false),
            ("get core/secrets in b named mine", false),
            ("get apps/deployments/scale in a named d", true),
            ("get apps/deployments in a named d", false),
            ("list batch/jobs in a", true),
            ("get core/pods/log in a named p", true),
            ("get core/pods in a named p", false),
            ("get /logs/x/y", true),
            ("get /logs", false),
            ("get /exact", true),
            ("get /exact/more", false),
        ],
    );
}

#[tokio::test]
async fn a_decision_follows_the_writes_of_bindings_and_roles_sec_4() {
    let api = api();
    let line = "list core/pods in a";
    let u = user("u");
    assert_eq!(may(&api, &u, line), Decision::default());
    bind(&api, Some("a"), "b", ("Role", "r"), json!({"kind": "User", "name": "u"}));
    let missing = "RBAC: role.rbac.authorization.k8s.io \"r\" not found";
    assert_eq!(may(&api, &u, line), Decision { allowed: false, reason: missing.into() });
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    create(&api, Kind::Role, json!({"metadata": {"name": "r", "namespace": "a"}, "rules": rules}));
    let reason = "RBAC: allowed by RoleBinding \"b/a\" of Role \"r\" to User \"u\"";
    assert_eq!(may(&api, &u, line), Decision { allowed: true, reason: reason.into() });
    let key = Key::new("a", "b");
    api.modify::<k8s_openapi::api::rbac::v1::RoleBinding>(&key, |binding| {
        binding.subjects.as_mut().unwrap()[0].name = "v".into();
        Ok(())
    })
    .unwrap();
    assert!(!may(&api, &u, line).allowed && may(&api, &user("v"), line).allowed);
    api.delete(Kind::RoleBinding, &key, &DeleteOptions::default()).unwrap();
    assert!(!may(&api, &user("v"), line).allowed);
    // The index is rebuilt after watch history was compacted.
    bind(&api, Some("a"), "again", ("Role", "r"), json!({"kind": "User", "name": "u"}));
    api.compact(api.revision());
    assert!(may(&api, &u, line).allowed);
}

#[tokio::test]
async fn users_cannot_grant_permissions_they_lack_sec_4() {
    let api = api();
    let all = json!([{"apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings", "clusterroles"], "verbs": ["create", "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
    create(&api, Kind::ClusterRole, json!({"metadata": {"name": "grants"}, "rules": all}));
    bind(&api, None, "grants", ("ClusterRole", "grants"), json!({"kind": "User", "name": "u"}));
    let rule = |resource: &str, verbs: &[&str]| json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}]);
    let role =
        |name: &str, rules: Value| json!({"metadata": {"name": name, "namespace": "a"}, "rules": rules});
    let try_role =
        |value| as_user(&api, Some(user("u")), Kind::Role, value).map_err(|error| error.to_string());
    assert_eq!(try_role(role("held", rule("pods", &["get"]))), Ok(()));
    assert_eq!(
        try_role(role("more", rule("pods", &["get", "delete", "watch"]))),
        Err("roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"u\" (groups=[\"system:authenticated\"]) is \
             attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}"
            .into())
    );
    let many: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let huge = json!([{"apiGroups": many, "resources": many, "verbs": many}]);
    assert!(try_role(role("huge", huge)).is_err(), "billions of permissions are not looked at");

    let binding = |role: (&str, &str)| {
        let value = json!({"metadata": {"name": "x", "namespace": "a"},
            "roleRef": {"kind": role.0, "name": role.1}, "subjects": [{"kind": "User", "name": "v"}]});
        as_user(&api, Some(user("u")), Kind::RoleBinding, value)
    };
    assert!(
        binding(("ClusterRole", "cluster-admin"))
            .unwrap_err()
            .to_string()
            .contains("{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}")
    );
    assert!(binding(("Role", "missing")).unwrap_err().is_not_found());
    assert_eq!(binding(("Role", "held")), Ok(()));

    let aggregating = json!({"metadata": {"name": "agg"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let refused = as_user(&api, Some(user("u")), Kind::ClusterRole, aggregating.clone()).unwrap_err();
    assert!(refused.to_string().ends_with("must have cluster-admin privileges to use an aggregationRule"));
    assert_eq!(as_user(&api, Some(User::owner()), Kind::ClusterRole, aggregating), Ok(()));

    // The verbs `escalate` and `bind` permit it explicitly.
    let trusted = json!([{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"]},
        {"apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["view"], "verbs": ["bind"]}]);
    create(&api, Kind::ClusterRole, json!({"metadata": {"name": "trusted"}, "rules": trusted}));
    bind(&api, None, "trusted", ("ClusterRole", "trusted"), json!({"kind": "User", "name": "t"}));
    assert_eq!(as_user(&api, Some(user("t")), Kind::Role, role("any", rule("secrets", &["*"]))), Ok(()));
    let view = |role: &str| {
        json!({"metadata": {"name": format!("to-{role}"), "namespace": "a"},
        "roleRef": {"kind": "ClusterRole", "name": role}})
    };
    assert_eq!(as_user(&api, Some(user("t")), Kind::RoleBinding, view("view")), Ok(()));
    assert!(as_user(&api, Some(user("t")), Kind::RoleBinding, view("cluster-admin")).is_err());
}

/// Regression: with the right to update ClusterRoles, a user could label `cluster-admin` so that `edit` included its
/// rules, or end the aggregation of a role.
#[tokio::test]
async fn labels_of_a_role_need_its_permissions_sec_4() {
    let api = api();
    let updates = json!([{"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["update"]}]);
    create(&api, Kind::ClusterRole, json!({"metadata": {"name": "updates"}, "rules": updates}));
    let aggregates = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    create(
        &api,
        Kind::ClusterRole,
        json!({"metadata": {"name": "aggregates"}, "aggregationRule": aggregates}),
    );
    bind(&api, None, "updates", ("ClusterRole", "updates"), json!({"kind": "User", "name": "u"}));
    let update = |user: User, name: &str, edit: fn(&mut ClusterRole)| {
        let mut role = Object::clone(&api.get(Kind::ClusterRole, &Key::new("", name)).unwrap());
        role.change::<ClusterRole, _>(edit).unwrap();
        let options = WriteOptions { user: Some(std::sync::Arc::new(user)), ..WriteOptions::default() };
        api.update(&role, crate::Part::Main, &options).map(drop).map_err(|error| error.code())
    };
    let label: fn(&mut ClusterRole) = |role| {
        let labels = role.metadata.labels.get_or_insert_default();
        labels.insert("rbac.authorization.k8s.io/aggregate-to-edit".into(), "true".into());
    };
    let disown: fn(&mut ClusterRole) = |role| role.aggregation_rule = None;
    let finalize: fn(&mut ClusterRole) = |role| role.metadata.finalizers = Some(vec!["example.com/f".into()]);
    assert_eq!(update(user("u"), "cluster-admin", label), Err(403));
    assert_eq!(update(user("u"), "aggregates", disown), Err(403));
    assert_eq!(update(user("u"), "updates", label), Ok(()));
    assert_eq!(update(user("u"), "cluster-admin", finalize), Ok(()));
    assert_eq!(update(User::owner(), "cluster-admin", label), Ok(()));
}

#[test]
fn rule_coverage_is_computed_exactly_sec_4() {
    let rule = |text: &str| -> PolicyRule {
        let part = |name: &str| {
            let found = text.split("; ").find_map(|part| part.strip_prefix(&format!("{name}: ")));
            found.map(|list| list.split(' ').map(|w| if w == "core" { "" } else { w }.to_string()).collect())
        };
        PolicyRule {
            verbs: part("verbs").unwrap_or_default(),
            api_groups: part("groups"),
            resources: part("resources"),
            resource_names: part("names"),
            non_resource_urls: part("urls"),
        }
    };
    for (held, requested, missing) in [
        ("verbs: *; groups: *; resources: *", "verbs: get; groups: apps; resources: x/y; names: n", ""),
        (
            "verbs: get; groups: core; resources: pods",
            "verbs: get list; groups: core; resources: pods pods/log",
            "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]} \
             {APIGroups:[\"\"], Resources:[\"pods/log\"], Verbs:[\"get\" \"list\"]}",
        ),
        (
            "verbs: get; groups: core; resources: pods; names: a",
            "verbs: get; groups: core; resources: pods",
            "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}",
        ),
        (
            "verbs: get; groups: core; resources: pods; names: *",
            "verbs: get; groups: core; resources: pods; names: a",
            "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"get\"]}",
        ),
        ("verbs: get; groups: apps; resources: */scale", "verbs: get; groups: apps; resources: a/scale", ""),
        (
            "verbs: get; urls: /a/*",
            "verbs: get; urls: /a/b /c",
            "{NonResourceURLs:[\"/c\"], Verbs:[\"get\"]}",
        ),
    ] {
        let actual: Vec<String> =
            rules::covers(&[rule(held)], &[rule(requested)]).iter().map(rules::format_rule).collect();
        assert_eq!(actual.join(" "), missing, "{held} -> {requested}");
    }
}

#[tokio::test]
async fn default_roles_get_back_what_they_lack_and_keep_what_was_added_sec_4() {
    let api = api();
    let revision = api.revision();
    api.reconcile_default_roles().unwrap();
    assert_eq!(api.revision(), revision, "complete roles are not written again");
    let (discovery, basic) = (Key::new("", "system:discovery"), Key::new("", "system:basic-user"));
    let added: PolicyRule =
        serde_json::from_value(json!({"nonResourceURLs": ["/x"], "verbs": ["get"]})).unwrap();
    api.modify::<k8s_openapi::api::rbac::v1::ClusterRole>(&discovery, |role| {
        role.rules = Some(vec![added.clone()]);
        role.metadata.labels = None;
        Ok(())
    })
    .unwrap();
    api.modify::<k8s_openapi::api::rbac::v1::ClusterRole>(&basic, |role| {
        role.rules = None;
        let annotations = role.metadata.annotations.as_mut().unwrap();
        annotations.insert("rbac.authorization.kubernetes.io/autoupdate".into(), "false".into());
        Ok(())
    })
    .unwrap();
    api.modify::<k8s_openapi::api::rbac::v1::ClusterRoleBinding>(&discovery, |binding| {
        binding.subjects = None;
        Ok(())
    })
    .unwrap();
    api.reconcile_default_roles().unwrap();
    check(
        &api,
        &user("u"),
        &[
            ("get /apis", true),
            ("get /x", true),
            ("create authorization.k8s.io/selfsubjectaccessreviews", false),
        ],
    );
    let role = api.get_as::<k8s_openapi::api::rbac::v1::ClusterRole>(&discovery).unwrap();
    assert_eq!(role.metadata.labels.as_ref().unwrap()["kubernetes.io/bootstrapping"], "rbac-defaults");
}

#[tokio::test]
async fn a_certificate_request_names_its_creator_and_needs_a_permitted_approver_api_15() {
    use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    let api = api();
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "verbs": ["*"],
        "resources": ["certificatesigningrequests", "certificatesigningrequests/approval"]}]);
    create(&api, Kind::ClusterRole, json!({"metadata": {"name": "asks"}, "rules": rules}));
    bind(&api, None, "asks", ("ClusterRole", "asks"), json!({"kind": "User", "name": "jane"}));
    let approver = "system:certificates.k8s.io:kube-apiserver-client-approver";
    bind(&api, None, "approves", ("ClusterRole", approver), json!({"kind": "User", "name": "ann"}));
    let request = |name: &str, group: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "jane");
        params.distinguished_name.push(DnType::OrganizationName, group);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let bytes = k8s_openapi::ByteString(pem.into_bytes());
        json!({"metadata": {"name": name}, "spec": {"request": bytes, "usages": ["client auth"], "username": "root",
            "groups": ["system:masters"], "signerName": "kubernetes.io/kube-apiserver-client"}})
    };
    let kind = Kind::CertificateSigningRequest;
    let refused = as_user(&api, Some(user("jane")), kind, request("m", "system:masters")).unwrap_err();
    assert!(refused.to_string().ends_with("signer with system:masters group is not allowed"), "{refused}");
    assert_eq!(as_user(&api, Some(user("jane")), kind, request("r", "team")), Ok(()));
    let key = Key::new("", "r");
    let stored = api.get_as::<CertificateSigningRequest>(&key).unwrap();
    assert_eq!(stored.spec.username.as_deref(), Some("jane"), "whatever the request says");
    assert_eq!(stored.spec.groups, Some(vec!["system:authenticated".to_string()]));

    let write = |name: &str, part: crate::Part, status: Value| {
        let options = WriteOptions { user: Some(std::sync::Arc::new(user(name))), ..WriteOptions::default() };
        let changed = api.change(kind, &key, part, &options, |current| {
            let mut next = current.clone();
            let request = next.get_mut::<CertificateSigningRequest>().unwrap();
            request.status = serde_json::from_value(status.clone()).unwrap();
            request.spec.signer_name = "example.com/other".into();
            Ok(next)
        });
        changed.map(drop).map_err(|error| error.to_string())
    };
    let key_pair = KeyPair::generate().unwrap();
    let pem = CertificateParams::default().self_signed(&key_pair).unwrap().pem();
    let issued = k8s_openapi::ByteString(pem.into_bytes());
    let approved = json!({"conditions": [{"type": "Approved", "status": "True"}], "certificate": issued});
    assert_eq!(
        write("jane", crate::Part::Approval, approved.clone()),
        Err("certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to approve requests \
             with signerName \"kubernetes.io/kube-apiserver-client\""
            .into())
    );
    let by_status = write("ann", crate::Part::Status, approved.clone()).unwrap_err();
    assert!(by_status.contains("may not add or remove the conditions Approved and Denied"), "{by_status}");
    let signs = write("ann", crate::Part::Status, json!({"certificate": issued})).unwrap_err();
    assert!(signs.contains("not permitted to sign"), "{signs}");
    assert_eq!(write("ann", crate::Part::Approval, approved), Ok(()));
    let stored = api.get_as::<CertificateSigningRequest>(&key).unwrap();
    let status = stored.status.as_ref().unwrap();
    assert_eq!(
        (status.conditions.as_ref().unwrap().len(), &status.certificate),
        (1, &None),
        "approval signs nothing"
    );
    assert_eq!(stored.spec.signer_name, "kubernetes.io/kube-apiserver-client");
    let none = write("ann", crate::Part::Approval, json!({})).unwrap_err();
    assert!(none.contains("updates may not remove a condition of type \"Approved\""), "{none}");
}
