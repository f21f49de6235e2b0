//! Rules of Deployments and ReplicaSets.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::field::{FieldErrors, Path};
use super::{pod_spec, selector};
use crate::object::selector::Selector;

pub(super) fn deployment(errors: &mut FieldErrors, deployment: &Deployment) {
    let spec = &deployment.spec;
    let path = Path::root("spec");
    errors.non_negative(&path.child("replicas"), spec.replicas.unwrap_or(0));
    required_selector(errors, &path, &spec.selector, "deployment");
    selector_and_template(errors, &path, &spec.selector, Some(&spec.template));
    strategy(errors, &path.child("strategy"), spec);
    for (field, number) in
        [("minReadySeconds", spec.min_ready_seconds), ("revisionHistoryLimit", spec.revision_history_limit)]
    {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
    if let Some(deadline) = spec.progress_deadline_seconds {
        errors.non_negative(&path.child("progressDeadlineSeconds"), deadline);
        if deadline <= spec.min_ready_seconds.unwrap_or(0) {
            let path = path.child("progressDeadlineSeconds");
            errors.invalid(&path, &deadline, "must be greater than minReadySeconds");
        }
    }
}

pub(super) fn deployment_update(errors: &mut FieldErrors, new: &Deployment, old: &Deployment) {
    deployment(errors, new);
    errors.immutable(&Path::root("spec.selector"), &new.spec.selector, &old.spec.selector);
}

pub(super) fn replica_set(errors: &mut FieldErrors, replica_set: &ReplicaSet) {
    let spec = &replica_set.spec;
    let path = Path::root("spec");
    errors.non_negative(&path.child("replicas"), spec.replicas.unwrap_or(0));
    errors.non_negative(&path.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
    required_selector(errors, &path, &spec.selector, "deployment");
    selector_and_template(errors, &path, &spec.selector, spec.template.as_ref());
}

pub(super) fn replica_set_update(errors: &mut FieldErrors, new: &ReplicaSet, old: &ReplicaSet) {
    replica_set(errors, new);
    errors.immutable(&Path::root("spec.selector"), &new.spec.selector, &old.spec.selector);
}

/// A missing selector reads as an empty one; `noun` is what the kind is called in the answer.
pub(super) fn required_selector(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    selector: &LabelSelector,
    noun: &str,
) {
    if *selector == LabelSelector::default() {
        errors.required(&path.child("selector"), "");
    } else if selector::is_empty(selector) {
        let text = format!("empty selector is invalid for {noun}");
        errors.invalid(&path.child("selector"), selector, text);
    }
}

/// The selector is sound and picks what the template makes; the template makes pods that run forever.
pub(super) fn selector_and_template(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    selector: &LabelSelector,
    template: Option<&PodTemplateSpec>,
) {
    selector_and_template_of("ReplicaSet", errors, path, selector, template);
}

/// The same for an owner whose kind is named where the fault is its template's.
pub(super) fn selector_and_template_of(
    owner: &str,
    errors: &mut FieldErrors,
    path: &Path<'_>,
    selector: &LabelSelector,
    template: Option<&PodTemplateSpec>,
) {
    selector::label_selector(errors, &path.child("selector"), selector);
    let path = path.child("template");
    let Some(template) = template else {
        errors.required(&path, "");
        return;
    };
    let labels = template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_else(BTreeMap::new);
    // A selector that is missing matches nothing; one that is there but empty was refused above.
    let matched =
        *selector != LabelSelector::default() && Selector::from_field(selector).matches(Some(&labels));
    if !matched {
        errors.invalid(
            &path.child("metadata.labels"),
            &labels,
            "`selector` does not match template `labels`",
        );
    }
    pod_spec::template(errors, &path, template);
    let spec = template.spec.as_ref();
    if let Some(policy) = spec.and_then(|s| s.restart_policy.as_deref()).filter(|p| *p != "Always") {
        errors.unsupported(&path.child("spec.restartPolicy"), policy, &["Always"]);
    }
    if spec.is_some_and(|s| s.active_deadline_seconds.is_some()) {
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        errors.forbidden(&path.child("spec.activeDeadlineSeconds"), detail);
    }
}

pub(super) fn deployment_status(errors: &mut FieldErrors, deployment: &Deployment) {
    let Some(status) = &deployment.status else { return };
    let total = status.replicas.unwrap_or(0);
    let parts = [
        ("updatedReplicas", status.updated_replicas),
        ("readyReplicas", status.ready_replicas),
        ("availableReplicas", status.available_replicas),
    ];
    replica_counts(errors, total, &parts);
    let path = Path::root("status");
    errors.non_negative(&path.child("unavailableReplicas"), status.unavailable_replicas.unwrap_or(0));
    available_within_ready(errors, status.available_replicas, status.ready_replicas, "readyReplicas");
}

pub(super) fn replica_set_status(errors: &mut FieldErrors, replica_set: &ReplicaSet) {
    let Some(status) = &replica_set.status else { return };
    let parts = [
        ("fullyLabeledReplicas", status.fully_labeled_replicas),
        ("readyReplicas", status.ready_replicas),
        ("availableReplicas", status.available_replicas),
    ];
    replica_counts(errors, status.replicas, &parts);
    available_within_ready(errors, status.available_replicas, status.ready_replicas, "readyReplicas");
}

/// No part is more than the whole.
pub(super) fn replica_counts(errors: &mut FieldErrors, total: i32, parts: &[(&str, Option<i32>)]) {
    let path = Path::root("status");
    errors.non_negative(&path.child("replicas"), total);
    for (field, count) in parts {
        let count = count.unwrap_or(0);
        errors.non_negative(&path.child(field), count);
        if count > total {
            errors.invalid(&path.child(field), &count, "cannot be greater than status.replicas");
        }
    }
}

pub(super) fn available_within_ready(
    errors: &mut FieldErrors,
    available: Option<i32>,
    ready: Option<i32>,
    ready_field: &str,
) {
    let available = available.unwrap_or(0);
    if available > ready.unwrap_or(0) {
        let path = Path::root("status.availableReplicas");
        errors.invalid(&path, &available, format!("cannot be greater than {ready_field}"));
    }
}

fn strategy(errors: &mut FieldErrors, path: &Path<'_>, spec: &DeploymentSpec) {
    let Some(strategy) = &spec.strategy else { return };
    match strategy.type_.as_deref() {
        Some("Recreate") => {
            if strategy.rolling_update.is_some() {
                errors.forbidden(
                    &path.child("rollingUpdate"),
                    "may not be specified when strategy `type` is 'Recreate'",
                );
            }
        }
        Some("RollingUpdate") => match &strategy.rolling_update {
            None => {
                errors.required(&path.child("rollingUpdate"), "this should be defaulted and never be nil");
            }
            Some(rolling) => rolling_update(errors, &path.child("rollingUpdate"), rolling),
        },
        other => {
            errors.unsupported(path, other.unwrap_or_default(), &["Recreate", "RollingUpdate"]);
        }
    }
}

fn rolling_update(errors: &mut FieldErrors, path: &Path<'_>, rolling: &RollingUpdateDeployment) {
    let zero = IntOrString::Int(0);
    let unavailable = rolling.max_unavailable.as_ref().unwrap_or(&zero);
    let surge = rolling.max_surge.as_ref().unwrap_or(&zero);
    positive_int_or_percent(errors, &path.child("maxUnavailable"), unavailable);
    positive_int_or_percent(errors, &path.child("maxSurge"), surge);
    if is_zero(unavailable) && is_zero(surge) {
        errors.invalid(&path.child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0");
    }
    at_most_hundred_percent(errors, &path.child("maxUnavailable"), unavailable);
}

pub(super) fn is_zero(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(_) => percent(value) == Some(0),
    }
}

/// The number before the `%`, when the text is a percentage.
pub(super) fn percent(value: &IntOrString) -> Option<u64> {
    let IntOrString::String(text) = value else { return None };
    let digits = text.strip_suffix('%')?;
    let good = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    good.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// A count, or a percentage with its sign.
pub(super) fn positive_int_or_percent(errors: &mut FieldErrors, path: &Path<'_>, value: &IntOrString) {
    match value {
        IntOrString::Int(number) => errors.non_negative(path, *number),
        IntOrString::String(_) if percent(value).is_none() => errors.invalid(
            path,
            value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ),
        IntOrString::String(_) => {}
    }
}

/// More than everything makes no sense.
pub(super) fn at_most_hundred_percent(errors: &mut FieldErrors, path: &Path<'_>, value: &IntOrString) {
    if percent(value).is_some_and(|p| p > 100) {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}
