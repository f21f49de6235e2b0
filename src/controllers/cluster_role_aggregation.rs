//! Aggregated cluster roles: `admin` has the rules of every role labelled for it.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use super::context::Context;
use api::{Api, Change};
use base::sort::SliceOrder;
use object::selector::Selector;
use object::{Key, SharedObject};
use reconcile::{Cache, ReconcileError, Reconciler, ignore_not_found};

pub(super) fn start(context: &Context) {
    let api = context.api.acting_as("clusterrole-aggregation-controller");
    context
        .controller(|_| Aggregation { api, roles: context.caches.of() })
        .keys_of::<ClusterRole>()
        .watches::<ClusterRole, _>(Aggregation::role_changed)
        .run(&context.tasks);
}

struct Aggregation {
    api: Api,
    roles: Cache<ClusterRole>,
}

impl Aggregation {
    /// Returns every aggregated role: the changed role may have been part of it, or may be from now on.
    fn role_changed(&self, _: &Change) -> Vec<Key> {
        let roles = self.roles.list();
        roles.iter().filter(|role| role.aggregation_rule.is_some()).map(SharedObject::key).collect()
    }
}

impl Reconciler for Aggregation {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(role) = self.roles.get(key) else { return Ok(()) };
        if role.aggregation_rule.is_none() {
            return Ok(());
        }
        let desired = aggregated(&role, &self.roles.list());
        if role.rules.as_deref().unwrap_or_default() == desired {
            return Ok(());
        }
        let changed = self.api.modify::<ClusterRole>(key, |role| {
            if role.aggregation_rule.is_some() {
                role.rules = Some(desired.clone());
            }
            Ok(())
        });
        Ok(ignore_not_found(changed)?)
    }
}

/// Returns the rules of all selected roles without duplicates, ordered by role name.
fn aggregated(role: &SharedObject<ClusterRole>, all: &[SharedObject<ClusterRole>]) -> Vec<PolicyRule> {
    let rule = role.aggregation_rule.as_ref();
    let selectors = rule.and_then(|rule| rule.cluster_role_selectors.as_deref()).unwrap_or_default();
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        let selector = Selector::from_field(selector);
        let mut chosen: Vec<_> = all
            .iter()
            .filter(|other| other.name() != role.name() && selector.matches(other.metadata.labels.as_ref()))
            .collect();
        chosen.order_by_key(|role| role.name().to_string());
        for rule in chosen.iter().flat_map(|role| role.rules.iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rules_of_selected_roles_come_together_once_api_15() {
        let role = |name: &str, labels: serde_json::Value, verbs: &[&str]| {
            let rules: Vec<_> = verbs
                .iter()
                .map(|verb| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}))
                .collect();
            let role = json!({"metadata": {"name": name, "labels": labels}, "rules": rules});
            SharedObject::from_value(serde_json::from_value::<ClusterRole>(role).unwrap())
        };
        let all: SharedObject<ClusterRole> = SharedObject::from_value(
            serde_json::from_value(json!({"metadata": {"name": "all", "labels": {"to": "all"}},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}, {"matchLabels": {"also": "all"}}]}}))
            .unwrap(),
        );
        let roles = [
            role("b", json!({"to": "all"}), &["list", "get"]),
            role("a", json!({"to": "all", "also": "all"}), &["get"]),
            role("c", json!({}), &["delete"]),
            all.clone(),
        ];
        let verbs: Vec<String> = aggregated(&all, &roles).iter().map(|rule| rule.verbs.join(",")).collect();
        assert_eq!(verbs, ["get", "list"]);
    }
}
