//! Rules of a Job's status. They apply to every writer.
//!
//! Most apply only to the fields that a write changes, so that an older error does not block later writes.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};

use super::to_json;
use apimachinery::validate::{FieldErrors, Path};
use object::completion_indexes::CompletionIndexes;
use object::job::{
    COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED, is_indexed, is_suspended,
    true_condition,
};

pub(super) fn update(errors: &mut FieldErrors, new: &Job, old: &Job) {
    let path = Path::root("status");
    let empty = (JobStatus::default(), JobSpec::default());
    let status = new.status.as_ref().unwrap_or(&empty.0);
    let before = old.status.as_ref().unwrap_or(&empty.0);
    let spec = new.spec.as_ref().unwrap_or(&empty.1);
    counts(errors, &path, status);
    conditions(errors, &path.child("conditions"), new, old);
    times(errors, &path, Change { new, old, status, before });
    finished(errors, &path, new, status, before);
    indexes(errors, &path, spec, status, before);
    if status.failed.unwrap_or(0) < before.failed.unwrap_or(0) {
        let failed = status.failed.unwrap_or(0);
        errors.invalid(&path.child("failed"), &failed, "cannot decrease the failed counter");
    }
    // A Job that shrinks loses the indexes beyond its new end.
    let shrinks = is_indexed(spec) && spec.completions == spec.parallelism;
    if !shrinks && status.succeeded.unwrap_or(0) < before.succeeded.unwrap_or(0) {
        let succeeded = status.succeeded.unwrap_or(0);
        errors.invalid(&path.child("succeeded"), &succeeded, "cannot decrease the succeeded counter");
    }
    let ready = status.ready.unwrap_or(0);
    if ready > status.active.unwrap_or(0) {
        errors.invalid(&path.child("ready"), &ready, "cannot set more ready pods than active");
    }
}

fn counts(errors: &mut FieldErrors, path: &Path<'_>, status: &JobStatus) {
    for (field, number) in [
        ("active", status.active),
        ("succeeded", status.succeeded),
        ("failed", status.failed),
        ("ready", status.ready),
        ("terminating", status.terminating),
    ] {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
    let Some(uncounted) = &status.uncounted_terminated_pods else { return };
    let path = path.child("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for (field, uids) in [("succeeded", &uncounted.succeeded), ("failed", &uncounted.failed)] {
        let path = path.child(field);
        for (i, uid) in uids.iter().flatten().enumerate() {
            if uid.is_empty() {
                errors.invalid(&path.index(i), uid, "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(&path.index(i), uid);
            }
        }
    }
}

fn conditions(errors: &mut FieldErrors, path: &Path<'_>, new: &Job, old: &Job) {
    let is = |type_: &str| true_condition(new, type_).is_some();
    let was = |type_: &str| true_condition(old, type_).is_some();
    let changed = |type_: &str| is(type_) != was(type_);
    let either = |one: &str, other: &str| changed(one) || changed(other);
    let rules = [
        (
            is(COMPLETE) && is(FAILED) && either(COMPLETE, FAILED),
            "cannot set Complete=True and Failed=true conditions",
        ),
        (
            is(COMPLETE) && is(FAILURE_TARGET) && either(COMPLETE, FAILURE_TARGET),
            "cannot set Complete=True and FailureTarget=true conditions",
        ),
        (
            is(FAILED) && !is(FAILURE_TARGET) && either(FAILED, FAILURE_TARGET),
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            is(COMPLETE) && !is(SUCCESS_CRITERIA_MET) && changed(COMPLETE),
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
        (
            is(SUCCESS_CRITERIA_MET) && is(FAILED),
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        ),
        (
            is(SUCCESS_CRITERIA_MET) && is(FAILURE_TARGET),
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
        (
            was(SUCCESS_CRITERIA_MET) && !is(SUCCESS_CRITERIA_MET),
            "cannot disable the SuccessCriteriaMet=True condition",
        ),
        (
            was(COMPLETE) && !was(SUCCESS_CRITERIA_MET) && is(SUCCESS_CRITERIA_MET),
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        ),
    ];
    for (broken, detail) in rules {
        if broken {
            errors.invalid_itself(path, detail);
        }
    }
    for type_ in [FAILED, COMPLETE, FAILURE_TARGET] {
        if was(type_) && !is(type_) {
            errors.invalid_itself(path, format!("cannot disable the terminal {type_}=True condition"));
        }
    }
}

/// Both versions with their statuses.
#[derive(Clone, Copy)]
struct Change<'a> {
    new: &'a Job,
    old: &'a Job,
    status: &'a JobStatus,
    before: &'a JobStatus,
}

fn times(errors: &mut FieldErrors, path: &Path<'_>, change: Change<'_>) {
    let Change { new, old, status, before } = change;
    let completion = path.child("completionTime");
    let is_complete = true_condition(new, COMPLETE).is_some();
    let completion_changed = status.completion_time != before.completion_time;
    let completed = is_complete != true_condition(old, COMPLETE).is_some() || completion_changed;
    let shown_time = to_json(&status.completion_time);
    if completed && !is_complete && status.completion_time.is_some() {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.invalid(&completion, &shown_time, detail);
    }
    if completed && is_complete && status.completion_time.is_none() {
        errors.required(&completion, "completionTime is required for Complete jobs");
    }
    let start_changed = status.start_time != before.start_time;
    if let (Some(start), Some(end)) = (&status.start_time, &status.completion_time)
        && (start_changed || completion_changed)
        && end.0 < start.0
    {
        errors.invalid(&completion, &shown_time, "must be equal to or after `startTime`");
    }
    if completion_changed && status.completion_time.is_some() && before.completion_time.is_some() {
        errors.invalid(&completion, &shown_time, "field is immutable");
    }
    // A resumed Job gets a new start time.
    let resumed = true_condition(old, SUSPENDED).is_some();
    let suspended = new.spec.as_ref().is_some_and(is_suspended);
    if start_changed && before.start_time.is_some() && !suspended && !resumed {
        let detail = "field is immutable for unsuspended job once set";
        errors.invalid(&path.child("startTime"), &to_json(&status.start_time), detail);
    }
}

fn finished(errors: &mut FieldErrors, path: &Path<'_>, new: &Job, status: &JobStatus, before: &JobStatus) {
    if object::job::finished(new).is_none() {
        return;
    }
    // The rules below apply to the write that ends the Job, and later to writes that change the field concerned.
    let ended = before.conditions != status.conditions;
    let active = status.active.unwrap_or(0);
    if active > 0 && (ended || status.active != before.active) {
        errors.invalid(&path.child("active"), &active, "active>0 is invalid for finished job");
    }
    if status.start_time.is_none() && (ended || before.start_time.is_some()) {
        errors.required(&path.child("startTime"), "startTime is required for finished job");
    }
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let left = uncounted
        .is_some_and(|u| u.succeeded.iter().flatten().chain(u.failed.iter().flatten()).next().is_some());
    if left && (ended || status.uncounted_terminated_pods != before.uncounted_terminated_pods) {
        errors.invalid(
            &path.child("uncountedTerminatedPods"),
            &to_json(&uncounted),
            "must be empty for finished job",
        );
    }
    let terminating = status.terminating.unwrap_or(0);
    if terminating > 0 && (ended || status.terminating != before.terminating) {
        errors.invalid(&path.child("terminating"), &terminating, "terminating>0 is invalid for finished job");
    }
}

fn indexes(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    spec: &JobSpec,
    status: &JobStatus,
    before: &JobStatus,
) {
    let completed_changed = status.completed_indexes != before.completed_indexes;
    let failed_changed = status.failed_indexes != before.failed_indexes;
    let completed = status.completed_indexes.as_deref().unwrap_or_default();
    let failed = status.failed_indexes.as_deref();
    let completed_path = path.child("completedIndexes");
    let failed_path = path.child("failedIndexes");
    let mut read = |changed: bool, path: &Path<'_>, field: &str, text: &str| {
        if let Some(wrong) = spec
            .completions
            .filter(|_| changed)
            .and_then(|completions| CompletionIndexes::parse(text, completions).err())
        {
            errors.invalid(path, text, format!("error parsing {field}: {wrong}"));
        }
    };
    read(completed_changed, &completed_path, "completedIndexes", completed);
    if spec.backoff_limit_per_index.is_some() {
        read(failed_changed, &failed_path, "failedIndexes", failed.unwrap_or_default());
    } else if let Some(failed) = failed.filter(|_| failed_changed) {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&failed_path, failed, detail);
    }
    if completed_changed && !completed.is_empty() && !is_indexed(spec) {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&completed_path, completed, detail);
    }
    if let (Some(completions), Some(failed), true) =
        (spec.completions, failed, completed_changed || failed_changed)
    {
        let done = CompletionIndexes::read(completed, completions);
        if let Some(index) = CompletionIndexes::read(failed, completions).first_shared_with(&done) {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.invalid(&failed_path, failed, detail);
        }
    }
}
