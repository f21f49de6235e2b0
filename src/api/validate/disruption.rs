//! Rules of pod disruption budgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::field::{FieldErrors, Path};
use super::{selector, workload};

pub(super) fn budget(errors: &mut FieldErrors, budget: &PodDisruptionBudget) {
    let Some(spec) = &budget.spec else { return };
    let path = Path::root("spec");
    if spec.min_available.is_some() && spec.max_unavailable.is_some() {
        errors.invalid(
            &path,
            &serde_json::to_value(spec).unwrap_or_default(),
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for (field, value) in [("minAvailable", &spec.min_available), ("maxUnavailable", &spec.max_unavailable)] {
        if let Some(value) = value {
            workload::positive_int_or_percent(errors, &path.child(field), value);
            workload::at_most_hundred_percent(errors, &path.child(field), value);
        }
    }
    if let Some(policy) = &spec.unhealthy_pod_eviction_policy {
        errors.one_of(&path.child("unhealthyPodEvictionPolicy"), policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
    if let Some(selector) = &spec.selector {
        selector::label_selector(errors, &path.child("selector"), selector);
    }
}

pub(super) fn status_update(errors: &mut FieldErrors, new: &PodDisruptionBudget) {
    let Some(status) = &new.status else { return };
    let path = Path::root("status");
    for (field, number) in [
        ("disruptionsAllowed", status.disruptions_allowed),
        ("currentHealthy", status.current_healthy),
        ("desiredHealthy", status.desired_healthy),
        ("expectedPods", status.expected_pods),
    ] {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
}
