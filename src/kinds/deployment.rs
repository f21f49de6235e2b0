//! Deployments.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, RollingUpdateDeployment};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::columns::{Column, selector_cell, selector_parts};
use super::resource::{PodShape, Replicas, Resource, ScaleFields};
use apimachinery::default::{pod_spec, set, set_text};
use apimachinery::validate::workload::{
    at_most_hundred_percent, available_within_ready, collision_count, is_zero, positive_int_or_percent,
    replica_counts, required_selector, selector_and_template,
};
use apimachinery::validate::{FieldErrors, Path};

impl Resource for Deployment {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Ready", "Number of the pod with ready state", |deployment, _| {
            let ready = deployment.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0);
            json!(format!("{ready}/{}", deployment.spec.replicas.unwrap_or(0)))
        }),
        Column::number(
            "Up-to-date",
            "Total number of non-terminated pods that have the desired template spec.",
            |deployment, _| json!(deployment.status.as_ref().and_then(|s| s.updated_replicas).unwrap_or(0)),
        ),
        Column::number(
            "Available",
            "Total number of available pods (ready for at least minReadySeconds).",
            |deployment, _| json!(deployment.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0)),
        ),
        Column::age(),
        Column::containers().only_wide(),
        Column::images().only_wide(),
        Column::selector(|deployment, _| selector_cell(Some(&deployment.spec.selector))),
    ];
    const SCALE: Option<ScaleFields<Self>> = Some(ScaleFields {
        get: |deployment| Replicas {
            desired: deployment.spec.replicas,
            current: deployment.status.as_ref().and_then(|s| s.replicas).unwrap_or(0),
            selector: selector_parts(&deployment.spec.selector).join(","),
        },
        set: |deployment, count| deployment.spec.replicas = Some(count),
    });

    fn apply_defaults(&mut self) {
        let spec = &mut self.spec;
        set(&mut spec.replicas, 1);
        set(&mut spec.revision_history_limit, 10);
        set(&mut spec.progress_deadline_seconds, 600);
        let strategy = spec.strategy.get_or_insert_default();
        set_text(&mut strategy.type_, "RollingUpdate");
        if strategy.type_.as_deref() == Some("RollingUpdate") {
            let rolling = strategy.rolling_update.get_or_insert_default();
            set(&mut rolling.max_unavailable, IntOrString::String("25%".into()));
            set(&mut rolling.max_surge, IntOrString::String("25%".into()));
        }
        pod_spec::template(&mut spec.template);
    }

    /// As in Kubernetes, a change of the annotations counts as one of the spec: ReplicaSets get copies of them.
    fn prepare_for_update(&mut self, old: &Self) {
        if self.metadata.annotations != old.metadata.annotations {
            self.metadata.generation = old.metadata.generation.map(|generation| generation + 1);
        }
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let spec = &self.spec;
        let path = Path::root("spec");
        errors.non_negative(&path.child("replicas"), spec.replicas.unwrap_or(0));
        required_selector(errors, &path, &spec.selector, "deployment");
        selector_and_template(errors, &path, &spec.selector, Some(&spec.template));
        strategy(errors, &path.child("strategy"), spec);
        for (field, number) in [
            ("minReadySeconds", spec.min_ready_seconds),
            ("revisionHistoryLimit", spec.revision_history_limit),
        ] {
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

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        errors.immutable(&Path::root("spec.selector"), &self.spec.selector, &old.spec.selector);
    }

    fn validate_status(&self, old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let path = Path::root("status");
        errors.non_negative(&path.child("observedGeneration"), status.observed_generation.unwrap_or(0));
        let total = status.replicas.unwrap_or(0);
        let parts = [
            ("updatedReplicas", status.updated_replicas),
            ("readyReplicas", status.ready_replicas),
            ("availableReplicas", status.available_replicas),
        ];
        replica_counts(errors, total, &parts);
        errors.non_negative(&path.child("unavailableReplicas"), status.unavailable_replicas.unwrap_or(0));
        available_within_ready(errors, status.available_replicas, status.ready_replicas, "readyReplicas");
        let before = old.status.as_ref().and_then(|s| s.collision_count);
        collision_count(errors, status.collision_count, before);
    }

    fn pod(&self) -> Option<PodShape<'_>> {
        PodShape::of("spec.template.spec", &self.spec.template)
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
