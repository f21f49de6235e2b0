//! Reports of a pod's scheduling: the PodScheduled condition and the events.

use k8s_openapi::api::core::v1::PodCondition;

use crate::cycle::NominatingInfo;
use crate::state::pod_info::PodInfo;
use api::Api;
use object::conditions::{self, ConditionStatus};
use object::pod::node_name;
use object::well_known::condition::POD_SCHEDULED;
use reconcile::{Recorder, ignore_not_found, preconditions};

/// The condition's reason for a pod without a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnscheduledReason {
    /// No node fits.
    Unschedulable,
    /// The pod has scheduling gates.
    SchedulingGated,
    /// The scheduler failed.
    SchedulerError,
}

impl UnscheduledReason {
    fn reason(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulingGated => "SchedulingGated",
            Self::SchedulerError => "SchedulerError",
        }
    }
}

/// Records the pod's event and writes its condition.
pub(crate) fn not_scheduled(
    api: &Api,
    recorder: &Recorder,
    pod: &PodInfo,
    reason: UnscheduledReason,
    message: &str,
    nomination: &NominatingInfo,
) {
    // A gated pod was not tried: nothing failed.
    if reason != UnscheduledReason::SchedulingGated {
        recorder.warning(pod.pod.object(), "FailedScheduling", message);
    }
    let now = api.clock().time();
    let written = preconditions::modify_status(api, &pod.pod, |current| {
        if node_name(current).is_none() {
            let status = current.status.get_or_insert_default();
            let mut next: PodCondition =
                conditions::new(POD_SCHEDULED, ConditionStatus::False, reason.reason(), message, now.clone());
            next.observed_generation = current.metadata.generation;
            conditions::set(status.conditions.get_or_insert_default(), next);
            match nomination {
                NominatingInfo::Unchanged => {}
                NominatingInfo::None => status.nominated_node_name = None,
                NominatingInfo::Preempted(preemption) => {
                    status.nominated_node_name = Some(preemption.node.to_string());
                }
            }
        }
    });
    if let Err(error) = ignore_not_found(written) {
        tracing::warn!(pod = %pod.key(), "cannot write the PodScheduled condition: {error}");
    }
}

/// Records that a pod was placed; the binding wrote the condition.
pub(crate) fn scheduled(recorder: &Recorder, pod: &PodInfo, node: &str) {
    let message = format!("Successfully assigned {} to {node}", pod.key());
    recorder.normal(pod.pod.object(), "Scheduled", message);
}
