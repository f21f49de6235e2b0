//! Deletes finished Jobs, after their pods, once their `ttlSecondsAfterFinished` has passed.

use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;

use super::context::Context;
use api::{Api, DeleteOptions, Propagation};
use base::clock::until;
use object::job::finished_at;
use object::owner::is_terminating;
use object::{Key, Kind};
use reconcile::{ReconcileError, Reconciler, ignore_not_found, key_if};

pub(super) fn start(context: &Context) {
    context
        .controller(|_| TtlAfterFinishedController { api: context.api.clone() })
        .keys_of::<Job>()
        .watches::<Job, _>(|_, change| key_if::<Job>(change, |job| expires_at(job).is_some()))
        .workers(5)
        .run(&context.tasks);
}

struct TtlAfterFinishedController {
    api: Api,
}

impl Reconciler for TtlAfterFinishedController {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        // From the store: its time may have been extended, or another Job may have its name.
        let Ok(job) = self.api.get_as::<Job>(key) else { return Ok(()) };
        let Some(at) = expires_at(&job) else { return Ok(()) };
        let left = until(self.api.clock().now(), at);
        if !left.is_zero() {
            return Err(ReconcileError::After(left));
        }
        let this = DeleteOptions {
            resource_version: Some(job.object().revision()),
            propagation: Some(Propagation::Foreground),
            ..DeleteOptions::uid(job.uid())
        };
        Ok(ignore_not_found(self.api.delete(Kind::Job, key, &this))?)
    }
}

/// Returns the time at which a Job is deleted; `None` while it runs, if it has no such time, or if it is terminating.
fn expires_at(job: &Job) -> Option<jiff::Timestamp> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished.filter(|_| !is_terminating(&job.metadata))?;
    finished_at(job)?.checked_add(SignedDuration::from_secs(seconds.into())).ok()
}
