//! Defaults of Jobs and CronJobs.

use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};

use super::{set, set_text, workload};

pub(super) fn job(job: &mut Job) {
    let spec = job.spec.get_or_insert_default();
    job_spec(spec);
    let labels = spec.template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    if !labels.is_empty() && job.metadata.labels.as_ref().is_none_or(std::collections::BTreeMap::is_empty) {
        job.metadata.labels = Some(labels);
    }
}

fn job_spec(spec: &mut JobSpec) {
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
    for rule in spec.pod_failure_policy.iter_mut().flat_map(|policy| &mut policy.rules) {
        for pattern in rule.on_pod_conditions.iter_mut().flatten() {
            set_text(&mut pattern.status, "True");
        }
    }
    workload::template(&mut spec.template);
}

pub(super) fn cron_job(cron_job: &mut CronJob) {
    let spec = &mut cron_job.spec;
    set_text(&mut spec.concurrency_policy, "Allow");
    set(&mut spec.suspend, false);
    set(&mut spec.successful_jobs_history_limit, 3);
    set(&mut spec.failed_jobs_history_limit, 1);
    if let Some(template) = &mut spec.job_template.spec {
        job_spec(template);
    }
}
