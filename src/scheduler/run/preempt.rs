//! Executes a preemption: the victims get their condition and event, and are deleted.

use crate::framework::Preemption;
use crate::state::pod_info::PodInfo;
use api::Api;
use object::pod::disruption::DisruptionReason;
use reconcile::{Disruption, Recorder, disrupt, ignore_not_found, preconditions};

/// Deletes the victims: each gets the DisruptionTarget condition, its own grace period, and an event.
pub(crate) fn evict(api: &Api, recorder: &Recorder, pod: &PodInfo, preemption: &Preemption) {
    for victim in preemption.victims.iter().filter(|victim| !victim.is_terminating()) {
        let scheduler = pod.scheduler_name();
        let summary = format!("{scheduler}: preempting to accommodate a higher priority pod");
        let disruption = Disruption {
            cause: DisruptionReason::Preemption,
            message: &summary,
            fails: false,
            grace_seconds: None,
        };
        match disrupt(api, &victim.pod, &disruption) {
            Ok(true) => {
                let message = format!("Preempted by pod {} on node {}", pod.uid(), preemption.node);
                recorder.normal(victim.pod.object(), "Preempted", message);
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(pod = %victim.key(), "preemption: {error}"),
        }
    }
}

/// Clears the pod's nomination.
pub(crate) fn clear_nomination(api: &Api, pod: &PodInfo) {
    let cleared = preconditions::modify_status(api, &pod.pod, |current| {
        if let Some(status) = current.status.as_mut() {
            status.nominated_node_name = None;
        }
    });
    if let Err(error) = ignore_not_found(cleared) {
        tracing::warn!(pod = %pod.key(), "cannot clear nominatedNodeName: {error}");
    }
}
