//! Decides whether a Job should end, and how.

use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::{JobCondition, SuccessPolicy};
use k8s_openapi::api::core::v1::Pod;

use super::counts::Counts;
use super::failure_policy::{FailureAction, action_for};
use super::view::View;
use base::clock::until;
use object::completion_indexes::CompletionIndexes;
use object::job::{FAILURE_TARGET, SUCCESS_CRITERIA_MET, is_suspended, true_condition};
use object::pod::{Phase, phase};

/// The decided end of a Job, perhaps not carried out yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobOutcome {
    pub(super) success: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl JobOutcome {
    fn failure(reason: &str, message: impl Into<String>) -> Self {
        Self { success: false, reason: reason.into(), message: message.into() }
    }

    /// All completions have been reached.
    pub(super) fn completions_reached() -> Self {
        Self {
            success: true,
            reason: "CompletionsReached".into(),
            message: "Reached expected number of succeeded pods".into(),
        }
    }

    fn decided(success: bool, condition: &JobCondition) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self { success, reason: text(&condition.reason), message: text(&condition.message) }
    }
}

/// Returns the reason why the Job should end regardless of its running pods; an earlier decision stands.
pub(super) fn ending(view: &View<'_>, counts: &Counts<'_>) -> Option<JobOutcome> {
    if let Some(met) = true_condition(view.job, SUCCESS_CRITERIA_MET) {
        return Some(JobOutcome::decided(true, met));
    }
    if let Some(target) = true_condition(view.job, FAILURE_TARGET) {
        return Some(JobOutcome::decided(false, target));
    }
    by_policy(view)
        .or_else(|| deadline_exceeded(view))
        .or_else(|| limit_exceeded(view, counts))
        .or_else(|| failed_indexes(view, counts))
        .or_else(|| by_success_policy(view, counts))
}

fn by_policy(view: &View<'_>) -> Option<JobOutcome> {
    let policy = view.spec.pod_failure_policy.as_ref()?;
    let failed = view.members.iter().filter(|m| view.is_failed(m));
    failed.into_iter().find_map(|m| match action_for(Some(policy), &m.pod) {
        FailureAction::FailJob(message) => Some(JobOutcome::failure("PodFailurePolicy", message)),
        _ => None,
    })
}

/// Returns the time until the Job exceeds its active deadline; `None` if it has none.
pub(super) fn until_deadline(view: &View<'_>) -> Option<std::time::Duration> {
    let seconds = view.spec.active_deadline_seconds.filter(|_| !is_suspended(view.spec))?;
    let start = view.job.status.as_ref()?.start_time.as_ref()?.0;
    let deadline = start.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    Some(until(view.now, deadline))
}

fn deadline_exceeded(view: &View<'_>) -> Option<JobOutcome> {
    until_deadline(view)
        .filter(std::time::Duration::is_zero)
        .map(|_| JobOutcome::failure("DeadlineExceeded", "Job was active longer than specified deadline"))
}

fn limit_exceeded(view: &View<'_>, counts: &Counts<'_>) -> Option<JobOutcome> {
    let limit = view.spec.backoff_limit.unwrap_or(6);
    (counts.failed > limit || restarted_too_often(view, limit))
        .then(|| JobOutcome::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
}

/// Returns true if container restarts exceed the limit: restarts in place count as the Job's failures.
fn restarted_too_often(view: &View<'_>, limit: i32) -> bool {
    let policy = view.spec.template.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let living = view.members.iter().filter(|m| matches!(phase(&m.pod), Phase::Pending | Phase::Running));
    let total = living.map(|m| restarts(&m.pod)).fold(0, i32::saturating_add);
    if limit == 0 { total > 0 } else { total >= limit }
}

/// Returns the total restarts of a pod's containers.
pub(super) fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.as_ref();
    let init = status.and_then(|s| s.init_container_statuses.as_ref());
    let apps = status.and_then(|s| s.container_statuses.as_ref());
    let all = init.into_iter().flatten().chain(apps.into_iter().flatten());
    all.map(|c| c.restart_count).fold(0, i32::saturating_add)
}

fn failed_indexes(view: &View<'_>, counts: &Counts<'_>) -> Option<JobOutcome> {
    let indexes = counts.indexes.as_ref()?;
    let failed = indexes.failed.as_ref()?.len();
    if view.spec.max_failed_indexes.is_some_and(|most| failed > most) {
        return Some(JobOutcome::failure(
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        ));
    }
    let all = failed.saturating_add(indexes.completed.len()) >= view.spec.completions.unwrap_or(0);
    (failed > 0 && all).then(|| JobOutcome::failure("FailedIndexes", "Job has failed indexes"))
}

fn by_success_policy(view: &View<'_>, counts: &Counts<'_>) -> Option<JobOutcome> {
    let completed = &counts.indexes.as_ref()?.completed;
    let rule =
        matching_rule(view.spec.success_policy.as_ref()?, view.spec.completions.unwrap_or(0), completed)?;
    Some(JobOutcome {
        success: true,
        reason: "SuccessPolicy".into(),
        message: format!("Matched rules at index {rule}"),
    })
}

/// Returns the first rule that these indexes satisfy.
fn matching_rule(policy: &SuccessPolicy, completions: i32, completed: &CompletionIndexes) -> Option<usize> {
    if completed.is_empty() {
        return None;
    }
    policy.rules.iter().position(|rule| match (&rule.succeeded_indexes, rule.succeeded_count) {
        (Some(indexes), at_least) => {
            let desired = CompletionIndexes::read(indexes, completions);
            let done = desired.shared_with(completed);
            !desired.is_empty() && (done == desired.len() || at_least.is_some_and(|count| done >= count))
        }
        (None, Some(count)) => completed.len() >= count,
        (None, None) => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_success_policy_is_met_by_its_first_fitting_rule_job_1() {
        let policy: SuccessPolicy = serde_json::from_value(json!({"rules": [
            {"succeededIndexes": "0,2-3", "succeededCount": 1},
            {"succeededIndexes": "5-6"},
            {"succeededCount": 3},
        ]}))
        .unwrap();
        for (completed, expected) in [
            ("", None),
            ("1", None),
            ("2", Some(0)),
            ("5", None),
            ("5,6", Some(1)),
            ("1,4,7", Some(2)),
            ("1,4,5", Some(2)),
            ("0-9", Some(0)),
        ] {
            let completed = CompletionIndexes::read(completed, 10);
            assert_eq!(matching_rule(&policy, 10, &completed), expected, "{completed}");
        }
    }
}
