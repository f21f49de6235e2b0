//! Defaults of Jobs and CronJobs, and the selector that a Job is given when it is created.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};

use super::{set, set_text, workload};
use crate::object::job::{CONTROLLER_UID_LABELS, JOB_NAME_LABELS};

pub(super) fn job(job: &mut Job) {
    let spec = job.spec.get_or_insert_default();
    if spec.completions.is_none() && spec.parallelism.is_none() {
        spec.completions = Some(1);
    }
    set(&mut spec.parallelism, 1);
    // With a limit for each index only those limits count.
    set(&mut spec.backoff_limit, if spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 });
    set_text(&mut spec.completion_mode, "NonIndexed");
    set(&mut spec.suspend, false);
    set(&mut spec.manual_selector, false);
    let replaced = if spec.pod_failure_policy.is_some() { "Failed" } else { "TerminatingOrFailed" };
    set_text(&mut spec.pod_replacement_policy, replaced);
    of_any_spec(spec);
    labels_of_template(job);
}

/// What a Job's spec has even in the template of a CronJob; the rest comes when a Job is made of it.
fn of_any_spec(spec: &mut JobSpec) {
    for rule in spec.pod_failure_policy.iter_mut().flat_map(|policy| &mut policy.rules) {
        for pattern in rule.on_pod_conditions.iter_mut().flatten() {
            set_text(&mut pattern.status, "True");
        }
    }
    workload::template(&mut spec.template);
}

/// A Job without labels has those of its pods.
fn labels_of_template(job: &mut Job) {
    let template = job.spec.as_ref().and_then(|s| s.template.metadata.as_ref());
    let labels = template.and_then(|m| m.labels.clone()).unwrap_or_default();
    if !labels.is_empty() && job.metadata.labels.as_ref().is_none_or(BTreeMap::is_empty) {
        job.metadata.labels = Some(labels);
    }
}

/// Gives a new Job the selector and labels by which its pods are told from all others, unless it brings its
/// own selector. What it names already stays, for validation to judge.
pub(super) fn generate_selector(job: &mut Job) {
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

pub(super) fn cron_job(cron_job: &mut CronJob) {
    let spec = &mut cron_job.spec;
    set_text(&mut spec.concurrency_policy, "Allow");
    set(&mut spec.suspend, false);
    set(&mut spec.successful_jobs_history_limit, 3);
    set(&mut spec.failed_jobs_history_limit, 1);
    if let Some(template) = &mut spec.job_template.spec {
        of_any_spec(template);
    }
}
