//! Pod disruption budgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, conditions, names, selector, workload};

impl Resource for PodDisruptionBudget {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const NAME_RULE: fn(&str) -> Vec<String> = names::path_segment;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Min Available", "The minimum number of pods that must be available.", |budget, _| {
            amount(budget.spec.as_ref().and_then(|s| s.min_available.as_ref()))
        }),
        Column::text(
            "Max Unavailable",
            "The maximum number of pods that may be unavailable.",
            |budget, _| amount(budget.spec.as_ref().and_then(|s| s.max_unavailable.as_ref())),
        ),
        Column::number(
            "Allowed Disruptions",
            "Calculated number of pods that may be disrupted at this time.",
            |budget, _| json!(budget.status.as_ref().and_then(|s| s.disruptions_allowed).unwrap_or(0)),
        ),
        Column::age(),
    ];

    fn complete_status(&mut self) {
        let status = self.status.get_or_insert_default();
        for count in [
            &mut status.current_healthy, &mut status.desired_healthy, &mut status.disruptions_allowed,
            &mut status.expected_pods,
        ] {
            count.get_or_insert_default();
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let Some(spec) = &self.spec else { return };
        let path = Path::root("spec");
        if spec.min_available.is_some() && spec.max_unavailable.is_some() {
            errors.invalid(
                &path,
                &object::json_of(spec),
                "minAvailable and maxUnavailable cannot be both set",
            );
        }
        for (field, value) in
            [("minAvailable", &spec.min_available), ("maxUnavailable", &spec.max_unavailable)]
        {
            if let Some(value) = value {
                workload::positive_int_or_percent(errors, &path.child(field), value);
                workload::at_most_hundred_percent(errors, &path.child(field), value);
            }
        }
        if let Some(policy) = &spec.unhealthy_pod_eviction_policy {
            errors.one_of(
                &path.child("unhealthyPodEvictionPolicy"),
                policy,
                &["AlwaysAllow", "IfHealthyBudget"],
            );
        }
        if let Some(selector) = &spec.selector {
            selector::label_selector(errors, &path.child("selector"), selector);
        }
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let path = Path::root("status");
        for (field, number) in [
            ("disruptionsAllowed", status.disruptions_allowed),
            ("currentHealthy", status.current_healthy),
            ("desiredHealthy", status.desired_healthy),
            ("expectedPods", status.expected_pods),
        ] {
            errors.non_negative(&path.child(field), number.unwrap_or(0));
        }
        conditions::conditions(errors, &path.child("conditions"), status.conditions.as_deref());
    }
}

fn amount(value: Option<&IntOrString>) -> Value {
    match value {
        Some(IntOrString::Int(n)) => json!(n.to_string()),
        Some(IntOrString::String(text)) => json!(text),
        None => json!("N/A"),
    }
}
