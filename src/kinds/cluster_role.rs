//! Cluster roles: permissions in all namespaces. Aggregated ones take their rules from other roles
//! (`controllers::cluster_role_aggregation`).

use k8s_openapi::api::rbac::v1::ClusterRole;

use super::columns::Column;
use super::resource::Resource;
use super::role::{RuleScope, policy_rule};
use apimachinery::validate::{FieldErrors, Path, names, selector};

impl Resource for ClusterRole {
    const ALLOWS_CREATE_ON_UPDATE: bool = true;
    const NAME_RULE: fn(&str) -> Vec<String> = names::path_segment;
    const COLUMNS: &'static [Column<Self>] = &[Column::name(), Column::created_at()];

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("rules");
        for (i, rule) in self.rules.iter().flatten().enumerate() {
            policy_rule(errors, &path.index(i), rule, RuleScope::Cluster);
        }
        let Some(aggregation) = &self.aggregation_rule else { return };
        let path = Path::root("aggregationRule.clusterRoleSelectors");
        let selectors = aggregation.cluster_role_selectors.as_deref().unwrap_or_default();
        if selectors.is_empty() {
            errors.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
        for (i, one) in selectors.iter().enumerate() {
            selector::label_selector(errors, &path.index(i), one);
        }
    }
}
