//! DisruptionTarget: the condition by which a pod learns that it is ended for others' sake (page "Disruptions", *Pod
//! disruption conditions*).

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::condition;
use crate::conditions::{self, Condition as _, ConditionStatus};
use crate::well_known::condition::DISRUPTION_TARGET;

/// Who ends the pod, as the condition's reason says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its node has a NoExecute taint that it does not tolerate.
    TaintManager,
    /// It is left over: no kubelet will ever end it.
    PodGc,
    /// It makes room for a pod of a higher priority.
    Preemption,
    /// Somebody asked for its eviction.
    EvictionApi,
    /// Its node runs out of something, or goes down.
    Kubelet,
}

impl Cause {
    /// The condition's reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TaintManager => "DeletionByTaintManager",
            Self::PodGc => "DeletionByPodGC",
            Self::Preemption => "PreemptionByScheduler",
            Self::EvictionApi => "EvictionByEvictionAPI",
            Self::Kubelet => "TerminationByKubelet",
        }
    }
}

/// Marks the pod as about to be ended; one that was marked before keeps the time of that.
pub fn mark(pod: &mut Pod, cause: Cause, message: &str, now: &Time) {
    let target = PodCondition {
        type_: DISRUPTION_TARGET.into(),
        status: ConditionStatus::True.into(),
        reason: Some(cause.reason().into()),
        message: Some(message.into()),
        last_transition_time: Some(now.clone()),
        ..PodCondition::default()
    };
    conditions::set(pod.status.get_or_insert_default().conditions.get_or_insert_default(), target);
}

/// Takes it back: the pod was not asked to go in time.
pub fn clear(pod: &mut Pod, now: &Time) {
    let target = PodCondition {
        type_: DISRUPTION_TARGET.into(),
        status: ConditionStatus::False.into(),
        last_transition_time: Some(now.clone()),
        ..PodCondition::default()
    };
    conditions::set(pod.status.get_or_insert_default().conditions.get_or_insert_default(), target);
}

/// The condition of a pod that is about to be ended.
pub fn target(pod: &Pod) -> Option<&PodCondition> {
    condition(pod, DISRUPTION_TARGET).filter(|condition| condition.is_true())
}

/// Whether the pod is about to be ended for this cause.
pub fn is_by(pod: &Pod, cause: Cause) -> bool {
    target(pod).is_some_and(|condition| condition.reason.as_deref() == Some(cause.reason()))
}
