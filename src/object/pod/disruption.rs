//! DisruptionTarget: the condition of a pod that is deleted because of a disruption (page "Disruptions", *Pod
//! disruption conditions*).

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::condition;
use crate::conditions::{self, Condition as _, ConditionStatus};
use crate::well_known::condition::DISRUPTION_TARGET;

/// The cause of a disruption, which is the condition's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisruptionReason {
    /// The pod's node has a NoExecute taint that the pod does not tolerate.
    TaintManager,
    /// The pod is left over: no kubelet will ever stop it.
    PodGc,
    /// The scheduler makes room for a pod of a higher priority.
    Preemption,
    /// A client requested the pod's eviction.
    EvictionApi,
    /// The pod's node is under resource pressure, or shuts down.
    Kubelet,
}

impl DisruptionReason {
    /// Returns the condition's reason.
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

/// Sets the condition on a pod before its deletion; a pod that has it keeps the transition time.
pub fn mark(pod: &mut Pod, cause: DisruptionReason, message: &str, now: &Time) {
    let target =
        conditions::new(DISRUPTION_TARGET, ConditionStatus::True, cause.reason(), message, now.clone());
    conditions::set(pod.status.get_or_insert_default().conditions.get_or_insert_default(), target);
}

/// Clears the condition: the pod was not deleted in time.
pub fn clear(pod: &mut Pod, now: &Time) {
    let target = PodCondition {
        type_: DISRUPTION_TARGET.into(),
        status: ConditionStatus::False.into(),
        last_transition_time: Some(now.clone()),
        ..PodCondition::default()
    };
    conditions::set(pod.status.get_or_insert_default().conditions.get_or_insert_default(), target);
}

/// Returns the condition if it is True.
pub fn target(pod: &Pod) -> Option<&PodCondition> {
    condition(pod, DISRUPTION_TARGET).filter(|condition| condition.is_true())
}

/// Returns true if the pod is disrupted for this cause.
pub fn is_by(pod: &Pod, cause: DisruptionReason) -> bool {
    target(pod).is_some_and(|condition| condition.reason.as_deref() == Some(cause.reason()))
}
