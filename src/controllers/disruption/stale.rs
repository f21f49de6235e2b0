//! Stale disruptions: a pod marked for disruption but not deleted in time stays, and its DisruptionTarget condition
//! becomes False (page "Disruptions", *Pod disruption conditions*).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::context::Context;
use api::{Api, Change, ChangeKind};
use base::clock::{saturating_after, time, until};
use object::Key;
use object::owner::is_terminating;
use object::pod::disruption::{self, DisruptionReason};
use object::pod::is_terminal;
use reconcile::{ReconcileError, Reconciler, WorkQueue, ignore_not_found, preconditions};

/// Starts the controller of stale disruptions.
pub(super) fn start(context: &Context) {
    context
        .controller(|queue| StaleDisruptions { api: context.api.clone(), queue })
        .named("stale-pod-disruption")
        .keys_of::<Pod>()
        .watches::<Pod, _>(StaleDisruptions::pod_changed)
        .run(&context.tasks);
}

struct StaleDisruptions {
    api: Api,
    queue: WorkQueue<Key>,
}

impl Reconciler for StaleDisruptions {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Ok(pod) = self.api.get_as::<Pod>(key) else { return Ok(()) };
        let now = self.api.clock().now();
        let Some(left) = self.until_stale(&pod, now) else { return Ok(()) };
        if !left.is_zero() {
            return Err(ReconcileError::After(left));
        }
        let reset = preconditions::modify_status(&self.api, &pod, |fresh| {
            // Its deletion may have been requested since.
            if self.until_stale(fresh, now).is_some_and(|left| left.is_zero()) {
                disruption::clear(fresh, &time(now));
            }
        });
        Ok(ignore_not_found(reset)?)
    }
}

impl StaleDisruptions {
    fn pod_changed(&self, change: &Change) {
        let Some(pod) = change.object.get::<Pod>().filter(|_| change.kind != ChangeKind::Deleted) else {
            return;
        };
        if let Some(left) = self.until_stale(pod, self.api.clock().now()) {
            self.queue.add_after(change.object.key(), left);
        }
    }

    /// Returns the time until a disruption counts as stale; `None` if there is none, or the pod is being deleted.
    fn until_stale(&self, pod: &Pod, now: Timestamp) -> Option<Duration> {
        let target = disruption::target(pod)?;
        // A kubelet may take any time before it deletes the pod it evicts.
        if is_terminating(&pod.metadata)
            || is_terminal(pod)
            || disruption::is_by(pod, DisruptionReason::Kubelet)
        {
            return None;
        }
        // A condition without a time is older than any timeout, as in Kubernetes.
        let since = target.last_transition_time.as_ref().map_or(Timestamp::MIN, |t| t.0);
        Some(until(now, saturating_after(since, self.api.timings().disruption_timeout.0)))
    }
}
