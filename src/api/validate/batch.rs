//! Rules of Jobs and CronJobs.

use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};

use super::field::{FieldErrors, Path};
use super::pod_spec;

pub(super) fn job(errors: &mut FieldErrors, job: &Job) {
    let path = Path::root("spec");
    let Some(spec) = &job.spec else { return errors.required(&path, "") };
    job_spec(errors, &path, spec);
}

fn job_spec(errors: &mut FieldErrors, path: &Path<'_>, spec: &JobSpec) {
    for (field, number) in [
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
    ] {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
    errors.non_negative(&path.child("activeDeadlineSeconds"), spec.active_deadline_seconds.unwrap_or(0));
    let template = path.child("template");
    pod_spec::template(errors, &template, &spec.template);
    let policy = spec.template.spec.as_ref().and_then(|s| s.restart_policy.as_deref()).unwrap_or_default();
    if !matches!(policy, "OnFailure" | "Never") {
        errors.required_one_of(&template.child("spec.restartPolicy"), Some(policy), &["OnFailure", "Never"]);
    }
}

pub(super) fn job_update(errors: &mut FieldErrors, new: &Job, old: &Job) {
    job(errors, new);
    let (Some(new), Some(old)) = (&new.spec, &old.spec) else { return };
    let path = Path::root("spec");
    errors.immutable(&path.child("completionMode"), &new.completion_mode, &old.completion_mode);
}

pub(super) fn cron_job(errors: &mut FieldErrors, cron_job: &CronJob) {
    let path = Path::root("spec");
    let spec = &cron_job.spec;
    if spec.schedule.is_empty() {
        errors.required(&path.child("schedule"), "");
    }
    errors.required_one_of(
        &path.child("concurrencyPolicy"),
        spec.concurrency_policy.as_deref(),
        &["Allow", "Forbid", "Replace"],
    );
    let template = path.child("jobTemplate");
    match &spec.job_template.spec {
        Some(job) => job_spec(errors, &template.child("spec"), job),
        None => errors.required(&template.child("spec"), ""),
    }
}
