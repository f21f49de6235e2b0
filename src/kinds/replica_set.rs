//! Replica sets.

use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::json;

use super::columns::{Column, selector_cell, selector_parts};
use super::resource::{PodShape, Replicas, Resource, ScaleFields, SelectableField, selectable};
use apimachinery::default::{pod_spec, set};
use apimachinery::validate::workload::{
    available_within_ready, replica_counts, required_selector, selector_and_template,
};
use apimachinery::validate::{FieldErrors, Path};

impl Resource for ReplicaSet {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::number("Desired", "Number of desired pods.", |set, _| json!(set.spec.replicas.unwrap_or(0))),
        Column::number("Current", "The most recently observed number of pods.", |set, _| {
            json!(set.status.as_ref().map_or(0, |s| s.replicas))
        }),
        Column::number("Ready", "The number of pods with a Ready condition.", |set, _| {
            json!(set.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0))
        }),
        Column::age(),
        Column::containers().only_wide(),
        Column::images().only_wide(),
        Column::selector(|set, _| selector_cell(Some(&set.spec.selector))),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] = &[selectable("status.replicas", |set| {
        set.status.as_ref().map_or(0, |s| s.replicas).to_string().into()
    })];
    const SCALE: Option<ScaleFields<Self>> = Some(ScaleFields {
        get: |set| Replicas {
            desired: set.spec.replicas,
            current: set.status.as_ref().map_or(0, |s| s.replicas),
            selector: selector_parts(&set.spec.selector).join(","),
        },
        set: |set, count| set.spec.replicas = Some(count),
    });

    fn apply_defaults(&mut self) {
        set(&mut self.spec.replicas, 1);
        pod_spec::template(self.spec.template.get_or_insert_default());
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let spec = &self.spec;
        let path = Path::root("spec");
        errors.non_negative(&path.child("replicas"), spec.replicas.unwrap_or(0));
        errors.non_negative(&path.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
        required_selector(errors, &path, &spec.selector, "deployment");
        selector_and_template(errors, &path, &spec.selector, spec.template.as_ref());
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        errors.immutable(&Path::root("spec.selector"), &self.spec.selector, &old.spec.selector);
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let parts = [
            ("fullyLabeledReplicas", status.fully_labeled_replicas),
            ("readyReplicas", status.ready_replicas),
            ("availableReplicas", status.available_replicas),
        ];
        replica_counts(errors, status.replicas, &parts);
        let generation = status.observed_generation.unwrap_or(0);
        errors.non_negative(&Path::root("status.observedGeneration"), generation);
        available_within_ready(errors, status.available_replicas, status.ready_replicas, "readyReplicas");
    }

    fn pod(&self) -> Option<PodShape<'_>> {
        PodShape::of("spec.template.spec", self.spec.template.as_ref()?)
    }
}
