//! Horizontal pod autoscalers.

mod validate;

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget,
    MetricValueStatus, ResourceMetricSource,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::columns::{Column, NONE};
use super::resource::Resource;
use apimachinery::default::{set, set_text};
use apimachinery::validate::FieldErrors;
use object::time::UNKNOWN;

/// The default target: the pods' average CPU usage as a percentage of their requests.
const CPU_UTILIZATION: i32 = 80;

/// The default period of a scaling policy, in seconds.
const PERIOD_SECONDS: i32 = 15;
/// The number of metrics that a table shows.
const MAX_PRINTED_METRICS: usize = 2;

impl Resource for HorizontalPodAutoscaler {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Reference", "The object that is scaled.", |scaler, _| {
            let target = &scaler.spec.scale_target_ref;
            json!(format!("{}/{}", target.kind, target.name))
        }),
        Column::text("Targets", "The current and target values of the metrics.", |scaler, _| {
            let current = scaler.status.as_ref().and_then(|s| s.current_metrics.as_deref());
            json!(targets_text(
                scaler.spec.metrics.as_deref().unwrap_or_default(),
                current.unwrap_or_default()
            ))
        }),
        Column::text("MinPods", "The minimum number of pods.", |scaler, _| {
            json!(scaler.spec.min_replicas.map_or_else(|| "<unset>".into(), |n| n.to_string()))
        }),
        Column::text("MaxPods", "The maximum number of pods.", |scaler, _| json!(scaler.spec.max_replicas)),
        Column::text("Replicas", "The current number of pods.", |scaler, _| {
            json!(scaler.status.as_ref().and_then(|s| s.current_replicas).unwrap_or(0))
        }),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        let spec = &mut self.spec;
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
            // The stabilization window for scaling down has no default here: the controller's setting applies.
            rules(behavior.scale_down.get_or_insert_default(), &[("Percent", 100)]);
        }
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        validate::autoscaler(errors, self, None);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        validate::autoscaler(errors, self, Some(old));
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        validate::status(errors, self);
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

fn targets_text(metrics: &[MetricSpec], current: &[MetricStatus]) -> String {
    if metrics.is_empty() {
        return NONE.into();
    }
    let all: Vec<String> =
        metrics.iter().enumerate().map(|(i, metric)| metric_text(metric, current.get(i))).collect();
    let shown = all[..all.len().min(MAX_PRINTED_METRICS)].join(", ");
    match all.len().saturating_sub(MAX_PRINTED_METRICS) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn metric_text(metric: &MetricSpec, current: Option<&MetricStatus>) -> String {
    if let Some(source) = &metric.resource {
        let current = current.and_then(|c| c.resource.as_ref()).map(|r| &r.current);
        return resource_text(&source.name, &source.target, current);
    }
    if let Some(source) = &metric.container_resource {
        let current = current.and_then(|c| c.container_resource.as_ref()).map(|r| &r.current);
        return resource_text(&source.name, &source.target, current);
    }
    let (target, current) = if let Some(source) = &metric.pods {
        (&source.target, current.and_then(|c| c.pods.as_ref()).map(|c| &c.current))
    } else if let Some(source) = &metric.object {
        (&source.target, current.and_then(|c| c.object.as_ref()).map(|c| &c.current))
    } else if let Some(source) = &metric.external {
        (&source.target, current.and_then(|c| c.external.as_ref()).map(|c| &c.current))
    } else {
        return UNKNOWN.into();
    };
    match &target.average_value {
        // Metrics of pods are averages by definition; averages of other metrics are marked `(avg)`.
        Some(average) => {
            let suffix = if metric.pods.is_some() { "" } else { " (avg)" };
            format!("{}/{}{suffix}", amount(current.and_then(|c| c.average_value.as_ref())), average.0)
        }
        None => format!(
            "{}/{}",
            amount(current.and_then(|c| c.value.as_ref())),
            target.value.as_ref().map_or("<auto>", |v| v.0.as_str())
        ),
    }
}

/// Returns `cpu: 12%/50%`, or `cpu: 120m/500m` if the target is an amount.
fn resource_text(name: &str, target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    if let Some(average) = &target.average_value {
        return format!("{name}: {}/{}", amount(current.and_then(|c| c.average_value.as_ref())), average.0);
    }
    let percent = |number: Option<i32>, none: &str| number.map_or_else(|| none.into(), |n| format!("{n}%"));
    let current = percent(current.and_then(|c| c.average_utilization), UNKNOWN);
    format!("{name}: {current}/{}", percent(target.average_utilization, "<auto>"))
}

fn amount(quantity: Option<&Quantity>) -> &str {
    quantity.map_or(UNKNOWN, |q| q.0.as_str())
}
