//! Roles and bindings.

use super::*;

const GROUP: &str = "rbac.authorization.k8s.io";

#[test]
fn the_rules_of_roles_are_whole_api_15() {
    let resources = "apiGroups: [\"\"], resources: [pods], verbs: [get]";
    check(
        Kind::Role,
        &[
            (&format!("metadata: {{name: 'system:x@y'}}\nrules: [{{{resources}}}]"), &[]),
            ("{}", &[]),
            (
                "rules: [{}]",
                &[
                    "rules[0].verbs: Required value: verbs must contain at least one value",
                    "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                    "rules[0].resources: Required value: resource rules must supply at least one resource",
                ],
            ),
            (
                &format!("rules: [{{{resources}, nonResourceURLs: [/healthz]}}]"),
                &[
                    "rules[0].nonResourceURLs: Invalid value: [\"/healthz\"]: namespaced rules cannot apply to non-resource URLs",
                    "rules[0].nonResourceURLs: Invalid value: [\"/healthz\"]: rules cannot apply to both regular resources and non-resource URLs",
                ],
            ),
            (
                "metadata: {name: a/b%}",
                &[
                    "metadata.name: Invalid value: \"a/b%\": may not contain '/'",
                    "metadata.name: Invalid value: \"a/b%\": may not contain '%'",
                ],
            ),
            ("metadata: {name: ..}", &["metadata.name: Invalid value: \"..\": may not be '..'"]),
        ],
    );
    check(
        Kind::ClusterRole,
        &[
            ("rules: [{nonResourceURLs: [/healthz], verbs: [get]}]", &[]),
            ("aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}", &[]),
            (
                "aggregationRule: {}",
                &[
                    "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
                ],
            ),
        ],
    );
}

#[test]
fn bindings_name_a_role_and_subjects_of_known_kinds_api_15() {
    let role = "roleRef: {kind: ClusterRole, name: view}";
    check(
        Kind::RoleBinding,
        &[
            (
                &format!("{role}\nsubjects: [{{kind: User, name: bob}}, {{kind: ServiceAccount, name: a}}]"),
                &[],
            ),
            (
                "roleRef: {apiGroup: x, kind: Pod}",
                &[
                    "roleRef.apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
                    "roleRef.kind: Unsupported value: \"Pod\": supported values: \"Role\", \"ClusterRole\"",
                    "roleRef.name: Required value",
                ],
            ),
            (
                &format!(
                    "{role}\nsubjects: [{{kind: Robot, name: r}}, {{kind: User}}, {{kind: ServiceAccount, apiGroup: {GROUP}, name: A}}]"
                ),
                &[
                    "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
                    "subjects[1].name: Required value",
                    &format!("subjects[2].name: Invalid value: \"A\": {SUBDOMAIN}"),
                    "subjects[2].apiGroup: Unsupported value: \"rbac.authorization.k8s.io\": supported values: \"\"",
                ],
            ),
        ],
    );
    check(
        Kind::ClusterRoleBinding,
        &[
            (
                &format!("{role}\nsubjects: [{{kind: ServiceAccount, name: a}}]"),
                &["subjects[0].namespace: Required value"],
            ),
            (
                "roleRef: {kind: Role, name: view}",
                &["roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\""],
            ),
        ],
    );
    for kind in [Kind::RoleBinding, Kind::ClusterRoleBinding] {
        check_change(
            kind,
            &[
                (role, &format!("{role}\nsubjects: [{{kind: Group, name: g}}]"), &[]),
                (
                    role,
                    "roleRef: {kind: ClusterRole, name: edit}",
                    &[
                        "roleRef: Invalid value: rbac.RoleRef{APIGroup:\"rbac.authorization.k8s.io\", Kind:\"ClusterRole\", Name:\"edit\"}: cannot change roleRef",
                    ],
                ),
            ],
        );
    }
}
