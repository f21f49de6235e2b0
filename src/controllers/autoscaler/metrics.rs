//! Evaluates an autoscaler's metrics against the kubelets' measurements of its pods.
//!
//! Podium measures cpu and memory of containers. There is no server for custom or external metrics; an autoscaler on
//! those gets the error that Kubernetes' clients report.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, ExternalMetricSource, MetricSpec, MetricStatus, MetricTarget,
    MetricValueStatus, ObjectMetricSource, ResourceMetricStatus,
};
use k8s_openapi::api::core::v1::Pod;

use super::replicas::{Goal, MetricQuery, Metrics, PodMetric, Proposal, Tolerance, propose};
use api::Api;
use api::usage::ResourceUsage;
use object::quantity::Amount;
use object::{SharedObject, go_format};

/// The target's present state.
pub(super) struct Target<'a> {
    pub(super) namespace: &'a str,
    pub(super) pods: &'a [SharedObject<Pod>],
    pub(super) replicas: i32,
    pub(super) tolerance: Tolerance,
    pub(super) now: Timestamp,
}

pub(super) struct MetricRecommendation {
    pub(super) replicas: i32,
    /// The metric's name, as in reasons.
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

/// The reason why a metric gives no recommendation.
pub(super) struct MetricError {
    /// The reason of the condition and the event.
    pub(super) reason: &'static str,
    /// The message of the event.
    pub(super) event: String,
    /// The message within a list of metrics.
    pub(super) error: String,
}

/// Evaluates one metric.
pub(super) fn evaluate(
    api: &Api,
    target: &Target<'_>,
    metric: &MetricSpec,
) -> Result<MetricRecommendation, MetricError> {
    match metric.type_.as_str() {
        "Resource" => {
            let source = metric.resource.clone().unwrap_or_default();
            let answered = resource(api, target, &source.name, None, &source.target);
            let (replicas, name, current) = answered.map_err(|event| MetricError {
                reason: "FailedGetResourceMetric",
                error: format!("failed to get {} resource metric value: {event}", source.name),
                event,
            })?;
            let resource = Some(ResourceMetricStatus { name: source.name, current });
            Ok(MetricRecommendation {
                replicas,
                name,
                status: MetricStatus { type_: "Resource".into(), resource, ..MetricStatus::default() },
            })
        }
        "ContainerResource" => {
            let source = metric.container_resource.clone().unwrap_or_default();
            let answered = resource(api, target, &source.name, Some(&source.container), &source.target);
            let (replicas, name, current) = answered.map_err(|event| MetricError {
                reason: "FailedGetContainerResourceMetric",
                error: format!("failed to get {} container metric value: {event}", source.container),
                event,
            })?;
            let (name_, container) = (source.name, source.container);
            let of_container = Some(ContainerResourceMetricStatus { name: name_, container, current });
            let type_ = "ContainerResource".into();
            let status = MetricStatus { type_, container_resource: of_container, ..MetricStatus::default() };
            Ok(MetricRecommendation { replicas, name, status })
        }
        _ => Err(unmeasured(target.namespace, metric)),
    }
}

/// Returns the error for a metric that Podium cannot measure: no server for custom or external metrics is registered,
/// or the type is unknown.
fn unmeasured(namespace: &str, metric: &MetricSpec) -> MetricError {
    const NO_CUSTOM: &str = "unable to fetch metrics from custom metrics API: no custom metrics API \
                             (custom.metrics.k8s.io) registered";
    if let Some(source) = &metric.pods {
        let event = format!("unable to get metric {}: {NO_CUSTOM}", source.metric.name);
        let error = format!("failed to get pods metric value: {event}");
        return MetricError { reason: "FailedGetPodsMetric", event, error };
    }
    if let Some(ObjectMetricSource { described_object: object, metric, .. }) = &metric.object {
        let event = format!(
            "unable to get metric {}: {} on {namespace} {}/{NO_CUSTOM}",
            metric.name, object.kind, object.name
        );
        let error = format!("failed to get object metric value: {event}");
        return MetricError { reason: "FailedGetObjectMetric", event, error };
    }
    if let Some(ExternalMetricSource { metric, .. }) = &metric.external {
        let name = &metric.name;
        let selector = metric.selector.as_ref().map_or_else(|| "nil".to_string(), go_format::label_selector);
        let event = format!(
            "unable to get external metric {namespace}/{name}/{selector}: unable to fetch metrics from external \
             metrics API: no external metrics API (external.metrics.k8s.io) registered"
        );
        let error = format!("failed to get {name} external metric value: {event}");
        return MetricError { reason: "FailedGetExternalMetric", event, error };
    }
    let event = format!("unknown metric source type {:?}", metric.type_);
    MetricError { reason: "InvalidMetricSourceType", error: event.clone(), event }
}

type Resource = (i32, String, MetricValueStatus);

fn resource(
    api: &Api,
    target: &Target<'_>,
    name: &str,
    container: Option<&str>,
    metric_target: &MetricTarget,
) -> Result<Resource, String> {
    let (goal, called, of) = match (&metric_target.average_value, metric_target.average_utilization) {
        (Some(value), _) => {
            (Goal::AverageValue(Amount::of(value).millis()), format!("{name} resource"), "usage")
        }
        (None, Some(percent)) => {
            let container = container.map_or("", |_| "container ");
            let called = format!("{name} {container}resource utilization (percentage of request)");
            (Goal::Utilization(percent), called, "utilization")
        }
        (None, None) => {
            return Err(
                "invalid resource metric source: neither an average utilization target nor an average \
                        value (usage) target was set"
                    .into(),
            );
        }
    };
    let failed = |reason: String| format!("failed to get {name} {of}: {reason}");
    let metrics = measure(api, target, name, container)
        .map_err(|why| failed(format!("unable to get metrics for resource {name}: {why}")))?;
    let query = MetricQuery {
        resource: name,
        container,
        goal,
        tolerance: target.tolerance,
        current: target.replicas,
        now: target.now,
    };
    let pods = target.pods.iter().map(|pod| &**pod);
    let proposal = propose(&query, pods, metrics).map_err(failed)?;
    Ok((proposal.replicas, called, value_status(&proposal)))
}

fn value_status(proposal: &Proposal) -> MetricValueStatus {
    MetricValueStatus {
        average_utilization: proposal.utilization,
        average_value: Some(Amount::from_millis(proposal.average_millis).to_decimal()),
        value: None,
    }
}

fn measure(
    api: &Api,
    target: &Target<'_>,
    resource: &str,
    container: Option<&str>,
) -> Result<Metrics, String> {
    let mut metrics = Metrics::new();
    let mut any = false;
    for pod in target.pods {
        let Some((node, containers)) = api.pod_usage(pod) else { continue };
        any = true;
        let measured = match container {
            None => containers.values().map(|usage| millis(usage, resource)).sum(),
            Some(name) => {
                let Some(usage) = containers.get(name) else {
                    let pod = pod.key();
                    let prefix = "failed to get container metrics: container";
                    return Err(format!("{prefix} {name} not present in metrics for pod {pod}"));
                };
                millis(usage, resource)
            }
        };
        if let Some(millis) = measured {
            let measured = PodMetric { millis, at: node.at, window: node.window };
            metrics.insert(pod.name().to_string(), measured);
        }
    }
    if any { Ok(metrics) } else { Err("no metrics returned from resource metrics API".into()) }
}

/// Returns the usage in thousandths; `None` for a resource that is not measured.
fn millis(usage: &ResourceUsage, resource: &str) -> Option<i64> {
    let saturated = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    match resource {
        "cpu" => Some(saturated(usage.cpu_nanocores.div_ceil(1_000_000))),
        "memory" => Some(saturated(usage.memory_bytes).saturating_mul(1000)),
        _ => None,
    }
}
