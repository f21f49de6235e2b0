//! Replication controllers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;

use super::columns::{Column, labels_text, selector_parts};
use super::resource::{PodShape, Replicas, Resource, ScaleFields, SelectableField, selectable};
use apimachinery::Propagation;
use apimachinery::default::{pod_spec, set};
use apimachinery::validate::{FieldErrors, Path, workload};

impl Resource for ReplicationController {
    const COUNTED_BY_PLURAL: bool = true;
    const DEFAULT_PROPAGATION: Option<(Propagation, Option<&'static str>)> =
        Some((Propagation::Orphan, None));
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::number("Desired", "Number of desired pods.", |set, _| {
            json!(set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(0))
        }),
        Column::number("Current", "The most recently observed number of pods.", |set, _| {
            json!(set.status.as_ref().map_or(0, |s| s.replicas))
        }),
        Column::number("Ready", "The number of pods with a Ready condition.", |set, _| {
            json!(set.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0))
        }),
        Column::age(),
        Column::containers().only_wide(),
        Column::images().only_wide(),
        Column::selector(|set, _| labels_text(set.spec.as_ref().and_then(|s| s.selector.as_ref()))),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] = &[selectable("status.replicas", |controller| {
        controller.status.as_ref().map_or(0, |s| s.replicas).to_string().into()
    })];
    const SCALE: Option<ScaleFields<Self>> = Some(ScaleFields {
        get: |controller| {
            let spec = controller.spec.as_ref();
            Replicas {
                desired: spec.and_then(|s| s.replicas),
                current: controller.status.as_ref().map_or(0, |s| s.replicas),
                selector: selector_parts(&selector_of(controller)).join(","),
            }
        },
        set: |controller, count| controller.spec.get_or_insert_default().replicas = Some(count),
    });

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        set(&mut spec.replicas, 1);
        let made = spec.template.get_or_insert_default();
        pod_spec::template(made);
        let labels = made.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
        if !labels.is_empty() {
            let missing = |map: Option<&_>| map.is_none_or(BTreeMap::is_empty);
            if missing(spec.selector.as_ref()) {
                spec.selector = Some(labels.clone());
            }
            if missing(self.metadata.labels.as_ref()) {
                self.metadata.labels = Some(labels);
            }
        }
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        let Some(spec) = &self.spec else { return errors.required(&path, "") };
        errors.non_negative(&path.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
        if spec.selector.as_ref().is_none_or(BTreeMap::is_empty) {
            errors.required(&path.child("selector"), "");
        }
        errors.non_negative(&path.child("replicas"), spec.replicas.unwrap_or(0));
        let selector = selector_of(self);
        let owner = "ReplicationController";
        workload::selector_and_template_of(owner, errors, &path, &selector, spec.template.as_ref());
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let parts = [
            ("fullyLabeledReplicas", status.fully_labeled_replicas),
            ("readyReplicas", status.ready_replicas),
            ("availableReplicas", status.available_replicas),
        ];
        workload::replica_counts(errors, status.replicas, &parts);
        let generation = status.observed_generation.unwrap_or(0);
        errors.non_negative(&Path::root("status.observedGeneration"), generation);
        let (available, ready) = (status.available_replicas, status.ready_replicas);
        workload::available_within_ready(errors, available, ready, "readyReplicas");
    }

    fn pod(&self) -> Option<PodShape<'_>> {
        PodShape::of("spec.template.spec", self.spec.as_ref()?.template.as_ref()?)
    }
}

/// Returns the selector in the form of newer kinds.
fn selector_of(controller: &ReplicationController) -> LabelSelector {
    let labels = controller.spec.as_ref().and_then(|s| s.selector.clone());
    LabelSelector { match_labels: labels, ..LabelSelector::default() }
}
