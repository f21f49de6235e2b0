//! Jobs.

mod failure_policy;
mod status;
mod success_policy;
mod validate;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use serde::Serialize;
use serde_json::{Value, json};

use super::columns::{Column, selector_cell};
use super::resource::{PodShape, Resource, SelectableField, selectable};
use apimachinery::Propagation;
use apimachinery::default::{pod_spec, set, set_text};
use apimachinery::validate::FieldErrors;
use object::job::{CONTROLLER_UID_LABELS, JOB_NAME_LABELS};
use object::owner;
use object::time::human_age;

pub(super) use validate::job_spec as validate_spec;

impl Resource for Job {
    // A deletion without a propagation policy orphans the pods, as it always has in this API.
    const DEFAULT_PROPAGATION: Option<(Propagation, Option<&'static str>)> = Some((
        Propagation::Orphan,
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning",
        ),
    ));
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Status", "Status of the job.", |job, _| json!(state(job))),
        Column::text("Completions", "The number of succeeded pods and of completions.", |job, _| {
            json!(completions(job))
        }),
        Column::text("Duration", "Time required to complete the job.", |job, now| json!(duration(job, now))),
        Column::age(),
        Column::containers().only_wide(),
        Column::images().only_wide(),
        Column::selector(|job, _| selector_cell(job.spec.as_ref().and_then(|s| s.selector.as_ref()))),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] = &[selectable("status.successful", |job| {
        job.status.as_ref().and_then(|s| s.succeeded).unwrap_or(0).to_string().into()
    })];

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        if spec.completions.is_none() && spec.parallelism.is_none() {
            spec.completions = Some(1);
        }
        set(&mut spec.parallelism, 1);
        // A limit per index replaces the limit of the whole Job.
        set(&mut spec.backoff_limit, if spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 });
        set_text(&mut spec.completion_mode, "NonIndexed");
        set(&mut spec.suspend, false);
        set(&mut spec.manual_selector, false);
        let replaced = if spec.pod_failure_policy.is_some() { "Failed" } else { "TerminatingOrFailed" };
        set_text(&mut spec.pod_replacement_policy, replaced);
        default_any_spec(spec);
        labels_of_template(self);
    }

    fn prepare_for_create(&mut self) {
        generate_selector(self);
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validate::job(errors, self);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        validate::job_update(errors, self, old);
    }

    fn validate_status(&self, old: &Self, errors: &mut FieldErrors) {
        status::update(errors, self, old);
    }

    fn pod(&self) -> Option<PodShape<'_>> {
        PodShape::of("spec.template.spec", &self.spec.as_ref()?.template)
    }
}

/// Applies the defaults that also apply to the Job template of a CronJob. The other defaults are applied when a Job is
/// created from the template.
pub(super) fn default_any_spec(spec: &mut JobSpec) {
    for rule in spec.pod_failure_policy.iter_mut().flat_map(|policy| &mut policy.rules) {
        for pattern in rule.on_pod_conditions.iter_mut().flatten() {
            set_text(&mut pattern.status, "True");
        }
    }
    pod_spec::template(&mut spec.template);
}

/// Gives a Job without labels the labels of its pods.
fn labels_of_template(job: &mut Job) {
    let template = job.spec.as_ref().and_then(|s| s.template.metadata.as_ref());
    let labels = template.and_then(|m| m.labels.clone()).unwrap_or_default();
    if !labels.is_empty() && job.metadata.labels.as_ref().is_none_or(BTreeMap::is_empty) {
        job.metadata.labels = Some(labels);
    }
}

/// Gives a new Job a selector and labels that distinguish its pods from all others, unless it brings its own selector.
/// Values that the Job already has stay, and validation checks them.
fn generate_selector(job: &mut Job) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (uid, name) = (text(&job.metadata.uid), text(&job.metadata.name));
    let spec = job.spec.get_or_insert_default();
    if spec.manual_selector == Some(true) {
        return;
    }
    let labels = spec.template.metadata.get_or_insert_default().labels.get_or_insert_default();
    for (keys, value) in [(CONTROLLER_UID_LABELS, &uid), (JOB_NAME_LABELS, &name)] {
        for key in keys {
            labels.entry(key.to_string()).or_insert_with(|| value.clone());
        }
    }
    let picked = spec.selector.get_or_insert_default().match_labels.get_or_insert_default();
    picked.entry(CONTROLLER_UID_LABELS[0].to_string()).or_insert(uid);
    labels_of_template(job);
}

fn completions(job: &Job) -> String {
    let succeeded = job.status.as_ref().and_then(|s| s.succeeded).unwrap_or(0);
    let spec = job.spec.as_ref();
    match (spec.and_then(|s| s.completions), spec.and_then(|s| s.parallelism).unwrap_or(0)) {
        (Some(desired), _) => format!("{succeeded}/{desired}"),
        (None, workers) if workers > 1 => format!("{succeeded}/1 of {workers}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: &Job, now: Timestamp) -> String {
    let status = job.status.as_ref();
    let ended = status.and_then(|s| s.completion_time.as_ref()).map_or(now, |t| t.0);
    let started = status.and_then(|s| s.start_time.as_ref());
    started.map_or_else(String::new, |started| human_age(started.0, ended))
}

fn state(job: &Job) -> &'static str {
    let conditions = job.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let has = |type_: &str| conditions.iter().any(|c| c.type_ == type_ && c.status == "True");
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if owner::is_terminating(&job.metadata) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn to_json<T: Serialize>(value: &T) -> Value {
    object::json_of(value)
}
