//! Disruption of a pod by a cluster component: sets the DisruptionTarget condition and then deletes the pod.

use k8s_openapi::api::core::v1::Pod;

use super::outcome::optional;
use api::{Api, ApiError, DeleteOptions};
use base::mistakes::Mistake;
use object::pod::disruption::{self, DisruptionReason};
use object::pod::{Phase, is_terminal};
use object::{Kind, SharedObject};

/// The parameters of a disruption.
#[derive(Clone, Copy, Debug)]
pub struct Disruption<'d> {
    /// The component that disrupts the pod.
    pub cause: DisruptionReason,
    /// The message of the condition.
    pub message: &'d str,
    /// Marks the pod as failed at once, because no kubelet is left to stop it. A pod that has finished keeps its
    /// phase.
    pub fails: bool,
    /// The grace period in seconds; the pod's own if `None`.
    pub grace_seconds: Option<i64>,
}

/// Sets the DisruptionTarget condition on the pod and deletes it. Returns false if the pod is gone or was replaced by
/// another with the same name.
pub fn disrupt(api: &Api, pod: &SharedObject<Pod>, disruption: &Disruption<'_>) -> Result<bool, ApiError> {
    let now = api.clock().time();
    let marked = api.modify_status::<Pod>(&pod.key(), |fresh| {
        let is_same = fresh.metadata.uid.as_deref() == Some(pod.uid());
        if is_same && !(disruption.fails && is_terminal(fresh)) {
            if disruption.fails {
                fresh.status.get_or_insert_default().phase = Some(Phase::Failed.into());
            }
            disruption::mark(fresh, disruption.cause, disruption.message, &now);
        }
        Ok(())
    });
    if optional(marked)?.is_none() {
        return Ok(false);
    }
    let grace_seconds = if Mistake::ForceDelete.is_enabled() { Some(0) } else { disruption.grace_seconds };
    let options = DeleteOptions { grace_period_seconds: grace_seconds, ..DeleteOptions::uid(pod.uid()) };
    match api.delete(Kind::Pod, &pod.key(), &options) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found_or_conflict() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_api::api;
    use object::pod::phase;

    fn create(api: &Api) -> SharedObject<Pod> {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"},
            "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}});
        api.create_as(serde_json::from_value::<Pod>(pod).unwrap()).unwrap()
    }

    /// PDB-1, NODE-2 (page "Disruptions", *Pod disruption conditions*).
    #[tokio::test(start_paused = true)]
    async fn a_pod_gets_its_disruption_condition_before_it_is_deleted() {
        let api = api();
        let pod = create(&api);
        let by = |cause| Disruption { cause, message: "why", fails: false, grace_seconds: None };
        assert!(disrupt(&api, &pod, &by(DisruptionReason::TaintManager)).unwrap());
        let going = api.get_as::<Pod>(&pod.key()).unwrap();
        assert!(going.metadata.deletion_timestamp.is_some());
        assert!(disruption::is_by(&going, DisruptionReason::TaintManager));
        assert!(disrupt(&api, &pod, &by(DisruptionReason::Preemption)).unwrap());
        let going = api.get_as::<Pod>(&pod.key()).unwrap();
        assert!(disruption::is_by(&going, DisruptionReason::Preemption), "the last one to end it says why");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_is_gone_or_another_by_now_is_left_alone() {
        let api = api();
        let old = create(&api);
        let gc = Disruption {
            cause: DisruptionReason::PodGc,
            message: "why",
            fails: true,
            grace_seconds: Some(0),
        };
        assert!(disrupt(&api, &old, &gc).unwrap());
        assert!(!disrupt(&api, &old, &gc).unwrap(), "it is gone");
        let new = create(&api);
        assert!(!disrupt(&api, &old, &gc).unwrap(), "another has its name");
        let new = api.get_as::<Pod>(&new.key()).unwrap();
        assert!(disruption::target(&new).is_none() && phase(&new) == Phase::Pending);
    }
}
