//! The status of a static pod: stored here and shown by its mirror, which is created if it is missing (POD-15).

use k8s_openapi::api::core::v1::Pod;

use super::SyncPod;
use crate::mirror_pod;
use crate::plan;
use crate::status::{StatusStage, compose_status};
use api::ApiError;
use object::SharedObject;
use reconcile::{optional, preconditions};

impl SyncPod<'_> {
    /// Updates the status, and the mirror that shows it.
    pub(super) fn write_mirror(&mut self, moment: StatusStage) {
        self.record_times();
        let now = self.node.clock.both();
        let status =
            compose_status(&self.pod, &self.state.observed, now, &self.workers.context.timings, moment);
        if self.pod.status.as_ref() != Some(&status) {
            let mut pod = Pod::clone(&self.pod);
            pod.status = Some(status);
            self.pod = SharedObject::from_value(pod);
            if plan::is_terminal(&self.pod) {
                let waiting = self.node.admitted.lock().release(self.pod.uid());
                self.workers.resync(waiting);
            }
        }
        let known = self.workers.mirror_of(self.pod.uid());
        let shown = self
            .mirror(known.object.clone())
            .and_then(|mirror| mirror.map_or(Ok(None), |mirror| self.show(mirror)));
        let mirror = match shown {
            Ok(mirror) => mirror,
            Err(error) => {
                tracing::warn!(pod = %self.pod.key(), "cannot write the mirror of a static pod: {error}");
                None
            }
        };
        self.workers.keep_static(&self.pod, &known, mirror);
    }

    /// Returns the pod's mirror: a new one if there is none or a client has deleted it; `None` while the pod ends.
    fn mirror(&self, known: Option<SharedObject<Pod>>) -> Result<Option<SharedObject<Pod>>, ApiError> {
        if self.pod.metadata.deletion_timestamp.is_some() {
            return Ok(known);
        }
        if let Some(mirror) = known {
            if mirror.metadata.deletion_timestamp.is_none() {
                return Ok(Some(mirror));
            }
            mirror_pod::remove(&self.workers.context.api, &mirror)?;
        }
        mirror_pod::create(&self.workers.context.api, &self.pod, &self.node.config.name).map(Some)
    }

    /// Writes the pod's status to the mirror; `None` if the mirror was deleted meanwhile.
    fn show(&self, mirror: SharedObject<Pod>) -> Result<Option<SharedObject<Pod>>, ApiError> {
        if mirror.status == self.pod.status {
            return Ok(Some(mirror));
        }
        optional(preconditions::modify_status(&self.workers.context.api, &mirror, |pod| {
            pod.status.clone_from(&self.pod.status);
        }))
    }

    /// Removes the mirror of a pod that has ended for good. Returns false if the removal must be retried.
    pub(super) fn remove_mirror(&self) -> bool {
        let Some(mirror) = self.workers.mirror_of(self.pod.uid()).object else { return true };
        match mirror_pod::remove(&self.workers.context.api, &mirror) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(pod = %self.pod.key(), "cannot remove the mirror of a static pod: {error}");
                false
            }
        }
    }
}
