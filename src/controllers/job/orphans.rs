//! Pods that keep a Job's finalizer although no Job counts them any more: it is removed.

use super::Jobs;
use super::view::has_tracking_finalizer;
use api::ApiError;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use object::job::{TRACKING_FINALIZER, finished, is_managed_elsewhere};
use object::owner::controller_of;
use object::{Key, Kind, Object};
use reconcile::ignore_not_found;

impl Jobs {
    /// Takes the finalizer from a pod whose Job is gone or has finished.
    pub(super) fn release_orphan(&self, key: &Key) -> Result<(), ApiError> {
        match self.api.get(Kind::Pod, key) {
            Ok(pod) if has_tracking_finalizer(&pod) && !self.is_counted(&pod) => self.release(&pod),
            _ => Ok(()),
        }
    }

    /// Whether a Job still has to count the pod, or another controller decides about it.
    fn is_counted(&self, pod: &Object) -> bool {
        let Some(owner) = controller_of(pod.meta()) else { return false };
        if owner.kind != "Job" {
            return true;
        }
        let job = self.api.get_as::<Job>(&Key::new(pod.namespace(), owner.name.as_str()));
        job.is_ok_and(|job| {
            let elsewhere = job.spec.as_ref().is_some_and(is_managed_elsewhere);
            job.uid() == owner.uid && (elsewhere || finished(&job).is_none())
        })
    }

    /// Takes the finalizer from this very pod.
    pub(super) fn release(&self, pod: &Object) -> Result<(), ApiError> {
        let released = self.api.modify::<Pod>(&pod.key(), |fresh| {
            if fresh.metadata.uid.as_deref() == Some(pod.uid())
                && let Some(tracked) = &mut fresh.metadata.finalizers
            {
                tracked.retain(|f| f != TRACKING_FINALIZER);
            }
            Ok(())
        });
        ignore_not_found(released)
    }
}
