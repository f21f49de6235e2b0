//! Jobs: pods that run to their end, a number of times.
//!
//! One reconcile looks at a Job and its pods ([`view`]), sees how far it is ([`tally`]), whether it is to end
//! ([`verdict`]) or which pods it needs ([`step`]), and counts the ends of pods ([`track`]). Those are pure;
//! this file reads, executes and writes.
//!
//! Invariant: the status is only written over the version that the decisions were made from, so that two
//! controllers at once never count twice.

mod back_off;
mod conditions;
mod failure_policy;
mod orphans;
mod pods;
mod step;
mod tally;
mod track;
mod verdict;
mod view;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

use super::claim::{Orphans, claim_holding};
use super::context::Context;
use super::pod_control::PodControl;
use crate::api::{Api, ApiError, Change, ChangeKind, Part, WriteOptions};
use crate::base::backoff::BackoffPolicy;
use crate::base::clock::time;
use crate::object::job::{TRACKING_FINALIZER, finished, is_managed_elsewhere, is_suspended};
use crate::object::owner::{controller_of, is_terminating};
use crate::object::readiness::{is_ready, is_terminal, phase};
use crate::object::selector::Selector;
use crate::object::{Key, Kind, Object, Shared, Uid};
use crate::reconcile::{Cache, Expectations, ReconcileError, Reconciler, WorkQueue};
use back_off::{BackOff, ended_at};
use step::Step;
use tally::Tally;
use verdict::{Ending, ending, until_deadline};
use view::{Member, View, count, is_held};

/// Starts the controller.
pub(super) fn start(context: &Context) {
    let queue = context.queue();
    let controller = Arc::new(Jobs {
        api: context.api.clone(),
        jobs: context.caches.of(),
        pods: context.caches.of(),
        orphans: Orphans::default(),
        control: PodControl::new(context, "job-controller"),
        unseen: Expectations::new(),
        back_offs: Mutex::default(),
        queue: queue.clone(),
    });
    let caches = vec![
        context.follow::<Job, _>(&controller, Jobs::job_changed),
        context.follow::<Pod, _>(&controller, Jobs::pod_changed),
    ];
    context.run(controller, queue, caches);
}

/// What the queue holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    /// A Job.
    Job(Key),
    /// A pod that may have no Job.
    Orphan(Key),
}

struct Jobs {
    api: Api,
    jobs: Cache<Job>,
    pods: Cache<Pod>,
    orphans: Orphans,
    control: PodControl,
    /// Pods that were there when a Job was first looked at, and that the cache had not shown yet.
    unseen: Expectations<Uid>,
    /// Of the Jobs that were looked at since the start.
    back_offs: Mutex<HashMap<Uid, BackOff>>,
    queue: WorkQueue<Work>,
}

impl Reconciler for Jobs {
    type Key = Work;

    fn name(&self) -> &'static str {
        "job"
    }

    fn reconcile(&self, work: &Work) -> Result<(), ReconcileError> {
        match work {
            Work::Job(key) => Ok(self.reconcile_job(key)?),
            Work::Orphan(key) => Ok(self.let_go(key)?),
        }
    }
}

/// The counts of one turn.
struct Turn {
    active: i32,
    ready: i32,
    terminating: i32,
    status: JobStatus,
    failure: Option<ApiError>,
}

impl Turn {
    /// So many pods, so many of them ready, were asked to go.
    fn asked_to_go(&mut self, pods: &[Shared<Pod>]) {
        let ready = count(pods.iter().filter(|pod| is_ready(pod)));
        self.active -= count(pods);
        self.ready -= ready;
        self.terminating += count(pods);
    }
}

impl Jobs {
    fn job_changed(&self, change: &Change) {
        let job = &change.object;
        if change.kind == ChangeKind::Deleted {
            self.control.forget(job.uid());
            self.unseen.forget(&job.uid().to_string());
            self.back_offs.lock().remove(job.uid());
        }
        let over = job.get::<Job>().is_some_and(|job| finished(job).is_some());
        if over || change.kind == ChangeKind::Deleted {
            for pod in self.pods.controlled_by(job.uid()).iter().filter(|p| is_held(p.object())) {
                self.queue.add(Work::Orphan(pod.key()));
            }
        }
        self.queue.add(Work::Job(job.key()));
    }

    fn pod_changed(&self, change: &Change) {
        self.orphans.observe(change);
        self.control.observe(change, Kind::Job);
        let pod = &change.object;
        let owner = controller_of(pod.meta());
        if let Some(owner) = owner.filter(|r| r.kind == "Job") {
            match change.kind {
                ChangeKind::Deleted => self.unseen.gone(&owner.uid, pod.uid()),
                _ => self.unseen.seen(&owner.uid, pod.uid(), is_terminating(pod.meta())),
            }
        }
        if !is_relevant(change) {
            return;
        }
        let before = change.previous.as_ref().and_then(|p| controller_of(p.meta()));
        for owner in owner.into_iter().chain(before).filter(|r| r.kind == "Job") {
            self.queue.add(Work::Job(Key::new(pod.namespace(), owner.name.as_str())));
        }
        if change.kind != ChangeKind::Deleted {
            self.heed_possible_orphan(pod);
        }
    }

    fn heed_possible_orphan(&self, pod: &Object) {
        let owner = controller_of(pod.meta());
        let job = owner.and_then(|owner| {
            let job = self.jobs.get(&Key::new(pod.namespace(), owner.name.as_str()));
            job.filter(|job| job.uid() == owner.uid && finished(job).is_none())
        });
        if job.is_none() && is_held(pod) {
            self.queue.add(Work::Orphan(pod.key()));
        }
        if owner.is_none() {
            for job in self.jobs.in_namespace(pod.namespace()) {
                if selector_of(&job).matches(pod.meta().labels.as_ref()) {
                    self.queue.add(Work::Job(job.key()));
                }
            }
        }
    }

    fn reconcile_job(&self, key: &Key) -> Result<(), ApiError> {
        // Not from the cache: what is decided must be written over what it was decided from.
        let Ok(job) = self.api.get_as::<Job>(key) else { return Ok(()) };
        let Some(spec) = job.spec.as_ref().filter(|spec| !is_managed_elsewhere(spec)) else { return Ok(()) };
        if finished(&job).is_some() {
            self.back_offs.lock().remove(job.uid());
            return Ok(());
        }
        // Asked before the pods are looked at: one that is seen in between only makes this too careful.
        let caught_up = self.is_caught_up(job.uid());
        let members = self.members(&job)?;
        let view = View { job: &job, spec, members: &members, now: self.api.clock().now() };
        let tally = Tally::of(&view);
        let back_off = self.back_off(&view, &tally);
        let mut turn = Turn {
            active: view.active_count(),
            ready: view.ready_count(),
            terminating: view.terminating_count(),
            status: job.status.clone().unwrap_or_default(),
            failure: None,
        };
        if turn.status.start_time.is_none() && !is_suspended(spec) {
            turn.status.start_time = Some(time(view.now));
        }
        if let Some(left) = until_deadline(&view).filter(|left| !left.is_zero()) {
            self.queue.add_after(Work::Job(key.clone()), left);
        }
        let ending = match ending(&view, &tally) {
            Some(ending) => self.end_pods(&job, &view, &mut turn, caught_up).then_some(ending),
            None => self.go_on(&job, &view, &tally, back_off, &mut turn, caught_up),
        };
        turn.status.active = track::some(turn.active);
        turn.status.ready = Some(turn.ready);
        turn.status.terminating = Some(turn.terminating);
        self.write_counts(&job, &view, &tally, ending.as_ref(), turn.status, back_off)?;
        turn.failure.map_or(Ok(()), Err)
    }

    fn is_caught_up(&self, uid: &str) -> bool {
        self.control.is_caught_up(uid) && self.unseen.satisfied(&uid.to_string())
    }

    /// The Job's pods, adopted and released as its selector says.
    ///
    /// The cache may be behind what an earlier controller did. A Job is therefore looked at in full the
    /// first time, and whenever its status knows of a pod that the cache does not.
    fn members(&self, job: &Shared<Job>) -> Result<Vec<Member>, ApiError> {
        let mut owned = self.pods.controlled_by(job.uid());
        let cached: HashSet<Uid> = owned.iter().map(|pod| pod.uid().to_string()).collect();
        let known = self.back_offs.lock().contains_key(job.uid());
        let noted =
            job.status.as_ref().is_none_or(|s| track::uncounted_uids(s).all(|uid| cached.contains(uid)));
        if !known || !noted {
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
        members.sort_by(|a, b| a.pod.name().cmp(b.pod.name()));
        Ok(members)
    }

    /// A pod that has ended decides counts: whether it still has the finalizer is not left to the cache.
    fn newest(&self, pod: Shared<Pod>) -> Option<Member> {
        if !is_held(pod.object()) || !(is_terminal(&pod) || is_terminating(&pod.metadata)) {
            return Some(Member::new(pod));
        }
        let newest = self.api.get_as::<Pod>(&pod.key()).ok().filter(|newest| newest.uid() == pod.uid());
        newest.map(Member::new)
    }

    /// The back-off with what has ended since; for a Job that is new here, from all the ends there are.
    fn back_off(&self, view: &View<'_>, tally: &Tally<'_>) -> BackOff {
        let uid = view.job.metadata.uid.as_deref().unwrap_or_default();
        let ends = |members: &[&Member]| members.iter().map(|m| ended_at(&m.pod)).collect::<Vec<_>>();
        let known = self.back_offs.lock().get(uid).copied();
        let before = known.unwrap_or_else(|| {
            let new: HashSet<&str> =
                tally.new_succeeded.iter().chain(&tally.new_failed).map(|m| m.uid()).collect();
            let counted = || view.members.iter().filter(|m| !new.contains(m.uid()));
            let succeeded = counted().filter(|m| m.succeeded()).map(|m| ended_at(&m.pod));
            let failed = counted().filter(|m| phase(&m.pod) == "Failed").map(|m| ended_at(&m.pod));
            let before = BackOff::default().after(succeeded, failed);
            self.back_offs.lock().insert(uid.to_string(), before);
            before
        });
        before.after(ends(&tally.new_succeeded).into_iter(), ends(&tally.new_failed).into_iter())
    }

    /// Asks the active pods of a Job that ends to go; whether that is all of them.
    fn end_pods(&self, job: &Shared<Job>, view: &View<'_>, turn: &mut Turn, caught_up: bool) -> bool {
        let active: Vec<Shared<Pod>> = view.active().map(|m| m.pod.clone()).collect();
        match self.control.delete_all(job.object(), &active) {
            Ok(()) => turn.asked_to_go(&active),
            Err(error) => turn.failure = Some(error),
        }
        turn.failure.is_none() && caught_up
    }

    /// Makes and removes pods of a Job that is not to end; tells when it is complete by that.
    fn go_on(
        &self,
        job: &Shared<Job>,
        view: &View<'_>,
        tally: &Tally<'_>,
        back_off: BackOff,
        turn: &mut Turn,
        caught_up: bool,
    ) -> Option<Ending> {
        let manages = caught_up && !is_terminating(&job.metadata);
        if manages && let Err(error) = self.take_step(job, view, tally, back_off, turn) {
            turn.failure = Some(error);
        }
        let wanted = view.spec.completions.unwrap_or(1);
        if caught_up && tally.succeeded >= wanted && turn.active == 0 {
            return Some(Ending::completions_reached());
        }
        if manages {
            let suspended = is_suspended(view.spec);
            if conditions::set_suspended(&mut turn.status, suspended, view.now) {
                let (reason, message) =
                    if suspended { ("Suspended", "Job suspended") } else { ("Resumed", "Job resumed") };
                self.control.recorder().normal(job.object(), reason, message);
            }
        }
        None
    }

    fn take_step(
        &self,
        job: &Shared<Job>,
        view: &View<'_>,
        tally: &Tally<'_>,
        back_off: BackOff,
        turn: &mut Turn,
    ) -> Result<(), ApiError> {
        let again = |delay| self.queue.add_after(Work::Job(job.key()), delay);
        match step::next(view, tally, back_off, self.policy()) {
            Step::Nothing => {}
            Step::Wait(delay) => again(delay),
            Step::Delete(pods) => {
                // First the finalizer: a pod that is not wanted any more has not failed.
                for pod in &pods {
                    self.release(pod.object())?;
                }
                self.control.delete_all(job.object(), &pods)?;
                turn.asked_to_go(&pods);
            }
            Step::Create(indexes, later) => {
                if let Some(delay) = later {
                    again(delay);
                }
                let made = count(&indexes);
                self.control.create_all(job.object(), new_pods(job, view.spec, tally, indexes))?;
                turn.active += made;
            }
        }
        Ok(())
    }

    fn policy(&self) -> BackoffPolicy {
        let timings = self.api.timings();
        BackoffPolicy { initial: timings.job_back_off_initial.0, max: timings.job_back_off_max.0 }
    }

    /// The three steps of counting, and the end of the Job when there is nothing left to count.
    fn write_counts(
        &self,
        job: &Shared<Job>,
        view: &View<'_>,
        tally: &Tally<'_>,
        ending: Option<&Ending>,
        mut status: JobStatus,
        back_off: BackOff,
    ) -> Result<(), ApiError> {
        let mut held: HashSet<String> =
            view.members.iter().filter(|m| m.held).map(|m| m.uid().to_string()).collect();
        track::count_released(&mut status, &held);
        let noted = track::note(view, tally, ending, &mut status);
        if let Some(ending) = ending {
            conditions::set_target(&mut status, ending, view.now);
        }
        let stored = self.write_status(job, status)?;
        self.back_offs.lock().insert(job.uid().to_string(), back_off);
        let mut failure = None;
        for pod in noted.release {
            match self.release(pod.object()) {
                Ok(()) => {
                    held.remove(pod.uid());
                }
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        let mut status = stored.status.clone().unwrap_or_default();
        track::count_released(&mut status, &held);
        let is_over = !noted.full && !track::has_notes(&status) && status.terminating.unwrap_or(0) == 0;
        let over = ending.filter(|_| is_over && failure.is_none());
        if let Some(ending) = over {
            conditions::set_finished(&mut status, ending, view.now);
        }
        let stored = self.write_status(&stored, status)?;
        if let Some(ending) = over {
            self.tell_end(&stored, ending);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes a status over the version it was made from, if it differs; returns the version there is then.
    fn write_status(&self, job: &Shared<Job>, status: JobStatus) -> Result<Shared<Job>, ApiError> {
        if job.status.as_ref() == Some(&status) {
            return Ok(job.clone());
        }
        let mut next = Job::clone(job);
        next.status = Some(status);
        let stored = self.api.update(&Object::new(next), Part::Status, &WriteOptions::default())?;
        Shared::from_object(&stored).ok_or_else(|| ApiError::not_found(Kind::Job, &job.key()))
    }

    fn tell_end(&self, job: &Shared<Job>, ending: &Ending) {
        let recorder = self.control.recorder();
        if !ending.success {
            return recorder.warning(job.object(), &ending.reason, ending.message.clone());
        }
        let succeeded = job.status.as_ref().and_then(|s| s.succeeded).unwrap_or(0);
        if job.spec.as_ref().and_then(|s| s.completions).is_some_and(|wanted| succeeded > wanted) {
            let message = "Too many succeeded pods running after completion count reached";
            recorder.warning(job.object(), "TooManySucceededPods", message);
        }
        recorder.normal(job.object(), "Completed", "Job completed");
    }
}

fn selector_of(job: &Job) -> Selector {
    Selector::from_optional(job.spec.as_ref().and_then(|s| s.selector.as_ref()))
}

fn new_pods(job: &Shared<Job>, spec: &JobSpec, tally: &Tally<'_>, indexes: Vec<Option<i32>>) -> Vec<Pod> {
    let replaced = |index: Option<i32>| tally.indexes.as_ref()?.replaceable.get(&index?).copied();
    indexes.into_iter().map(|index| pods::pod_of(job, spec, index, replaced(index))).collect()
}

/// Whether a pod's change can change what its Job does or tells.
fn is_relevant(change: &Change) -> bool {
    let (Some(before), Some(after)) =
        (change.previous.as_ref().and_then(|p| p.get::<Pod>()), change.object.get::<Pod>())
    else {
        return true;
    };
    let facts = |pod: &Pod| (phase(pod).to_string(), is_ready(pod), verdict::restarts(pod));
    change.kind != ChangeKind::Modified
        || facts(before) != facts(after)
        || before.metadata.deletion_timestamp != after.metadata.deletion_timestamp
        || before.metadata.finalizers != after.metadata.finalizers
        || before.metadata.labels != after.metadata.labels
        || before.metadata.annotations != after.metadata.annotations
        || before.metadata.owner_references != after.metadata.owner_references
}
