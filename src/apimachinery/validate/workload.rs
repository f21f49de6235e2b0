//! Rules of Deployments and ReplicaSets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::field::{FieldErrors, Path};
use super::{pod_spec, selector};
use object::selector::Selector;

/// Requires a selector that is not empty. `noun` is the kind's name in the error.
pub fn required_selector(errors: &mut FieldErrors, path: &Path<'_>, selector: &LabelSelector, noun: &str) {
    if *selector == LabelSelector::default() {
        errors.required(&path.child("selector"), "");
    } else if selector::is_empty(selector) {
        let text = format!("empty selector is invalid for {noun}");
        errors.invalid(&path.child("selector"), selector, text);
    }
}

/// Requires a valid selector that matches the template's labels, and a template of pods that are always restarted.
pub fn selector_and_template(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    selector: &LabelSelector,
    template: Option<&PodTemplateSpec>,
) {
    selector_and_template_of("ReplicaSet", errors, path, selector, template);
}

/// Does the same as [`selector_and_template`]. `owner` is the kind that errors in the template name.
pub fn selector_and_template_of(
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
    // A missing selector matches nothing, and an empty one was refused above.
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

/// Requires that no count exceeds the total.
pub fn replica_counts(errors: &mut FieldErrors, total: i32, parts: &[(&str, Option<i32>)]) {
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

/// Validates that no more replicas are available than `ready_field` says are ready.
pub fn available_within_ready(
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

/// Validates the collision count, the number of generated names that were already taken. It can only grow.
pub fn collision_count(errors: &mut FieldErrors, new: Option<i32>, old: Option<i32>) {
    let path = Path::root("status.collisionCount");
    errors.non_negative(&path, new.unwrap_or(0));
    if old.is_some_and(|old| new.is_none_or(|new| new < old)) {
        errors.invalid(&path, &new.unwrap_or(0), "cannot be decremented");
    }
}

/// Returns true for zero and for `0%`.
pub fn is_zero(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(_) => percent(value) == Some(0),
    }
}

/// Returns the number before the `%` if the text is a percentage.
pub fn percent(value: &IntOrString) -> Option<u64> {
    let IntOrString::String(text) = value else { return None };
    let digits = text.strip_suffix('%')?;
    let good = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    good.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Requires a count that is not negative, or a percentage with its sign.
pub fn positive_int_or_percent(errors: &mut FieldErrors, path: &Path<'_>, value: &IntOrString) {
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

/// Refuses percentages above 100.
pub fn at_most_hundred_percent(errors: &mut FieldErrors, path: &Path<'_>, value: &IntOrString) {
    if percent(value).is_some_and(|p| p > 100) {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}
