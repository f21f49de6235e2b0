//! The roles and bindings of the system's own namespaces.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

use super::Rule::{Named, On};
use super::{CORE, EVENTS, READ, Rule, meta, role_ref, rules, subject};

const SYSTEM: &str = "kube-system";
const PUBLIC: &str = "kube-public";

/// Permissions for leader election by leases.
const ELECTS: &[Rule] = &[
    On("create get list watch update", "coordination.k8s.io", "leases"),
    On("create get list watch update", "coordination.k8s.io", "leasecandidates"),
];

/// Namespace, name, rules.
const ROLES: &[(&str, &str, &[Rule])] = &[
    (
        SYSTEM,
        "extension-apiserver-authentication-reader",
        &[Named(READ, CORE, "configmaps", "extension-apiserver-authentication")],
    ),
    (SYSTEM, "system:controller:bootstrap-signer", &[On(READ, CORE, "secrets")]),
    (SYSTEM, "system:controller:cloud-provider", &[On("create get list watch", CORE, "configmaps")]),
    (SYSTEM, "system:controller:token-cleaner", &[On("get list watch delete", CORE, "secrets"), EVENTS]),
    (SYSTEM, "system::leader-locking-kube-controller-manager", ELECTS),
    (SYSTEM, "system::leader-locking-kube-scheduler", ELECTS),
    (
        PUBLIC,
        "system:controller:bootstrap-signer",
        &[On(READ, CORE, "configmaps"), Named("update", CORE, "configmaps", "cluster-info"), EVENTS],
    ),
];

/// Namespace, name, role, subjects.
const BINDINGS: &[(&str, &str, &str, &[&str])] = &[
    (
        SYSTEM,
        "system::extension-apiserver-authentication-reader",
        "extension-apiserver-authentication-reader",
        &["user:system:kube-controller-manager", "user:system:kube-scheduler"],
    ),
    (
        SYSTEM,
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        &[
            "user:system:kube-controller-manager",
            "account:kube-system/kube-controller-manager",
            "account:kube-system/leader-election-controller",
        ],
    ),
    (
        SYSTEM,
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        &["user:system:kube-scheduler", "account:kube-system/kube-scheduler"],
    ),
    (
        SYSTEM,
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &["account:kube-system/bootstrap-signer"],
    ),
    (
        SYSTEM,
        "system:controller:cloud-provider",
        "system:controller:cloud-provider",
        &["account:kube-system/cloud-provider"],
    ),
    (
        SYSTEM,
        "system:controller:token-cleaner",
        "system:controller:token-cleaner",
        &["account:kube-system/token-cleaner"],
    ),
    (
        PUBLIC,
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &["account:kube-system/bootstrap-signer"],
    ),
];

pub(super) fn roles() -> impl Iterator<Item = Role> {
    ROLES.iter().map(|(namespace, name, of)| Role { metadata: meta(namespace, name), rules: Some(rules(of)) })
}

pub(super) fn bindings() -> impl Iterator<Item = RoleBinding> {
    BINDINGS.iter().map(|(namespace, name, role, subjects)| RoleBinding {
        metadata: meta(namespace, name),
        role_ref: role_ref("Role", role),
        subjects: Some(subjects.iter().map(|text| subject(text)).collect()),
    })
}
