//! The meaning of a Job's spec and status.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec};

use super::conditions::{self, Condition};

/// The finalizer that keeps a pod's object until its end has been counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// A pod's index, as an annotation and a label.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The label with the Job's uid, and its older form without a prefix.
pub const CONTROLLER_UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
/// The label with the Job's name, and its older form without a prefix.
pub const JOB_NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// A Job with another `managedBy` belongs to another controller.
pub(crate) const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

/// The condition of a finished Job that succeeded.
pub const COMPLETE: &str = "Complete";
/// The condition of a finished Job that failed.
pub const FAILED: &str = "Failed";
/// The Job will fail once its pods are gone.
pub const FAILURE_TARGET: &str = "FailureTarget";
/// The Job will be complete once its pods are gone.
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
/// The Job creates no pods for now.
pub const SUSPENDED: &str = "Suspended";

/// Returns true if each pod has an index.
pub fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// Returns true if the Job should have no pods for now.
pub fn is_suspended(spec: &JobSpec) -> bool {
    spec.suspend == Some(true)
}

/// Returns true if another controller manages the Job.
pub fn is_externally_managed(spec: &JobSpec) -> bool {
    spec.managed_by.as_deref().is_some_and(|by| by != JOB_CONTROLLER)
}

/// Returns the condition of a type, with any status.
pub fn condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    conditions::get(job.status.as_ref()?.conditions.as_ref(), type_)
}

/// Returns the condition of a type that is True.
pub fn true_condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    condition(job, type_).filter(|c| c.is_true())
}

/// Returns the condition that ended the Job: Complete or Failed.
pub fn finished(job: &Job) -> Option<&JobCondition> {
    true_condition(job, COMPLETE).or_else(|| true_condition(job, FAILED))
}

/// Returns the time at which the Job ended.
pub fn finished_at(job: &Job) -> Option<Timestamp> {
    finished(job)?.last_transition_time.as_ref().map(|t| t.0)
}
