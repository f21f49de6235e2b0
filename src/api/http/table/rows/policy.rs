//! What bounds workloads: budgets, quotas, limits, autoscalers.

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::NONE;
use crate::object::time::UNKNOWN;

/// How many metrics of an autoscaler are written out.
const SHOWN_METRICS: usize = 2;

pub(super) fn budget(name: Value, age: Value, budget: &PodDisruptionBudget) -> Vec<Value> {
    let spec = budget.spec.as_ref();
    let amount = |value: Option<&IntOrString>| match value {
        Some(IntOrString::Int(n)) => json!(n.to_string()),
        Some(IntOrString::String(text)) => json!(text),
        None => json!("N/A"),
    };
    vec![
        name,
        amount(spec.and_then(|s| s.min_available.as_ref())),
        amount(spec.and_then(|s| s.max_unavailable.as_ref())),
        json!(budget.status.as_ref().and_then(|s| s.disruptions_allowed).unwrap_or(0)),
        age,
    ]
}

/// Used and hard amounts, those of limits apart: `cpu: 1/2, pods: 3/10`.
pub(super) fn quota(name: Value, age: Value, quota: &ResourceQuota) -> Vec<Value> {
    let zero = Quantity("0".into());
    let status = quota.status.as_ref();
    let used = |resource: &str| {
        let amount = status.and_then(|s| s.used.as_ref()).and_then(|used| used.get(resource));
        amount.unwrap_or(&zero).0.clone()
    };
    let hard = status.and_then(|s| s.hard.as_ref()).into_iter().flatten();
    let (limits, requests): (Vec<_>, Vec<_>) = hard
        .map(|(resource, amount)| (resource, format!("{resource}: {}/{}", used(resource), amount.0)))
        .partition(|(resource, _)| resource.starts_with("limits"));
    let joined = |list: Vec<(&String, String)>| {
        json!(list.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", "))
    };
    vec![name, joined(requests), joined(limits), age]
}

/// When the object was made, as the API writes times.
pub(super) fn created_at(meta: &ObjectMeta) -> String {
    meta.creation_timestamp.as_ref().map_or_else(String::new, |t| t.0.to_string())
}

pub(super) fn autoscaler(name: Value, age: Value, scaler: &HorizontalPodAutoscaler) -> Vec<Value> {
    let spec = &scaler.spec;
    let target = &spec.scale_target_ref;
    let status = scaler.status.as_ref();
    vec![
        name,
        json!(format!("{}/{}", target.kind, target.name)),
        json!(targets_text(
            spec.metrics.as_deref().unwrap_or_default(),
            status.and_then(|s| s.current_metrics.as_deref()).unwrap_or_default(),
        )),
        json!(spec.min_replicas.map_or_else(|| "<unset>".into(), |n| n.to_string())),
        json!(spec.max_replicas),
        json!(status.and_then(|s| s.current_replicas).unwrap_or(0)),
        age,
    ]
}

fn targets_text(metrics: &[MetricSpec], current: &[MetricStatus]) -> String {
    if metrics.is_empty() {
        return NONE.into();
    }
    let all: Vec<String> =
        metrics.iter().enumerate().map(|(i, metric)| metric_text(metric, current.get(i))).collect();
    let shown = all[..all.len().min(SHOWN_METRICS)].join(", ");
    match all.len().saturating_sub(SHOWN_METRICS) {
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
        // Pods' metrics are averages anyway; of the others it is told.
        Some(average) => {
            let told = if metric.pods.is_some() { "" } else { " (avg)" };
            format!("{}/{}{told}", amount(current.and_then(|c| c.average_value.as_ref())), average.0)
        }
        None => format!(
            "{}/{}",
            amount(current.and_then(|c| c.value.as_ref())),
            target.value.as_ref().map_or("<auto>", |v| v.0.as_str())
        ),
    }
}

/// `cpu: 12%/50%`, or with amounts.
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
