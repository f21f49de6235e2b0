//! Role bindings: they grant a role's permissions within a namespace. Cluster role bindings use the same rules for role
//! and subjects.

use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use serde_json::{Value, json};

use super::columns::Column;
use super::resource::Resource;
use super::role::RuleScope;
use apimachinery::validate::{ErrorValue, FieldErrors, Path, names};
use base::quote::quote;

/// The API group of roles and bindings, and of users and groups as subjects.
const GROUP: &str = "rbac.authorization.k8s.io";

impl Resource for RoleBinding {
    const ALLOWS_CREATE_ON_UPDATE: bool = true;
    const NAME_RULE: fn(&str) -> Vec<String> = names::path_segment;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Role", ROLE, |binding, _| role(&binding.role_ref)),
        Column::age(),
        Column::wide("Users", USERS, |binding, _| named(binding.subjects.as_deref(), "User")),
        Column::wide("Groups", GROUPS, |binding, _| named(binding.subjects.as_deref(), "Group")),
        Column::wide("ServiceAccounts", ACCOUNTS, |binding, _| {
            named(binding.subjects.as_deref(), "ServiceAccount")
        }),
    ];

    fn apply_defaults(&mut self) {
        default_groups(&mut self.role_ref, self.subjects.as_deref_mut());
    }

    fn validate(&self, errors: &mut FieldErrors) {
        role_ref(errors, &self.role_ref, &["Role", "ClusterRole"]);
        subjects(errors, self.subjects.as_deref(), RuleScope::Namespace);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        same_role(errors, &self.role_ref, &old.role_ref);
    }
}

pub(super) const ROLE: &str = "The role of the binding.";
pub(super) const USERS: &str = "Users in the binding.";
pub(super) const GROUPS: &str = "Groups in the binding.";
pub(super) const ACCOUNTS: &str = "Service accounts in the binding.";

/// Returns `ClusterRole/view`.
pub(super) fn role(role: &RoleRef) -> Value {
    json!(format!("{}/{}", role.kind, role.name))
}

/// Returns the names of the subjects of a kind; service accounts with their namespace.
pub(super) fn named(subjects: Option<&[Subject]>, kind: &str) -> Value {
    let of_kind = subjects.unwrap_or_default().iter().filter(|subject| subject.kind == kind);
    let names: Vec<String> = of_kind
        .map(|subject| match kind {
            "ServiceAccount" => {
                format!("{}/{}", subject.namespace.as_deref().unwrap_or_default(), subject.name)
            }
            _ => subject.name.clone(),
        })
        .collect();
    json!(names.join(", "))
}

/// Sets the missing API groups of the role, users and groups to the only valid one.
pub(super) fn default_groups(role: &mut RoleRef, subjects: Option<&mut [Subject]>) {
    let fill = |group: &mut Option<String>| {
        if group.as_ref().is_none_or(String::is_empty) {
            *group = Some(GROUP.into());
        }
    };
    fill(&mut role.api_group);
    for subject in subjects.unwrap_or_default() {
        if matches!(subject.kind.as_str(), "User" | "Group") {
            fill(&mut subject.api_group);
        }
    }
}

pub(super) fn role_ref(errors: &mut FieldErrors, role: &RoleRef, kinds: &[&str]) {
    let path = Path::root("roleRef");
    errors.one_of(&path.child("apiGroup"), role.api_group.as_deref().unwrap_or_default(), &[GROUP]);
    errors.one_of(&path.child("kind"), &role.kind, kinds);
    errors.required_name(&path.child("name"), &role.name, names::path_segment);
}

pub(super) fn subjects(errors: &mut FieldErrors, subjects: Option<&[Subject]>, reach: RuleScope) {
    let list = Path::root("subjects");
    for (i, one) in subjects.unwrap_or_default().iter().enumerate() {
        subject(errors, &list.index(i), one, reach);
    }
}

fn subject(errors: &mut FieldErrors, path: &Path<'_>, subject: &Subject, reach: RuleScope) {
    if subject.name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    let group = subject.api_group.as_deref().unwrap_or_default();
    match subject.kind.as_str() {
        "ServiceAccount" => {
            if !subject.name.is_empty() {
                let faults = names::dns_1123_subdomain(&subject.name);
                errors.invalid_each(&path.child("name"), &subject.name, faults);
            }
            errors.one_of(&path.child("apiGroup"), group, &[""]);
            let anywhere = subject.namespace.as_ref().is_none_or(String::is_empty);
            if anywhere && reach == RuleScope::Cluster {
                errors.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" => errors.one_of(&path.child("apiGroup"), group, &[GROUP]),
        other => errors.unsupported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

/// Refuses to change the role of a binding, since clients rely on a binding to grant the role that they know. Another
/// role needs another binding.
pub(super) fn same_role(errors: &mut FieldErrors, new: &RoleRef, old: &RoleRef) {
    if new != old {
        errors.invalid(&Path::root("roleRef"), &RoleRefValue(new), "cannot change roleRef");
    }
}

/// A reference to a role, as error messages show it.
struct RoleRefValue<'a>(&'a RoleRef);

impl ErrorValue for RoleRefValue<'_> {
    fn display_value(&self) -> String {
        let Self(role) = self;
        let group = role.api_group.as_deref().unwrap_or_default();
        format!(
            "rbac.RoleRef{{APIGroup:{}, Kind:{}, Name:{}}}",
            quote(group),
            quote(&role.kind),
            quote(&role.name)
        )
    }
}
