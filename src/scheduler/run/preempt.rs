//! Carries out a preemption: the victims are told and asked to go.

use k8s_openapi::api::core::v1::{Pod, PodCondition};

use crate::api::{Api, ApiError, DeleteOptions};
use crate::object::Kind;
use crate::reconcile::Recorder;
use crate::scheduler::framework::Preemption;
use crate::scheduler::run::report::put_condition;
use crate::scheduler::state::pod_info::PodInfo;

/// Asks the victims to go: each gets the condition that says why, its own grace period, and an event.
pub(in crate::scheduler) fn evict(api: &Api, recorder: &Recorder, pod: &PodInfo, preemption: &Preemption) {
    for victim in preemption.victims.iter().filter(|victim| !victim.is_terminating()) {
        match evict_one(api, pod, victim) {
            Ok(()) => {
                let message = format!("Preempted by pod {} on node {}", pod.uid(), preemption.node);
                recorder.normal(victim.pod.object(), "Preempted", message);
            }
            Err(ApiError::NotFound { .. }) => {}
            Err(error) => tracing::warn!(pod = %victim.key(), "preemption: {error}"),
        }
    }
}

fn evict_one(api: &Api, pod: &PodInfo, victim: &PodInfo) -> Result<(), ApiError> {
    let now = api.clock().time();
    let uid = victim.uid().to_string();
    let scheduler = pod.scheduler_name().to_string();
    api.modify_status::<Pod>(&victim.key(), |current| {
        if current.metadata.uid.as_deref() == Some(&uid) {
            let condition = PodCondition {
                type_: "DisruptionTarget".into(),
                status: "True".into(),
                reason: Some("PreemptionByScheduler".into()),
                message: Some(format!("{scheduler}: preempting to accommodate a higher priority pod")),
                ..PodCondition::default()
            };
            put_condition(current, condition, &now);
        }
        Ok(())
    })?;
    let options = DeleteOptions { uid: Some(uid.clone()), ..DeleteOptions::default() };
    api.delete(Kind::Pod, &victim.key(), &options).map(|_| ())
}

/// No node is kept for the pod any longer.
pub(in crate::scheduler) fn clear_nomination(api: &Api, pod: &PodInfo) {
    let uid = pod.uid();
    let cleared = api.modify_status::<Pod>(&pod.key(), |current| {
        if current.metadata.uid.as_deref() == Some(uid)
            && let Some(status) = current.status.as_mut()
        {
            status.nominated_node_name = None;
        }
        Ok(())
    });
    match cleared {
        Ok(_) | Err(ApiError::NotFound { .. }) => {}
        Err(error) => tracing::warn!(pod = %pod.key(), "nominatedNodeName not cleared: {error}"),
    }
}
