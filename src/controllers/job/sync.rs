//! One sync of a Job: read, decide, create or delete pods.

use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::back_off::{BackOff, ended_at};
use super::counts::Counts;
use super::manage::{self, Action};
use super::outcome::{JobOutcome, ending, until_deadline};
use super::view::{Member, View, count, has_tracking_finalizer};
use super::{Jobs, Request, conditions, pods, selector_of, track};
use crate::controller_ref::claim_holding;
use crate::pod_control::BURST;
use api::ApiError;
use base::backoff::BackoffPolicy;
use base::clock::time;
use base::sort::SliceOrder;
use object::job::{TRACKING_FINALIZER, finished, is_externally_managed, is_suspended};
use object::owner::{controller_of, is_terminating};
use object::pod::{Phase, is_ready, is_terminal, phase};
use object::{Key, SharedObject, Uid};
use reconcile::preconditions;

/// The counts of one sync.
struct SyncContext {
    active: i32,
    ready: i32,
    terminating: i32,
    status: JobStatus,
    failure: Option<ApiError>,
}

impl SyncContext {
    /// Counts the deleted pods, and the ready ones among them.
    fn record_deletions(&mut self, pods: &[SharedObject<Pod>]) {
        let ready = count(pods.iter().filter(|pod| is_ready(pod)));
        self.active -= count(pods);
        self.ready -= ready;
        self.terminating += count(pods);
    }
}

impl Jobs {
    pub(super) fn reconcile_job(&self, key: &Key) -> Result<(), ApiError> {
        // Read from the store, not from the cache, because the status is written over exactly this version.
        let Ok(job) = self.api.get_as::<Job>(key) else { return Ok(()) };
        let Some(spec) = job.spec.as_ref().filter(|spec| !is_externally_managed(spec)) else { return Ok(()) };
        if finished(&job).is_some() {
            self.back_offs.lock().remove(job.uid());
            return Ok(());
        }
        // Checked before the pods are read. If a pod appears in the cache in between, the sync only waits longer than
        // necessary.
        let waits = self.waits(job.uid());
        let caught_up = waits.is_none();
        if let Some(left) = waits {
            self.queue.add_after(Request::Job(key.clone()), left);
        }
        let members = self.members(&job)?;
        let view = View { job: &job, spec, members: &members, now: self.api.clock().now() };
        let counts = Counts::of(&view);
        let back_off = self.back_off(&view, &counts);
        let mut context = SyncContext {
            active: view.active_count(),
            ready: view.ready_count(),
            terminating: view.terminating_count(),
            status: job.status.clone().unwrap_or_default(),
            failure: None,
        };
        if context.status.start_time.is_none() && !is_suspended(spec) {
            context.status.start_time = Some(time(view.now));
        }
        if let Some(left) = until_deadline(&view).filter(|left| !left.is_zero()) {
            self.queue.add_after(Request::Job(key.clone()), left);
        }
        let ending = match ending(&view, &counts) {
            Some(ending) => self.end_pods(&job, &view, &mut context, caught_up).then_some(ending),
            None => self.manage(&job, &view, &counts, back_off, &mut context, caught_up),
        };
        context.status.active = track::some(context.active);
        context.status.ready = Some(context.ready);
        context.status.terminating = Some(context.terminating);
        self.write_counts(&job, &view, &counts, ending.as_ref(), context.status, back_off)?;
        context.failure.map_or(Ok(()), Err)
    }

    /// Returns the time for which the cache may still lag behind the writes for the Job with this uid.
    fn waits(&self, uid: &str) -> Option<Duration> {
        self.control.waits(uid).max(self.unseen.waits(&uid.to_string()))
    }

    /// Returns the Job's pods, after adopting and releasing by its selector.
    ///
    /// The cache may lag behind an earlier controller's writes. A Job is therefore listed from the store the first
    /// time, and when its status has a pod that the cache does not show.
    fn members(&self, job: &SharedObject<Job>) -> Result<Vec<Member>, ApiError> {
        let mut owned = self.pods.controlled_by(job.uid());
        let cached: HashSet<Uid> = owned.iter().map(|pod| pod.uid().to_string()).collect();
        let known = self.back_offs.lock().contains_key(job.uid());
        let all_cached =
            job.status.as_ref().is_none_or(|s| track::uncounted_uids(s).all(|uid| cached.contains(uid)));
        if !known || !all_cached {
            owned = self.api.list_as::<Pod>(Some(job.namespace()));
            owned.retain(|pod| controller_of(&pod.metadata).is_some_and(|r| r.uid == job.uid()));
            for pod in owned.iter().filter(|pod| !cached.contains(pod.uid())) {
                self.unseen.expect_creation(&job.uid().to_string(), pod.uid());
            }
        }
        let orphans = self.orphans.of(job.namespace(), &self.pods);
        let candidates = owned.into_iter().chain(orphans);
        let selector = selector_of(job);
        let claimed = claim_holding(
            &self.api,
            job,
            |pod| selector.matches(pod.labels.as_ref()),
            candidates,
            Some(TRACKING_FINALIZER),
        )?;
        let mut members: Vec<Member> = claimed.into_iter().filter_map(|pod| self.newest(pod)).collect();
        members.order_by(|a, b| a.pod.name().cmp(b.pod.name()));
        Ok(members)
    }

    /// Returns the latest version of an ended pod: it decides counts, and the cache may still show its finalizer.
    fn newest(&self, pod: SharedObject<Pod>) -> Option<Member> {
        if !has_tracking_finalizer(pod.object()) || !(is_terminal(&pod) || is_terminating(&pod.metadata)) {
            return Some(Member::new(pod));
        }
        let newest = self.api.get_as::<Pod>(&pod.key()).ok().filter(|newest| newest.uid() == pod.uid());
        newest.map(Member::new)
    }

    /// Returns the back-off including the pods that ended since; for a Job that is new here, computed from all ended
    /// pods.
    fn back_off(&self, view: &View<'_>, counts: &Counts<'_>) -> BackOff {
        let uid = view.job.metadata.uid.as_deref().unwrap_or_default();
        let ends = |members: &[&Member]| members.iter().map(|m| ended_at(&m.pod)).collect::<Vec<_>>();
        let known = self.back_offs.lock().get(uid).copied();
        let before = known.unwrap_or_else(|| {
            let new: HashSet<&str> =
                counts.new_succeeded.iter().chain(&counts.new_failed).map(|m| m.uid()).collect();
            let counted = || view.members.iter().filter(|m| !new.contains(m.uid()));
            let succeeded = counted().filter(|m| m.succeeded()).map(|m| ended_at(&m.pod));
            let failed = counted().filter(|m| phase(&m.pod) == Phase::Failed).map(|m| ended_at(&m.pod));
            let before = BackOff::default().after(succeeded, failed);
            self.back_offs.lock().insert(uid.to_string(), before);
            before
        });
        before.after(ends(&counts.new_succeeded).into_iter(), ends(&counts.new_failed).into_iter())
    }

    /// Deletes the active pods of an ending Job, a burst in each sync; returns true if that is all of them.
    fn end_pods(
        &self,
        job: &SharedObject<Job>,
        view: &View<'_>,
        context: &mut SyncContext,
        caught_up: bool,
    ) -> bool {
        let active: Vec<SharedObject<Pod>> = view.active().map(|m| m.pod.clone()).take(BURST).collect();
        match self.control.delete_all(job.object(), &active) {
            Ok(()) => context.record_deletions(&active),
            Err(error) => context.failure = Some(error),
        }
        context.failure.is_none() && caught_up && context.active == 0
    }

    /// Creates and deletes pods of a continuing Job; reports its completion.
    fn manage(
        &self,
        job: &SharedObject<Job>,
        view: &View<'_>,
        counts: &Counts<'_>,
        back_off: BackOff,
        context: &mut SyncContext,
        caught_up: bool,
    ) -> Option<JobOutcome> {
        let manages = caught_up && !is_terminating(&job.metadata);
        if manages && let Err(error) = self.take_step(job, view, counts, back_off, context) {
            context.failure = Some(error);
        }
        let desired = view.spec.completions.unwrap_or(1);
        if caught_up && counts.succeeded >= desired && context.active == 0 {
            return Some(JobOutcome::completions_reached());
        }
        if manages {
            let suspended = is_suspended(view.spec);
            if conditions::set_suspended(&mut context.status, suspended, view.now) {
                let (reason, message) =
                    if suspended { ("Suspended", "Job suspended") } else { ("Resumed", "Job resumed") };
                self.control.recorder().normal(job.object(), reason, message);
            }
        }
        None
    }

    fn take_step(
        &self,
        job: &SharedObject<Job>,
        view: &View<'_>,
        counts: &Counts<'_>,
        back_off: BackOff,
        context: &mut SyncContext,
    ) -> Result<(), ApiError> {
        let again = |delay| self.queue.add_after(Request::Job(job.key()), delay);
        match manage::next(view, counts, back_off, self.policy()) {
            Action::Nothing => {}
            Action::Wait(delay) => again(delay),
            Action::Delete(pods) => {
                // The finalizer is removed first, so that the end of a surplus pod does not count as a failure.
                for pod in &pods {
                    preconditions::remove_finalizer(&self.api, pod, TRACKING_FINALIZER)?;
                }
                self.control.delete_all(job.object(), &pods)?;
                context.record_deletions(&pods);
            }
            Action::Create(indexes, later) => {
                if let Some(delay) = later {
                    again(delay);
                }
                let made = count(&indexes);
                self.control.create_all(job.object(), new_pods(job, view.spec, counts, indexes))?;
                context.active = context.active.saturating_add(made);
            }
        }
        Ok(())
    }

    fn policy(&self) -> BackoffPolicy {
        let timings = self.api.timings();
        BackoffPolicy { initial: timings.job_back_off_initial.0, max: timings.job_back_off_max.0 }
    }
}

/// Builds each pod only when it is needed, because a template may be large.
fn new_pods(
    job: &SharedObject<Job>,
    spec: &JobSpec,
    counts: &Counts<'_>,
    indexes: Vec<Option<i32>>,
) -> impl Iterator<Item = Pod> {
    let replaced = |index: Option<i32>| counts.indexes.as_ref()?.replaceable.get(&index?).copied();
    indexes.into_iter().map(move |index| pods::pod_of(job, spec, index, replaced(index)))
}
