//! The scopes of a quota, all of which must match an object.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, Pod, ResourceQuotaSpec, ScopedResourceSelectorRequirement,
};

use crate::resources::qos_class;
use crate::selector::{Operator, Requirement};
use crate::{Body, Object};
use base::sort::CollectMap;

/// Returns the scopes of a quota in one form: each of `scopes` becomes a selector with the operator Exists.
pub fn scopes_of(spec: &ResourceQuotaSpec) -> Vec<ScopedResourceSelectorRequirement> {
    let plain = spec.scopes.iter().flatten().map(|scope| ScopedResourceSelectorRequirement {
        scope_name: scope.clone(),
        operator: "Exists".into(),
        values: None,
    });
    let selected = spec.scope_selector.iter().flat_map(|s| s.match_expressions.iter().flatten()).cloned();
    plain.chain(selected).collect()
}

/// Returns true if the object matches every scope of the quota; a quota without scopes covers all objects.
pub fn covers(spec: &ResourceQuotaSpec, object: &Object) -> bool {
    scopes_of(spec).iter().all(|scope| match object.body() {
        Body::Pod(pod) => pod_is_in(scope, pod),
        Body::PersistentVolumeClaim(claim) => claim_is_in(scope, claim),
        // Scopes match pods (and claims) only.
        _ => false,
    })
}

fn pod_is_in(scope: &ScopedResourceSelectorRequirement, pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let ends = spec.and_then(|s| s.active_deadline_seconds).is_some_and(|seconds| seconds >= 0);
    match scope.scope_name.as_str() {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => qos_class(pod) == "BestEffort",
        "NotBestEffort" => qos_class(pod) != "BestEffort",
        "PriorityClass" => selects(scope, spec.and_then(|s| s.priority_class_name.as_deref())),
        "CrossNamespacePodAffinity" => selects_other_namespaces(pod),
        _ => false,
    }
}

fn claim_is_in(scope: &ScopedResourceSelectorRequirement, claim: &PersistentVolumeClaim) -> bool {
    let (spec, status) = (claim.spec.as_ref(), claim.status.as_ref());
    let modified = status.and_then(|s| s.modify_volume_status.as_ref());
    let names = [
        spec.and_then(|s| s.volume_attributes_class_name.as_deref()),
        status.and_then(|s| s.current_volume_attributes_class_name.as_deref()),
        modified.and_then(|m| m.target_volume_attributes_class_name.as_deref()),
    ];
    let mut named = names.into_iter().flatten().filter(|name| !name.is_empty()).peekable();
    scope.scope_name == "VolumeAttributesClass"
        && if named.peek().is_none() { selects(scope, None) } else { named.any(|n| selects(scope, Some(n))) }
}

/// Returns true if a scope's selector matches an object with this value.
fn selects(scope: &ScopedResourceSelectorRequirement, value: Option<&str>) -> bool {
    let values = || scope.values.clone().unwrap_or_default();
    let operator = match scope.operator.as_str() {
        "In" => Operator::In(values()),
        "NotIn" => Operator::NotIn(values()),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return false,
    };
    let value = value.filter(|v| !v.is_empty()).map(|v| (scope.scope_name.clone(), v.to_string()));
    let requirement = Requirement { key: scope.scope_name.clone(), operator };
    requirement.matches(&value.collect_map::<BTreeMap<_, _>>())
}

/// Returns true if a term of the pod's (anti-)affinity applies to pods of other namespaces.
fn selects_other_namespaces(pod: &Pod) -> bool {
    let Some(affinity) = pod.spec.as_ref().and_then(|s| s.affinity.as_ref()) else { return false };
    let near = affinity.pod_affinity.iter().flat_map(|a| {
        let preferred = a.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = a.required_during_scheduling_ignored_during_execution.iter().flatten();
        preferred.map(|p| &p.pod_affinity_term).chain(required)
    });
    let apart = affinity.pod_anti_affinity.iter().flat_map(|a| {
        let preferred = a.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = a.required_during_scheduling_ignored_during_execution.iter().flatten();
        preferred.map(|p| &p.pod_affinity_term).chain(required)
    });
    near.chain(apart).any(|term| {
        term.namespaces.as_ref().is_some_and(|n| !n.is_empty()) || term.namespace_selector.is_some()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Kind;

    #[test]
    fn a_quota_is_about_what_is_in_all_its_scopes_quo_1() {
        let burstable = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
        let best_effort = json!({"containers": [{"name": "c"}], "activeDeadlineSeconds": 5});
        let high = json!({"containers": [], "priorityClassName": "high"});
        let other_namespace = json!({"containers": [], "affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", "namespaces": ["other"]}]}}});
        let selector = |operator: &str, values: &[&str]| {
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": operator, "values": values}]}})
        };
        let class = "PriorityClass";
        let cases: Vec<(Value, &Value, bool)> = vec![
            (json!({}), &burstable, true),
            (json!({"scopes": ["NotBestEffort", "NotTerminating"]}), &burstable, true),
            (json!({"scopes": ["NotBestEffort", "Terminating"]}), &burstable, false),
            (json!({"scopes": ["BestEffort", "Terminating"]}), &best_effort, true),
            (json!({"scopes": [class]}), &high, true),
            (json!({"scopes": [class]}), &burstable, false),
            (selector("In", &["high", "low"]), &high, true),
            (selector("NotIn", &["high"]), &high, false),
            (selector("NotIn", &["high"]), &burstable, true),
            (selector("DoesNotExist", &[]), &burstable, true),
            (json!({"scopes": ["CrossNamespacePodAffinity"]}), &other_namespace, true),
            (json!({"scopes": ["CrossNamespacePodAffinity"]}), &burstable, false),
        ];
        for (quota, pod, expected) in cases {
            let spec: ResourceQuotaSpec = serde_json::from_value(quota.clone()).unwrap();
            let pod = Object::from_value(Kind::Pod, json!({"spec": pod})).unwrap();
            assert_eq!(covers(&spec, &pod), expected, "{quota}");
        }
        let map = Object::from_value(Kind::ConfigMap, json!({})).unwrap();
        let spec = ResourceQuotaSpec { scopes: Some(vec!["BestEffort".into()]), ..Default::default() };
        assert!(!covers(&spec, &map));
    }
}
