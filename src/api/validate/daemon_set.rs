//! Rules of DaemonSets.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetUpdateStrategy, RollingUpdateDaemonSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::field::{FieldErrors, Path};
use super::{selector, workload};

pub(super) fn daemon_set(errors: &mut FieldErrors, set: &DaemonSet) {
    let spec = &set.spec;
    let path = Path::root("spec");
    workload::selector_and_template_of("DaemonSet", errors, &path, &spec.selector, Some(&spec.template));
    // One that is missing matches nothing, which was said.
    if spec.selector != LabelSelector::default() && selector::is_empty(&spec.selector) {
        errors.invalid(&path.child("selector"), &spec.selector, "empty selector is invalid for daemonset");
    }
    errors.non_negative(&path.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
    update_strategy(errors, &path.child("updateStrategy"), spec.update_strategy.as_ref());
    errors.non_negative(&path.child("revisionHistoryLimit"), spec.revision_history_limit.unwrap_or(0));
}

pub(super) fn update(errors: &mut FieldErrors, new: &DaemonSet, old: &DaemonSet) {
    daemon_set(errors, new);
    errors.immutable(&Path::root("spec.selector"), &new.spec.selector, &old.spec.selector);
}

fn update_strategy(errors: &mut FieldErrors, path: &Path<'_>, strategy: Option<&DaemonSetUpdateStrategy>) {
    let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
    match strategy.and_then(|s| s.type_.as_deref()).unwrap_or_default() {
        "OnDelete" => {}
        "RollingUpdate" => match rolling {
            None => errors.required(&path.child("rollingUpdate"), ""),
            Some(rolling) => rolling_update(errors, &path.child("rollingUpdate"), rolling),
        },
        other => errors.unsupported(path, other, &["RollingUpdate", "OnDelete"]),
    }
}

/// Either old pods go before new ones come, or after: not both.
fn rolling_update(errors: &mut FieldErrors, path: &Path<'_>, rolling: &RollingUpdateDaemonSet) {
    let zero = IntOrString::Int(0);
    let unavailable = rolling.max_unavailable.as_ref().unwrap_or(&zero);
    let surge = rolling.max_surge.as_ref().unwrap_or(&zero);
    let (of_unavailable, of_surge) = (path.child("maxUnavailable"), path.child("maxSurge"));
    workload::positive_int_or_percent(errors, &of_unavailable, unavailable);
    workload::positive_int_or_percent(errors, &of_surge, surge);
    workload::at_most_hundred_percent(errors, &of_unavailable, unavailable);
    workload::at_most_hundred_percent(errors, &of_surge, surge);
    match (is_something(unavailable), is_something(surge)) {
        (true, true) => errors.invalid(&of_surge, surge, "may not be set when maxUnavailable is non-zero"),
        (false, false) => errors.required(&of_unavailable, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

/// What is neither a number nor a percentage counts as nothing.
fn is_something(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(number) => *number != 0,
        IntOrString::String(_) => workload::percent(value).is_some_and(|percent| percent != 0),
    }
}

pub(super) fn status_update(errors: &mut FieldErrors, new: &DaemonSet, old: &DaemonSet) {
    let Some(status) = &new.status else { return };
    let path = Path::root("status");
    let collisions = status.collision_count;
    for (field, count) in [
        ("currentNumberScheduled", status.current_number_scheduled),
        ("numberMisscheduled", status.number_misscheduled),
        ("desiredNumberScheduled", status.desired_number_scheduled),
        ("numberReady", status.number_ready),
    ] {
        errors.non_negative(&path.child(field), count);
    }
    errors.non_negative(&path.child("observedGeneration"), status.observed_generation.unwrap_or(0));
    for (field, count) in [
        ("updatedNumberScheduled", status.updated_number_scheduled),
        ("numberAvailable", status.number_available),
        ("numberUnavailable", status.number_unavailable),
        ("collisionCount", collisions),
    ] {
        errors.non_negative(&path.child(field), count.unwrap_or(0));
    }
    let before = old.status.as_ref().and_then(|s| s.collision_count);
    if before.is_some_and(|before| collisions.is_none_or(|now| now < before)) {
        errors.invalid(&path.child("collisionCount"), &collisions.unwrap_or(0), "cannot be decremented");
    }
}
