//! Resizes running containers: the node's allocation, the kernel's limits, and the events of both.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::{ActionResult, SyncPod};
use crate::admit::ResizeRefusal;
use crate::observed::ObservedPod;
use crate::resize::{self, FailedResize, PendingResize};
use crate::runtime::{ContainerId, ContainerRecord, RuntimeError};
use crate::{plan, spec, volumes};
use base::clock::saturating_after;
use reconcile::EventType;

/// The interval at which limits that could not be set are tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

impl SyncPod<'_> {
    /// Allocates the resources of the current spec to the pod's containers, if the node has enough.
    pub(super) fn resize(&mut self) {
        let observed = &self.state.observed;
        if self.deleted || observed.stop.is_some() || plan::is_terminal(&self.pod) {
            return;
        }
        if !observed.resize.is_requested(&self.pod) {
            self.state.observed.resize.pending = None;
            self.record_end_of_resize();
            return;
        }
        let (uid, node) = (self.pod.uid().to_string(), self.node);
        let given = node.admitted.lock().resize(&uid, &self.pod, &node.config.capacity, self.now());
        match given {
            Ok(waiting) => {
                self.state.observed.resize.allocate(&self.pod);
                self.state.refresh |= volumes::shows_itself(&self.pod);
                // A container that starts later has the new resources from its start.
                if is_in_progress(&self.pod, &self.state.observed, |record| record.exit.is_none()) {
                    self.record_resize(EventType::Normal, "ResizeStarted", "started", None);
                    self.state.observed.resize.started = Some(self.pod.metadata.generation.unwrap_or(0));
                }
                self.workers.resync(waiting);
            }
            Err(ResizeRefusal { reason, event_reason, message }) => {
                let pending =
                    PendingResize { reason, event_reason, message, generation: self.pod.metadata.generation };
                if self.state.observed.resize.pending.as_ref() != Some(&pending) {
                    let event = format!("Resize{reason}");
                    let text = resize::message(
                        &pending.event_reason,
                        &self.pod,
                        &self.state.observed.resize,
                        true,
                        Some(&pending.message),
                    );
                    self.event(EventType::Warning, &event, text);
                    self.state.observed.resize.pending = Some(pending);
                }
            }
        }
    }

    fn record_resize(&self, type_: EventType, reason: &str, summary: &str, error: Option<&str>) {
        let text = resize::message(summary, &self.pod, &self.state.observed.resize, false, error);
        self.event(type_, reason, text);
    }

    /// Records once that all running containers have their allocated resources.
    pub(super) fn record_end_of_resize(&mut self) {
        let observed = &self.state.observed;
        // A container that ended for its resize has completed it once it runs again.
        let counts = |record: &ContainerRecord| record.exit.is_none() || observed.restarts_for_change(record);
        if observed.resize.started.is_none() || is_in_progress(&self.pod, observed, counts) {
            return;
        }
        let resize = &mut self.state.observed.resize;
        (resize.started, resize.failed) = (None, None);
        self.record_resize(EventType::Normal, "ResizeCompleted", "completed", None);
    }

    /// Applies the allocated resources to a running container.
    pub(super) async fn resize_container(&mut self, name: &str, id: &ContainerId) -> ActionResult {
        let Some((_, container)) = spec::container(&self.pod, name) else { return ActionResult::Next };
        let given = self.state.observed.resize.of(&container).cloned();
        let limits = resize::limits_of(&self.pod, &container, &self.state.observed.resize);
        let done = match self.cannot_lower().await {
            Some(refusal) => Err(refusal),
            None => match self.node.runtime.resize_container(id, limits).await {
                // The attempt has just ended; the next one has the new limits.
                Ok(()) | Err(RuntimeError::NotFound(_)) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
        };
        match done {
            Ok(()) => {
                if let Some(attempt) = self.attempt_mut(name, id) {
                    attempt.resources = given;
                }
                self.state.observed.resize.failed = None;
                self.record_end_of_resize();
            }
            Err(message) => {
                let until = saturating_after(self.now(), RETRY_INTERVAL);
                let known = self
                    .state
                    .observed
                    .resize
                    .failed
                    .replace(FailedResize { message: message.clone(), until });
                if known.is_none_or(|known| known.message != message) {
                    self.record_resize(EventType::Warning, "ResizeError", "error", Some(&message));
                }
            }
        }
        ActionResult::Replan
    }

    /// The reason why memory limits cannot be lowered for now.
    async fn cannot_lower(&self) -> Option<String> {
        let observed = &self.state.observed;
        let mut lowered = Vec::new();
        let mut pod_limit = Some(0_u64);
        for (_, container) in resize::resizable(&self.pod) {
            let to = resize::limits(observed.resize.of(container)).memory_bytes;
            pod_limit = pod_limit.zip(to).map(|(sum, own)| sum.saturating_add(own));
            let record = observed.latest(&container.name).filter(|r| r.exit.is_none());
            let attempt = record.and_then(|record| observed.current(record));
            let from = attempt.and_then(|a| resize::limits(a.resources.as_ref()).memory_bytes);
            if let (Some(from), Some(to)) = (from, to)
                && to < from
            {
                lowered.push((container.name.as_str(), to));
            }
        }
        if lowered.is_empty() {
            return None;
        }
        let usage = self.node.runtime.usage(&self.pod.uid().to_string()).await.ok()?;
        let used = |name: &str| usage.get(name).map_or(0, |usage| usage.memory_bytes);
        let lowered: Vec<_> = lowered.into_iter().map(|(name, limit)| (name, limit, used(name))).collect();
        let total = usage.values().map(|usage| usage.memory_bytes).sum();
        resize::cannot_lower(&lowered, pod_limit.map(|limit| (limit, total)))
    }
}

/// Returns true if an attempt that counts does not have its container's allocated resources yet.
fn is_in_progress(pod: &Pod, observed: &ObservedPod, counts: impl Fn(&ContainerRecord) -> bool) -> bool {
    resize::resizable(pod).any(|(_, container)| {
        let record = observed.latest(&container.name).filter(|record| counts(record));
        let attempt = record.and_then(|record| observed.current(record));
        attempt.is_some_and(|a| !resize::same(a.resources.as_ref(), observed.resize.of(container)))
    })
}
