//! Jobs: pods that run to their end, a number of times.
//!
//! One reconcile reads a Job and its pods ([`view`]), determines its progress ([`counts`]), whether it should end
//! ([`outcome`]) or which pods it needs ([`manage`]), and counts the ends of pods ([`track`]). These modules are pure;
//! [`sync`] reads and executes, [`write_status`] writes.
//!
//! Invariant: the status is only written over the version on which the decisions were based, so that two controllers
//! at once never count twice.

mod back_off;
mod conditions;
mod counts;
mod failure_policy;
mod manage;
mod orphans;
mod outcome;
mod pods;
mod sync;
#[cfg(test)]
mod tests;
mod track;
mod view;
mod write_status;

use std::collections::HashMap;
use std::fmt;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

use super::context::Context;
use super::controller_ref::Orphans;
use super::pod_control::PodControl;
use api::{Api, Change, ChangeKind};
use back_off::BackOff;
use object::job::finished;
use object::owner::{controller_of, is_terminating};
use object::pod::{is_ready, phase};
use object::selector::Selector;
use object::{Key, Kind, Object, Uid};
use reconcile::{Cache, Expectations, LastWrites, ReconcileError, Reconciler, WorkQueue, controllers_of};
use view::has_tracking_finalizer;

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| Jobs {
            api: context.api.clone(),
            all: context.caches.of(),
            pods: context.caches.of(),
            orphans: Orphans::default(),
            control: PodControl::new(context, "job-controller"),
            unseen: Expectations::new(),
            back_offs: Mutex::default(),
            last_writes: LastWrites::default(),
            queue,
        })
        .keys_are(|request| Some(request.object()))
        .watches::<Job, _>(Jobs::job_changed)
        .watches::<Pod, _>(Jobs::pod_changed)
        .workers(5)
        .run(&context.tasks);
}

/// The keys of the queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Request {
    /// A Job.
    Job(Key),
    /// A pod that may have lost its Job.
    Orphan(Key),
}

impl Request {
    fn object(&self) -> (Kind, Key) {
        match self {
            Self::Job(key) => (Kind::Job, key.clone()),
            Self::Orphan(key) => (Kind::Pod, key.clone()),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(key) => write!(f, "Job {key}"),
            Self::Orphan(key) => write!(f, "Pod {key}"),
        }
    }
}

struct Jobs {
    api: Api,
    all: Cache<Job>,
    pods: Cache<Pod>,
    orphans: Orphans,
    control: PodControl,
    /// Pods that existed when a Job was first synced, and that the cache did not show yet.
    unseen: Expectations<Uid>,
    /// The back-offs of Jobs synced since the start.
    back_offs: Mutex<HashMap<Uid, BackOff>>,
    last_writes: LastWrites<JobStatus>,
    queue: WorkQueue<Request>,
}

impl Reconciler for Jobs {
    type Key = Request;

    fn reconcile(&self, work: &Request) -> Result<(), ReconcileError> {
        match work {
            Request::Job(key) => Ok(self.reconcile_job(key)?),
            Request::Orphan(key) => Ok(self.release_orphan(key)?),
        }
    }
}

impl Jobs {
    fn job_changed(&self, change: &Change) {
        let job = &change.object;
        if change.kind == ChangeKind::Deleted {
            self.control.forget(job.uid());
            self.unseen.forget(&job.uid().to_string());
            self.back_offs.lock().remove(job.uid());
            self.last_writes.forget(job.uid());
        }
        let over = job.get::<Job>().is_some_and(|job| finished(job).is_some());
        if over || change.kind == ChangeKind::Deleted {
            for pod in
                self.pods.controlled_by(job.uid()).iter().filter(|p| has_tracking_finalizer(p.object()))
            {
                self.queue.add(Request::Orphan(pod.key()));
            }
        }
        self.queue.add(Request::Job(job.key()));
    }

    fn pod_changed(&self, change: &Change) {
        self.orphans.observe(change);
        self.control.observe(change, Kind::Job);
        let pod = &change.object;
        let owner = controller_of(pod.meta());
        if let Some(owner) = owner.filter(|r| r.kind == "Job") {
            match change.kind {
                ChangeKind::Deleted => self.unseen.deletion_observed(&owner.uid, pod.uid()),
                _ => self.unseen.creation_observed(&owner.uid, pod.uid(), is_terminating(pod.meta())),
            }
        }
        if !is_relevant(change) {
            return;
        }
        for job in controllers_of(change, Kind::Job) {
            self.queue.add(Request::Job(job));
        }
        if change.kind != ChangeKind::Deleted {
            self.possible_orphan_changed(pod);
        }
    }

    fn possible_orphan_changed(&self, pod: &Object) {
        let owner = controller_of(pod.meta());
        let job = owner.and_then(|owner| {
            let job = self.all.get(&Key::new(pod.namespace(), owner.name.as_str()));
            job.filter(|job| job.uid() == owner.uid && finished(job).is_none())
        });
        if job.is_none() && has_tracking_finalizer(pod) {
            self.queue.add(Request::Orphan(pod.key()));
        }
        if owner.is_none() {
            for job in self.all.in_namespace(pod.namespace()) {
                if selector_of(&job).matches(pod.meta().labels.as_ref()) {
                    self.queue.add(Request::Job(job.key()));
                }
            }
        }
    }
}

fn selector_of(job: &Job) -> Selector {
    Selector::from_optional(job.spec.as_ref().and_then(|s| s.selector.as_ref()))
}

/// Returns true if a pod's change can affect its Job's actions or status.
fn is_relevant(change: &Change) -> bool {
    let (Some(before), Some(after)) =
        (change.previous.as_ref().and_then(|p| p.get::<Pod>()), change.object.get::<Pod>())
    else {
        return true;
    };
    let facts = |pod: &Pod| (phase(pod), is_ready(pod), outcome::restarts(pod));
    change.kind != ChangeKind::Modified
        || facts(before) != facts(after)
        || before.metadata.deletion_timestamp != after.metadata.deletion_timestamp
        || before.metadata.finalizers != after.metadata.finalizers
        || before.metadata.labels != after.metadata.labels
        || before.metadata.annotations != after.metadata.annotations
        || before.metadata.owner_references != after.metadata.owner_references
}
