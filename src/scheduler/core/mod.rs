//! The scheduler without I/O: takes changes as input, and returns the action for one pod after another.
//!
//! [`changes`] takes the input, this file decides, [`reserve_and_permit`] leads a decided pod to its binding.
//!
//! Architecture Invariant: the caller of [`Core::schedule_one`] executes the returned action before the next call, and
//! reports a binding that fails or has to wait; the resources of a decided pod are assumed at once.

mod changes;
mod reserve_and_permit;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cycle::{Decision, FitError, NominatingInfo, Search, schedule};
use crate::explain::hints::hints;
use crate::explain::verdict::{Verdict, Verdicts};
use crate::framework::{Attempt, WaitingPods};
use crate::profile::{Profile, profile_of};
use crate::queue::{PendingCounts, Queue, QueueTimes};
use crate::state::default_spread::Selectors;
use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use base::panics::panic_text;

/// The action for one pod.
#[derive(Debug)]
pub(crate) enum CoreAction {
    /// Bind it to the node. If that fails, pass the attempt to [`Core::bind_failed`]; if it has to wait, to
    /// [`Core::bind_later`].
    Bind {
        /// The pod with its queueing data.
        attempt: Attempt,
        node: NodeName,
    },
    /// Report that no node fits, and evict pods if that helps.
    Unschedulable {
        pod: Arc<PodInfo>,
        message: String,
        /// The effect on the pod's nomination.
        nomination: NominatingInfo,
        /// Pods of lower priority that lose their nomination for the node.
        outranked: Vec<Arc<PodInfo>>,
    },
    /// Report that the attempt failed with an error.
    Failed {
        pod: Arc<PodInfo>,
        /// The error.
        message: String,
    },
    /// Report that a plugin panicked during the attempt.
    Panicked {
        pod: Arc<PodInfo>,
        /// The panic's message.
        message: String,
    },
}

/// The result of a scheduling cycle.
#[derive(Debug)]
pub(crate) enum CycleOutcome {
    /// No pod is due now.
    Idle,
    /// A pod's node is decided, and the pod waits for its plugins.
    Waiting(Attempt),
    /// Execute this action. The duration is the time that the pod waited for its turn; `None` if it did not wait.
    Do(CoreAction, Option<Duration>),
}

/// A gated pod. The caller must report its condition.
#[derive(Debug)]
pub(crate) struct GatedPod {
    pub(crate) pod: Arc<PodInfo>,
    pub(crate) message: &'static str,
}

/// The state of the scheduler; see the head of this file.
pub(crate) struct Core {
    snapshot: Snapshot,
    queue: Queue,
    waiting_pods: WaitingPods,
    profiles: Arc<[Profile]>,
    search: Search,
    selectors: Selectors,
    verdicts: Arc<Mutex<Verdicts>>,
    tried: u64,
}

impl Core {
    /// Creates a scheduler without nodes and pods.
    pub(crate) fn new(
        profiles: Arc<[Profile]>,
        times: QueueTimes,
        seed: u64,
        verdicts: Arc<Mutex<Verdicts>>,
    ) -> Self {
        // All profiles share one queue: the queue-sort plugin of the first profile sorts all pods.
        let sort = profiles.first().map_or_else(|| Profile::default().queue_sort(), Profile::queue_sort);
        Self {
            snapshot: Snapshot::new(),
            queue: Queue::new(times, sort),
            waiting_pods: WaitingPods::default(),
            profiles,
            search: Search::seeded(seed),
            selectors: Selectors::default(),
            verdicts,
            tried: 0,
        }
    }

    /// Returns the number of attempts.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests count attempts"))]
    pub(crate) fn tried(&self) -> u64 {
        self.tried
    }

    /// Returns the nodes and the pods placed on them.
    #[cfg(test)]
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    #[cfg(test)]
    pub(super) fn snapshot_mut(&mut self) -> &mut Snapshot {
        &mut self.snapshot
    }

    /// Returns the number of pods in each sub-queue.
    pub(crate) fn waiting(&self) -> PendingCounts {
        self.queue.waiting()
    }

    /// Returns the time of the next [`Core::schedule_one`] if nothing changes before.
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        self.queue.next_wake().into_iter().chain(self.waiting_pods.next_deadline()).min()
    }

    /// Takes a change of the cluster: the pods that wait in PreBind are checked again.
    pub(crate) fn cluster_changed(&mut self) {
        self.waiting_pods.retry_pre_bind();
    }

    /// Tries the next pod.
    pub(crate) fn schedule_one(&mut self, now: Duration) -> CycleOutcome {
        if let Some((attempt, node, end)) = self.waiting_pods.next(now) {
            return CycleOutcome::Do(self.finish_waiting(attempt, node, end, now), None);
        }
        let Some(attempt) = self.queue.pop(now) else { return CycleOutcome::Idle };
        self.tried += 1;
        let (held, waited) = (attempt.clone(), attempt.waited);
        match self.try_pod(attempt, now) {
            Some(step) => CycleOutcome::Do(step, waited),
            // `None` means that the pod waits: a pod without a profile, the other reason for `None`, never enters the
            // queue.
            None => CycleOutcome::Waiting(held),
        }
    }

    /// Tries pods one after the other until one needs an action; `None` if no pod is due.
    #[cfg(test)]
    pub(crate) fn step(&mut self, now: Duration) -> Option<CoreAction> {
        loop {
            match self.schedule_one(now) {
                CycleOutcome::Idle => return None,
                CycleOutcome::Waiting(_) => {}
                CycleOutcome::Do(step, _) => return Some(step),
            }
        }
    }

    /// Returns the queue, for its status.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    fn try_pod(&mut self, attempt: Attempt, now: Duration) -> Option<CoreAction> {
        let profiles = self.profiles.clone();
        let pod = attempt.pod.clone();
        let profile = profile_of(&profiles, &pod)?;
        let spread = profile.default_constraints.apply(&pod, &self.selectors);
        let effective = spread.as_ref().unwrap_or(&pod);
        self.snapshot.prepare(effective);
        // The panic of a plugin costs its pod one attempt and affects no other pod.
        let cycle = || schedule(effective, &self.snapshot, profile, &mut self.search);
        Some(match std::panic::catch_unwind(AssertUnwindSafe(cycle)) {
            Ok(Decision::Place { node, evaluated, feasible }) => {
                tracing::debug!(pod = pod.uid(), %node, evaluated, feasible, "found a node");
                self.verdicts.lock().forget(pod.uid());
                self.snapshot.assume(pod, &node);
                return self.reserve_and_permit_safely(attempt, node, now);
            }
            Ok(Decision::Unfit(rejection)) => {
                let FitError { message, rejected_by, verdicts, nomination: room } = *rejection;
                // If evictions make room, no hints are needed.
                let made = matches!(room, NominatingInfo::Preempted(_));
                let hints = if made { Vec::new() } else { hints(effective, &self.snapshot, &verdicts) };
                let verdict = Verdict { table: verdicts, message: message.clone(), hints, at: now };
                self.verdicts.lock().keep(pod.uid(), Arc::new(verdict));
                self.queue.reject(attempt, rejected_by, now);
                let nominated_before = self.snapshot.nominated().node_of(pod.uid()).cloned();
                let outranked = self.nominate(&pod, &room);
                if self.snapshot.nominated().node_of(pod.uid()) != nominated_before.as_ref() {
                    self.queue.changed(now);
                }
                CoreAction::Unschedulable { pod, message, nomination: room, outranked }
            }
            Err(panic) => {
                self.queue.fail(attempt, now);
                CoreAction::Panicked { pod, message: panic_text(panic.as_ref()) }
            }
        })
    }

    /// Runs Reserve and Permit. A plugin's panic costs the pod one attempt, as before the decision.
    fn reserve_and_permit_safely(
        &mut self,
        attempt: Attempt,
        node: NodeName,
        now: Duration,
    ) -> Option<CoreAction> {
        let spare = attempt.clone();
        let outcome =
            std::panic::catch_unwind(AssertUnwindSafe(|| self.reserve_and_permit(attempt, node, now)));
        outcome.unwrap_or_else(|panic| {
            let pod = spare.pod.clone();
            self.bind_failed(spare, now);
            Some(CoreAction::Panicked { pod, message: panic_text(panic.as_ref()) })
        })
    }

    /// Updates the pod's nomination; returns the pods of lower priority that lose their nomination for the same node.
    fn nominate(&mut self, pod: &Arc<PodInfo>, nomination: &NominatingInfo) -> Vec<Arc<PodInfo>> {
        let preemption = match nomination {
            NominatingInfo::Unchanged => return Vec::new(),
            NominatingInfo::None => None,
            NominatingInfo::Preempted(preemption) => Some(preemption),
        };
        self.snapshot.nominate(pod, preemption.map(|p| &*p.node));
        let Some(preemption) = preemption else { return Vec::new() };
        let on_node = self.snapshot.nominated().on(&preemption.node);
        let outranked: Vec<_> = on_node.iter().filter(|p| p.priority < pod.priority).cloned().collect();
        for lower in &outranked {
            self.snapshot.nominate(lower, None);
        }
        outranked
    }
}

#[cfg(test)]
mod reserve_and_permit_tests;
#[cfg(test)]
mod tests;
