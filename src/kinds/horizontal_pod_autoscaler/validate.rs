//! Validation of horizontal pod autoscalers.

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HPAScalingRules, HorizontalPodAutoscaler, MetricIdentifier, MetricSpec,
    MetricTarget,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::validate::{FieldErrors, Path, names, resources, selector};
use object::parse_api_version;
use object::quantity::Amount;

const LONGEST_WINDOW_SECONDS: i32 = 3600;
const LONGEST_PERIOD_SECONDS: i32 = 1800;
const METRIC_TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Validates a new autoscaler, or a new version of `old`.
pub(super) fn autoscaler(
    errors: &mut FieldErrors,
    autoscaler: &HorizontalPodAutoscaler,
    old: Option<&HorizontalPodAutoscaler>,
) {
    let path = Path::root("spec");
    let spec = &autoscaler.spec;
    let least = spec.min_replicas.unwrap_or(1);
    if least < 1 {
        errors.invalid(&path.child("minReplicas"), &least, "must be greater than or equal to 1");
    }
    if spec.max_replicas < 1 {
        errors.invalid(&path.child("maxReplicas"), &spec.max_replicas, "must be greater than 0");
    }
    if spec.max_replicas < least {
        errors.invalid(
            &path.child("maxReplicas"),
            &spec.max_replicas,
            "must be greater than or equal to `minReplicas`",
        );
    }
    let target = &spec.scale_target_ref;
    let version = target_version(target, old.map(|old| &old.spec.scale_target_ref));
    reference(errors, &path.child("scaleTargetRef"), target, version);
    // An autoscaler that already has metrics of objects without a readable `apiVersion` may keep such metrics.
    let described = if old.is_some_and(describes_no_kind) { Version::Any } else { Version::Readable };
    let metrics = path.child("metrics");
    for (i, metric) in spec.metrics.iter().flatten().enumerate() {
        metric_spec(errors, &metrics.index(i), metric, described);
    }
    if let Some(behavior) = &spec.behavior {
        let path = path.child("behavior");
        for (field, rules) in [("scaleUp", &behavior.scale_up), ("scaleDown", &behavior.scale_down)] {
            if let Some(rules) = rules {
                scaling_rules(errors, &path.child(field), rules);
            }
        }
    }
}

/// Validates a new status.
pub(super) fn status(errors: &mut FieldErrors, autoscaler: &HorizontalPodAutoscaler) {
    let path = Path::root("status");
    if let Some(status) = &autoscaler.status {
        errors.non_negative(&path.child("currentReplicas"), status.current_replicas.unwrap_or(0));
        errors.non_negative(&path.child("desiredReplicas"), status.desired_replicas);
    }
}

/// The requirement for the `apiVersion` of a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    /// No requirement, since the reference is older than the rule or unchanged.
    Any,
    /// A syntactically valid group and version.
    Readable,
    /// A version in a group other than the core group.
    Grouped,
}

impl Version {
    fn fault(self, reference: &CrossVersionObjectReference) -> Option<String> {
        match parse_api_version(reference.api_version.as_deref().unwrap_or_default()) {
            _ if self == Self::Any => None,
            Err(why) => Some(why),
            Ok(("", _)) if self == Self::Grouped => Some("apiVersion must specify API group".into()),
            Ok(_) => None,
        }
    }
}

/// Returns the required version of a target: of the core group's kinds, only ReplicationControllers can be
/// scaled.
fn target_version(new: &CrossVersionObjectReference, old: Option<&CrossVersionObjectReference>) -> Version {
    match old {
        Some(old) if old.api_version == new.api_version && old.kind == new.kind => Version::Any,
        _ if new.kind == "ReplicationController" => Version::Readable,
        _ => Version::Grouped,
    }
}

fn describes_no_kind(autoscaler: &HorizontalPodAutoscaler) -> bool {
    let objects = autoscaler.spec.metrics.iter().flatten().filter_map(|metric| metric.object.as_ref());
    objects.into_iter().any(|source| Version::Readable.fault(&source.described_object).is_some())
}

fn reference(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    reference: &CrossVersionObjectReference,
    version: Version,
) {
    for (field, value) in [("kind", &reference.kind), ("name", &reference.name)] {
        let path = path.child(field);
        errors.required_name(&path, value, names::path_segment);
    }
    if let Some(why) = version.fault(reference) {
        let given = reference.api_version.as_deref().unwrap_or_default();
        errors.invalid(&path.child("apiVersion"), given, why);
    }
}

fn metric_spec(errors: &mut FieldErrors, path: &Path<'_>, metric: &MetricSpec, described: Version) {
    if metric.type_.is_empty() {
        errors.required(&path.child("type"), "must specify a metric source type");
    }
    errors.one_of(&path.child("type"), &metric.type_, METRIC_TYPES);
    let given = [
        ("Object", "object", metric.object.is_some()),
        ("External", "external", metric.external.is_some()),
        ("Pods", "pods", metric.pods.is_some()),
        ("Resource", "resource", metric.resource.is_some()),
        ("ContainerResource", "containerResource", metric.container_resource.is_some()),
    ];
    for (type_, field, is_given) in given {
        let expected = type_ == metric.type_;
        if expected && !is_given {
            let detail = "must populate information for the given metric source";
            errors.required(&path.child(field), detail);
        } else if !expected && is_given {
            errors.forbidden(&path.child(field), "must populate the given metric source only");
        }
    }
    match metric.type_.as_str() {
        "Object" => object(errors, path, metric, described),
        "External" => external(errors, path, metric),
        "Pods" => pods(errors, path, metric),
        "Resource" => {
            if let Some(source) = &metric.resource {
                resource(errors, &path.child("resource"), &source.name, None, &source.target);
            }
        }
        "ContainerResource" => {
            if let Some(source) = &metric.container_resource {
                let path = path.child("containerResource");
                resource(errors, &path, &source.name, Some(&source.container), &source.target);
            }
        }
        _ => {}
    }
}

fn object(errors: &mut FieldErrors, path: &Path<'_>, metric: &MetricSpec, described: Version) {
    let Some(source) = &metric.object else { return };
    let path = path.child("object");
    reference(errors, &path.child("describedObject"), &source.described_object, described);
    identifier(errors, &path.child("metric"), &source.metric);
    target(errors, &path.child("target"), &source.target);
    if source.target.value.is_none() && source.target.average_value.is_none() {
        let detail = "must set either a target value or averageValue";
        errors.required(&path.child("target").child("averageValue"), detail);
    }
}

fn external(errors: &mut FieldErrors, path: &Path<'_>, metric: &MetricSpec) {
    let Some(source) = &metric.external else { return };
    let path = path.child("external");
    identifier(errors, &path.child("metric"), &source.metric);
    target(errors, &path.child("target"), &source.target);
    match (&source.target.value, &source.target.average_value) {
        (None, None) => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.required(&path.child("target").child("averageValue"), detail);
        }
        (Some(_), Some(_)) => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(&path.child("target").child("value"), detail);
        }
        _ => {}
    }
}

fn pods(errors: &mut FieldErrors, path: &Path<'_>, metric: &MetricSpec) {
    let Some(source) = &metric.pods else { return };
    let path = path.child("pods");
    identifier(errors, &path.child("metric"), &source.metric);
    target(errors, &path.child("target"), &source.target);
    if source.target.average_value.is_none() {
        let detail = "must specify a positive target averageValue";
        errors.required(&path.child("target").child("averageValue"), detail);
    }
}

fn resource(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    name: &str,
    container: Option<&String>,
    metric_target: &MetricTarget,
) {
    if name.is_empty() {
        errors.required(&path.child("name"), "must specify a resource name");
    } else if container.is_some() {
        resources::container_resource(errors, &path.child("name"), name);
    }
    match container.map(String::as_str) {
        Some("") => errors.required(&path.child("container"), "must specify a container"),
        Some(container) => {
            errors.invalid_each(&path.child("container"), container, names::dns_1123_label(container));
        }
        None => {}
    }
    let path = path.child("target");
    target(errors, &path, metric_target);
    match (metric_target.average_utilization, &metric_target.average_value) {
        (None, None) => {
            let detail = "must set either a target raw value or a target utilization";
            errors.required(&path.child("averageUtilization"), detail);
        }
        (Some(_), Some(_)) => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.forbidden(&path.child("averageValue"), detail);
        }
        _ => {}
    }
}

fn identifier(errors: &mut FieldErrors, path: &Path<'_>, metric: &MetricIdentifier) {
    if metric.name.is_empty() {
        errors.required(&path.child("name"), "must specify a metric name");
    } else {
        errors.invalid_each(&path.child("name"), &metric.name, names::path_segment(&metric.name));
    }
    if let Some(labels) = &metric.selector {
        selector::label_selector(errors, &path.child("selector"), labels);
    }
}

fn is_positive(quantity: &Quantity) -> bool {
    Amount::of(quantity) > Amount::ZERO
}

fn target(errors: &mut FieldErrors, path: &Path<'_>, target: &MetricTarget) {
    if target.type_.is_empty() {
        errors.required(&path.child("type"), "must specify a metric target type");
    }
    if !matches!(target.type_.as_str(), "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.invalid(&path.child("type"), &target.type_, detail);
    }
    for (field, value) in [("value", &target.value), ("averageValue", &target.average_value)] {
        if let Some(value) = value.as_ref().filter(|value| !is_positive(value)) {
            errors.invalid(&path.child(field), value, "must be positive");
        }
    }
    if let Some(percent) = target.average_utilization.filter(|percent| *percent < 1) {
        errors.invalid(&path.child("averageUtilization"), &percent, "must be greater than 0");
    }
}

fn scaling_rules(errors: &mut FieldErrors, path: &Path<'_>, rules: &HPAScalingRules) {
    if let Some(seconds) = rules.stabilization_window_seconds {
        let path = path.child("stabilizationWindowSeconds");
        if seconds < 0 {
            errors.invalid(&path, &seconds, "must be greater than or equal to zero");
        }
        if seconds > LONGEST_WINDOW_SECONDS {
            let detail = format!("must be less than or equal to {LONGEST_WINDOW_SECONDS}");
            errors.invalid(&path, &seconds, detail);
        }
    }
    if let Some(select) = &rules.select_policy {
        errors.one_of(&path.child("selectPolicy"), select, &["Disabled", "Max", "Min"]);
    }
    let policies = path.child("policies");
    if rules.policies.as_ref().is_none_or(Vec::is_empty) {
        errors.required(&policies, "must specify at least one Policy");
    }
    for (path, policy) in policies.each(rules.policies.iter().flatten()) {
        errors.one_of(&path.child("type"), &policy.type_, &["Percent", "Pods"]);
        for (field, value) in [("value", policy.value), ("periodSeconds", policy.period_seconds)] {
            if value <= 0 {
                errors.invalid(&path.child(field), &value, "must be greater than zero");
            }
        }
        if policy.period_seconds > LONGEST_PERIOD_SECONDS {
            let detail = format!("must be less than or equal to {LONGEST_PERIOD_SECONDS}");
            errors.invalid(&path.child("periodSeconds"), &policy.period_seconds, detail);
        }
    }
    if let Some(tolerance) = &rules.tolerance {
        resources::quantity(errors, &path.child("tolerance"), tolerance);
    }
}
