//! Rules × bindings → subjects, case by case (CON-16).

use serde_json::{Value, json};

use super::Attributes;
use super::who_can::{PartialList, Policy, Subject, WhoCanReport, subjects_allowed};

/// Parses `get core pods`, `list apps deployments/scale web@shop`: verb, group, resource, then name and namespace.
fn attributes(text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').collect();
    let (resource, subresource) = match words[2].split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (words[2], None),
    };
    let (name, namespace) =
        words.get(3).map_or(("", ""), |word| word.split_once('@').expect("NAME@NAMESPACE"));
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Attributes {
        verb: words[0].to_owned(),
        group: if words[1] == "core" { String::new() } else { words[1].to_owned() },
        resource: resource.to_owned(),
        subresource,
        name: some(name),
        namespace: some(namespace),
    }
}

fn objects<K: serde::de::DeserializeOwned>(list: Value) -> PartialList<K> {
    PartialList { objects: serde_json::from_value(list).expect("objects"), unread: None }
}

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
}

fn role(namespace: Option<&str>, name: &str, rules: Value) -> Value {
    let mut role = json!({"metadata": {"name": name, "namespace": namespace}});
    role["rules"] = rules;
    role
}

fn binding(namespace: Option<&str>, name: &str, role: (&str, &str), subjects: Value) -> Value {
    let mut binding = json!({
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
    });
    binding["subjects"] = subjects;
    binding
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"})
}

fn texts(found: &WhoCanReport) -> Vec<String> {
    let line = |(subject, grants): (&Subject, &Vec<_>)| {
        let grants: Vec<String> = grants.iter().map(ToString::to_string).collect();
        format!("{subject}: {}", grants.join("; "))
    };
    found.subjects.iter().map(line).collect()
}

/// The result of one rule in a ClusterRole: `yes`, `no`, or the names to which it is limited.
#[test]
fn a_rule_allows_what_the_authorizer_would_con_16() {
    for (question, rule, answer) in [
        ("get core pods", rule(&["get"], &[""], &["pods"], &[]), "yes"),
        ("get core pods", rule(&["list"], &[""], &["pods"], &[]), "no"),
        ("get core pods", rule(&["get"], &["apps"], &["pods"], &[]), "no"),
        ("get core pods", rule(&["get"], &[], &["pods"], &[]), "no"),
        ("get core pods", rule(&["get"], &[""], &["services", "pods"], &[]), "yes"),
        ("get core pods", rule(&["*"], &["*"], &["*"], &[]), "yes"),
        ("frob x.io widgets", rule(&["*"], &["x.io"], &["*"], &[]), "yes"),
        // Only a rule for everything permits everything.
        ("* core pods", rule(&["get", "list"], &[""], &["pods"], &[]), "no"),
        ("* * *", rule(&["*"], &["*"], &["pods"], &[]), "no"),
        ("* * *", rule(&["*"], &["*"], &["*"], &[]), "yes"),
        // Subresources are resources of their own.
        ("get core pods/log", rule(&["get"], &[""], &["pods"], &[]), "no"),
        ("get core pods", rule(&["get"], &[""], &["pods/log"], &[]), "no"),
        ("get core pods/log", rule(&["get"], &[""], &["pods/log"], &[]), "yes"),
        ("get core pods/log", rule(&["get"], &[""], &["*"], &[]), "yes"),
        ("update apps deployments/scale", rule(&["update"], &["*"], &["*/scale"], &[]), "yes"),
        ("update apps deployments/status", rule(&["update"], &["*"], &["*/scale"], &[]), "no"),
        ("update apps deployments", rule(&["update"], &["*"], &["*/scale"], &[]), "no"),
        // RBAC has no such wildcard.
        ("get core pods/log", rule(&["get"], &[""], &["pods/*"], &[]), "no"),
        // Names.
        ("get core secrets a@shop", rule(&["get"], &[""], &["secrets"], &["a", "b"]), "yes"),
        ("get core secrets c@shop", rule(&["get"], &[""], &["secrets"], &["a", "b"]), "no"),
        ("get core secrets c@shop", rule(&["get"], &[""], &["secrets"], &["*"]), "no"),
        ("get core secrets c@shop", rule(&["get"], &[""], &["secrets"], &[]), "yes"),
        ("get core secrets", rule(&["get"], &[""], &["secrets"], &["b", "a"]), "a, b"),
        ("list core secrets", rule(&["get"], &[""], &["secrets"], &["b", "a"]), "no"),
    ] {
        let policy = Policy {
            cluster_roles: objects(json!([role(None, "r", json!([rule]))])),
            cluster_role_bindings: objects(json!([binding(
                None,
                "b",
                ("ClusterRole", "r"),
                json!([user("ann")])
            )])),
            ..Policy::default()
        };
        let found = texts(&subjects_allowed(&attributes(question), &policy));
        let grant = "User ann: ClusterRoleBinding b → ClusterRole r";
        let expected = match answer {
            "no" => Vec::new(),
            "yes" => vec![grant.to_owned()],
            names => vec![format!("{grant}, only {names}")],
        };
        assert_eq!(found, expected, "{question} by {rule}");
    }
}

fn shop() -> Policy {
    let pods = || json!([rule(&["get"], &[""], &["pods"], &[])]);
    Policy {
        cluster_roles: objects(json!([
            role(None, "admin", json!([rule(&["*"], &["*"], &["*"], &[])])),
            role(None, "view", pods()),
            role(None, "empty", Value::Null),
        ])),
        cluster_role_bindings: objects(json!([
            binding(
                None,
                "admins",
                ("ClusterRole", "admin"),
                json!([
                    {"kind": "Group", "name": "system:masters"}, user("ann"), user("ann"),
                    // Without a namespace it matches no account here, and an unknown kind matches no subject.
                    {"kind": "ServiceAccount", "name": "lost"}, {"kind": "Robot", "name": "r2"},
                ])
            ),
            binding(None, "wrong", ("Role", "reader"), json!([user("eve")])),
            binding(None, "empty", ("ClusterRole", "empty"), json!([user("eve")])),
            binding(None, "vacant", ("ClusterRole", "view"), Value::Null),
            binding(None, "gone", ("ClusterRole", "deleted"), json!([user("eve")])),
        ])),
        roles: objects(json!([
            role(
                Some("shop"),
                "reader",
                json!([
                    rule(&["get"], &[""], &["pods"], &["web-1"]),
                    rule(&["get"], &[""], &["pods"], &["web-2"]),
                ])
            ),
            role(Some("other"), "view", pods()),
        ])),
        role_bindings: objects(json!([
            binding(
                Some("shop"),
                "readers",
                ("Role", "reader"),
                json!([
                    {"kind": "ServiceAccount", "name": "ci"}, {"kind": "ServiceAccount", "name": "ci", "namespace": "build"},
                ])
            ),
            binding(Some("shop"), "viewers", ("ClusterRole", "view"), json!([user("ann"), user("bob")])),
            // A Role of that name exists in another namespace only.
            binding(Some("shop"), "astray", ("Role", "view"), json!([user("eve")])),
            binding(Some("other"), "elsewhere", ("ClusterRole", "view"), json!([user("eve")])),
        ])),
    }
}

#[test]
fn subjects_come_with_every_binding_that_lets_them_con_16() {
    let found = subjects_allowed(&attributes("get core pods @shop"), &shop());
    assert_eq!(
        texts(&found),
        [
            "Group system:masters: ClusterRoleBinding admins → ClusterRole admin",
            "ServiceAccount build/ci: RoleBinding shop/readers → Role shop/reader, only web-1, web-2",
            "ServiceAccount shop/ci: RoleBinding shop/readers → Role shop/reader, only web-1, web-2",
            "User ann: ClusterRoleBinding admins → ClusterRole admin; RoleBinding shop/viewers → ClusterRole view",
            "User bob: RoleBinding shop/viewers → ClusterRole view",
        ]
    );
    assert_eq!(found.unresolved, 0, "a role that is not there is no riddle when all were read");

    let found = subjects_allowed(&attributes("get core pods web-2@shop"), &shop());
    assert_eq!(texts(&found)[1], "ServiceAccount build/ci: RoleBinding shop/readers → Role shop/reader");
}

#[test]
fn bindings_of_a_namespace_grant_nothing_cluster_wide_con_16() {
    let found = subjects_allowed(&attributes("get core pods"), &shop());
    assert_eq!(
        texts(&found),
        [
            "Group system:masters: ClusterRoleBinding admins → ClusterRole admin",
            "User ann: ClusterRoleBinding admins → ClusterRole admin",
        ]
    );
}

#[test]
fn bindings_of_roles_that_were_not_read_are_counted_con_16() {
    let mut policy = shop();
    policy.cluster_roles = PartialList { objects: Vec::new(), unread: Some("not allowed".into()) };
    let found = subjects_allowed(&attributes("get core pods @shop"), &policy);
    assert_eq!(found.subjects.len(), 2, "{found:?}");
    // Five bindings refer to the unread ClusterRoles.
    assert_eq!(found.unresolved, 5);
    policy.roles.unread = Some("there are more".into());
    assert_eq!(
        subjects_allowed(&attributes("get core pods @shop"), &policy).unresolved,
        6,
        "astray may be among the rest"
    );
    assert_eq!(policy.unread(), [("cluster roles", "not allowed"), ("roles", "there are more")]);
}

#[test]
fn a_binding_of_countless_subjects_is_cut_and_says_so_con_16() {
    let many: Vec<Value> = (0..20_001).map(|at| user(&format!("u{at}"))).collect();
    let policy = |subjects: &[Value]| Policy {
        cluster_roles: objects(json!([role(None, "r", json!([rule(&["*"], &["*"], &["*"], &[])]))])),
        cluster_role_bindings: objects(json!([binding(None, "b", ("ClusterRole", "r"), json!(subjects))])),
        ..Policy::default()
    };
    let found = subjects_allowed(&attributes("get core pods"), &policy(&many));
    assert_eq!((found.subjects.len(), found.is_truncated), (20_000, true));
    assert!(!subjects_allowed(&attributes("get core pods"), &policy(&many[1..])).is_truncated);
}
