//! Defaults of autoscalers.

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscaler, MetricSpec, MetricTarget,
    ResourceMetricSource,
};

use super::{set, set_text};

/// What the cpu of pods is held at when nothing else is asked for, in percent of their requests.
const CPU_UTILIZATION: i32 = 80;
/// The time over which policies count when they are not given.
const PERIOD_SECONDS: i32 = 15;

pub(super) fn autoscaler(autoscaler: &mut HorizontalPodAutoscaler) {
    let spec = &mut autoscaler.spec;
    set(&mut spec.min_replicas, 1);
    if spec.metrics.as_ref().is_none_or(Vec::is_empty) {
        spec.metrics = Some(vec![MetricSpec {
            type_: "Resource".into(),
            resource: Some(ResourceMetricSource {
                name: "cpu".into(),
                target: MetricTarget {
                    type_: "Utilization".into(),
                    average_utilization: Some(CPU_UTILIZATION),
                    ..MetricTarget::default()
                },
            }),
            ..MetricSpec::default()
        }]);
    }
    if let Some(behavior) = &mut spec.behavior {
        let up = behavior.scale_up.get_or_insert_default();
        set(&mut up.stabilization_window_seconds, 0);
        rules(up, &[("Pods", 4), ("Percent", 100)]);
        // The window of shrinking stays open: it is the controller's.
        rules(behavior.scale_down.get_or_insert_default(), &[("Percent", 100)]);
    }
}

fn rules(rules: &mut HPAScalingRules, policies: &[(&str, i32)]) {
    set_text(&mut rules.select_policy, "Max");
    if rules.policies.is_none() {
        let policy = |(type_, value): &(&str, i32)| HPAScalingPolicy {
            type_: (*type_).into(),
            value: *value,
            period_seconds: PERIOD_SECONDS,
        };
        rules.policies = Some(policies.iter().map(policy).collect());
    }
}
