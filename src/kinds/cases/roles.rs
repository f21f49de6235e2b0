//! Roles and bindings.

use super::*;

#[test]
fn the_rules_of_roles_are_whole_api_15() {
    check(
        Kind::Role,
        r#"
metadata: {name: 'system:x@y'}\nrules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
{}
rules: [{}]
  ! rules[0].verbs: Required value: verbs must contain at least one value
  ! rules[0].apiGroups: Required value: resource rules must supply at least one api group
  ! rules[0].resources: Required value: resource rules must supply at least one resource
rules: [{apiGroups: [""], resources: [pods], verbs: [get], nonResourceURLs: [/healthz]}]
  ! rules[0].nonResourceURLs: Invalid value: ["/healthz"]: namespaced rules cannot apply to non-resource URLs
  ! rules[0].nonResourceURLs: Invalid value: ["/healthz"]: rules cannot apply to both regular resources and non-resource URLs
metadata: {name: a/b%}
  ! metadata.name: Invalid value: "a/b%": may not contain '/'
  ! metadata.name: Invalid value: "a/b%": may not contain '%'
metadata: {name: ..}
  ! metadata.name: Invalid value: "..": may not be '..'
"#,
    );
    check(
        Kind::ClusterRole,
        r"
rules: [{nonResourceURLs: [/healthz], verbs: [get]}]
aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}
aggregationRule: {}
  ! aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil
",
    );
}

#[test]
fn bindings_name_a_role_and_subjects_of_known_kinds_api_15() {
    check(
        Kind::RoleBinding,
        r#"
roleRef: {kind: ClusterRole, name: view}\nsubjects: [{kind: User, name: bob}, {kind: ServiceAccount, name: a}]
roleRef: {apiGroup: x, kind: Pod}
  ! roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"
  ! roleRef.kind: Unsupported value: "Pod": supported values: "Role", "ClusterRole"
  ! roleRef.name: Required value
roleRef: {kind: ClusterRole, name: view}\nsubjects: [{kind: Robot, name: r}, {kind: User}, {kind: ServiceAccount, apiGroup: rbac.authorization.k8s.io, name: A}]
  ! subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"
  ! subjects[1].name: Required value
  ! subjects[2].name: Invalid value: "A": <subdomain>
  ! subjects[2].apiGroup: Unsupported value: "rbac.authorization.k8s.io": supported values: ""
"#,
    );
    check(
        Kind::ClusterRoleBinding,
        r#"
roleRef: {kind: ClusterRole, name: view}\nsubjects: [{kind: ServiceAccount, name: a}]
  ! subjects[0].namespace: Required value
roleRef: {kind: Role, name: view}
  ! roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"
"#,
    );
    for kind in [Kind::RoleBinding, Kind::ClusterRoleBinding] {
        check_change(
            kind,
            r#"
roleRef: {kind: ClusterRole, name: view}
-> roleRef: {kind: ClusterRole, name: view}\nsubjects: [{kind: Group, name: g}]
roleRef: {kind: ClusterRole, name: view}
-> roleRef: {kind: ClusterRole, name: edit}
  ! roleRef: Invalid value: rbac.RoleRef{APIGroup:"rbac.authorization.k8s.io", Kind:"ClusterRole", Name:"edit"}: cannot change roleRef
"#,
        );
    }
}
