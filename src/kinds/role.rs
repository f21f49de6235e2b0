//! Roles: permissions within a namespace. Cluster roles use the same rules.

use k8s_openapi::api::rbac::v1::{PolicyRule, Role};

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, names};

impl Resource for Role {
    const ALLOWS_CREATE_ON_UPDATE: bool = true;
    const NAME_RULE: fn(&str) -> Vec<String> = names::path_segment;
    const COLUMNS: &'static [Column<Self>] = &[Column::name(), Column::created_at()];

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("rules");
        for (i, rule) in self.rules.iter().flatten().enumerate() {
            policy_rule(errors, &path.index(i), rule, RuleScope::Namespace);
        }
    }
}

/// The scope in which a rule grants permissions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleScope {
    Namespace,
    Cluster,
}

pub(super) fn policy_rule(errors: &mut FieldErrors, path: &Path<'_>, rule: &PolicyRule, reach: RuleScope) {
    if rule.verbs.is_empty() {
        errors.required(&path.child("verbs"), "verbs must contain at least one value");
    }
    let some = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if some(&rule.non_resource_urls) {
        let urls = rule.non_resource_urls.clone().unwrap_or_default();
        let path = path.child("nonResourceURLs");
        if reach == RuleScope::Namespace {
            errors.invalid(&path, &urls, "namespaced rules cannot apply to non-resource URLs");
        }
        if some(&rule.api_groups) || some(&rule.resources) || some(&rule.resource_names) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&path, &urls, detail);
        }
        return;
    }
    if !some(&rule.api_groups) {
        errors.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if !some(&rule.resources) {
        errors.required(&path.child("resources"), "resource rules must supply at least one resource");
    }
}
