//! The scheduling queue: the waiting pods, each in one of four sub-queues.
//!
//! *Active* pods are tried at once, by priority and then age. *Backing off* are pods that failed a moment ago; those
//! that a change may have helped since are tried early when no active pod is due, as kube-scheduler does
//! (`SchedulerPopFromBackoffQ`). *Unschedulable* pods wait for a change that can resolve their refusal. If anything
//! else has changed meanwhile, they are tried again after five minutes, so that a pod is not forgotten when its plugin
//! does not recognize the change that helps it. *Gated* pods wait for their own spec to change.
//!
//! Architecture Invariant: nothing here reads a clock: `now` is an argument, and the next wake-up is a return value.
//! Waiting pods cost nothing while nothing happens.

mod head;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::framework::{Attempt, Plugin, PluginSet, QueueOrder};
use crate::state::pod_info::PodInfo;
use base::backoff::BackoffPolicy;
use object::Uid;
use object::config::Timings;

/// The delays of pods in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueTimes {
    /// The delays of a pod that fails repeatedly.
    pub(crate) back_off: BackoffPolicy,
    /// The time after which an unschedulable pod is tried again.
    pub(crate) flush: Duration,
}

impl QueueTimes {
    /// Returns the configured times.
    pub(crate) fn of(timings: &Timings) -> Self {
        let (initial, max) = (timings.pod_initial_backoff.0, timings.pod_max_backoff.0);
        Self {
            back_off: BackoffPolicy { initial, max },
            flush: timings.pod_max_in_unschedulable_pods_duration.0,
        }
    }
}

/// The order of active pods: as the profile's plugin sorts them, in order of arrival among equals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    order: QueueOrder,
    arrival: u64,
}

/// The sub-queue of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SubQueue {
    Active { since: Duration },
    BackingOff { until: Duration, after: BackoffReason },
    Unschedulable { rejected_by: PluginSet, since: Duration },
    Gated,
}

/// The reason for a back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackoffReason {
    /// No node fitted, and a change since may have helped.
    Unfit,
    /// An error: the pod waits in any case.
    Error,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<PodInfo>,
    rank: Rank,
    sub_queue: SubQueue,
    /// The number of failed attempts in a row.
    failures: u32,
    /// The time of the last failure.
    failed_at: Duration,
}

impl Entry {
    /// Returns the time since which the pod is active; `None` if it is not.
    fn active_since(&self) -> Option<Duration> {
        match self.sub_queue {
            SubQueue::Active { since } => Some(since),
            _ => None,
        }
    }
}

/// The pods without a node.
pub(crate) struct Queue {
    times: QueueTimes,
    sort: Arc<dyn Plugin>,
    entries: HashMap<Uid, Entry>,
    active: BTreeSet<(Rank, Uid)>,
    backing_off: BTreeSet<(Duration, Uid)>,
    /// Backing-off pods that may be tried early, in the order of the active ones.
    helped: BTreeSet<(Rank, Uid)>,
    /// Unschedulable pods that will be tried again by the flush, because the cluster has changed since their attempt:
    /// by the time from which the flush counts.
    unschedulable: BTreeSet<(Duration, Uid)>,
    /// Unschedulable pods without a change of the cluster since their last attempt: another one would have the same
    /// result.
    unchanged: BTreeSet<(Duration, Uid)>,
    /// All unschedulable pods by the plugins that refused them, so that a change only visits those it can help.
    by_rejection: HashMap<PluginSet, BTreeSet<Uid>>,
    arrivals: u64,
}

/// The number of pods in each sub-queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingCounts {
    /// Pods that can be tried now.
    pub(crate) active: usize,
    /// Pods that failed a moment ago.
    pub(crate) backing_off: usize,
    /// Pods that wait for a change.
    pub(crate) unschedulable: usize,
    /// Pods that wait for their gates to be removed.
    pub(crate) gated: usize,
}

impl Queue {
    /// Creates an empty queue ordered by this plugin.
    pub(crate) fn new(times: QueueTimes, sort: Arc<dyn Plugin>) -> Self {
        Self {
            times,
            sort,
            entries: HashMap::new(),
            active: BTreeSet::new(),
            backing_off: BTreeSet::new(),
            helped: BTreeSet::new(),
            unschedulable: BTreeSet::new(),
            unchanged: BTreeSet::new(),
            by_rejection: HashMap::new(),
            arrivals: 0,
        }
    }

    /// Adds a pod that is new, or changed in a part that decisions depend on: it is tried at once, unless it is gated
    /// or failed a moment ago.
    pub(crate) fn add(&mut self, pod: Arc<PodInfo>, gated: bool, now: Duration) {
        let uid = pod.uid().to_string();
        let (arrival, failures, failed_at) = match self.entries.get(&uid) {
            Some(entry) => (entry.rank.arrival, entry.failures, entry.failed_at),
            None => (self.next_arrival(), 0, Duration::ZERO),
        };
        let active_since = self.entries.get(&uid).and_then(Entry::active_since).unwrap_or(now);
        let ready_at = failed_at + self.times.back_off.delay(failures);
        let sub_queue = if gated {
            SubQueue::Gated
        } else if failures > 0 && ready_at > now {
            SubQueue::BackingOff { until: ready_at, after: BackoffReason::Unfit }
        } else {
            SubQueue::Active { since: active_since }
        };
        self.remove(&uid);
        let rank = self.rank(&pod, arrival);
        self.insert(Entry { pod, rank, sub_queue, failures, failed_at });
    }

    /// Returns the waiting pod with this uid.
    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.entries.get(uid).map(|entry| &entry.pod)
    }

    /// Replaces a waiting pod by a version that leaves it in its sub-queue.
    pub(crate) fn replace(&mut self, pod: Arc<PodInfo>) {
        if let Some(entry) = self.entries.get_mut(pod.uid()) {
            entry.pod = pod;
        }
    }

    /// Removes a pod; returns false if it was not waiting.
    pub(crate) fn remove(&mut self, uid: &str) -> bool {
        let Some(entry) = self.entries.remove(uid) else { return false };
        let uid = uid.to_string();
        match entry.sub_queue {
            SubQueue::Active { .. } => {
                self.active.remove(&(entry.rank, uid));
            }
            SubQueue::BackingOff { until, .. } => {
                self.helped.remove(&(entry.rank, uid.clone()));
                self.backing_off.remove(&(until, uid));
            }
            SubQueue::Unschedulable { rejected_by, since } => {
                if let Some(pods) = self.by_rejection.get_mut(&rejected_by) {
                    pods.remove(&uid);
                    if pods.is_empty() {
                        self.by_rejection.remove(&rejected_by);
                    }
                }
                let entry = (since, uid);
                if !self.unchanged.remove(&entry) {
                    self.unschedulable.remove(&entry);
                }
            }
            SubQueue::Gated => {}
        }
        true
    }

    /// Takes the next pod to try.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<Attempt> {
        self.release(now);
        let (_, uid) = self.active.first().or_else(|| self.helped.first()).cloned()?;
        let entry = self.entries.get(&uid)?;
        let (pod, failures, arrival) = (entry.pod.clone(), entry.failures, entry.rank.arrival);
        // A pod tried early was not waiting for its turn.
        let waited = entry.active_since().map(|since| now.saturating_sub(since));
        self.remove(&uid);
        Some(Attempt { pod, bind_by: None, failures, arrival, waited })
    }

    /// Puts back a pod that no node takes. It waits for a change that can resolve the refusals of these plugins; the
    /// set is empty if there was no node.
    pub(crate) fn reject(&mut self, attempt: Attempt, rejected_by: PluginSet, now: Duration) {
        self.requeue(attempt, now, |_| SubQueue::Unschedulable { rejected_by, since: now });
    }

    /// Puts back a pod after an error that is not the pod's fault. It is tried again after its back-off.
    pub(crate) fn fail(&mut self, attempt: Attempt, now: Duration) {
        self.requeue(attempt, now, |delay| SubQueue::BackingOff {
            until: now + delay,
            after: BackoffReason::Error,
        });
    }

    fn requeue(&mut self, attempt: Attempt, now: Duration, sub_queue: impl FnOnce(Duration) -> SubQueue) {
        let Attempt { pod, failures, arrival, .. } = attempt;
        let failures = failures.saturating_add(1);
        let sub_queue = sub_queue(self.times.back_off.delay(failures));
        self.remove(pod.uid());
        let rank = self.rank(&pod, arrival);
        self.insert(Entry { pod, rank, sub_queue, failures, failed_at: now });
    }

    /// Handles a change that can resolve refusals of `woken` plugins: pods that these refused, or that found no node at
    /// all, are tried again after their back-off if `helps` returns true.
    pub(crate) fn wake(
        &mut self,
        woken: PluginSet,
        now: Duration,
        helps: impl Fn(&PodInfo, PluginSet) -> bool,
    ) {
        if self.by_rejection.is_empty() {
            return;
        }
        let mut helped = Vec::new();
        for (rejected_by, pods) in &self.by_rejection {
            if rejected_by.is_empty() || rejected_by.intersects(woken) {
                let is_helped =
                    |uid: &&Uid| self.entries.get(*uid).is_some_and(|e| helps(&e.pod, *rejected_by));
                helped.extend(pods.iter().filter(is_helped).cloned());
            }
        }
        for uid in helped {
            self.retry(&uid, now);
        }
    }

    /// Takes a change that decisions may depend on, even if no plugin handles it: the flush will try the unschedulable
    /// pods again at the end of their current five minutes.
    pub(crate) fn changed(&mut self, now: Duration) {
        let flush = self.times.flush;
        for (mut since, uid) in std::mem::take(&mut self.unchanged) {
            let Some(entry) = self.entries.get_mut(&uid) else { continue };
            let SubQueue::Unschedulable { since: waiting_since, .. } = &mut entry.sub_queue else { continue };
            // Pods that have waited for an hour must not all be due at once.
            let periods = now.saturating_sub(since).as_nanos() / flush.as_nanos().max(1);
            since += flush * u32::try_from(periods).unwrap_or(u32::MAX);
            *waiting_since = since;
            self.unschedulable.insert((since, uid));
        }
    }

    /// Returns the time at which the next pod becomes active by itself.
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        let back_off = self.backing_off.first().map(|(until, _)| *until);
        let flush = self.unschedulable.first().map(|(since, _)| *since + self.times.flush);
        back_off.into_iter().chain(flush).min()
    }

    /// Returns the number of pods in each sub-queue.
    pub(crate) fn waiting(&self) -> PendingCounts {
        let (active, backing_off) = (self.active.len(), self.backing_off.len());
        let unschedulable = self.unschedulable.len() + self.unchanged.len();
        let gated = self.entries.len() - active - backing_off - unschedulable;
        PendingCounts { active, backing_off, unschedulable, gated }
    }

    fn rank(&self, pod: &PodInfo, arrival: u64) -> Rank {
        Rank { order: self.sort.queue_order(pod), arrival }
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    fn insert(&mut self, entry: Entry) {
        let uid = entry.pod.uid().to_string();
        match &entry.sub_queue {
            SubQueue::Active { .. } => {
                self.active.insert((entry.rank.clone(), uid.clone()));
            }
            SubQueue::BackingOff { until, after } => {
                self.backing_off.insert((*until, uid.clone()));
                if *after == BackoffReason::Unfit {
                    self.helped.insert((entry.rank.clone(), uid.clone()));
                }
            }
            SubQueue::Unschedulable { rejected_by, since } => {
                self.by_rejection.entry(*rejected_by).or_default().insert(uid.clone());
                self.unchanged.insert((*since, uid.clone()));
            }
            SubQueue::Gated => {}
        }
        self.entries.insert(uid, entry);
    }

    /// Activates pods with a finished back-off, and pods that have waited long enough.
    fn release(&mut self, now: Duration) {
        while let Some((until, uid)) = self.backing_off.first().filter(|(until, _)| *until <= now).cloned() {
            self.backing_off.remove(&(until, uid.clone()));
            if let Some(entry) = self.entries.get_mut(&uid) {
                self.helped.remove(&(entry.rank.clone(), uid.clone()));
                entry.sub_queue = SubQueue::Active { since: until };
                self.active.insert((entry.rank.clone(), uid));
            }
        }
        let flush = self.times.flush;
        while let Some((_, uid)) =
            self.unschedulable.first().filter(|(since, _)| *since + flush <= now).cloned()
        {
            self.retry(&uid, now);
        }
    }

    /// Makes a waiting pod active, or puts it into back-off if its delay has not passed.
    fn retry(&mut self, uid: &Uid, now: Duration) {
        if let Some(pod) = self.get(uid).cloned() {
            self.add(pod, false, now);
        }
    }
}

#[cfg(test)]
mod tests;
