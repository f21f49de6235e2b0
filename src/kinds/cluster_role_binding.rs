//! Cluster role bindings: they grant a role's permissions in all namespaces.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;

use super::columns::Column;
use super::resource::Resource;
use super::role::RuleScope;
use super::role_binding::{
    ACCOUNTS, GROUPS, ROLE, USERS, default_groups, named, role, role_ref, same_role, subjects,
};
use apimachinery::validate::{FieldErrors, names};

impl Resource for ClusterRoleBinding {
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
        role_ref(errors, &self.role_ref, &["ClusterRole"]);
        subjects(errors, self.subjects.as_deref(), RuleScope::Cluster);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        same_role(errors, &self.role_ref, &old.role_ref);
    }
}
