//! Daemon sets.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetUpdateStrategy, RollingUpdateDaemonSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::columns::{Column, labels_text, selector_cell};
use super::resource::{PodShape, Resource};
use apimachinery::default::{pod_spec, set, set_text};
use apimachinery::validate::{FieldErrors, Path, selector, workload};

/// The annotation that counts changes of the template. Kubernetes' first API had a field for the number; today's API
/// has this annotation, and a label on the pods.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

impl Resource for DaemonSet {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::number(
            "Desired",
            "The total number of nodes that should be running the daemon pod.",
            |set, _| json!(set.status.as_ref().map_or(0, |s| s.desired_number_scheduled)),
        ),
        Column::number(
            "Current",
            "The number of nodes that are running the daemon pod and are supposed to.",
            |set, _| json!(set.status.as_ref().map_or(0, |s| s.current_number_scheduled)),
        ),
        Column::number(
            "Ready",
            "The number of nodes that should be running the daemon pod and have it ready.",
            |set, _| json!(set.status.as_ref().map_or(0, |s| s.number_ready)),
        ),
        Column::number(
            "Up-to-date",
            "The total number of nodes that are running the updated daemon pod.",
            |set, _| json!(set.status.as_ref().and_then(|s| s.updated_number_scheduled).unwrap_or(0)),
        ),
        Column::number(
            "Available",
            "The number of nodes that should be running the daemon pod and have it available.",
            |set, _| json!(set.status.as_ref().and_then(|s| s.number_available).unwrap_or(0)),
        ),
        Column::text("Node Selector", "The labels a node must have to run the pod.", |set, _| {
            labels_text(set.spec.template.spec.as_ref().and_then(|s| s.node_selector.as_ref()))
        }),
        Column::age(),
        Column::containers().only_wide(),
        Column::images().only_wide(),
        Column::selector(|set, _| selector_cell(Some(&set.spec.selector))),
    ];

    fn apply_defaults(&mut self) {
        let spec = &mut self.spec;
        set(&mut spec.revision_history_limit, 10);
        let strategy = spec.update_strategy.get_or_insert_default();
        set_text(&mut strategy.type_, "RollingUpdate");
        if strategy.type_.as_deref() == Some("RollingUpdate") {
            let rolling = strategy.rolling_update.get_or_insert_default();
            set(&mut rolling.max_unavailable, IntOrString::Int(1));
            set(&mut rolling.max_surge, IntOrString::Int(0));
        }
        pod_spec::template(&mut spec.template);
    }

    /// The template of a new DaemonSet has number 1, or the number that the client gives.
    fn prepare_for_create(&mut self) {
        let number = template_generation(self);
        set_template_generation(self, number);
    }

    /// Each change of the template increments the number, which clients cannot change.
    fn prepare_for_update(&mut self, old: &Self) {
        let changed = old.spec.template != self.spec.template;
        set_template_generation(self, template_generation(old).saturating_add(i64::from(changed)));
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let spec = &self.spec;
        let path = Path::root("spec");
        workload::selector_and_template_of("DaemonSet", errors, &path, &spec.selector, Some(&spec.template));
        // A missing selector was reported above and matches nothing.
        if spec.selector != LabelSelector::default() && selector::is_empty(&spec.selector) {
            errors.invalid(
                &path.child("selector"),
                &spec.selector,
                "empty selector is invalid for daemonset",
            );
        }
        errors.non_negative(&path.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
        update_strategy(errors, &path.child("updateStrategy"), spec.update_strategy.as_ref());
        errors.non_negative(&path.child("revisionHistoryLimit"), spec.revision_history_limit.unwrap_or(0));
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        errors.immutable(&Path::root("spec.selector"), &self.spec.selector, &old.spec.selector);
    }

    fn validate_status(&self, old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let path = Path::root("status");
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
        ] {
            errors.non_negative(&path.child(field), count.unwrap_or(0));
        }
        let before = old.status.as_ref().and_then(|s| s.collision_count);
        workload::collision_count(errors, status.collision_count, before);
    }

    fn pod(&self) -> Option<PodShape<'_>> {
        PodShape::of("spec.template.spec", &self.spec.template)
    }
}

fn template_generation(set: &DaemonSet) -> i64 {
    let annotation = set.metadata.annotations.as_ref().and_then(|a| a.get(TEMPLATE_GENERATION));
    annotation.and_then(|number| number.parse().ok()).unwrap_or(0).max(1)
}

fn set_template_generation(set: &mut DaemonSet, number: i64) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(TEMPLATE_GENERATION.to_string(), number.to_string());
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

/// Requires that one of `maxSurge` and `maxUnavailable` is zero and the other is not: new pods start either before or
/// after the old ones end.
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

/// Returns whether a count or percentage is nonzero. A text that is not a percentage counts as zero.
fn is_something(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(number) => *number != 0,
        IntOrString::String(_) => workload::percent(value).is_some_and(|percent| percent != 0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::built_in;
    use object::{Kind, Object};

    fn set(image: &str, number: Option<&str>) -> Object {
        let annotations = number.map(|n| json!({TEMPLATE_GENERATION: n}));
        let value: Value = json!({"metadata": {"name": "d", "annotations": annotations},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        Object::from_value(Kind::DaemonSet, value).unwrap()
    }

    #[test]
    fn each_change_of_the_template_is_counted_and_only_that_ds_1() {
        for (rule, new, old, expected) in [
            ("a new one", set("a", None), None, "1"),
            ("a copy of another", set("a", Some("7")), None, "7"),
            ("nonsense", set("a", Some("many")), None, "1"),
            ("less than nothing", set("a", Some("-3")), None, "1"),
            ("the same template", set("a", None), Some(set("a", Some("3"))), "3"),
            ("a number of the client's", set("a", Some("9")), Some(set("a", Some("3"))), "3"),
            ("another template", set("b", Some("3")), Some(set("a", Some("3"))), "4"),
            ("one that was not counted yet", set("b", None), Some(set("a", None)), "2"),
        ] {
            let mut new = new;
            match old {
                None => built_in(Kind::DaemonSet).prepare_for_create(&mut new),
                Some(old) => built_in(Kind::DaemonSet).prepare_for_update(&mut new, &old),
            }
            assert_eq!(new.meta().annotations.as_ref().unwrap()[TEMPLATE_GENERATION], expected, "{rule}");
        }
    }
}
