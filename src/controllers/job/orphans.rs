//! Removes a Job's finalizer from pods that no Job counts any more.

use super::Jobs;
use super::view::has_tracking_finalizer;
use api::ApiError;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use object::job::{TRACKING_FINALIZER, finished, is_externally_managed};
use object::owner::controller_of;
use object::{Key, Object};
use reconcile::preconditions;

impl Jobs {
    /// Removes the finalizer from a pod with a deleted or finished Job.
    pub(super) fn release_orphan(&self, key: &Key) -> Result<(), ApiError> {
        match self.api.get_as::<Pod>(key) {
            Ok(pod) if has_tracking_finalizer(pod.object()) && !self.is_counted(pod.object()) => {
                preconditions::remove_finalizer(&self.api, &pod, TRACKING_FINALIZER)
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a Job still has to count the pod, or another controller manages it.
    fn is_counted(&self, pod: &Object) -> bool {
        let Some(owner) = controller_of(pod.meta()) else { return false };
        if owner.kind != "Job" {
            return true;
        }
        let job = self.api.get_as::<Job>(&Key::new(pod.namespace(), owner.name.as_str()));
        job.is_ok_and(|job| {
            let is_external = job.spec.as_ref().is_some_and(is_externally_managed);
            job.uid() == owner.uid && (is_external || finished(&job).is_none())
        })
    }
}
