//! The conditions of a Job.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use super::outcome::JobOutcome;
use base::clock::time;
use object::conditions::{self, ConditionStatus};
use object::job::{COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED};

/// Sets a condition; does not add one with status False. Returns true if anything changed.
fn ensure(
    status: &mut JobStatus,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let text = |text: &str| Some(text.to_string()).filter(|t| !t.is_empty());
    let next = JobCondition {
        type_: type_.into(),
        status: ConditionStatus::from(holds).into(),
        reason: text(reason),
        message: text(message),
        last_probe_time: Some(time(now)),
        last_transition_time: Some(time(now)),
    };
    let same =
        |c: &JobCondition| c.status == next.status && c.reason == next.reason && c.message == next.message;
    let changed = match conditions::get(status.conditions.as_ref(), type_) {
        Some(current) => !same(current),
        None => holds,
    };
    if changed {
        conditions::replace(status.conditions.get_or_insert_default(), next);
    }
    changed
}

/// Reports whether the Job is suspended. Suspending stops its active time; resuming restarts it from zero.
pub(super) fn set_suspended(status: &mut JobStatus, suspended: bool, now: Timestamp) -> bool {
    let (reason, message) =
        if suspended { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
    let changed = ensure(status, SUSPENDED, suspended, reason, message, now);
    if changed {
        status.start_time = (!suspended).then(|| time(now));
    }
    changed
}

/// Reports how the Job will end once its pods are gone.
pub(super) fn set_target(status: &mut JobStatus, ending: &JobOutcome, now: Timestamp) {
    let type_ = if ending.success { SUCCESS_CRITERIA_MET } else { FAILURE_TARGET };
    if !conditions::is_true(status.conditions.as_ref(), type_) {
        ensure(status, type_, true, &ending.reason, &ending.message, now);
    }
}

/// Reports that the Job has ended.
pub(super) fn set_finished(status: &mut JobStatus, ending: &JobOutcome, now: Timestamp) {
    let type_ = if ending.success { COMPLETE } else { FAILED };
    ensure(status, type_, true, &ending.reason, &ending.message, now);
    if ending.success {
        status.completion_time = Some(time(now));
    }
}
