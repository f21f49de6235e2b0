//! Defaults of autoscalers.

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, MetricSpec, MetricTarget, ResourceMetricSource,
};

use super::set;

/// What the cpu of pods is held at when nothing else is asked for, in percent of their requests.
const CPU_UTILIZATION: i32 = 80;

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
}
