//! What people are told of a pod's scheduling: the PodScheduled condition and the events.

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{Api, ApiError};
use crate::reconcile::Recorder;
use crate::scheduler::cycle::NominatingInfo;
use crate::scheduler::state::pod_info::PodInfo;

/// Why a pod has no node, as the condition's reason says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduler) enum NotScheduled {
    /// No node takes it.
    Unschedulable,
    /// It has gates.
    SchedulingGated,
    /// The scheduler failed.
    SchedulerError,
}

impl NotScheduled {
    fn reason(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulingGated => "SchedulingGated",
            Self::SchedulerError => "SchedulerError",
        }
    }
}

/// Tells the pod's event and writes its condition.
pub(in crate::scheduler) fn not_scheduled(
    api: &Api,
    recorder: &Recorder,
    pod: &PodInfo,
    why: NotScheduled,
    message: &str,
    room: &NominatingInfo,
) {
    // A gated pod was not tried: nothing failed.
    if why != NotScheduled::SchedulingGated {
        recorder.warning(pod.pod.object(), "FailedScheduling", message);
    }
    let uid = pod.uid();
    let now = api.clock().time();
    let written = api.modify_status::<Pod>(&pod.key(), |current| {
        let is_this = current.metadata.uid.as_deref() == Some(uid);
        let waits = current.spec.as_ref().is_some_and(|s| s.node_name.as_ref().is_none_or(String::is_empty));
        if is_this && waits {
            put_condition(current, condition(why, message), &now);
            let status = current.status.get_or_insert_default();
            match room {
                NominatingInfo::Unchanged => {}
                NominatingInfo::None => status.nominated_node_name = None,
                NominatingInfo::Made(preemption) => {
                    status.nominated_node_name = Some(preemption.node.to_string())
                }
            }
        }
        Ok(())
    });
    match written {
        Ok(_) | Err(ApiError::NotFound { .. }) => {}
        Err(error) => tracing::warn!(pod = %pod.key(), "PodScheduled condition not written: {error}"),
    }
}

/// Tells that a pod got its node; the binding wrote the condition.
pub(in crate::scheduler) fn scheduled(recorder: &Recorder, pod: &PodInfo, node: &str) {
    let message = format!("Successfully assigned {} to {node}", pod.key());
    recorder.normal(pod.pod.object(), "Scheduled", message);
}

fn condition(why: NotScheduled, message: &str) -> PodCondition {
    PodCondition {
        type_: "PodScheduled".into(),
        status: "False".into(),
        reason: Some(why.reason().into()),
        message: Some(message.into()),
        ..PodCondition::default()
    }
}

/// Puts a condition in place of the one of its type; the time of its transition stays when there is none.
pub(in crate::scheduler) fn put_condition(pod: &mut Pod, mut next: PodCondition, now: &Time) {
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    next.last_transition_time = Some(now.clone());
    match conditions.iter_mut().find(|condition| condition.type_ == next.type_) {
        None => conditions.push(next),
        Some(condition) => {
            if condition.status == next.status {
                next.last_transition_time.clone_from(&condition.last_transition_time);
            }
            next.observed_generation = condition.observed_generation;
            next.last_probe_time.clone_from(&condition.last_probe_time);
            *condition = next;
        }
    }
}
