//! A Deployment's status: counts, Available, Progressing and its deadline, ReplicaFailure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetCondition,
};

use super::view::Budget;
use base::clock::{saturating_after, time, until};
use object::SharedObject;
use object::conditions::{self, Condition as _, ConditionStatus};
use object::well_known::condition::REPLICA_FAILURE;

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";

/// Reasons of the Progressing condition.
pub(super) mod reason {
    pub(crate) const CREATED: &str = "NewReplicaSetCreated";
    pub(crate) const FOUND: &str = "FoundNewReplicaSet";
    pub(crate) const UPDATED: &str = "ReplicaSetUpdated";
    pub(crate) const AVAILABLE: &str = "NewReplicaSetAvailable";
    pub(crate) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub(crate) const PAUSED: &str = "DeploymentPaused";
    pub(crate) const RESUMED: &str = "DeploymentResumed";
    pub(crate) const CREATE_FAILED: &str = "ReplicaSetCreateError";
}

/// Returns `progressDeadlineSeconds`, unless it is switched off.
pub(super) fn deadline(deployment: &Deployment) -> Option<Duration> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

pub(super) fn condition<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    conditions::get(status.conditions.as_ref(), type_)
}

fn reason_of(condition: &DeploymentCondition) -> &str {
    condition.reason.as_deref().unwrap_or_default()
}

/// Creates a condition that starts now.
pub(super) fn new_condition(
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: impl Into<String>,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        last_update_time: Some(time(now)),
        ..conditions::new(type_, status, reason, message, time(now))
    }
}

/// Sets a condition; one with the same status and reason stays.
pub(super) fn set_condition(status: &mut DeploymentStatus, next: DeploymentCondition) {
    let stands = |c: &DeploymentCondition| c.status == next.status && c.reason == next.reason;
    if !condition(status, next.type_()).is_some_and(stands) {
        conditions::set_last(status.conditions.get_or_insert_default(), next);
    }
}

/// Reports that the rollout was paused or resumed, unless its deadline has been exceeded.
pub(super) fn note_pause(deployment: &Deployment, status: &mut DeploymentStatus, now: Timestamp) {
    if deadline(deployment).is_none() {
        return;
    }
    let current = condition(status, PROGRESSING).map(reason_of);
    if current == Some(reason::TIMED_OUT) {
        return;
    }
    let paused = deployment.spec.paused == Some(true);
    let (reason, message) = match (paused, current == Some(reason::PAUSED)) {
        (true, false) => (reason::PAUSED, "Deployment is paused"),
        (false, true) => (reason::RESUMED, "Deployment is resumed"),
        _ => return,
    };
    set_condition(status, new_condition(PROGRESSING, ConditionStatus::Unknown, reason, message, now));
}

/// Returns the counts and the Available condition.
pub(super) fn counted(
    deployment: &Deployment,
    previous: &DeploymentStatus,
    replica_sets: &[SharedObject<ReplicaSet>],
    new: Option<&SharedObject<ReplicaSet>>,
    now: Timestamp,
) -> DeploymentStatus {
    let sum = |count: &dyn Fn(&ReplicaSet) -> i32| {
        replica_sets.iter().map(|s| count(s)).fold(0, i32::saturating_add)
    };
    let replicas = sum(&actual);
    let available = sum(&|s| s.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0));
    let ready = sum(&|s| s.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0));
    let terminating = sum(&|s| s.status.as_ref().and_then(|s| s.terminating_replicas).unwrap_or(0));
    let count = |n: i32| (n != 0).then_some(n);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: count(replicas),
        updated_replicas: count(new.map_or(0, |n| actual(n))),
        ready_replicas: count(ready),
        available_replicas: count(available),
        unavailable_replicas: count(replicas.saturating_sub(available).max(0)),
        terminating_replicas: Some(terminating),
        collision_count: previous.collision_count,
        conditions: previous.conditions.clone(),
    };
    let condition = if i64::from(available) >= Budget::of(deployment).min_available() {
        (ConditionStatus::True, "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        (
            ConditionStatus::False,
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    set_condition(&mut status, new_condition(AVAILABLE, condition.0, condition.1, condition.2, now));
    status
}

fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |s| s.replicas)
}

/// Returns true if every pod is new and available.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = deployment.spec.replicas.unwrap_or(1);
    let is_desired = |count: Option<i32>| count.unwrap_or(0) == desired;
    is_desired(status.updated_replicas)
        && is_desired(status.replicas)
        && is_desired(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

/// Returns true if the counts moved towards the end of the rollout.
fn progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let of = |count: Option<i32>| count.unwrap_or(0);
    let old = |s: &DeploymentStatus| of(s.replicas).saturating_sub(of(s.updated_replicas));
    of(after.updated_replicas) > of(before.updated_replicas)
        || old(after) < old(before)
        || of(after.ready_replicas) > of(before.ready_replicas)
        || of(after.available_replicas) > of(before.available_replicas)
}

fn timed_out(status: &DeploymentStatus, deadline: Duration, now: Timestamp) -> bool {
    let Some(progressing) = condition(status, PROGRESSING) else { return false };
    match reason_of(progressing) {
        reason::AVAILABLE => false,
        reason::TIMED_OUT => true,
        _ => saturating_after(updated_at(progressing), deadline) < now,
    }
}

/// Returns the time that the deadline counts from. A condition without one is older than any deadline, as in
/// Kubernetes: "now" in its place would move the deadline along with every pass.
fn updated_at(condition: &DeploymentCondition) -> Timestamp {
    condition.last_update_time.as_ref().map_or(Timestamp::MIN, |t| t.0)
}

/// Returns the complete status of a Deployment with an active rollout.
///
/// `previous` is the stored status; comparing with it shows progress.
pub(super) fn rolled_out(
    deployment: &Deployment,
    previous: &DeploymentStatus,
    replica_sets: &[SharedObject<ReplicaSet>],
    new: Option<&SharedObject<ReplicaSet>>,
    now: Timestamp,
) -> DeploymentStatus {
    let mut status = counted(deployment, previous, replica_sets, new, now);
    match deadline(deployment) {
        None => conditions::remove(&mut status.conditions, PROGRESSING),
        Some(deadline) => note_progress(&mut status, deployment, previous, new, deadline, now),
    }
    match replica_failure(replica_sets, new) {
        Some(failure) => set_condition(&mut status, failure),
        None => conditions::remove(&mut status.conditions, REPLICA_FAILURE),
    }
    status
}

fn note_progress(
    status: &mut DeploymentStatus,
    deployment: &Deployment,
    previous: &DeploymentStatus,
    new: Option<&SharedObject<ReplicaSet>>,
    deadline: Duration,
    now: Timestamp,
) {
    let current = condition(previous, PROGRESSING).cloned();
    let was_complete = current.as_ref().is_some_and(|c| reason_of(c) == reason::AVAILABLE);
    if was_complete && status.replicas == status.updated_replicas {
        return;
    }
    let subject = match new {
        Some(set) => format!("ReplicaSet \"{}\"", set.name()),
        None => format!("Deployment \"{}\"", deployment.metadata.name.as_deref().unwrap_or_default()),
    };
    if is_complete(deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        set_condition(
            status,
            new_condition(PROGRESSING, ConditionStatus::True, reason::AVAILABLE, message, now),
        );
    } else if progressed(previous, status) {
        let message = format!("{subject} is progressing.");
        let next = new_condition(PROGRESSING, ConditionStatus::True, reason::UPDATED, message, now);
        // Any progress renews the update time, from which the deadline counts, even with the same reason.
        conditions::set_last(status.conditions.get_or_insert_default(), next);
    } else if timed_out(status, deadline, now) {
        let message = format!("{subject} has timed out progressing.");
        set_condition(
            status,
            new_condition(PROGRESSING, ConditionStatus::False, reason::TIMED_OUT, message, now),
        );
    }
}

/// Returns the time until the next sync of a rollout that may be stuck.
pub(super) fn check_after(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let deadline = deadline(deployment)?;
    let progressing = condition(status, PROGRESSING)?;
    // A rollout that has ended has no deadline, even if one of its pods fails later.
    let has_ended = matches!(reason_of(progressing), reason::AVAILABLE | reason::TIMED_OUT);
    if has_ended || is_complete(deployment, status) {
        return None;
    }
    // One second more, because conditions have whole seconds.
    Some(until(now, saturating_after(updated_at(progressing), deadline)) + Duration::from_secs(1))
}

/// Returns the reason why pods cannot be created or deleted, preferring the new ReplicaSet's.
fn replica_failure(
    replica_sets: &[SharedObject<ReplicaSet>],
    new: Option<&SharedObject<ReplicaSet>>,
) -> Option<DeploymentCondition> {
    let of = |set: &SharedObject<ReplicaSet>| -> Option<ReplicaSetCondition> {
        conditions::get(set.status.as_ref()?.conditions.as_ref(), REPLICA_FAILURE).cloned()
    };
    let failure = new.and_then(of).or_else(|| replica_sets.iter().find_map(of))?;
    Some(DeploymentCondition {
        type_: failure.type_,
        status: failure.status,
        reason: failure.reason,
        message: failure.message,
        last_update_time: failure.last_transition_time.clone(),
        last_transition_time: failure.last_transition_time,
    })
}
