//! The scheduler without I/O: takes in what changed, says what to do with one pod after another.
//!
//! [`changes`] takes in, this file decides, [`placing`] brings a decided pod to its binding.
//!
//! Architecture Invariant: whoever calls [`Core::turn`] does what it says before the next call, and tells
//! when a binding failed or waits; the room of a decided pod is taken at once.

mod changes;
mod placing;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cycle::{Decision, NominatingInfo, Rejection, Search, schedule};
use crate::explain::hints::hints;
use crate::explain::verdict::{Verdict, Verdicts};
use crate::framework::{Attempt, WaitingPods};
use crate::profile::{Profile, profile_of};
use crate::queue::{Queue, QueueTimes, Waiting};
use crate::state::default_spread::Selectors;
use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use base::contained::panic_text;

/// What is to be done with one pod.
#[derive(Debug)]
pub(crate) enum Step {
    /// Bind it to the node; should that fail, give the attempt to [`Core::bind_failed`], should it have to
    /// wait, to [`Core::bind_later`].
    Bind {
        /// The pod and what the queue knows of it.
        attempt: Attempt,
        /// Its node.
        node: NodeName,
    },
    /// Tell that no node takes it, and make room for it if that helps.
    Unschedulable {
        /// The pod.
        pod: Arc<PodInfo>,
        /// Why.
        message: String,
        /// What becomes of the room kept for it.
        room: NominatingInfo,
        /// Pods of lower priority for which the node is kept no longer.
        outranked: Vec<Arc<PodInfo>>,
    },
    /// Tell that the scheduler failed at it.
    Failed {
        /// The pod.
        pod: Arc<PodInfo>,
        /// What happened.
        message: String,
    },
    /// Tell that a plugin panicked over it.
    Panicked {
        /// The pod.
        pod: Arc<PodInfo>,
        /// What the panic said.
        said: String,
    },
}

/// What became of a turn.
#[derive(Debug)]
pub(crate) enum Turn {
    /// No pod is to be tried now.
    Idle,
    /// A pod's node is decided and it waits for what plugins wait for.
    Held(Attempt),
    /// Something is to be done with a pod; how long that had waited for its turn, where it did.
    Do(Step, Option<Duration>),
}

/// A pod that may not be tried yet, to be told so.
#[derive(Debug)]
pub(crate) struct Gated {
    /// The pod.
    pub(crate) pod: Arc<PodInfo>,
    /// Why.
    pub(crate) message: &'static str,
}

/// See the file's head.
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
    /// A scheduler that knows of no node and no pod.
    pub(crate) fn new(
        profiles: Arc<[Profile]>,
        times: QueueTimes,
        seed: u64,
        verdicts: Arc<Mutex<Verdicts>>,
    ) -> Self {
        // One queue for all: what sorts the first profile's pods sorts all.
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

    /// How many times a pod was tried.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests count attempts"))]
    pub(crate) fn tried(&self) -> u64 {
        self.tried
    }

    /// The nodes and what is placed on them.
    #[cfg(test)]
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    #[cfg(test)]
    pub(super) fn snapshot_mut(&mut self) -> &mut Snapshot {
        &mut self.snapshot
    }

    /// How many pods wait where.
    pub(crate) fn waiting(&self) -> Waiting {
        self.queue.waiting()
    }

    /// When to call [`Core::turn`] again although nothing changed.
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        self.queue.next_wake().into_iter().chain(self.waiting_pods.next_deadline()).min()
    }

    /// The cluster changed: decided pods that wait for what they need are to be bound, or tried to, again.
    pub(crate) fn news(&mut self) {
        self.waiting_pods.ask_again();
    }

    /// Tries the next pod.
    pub(crate) fn turn(&mut self, now: Duration) -> Turn {
        if let Some((attempt, node, end)) = self.waiting_pods.next(now) {
            return Turn::Do(self.let_go(attempt, node, end, now), None);
        }
        let Some(attempt) = self.queue.pop(now) else { return Turn::Idle };
        self.tried += 1;
        let (kept, waited) = (attempt.clone(), attempt.waited);
        match self.try_pod(attempt, now) {
            Some(step) => Turn::Do(step, waited),
            // Held; a pod without a profile never enters the queue.
            None => Turn::Held(kept),
        }
    }

    /// Tries one pod after the other until something is to be done with one; none when none is to be tried now.
    #[cfg(test)]
    pub(crate) fn step(&mut self, now: Duration) -> Option<Step> {
        loop {
            match self.turn(now) {
                Turn::Idle => return None,
                Turn::Held(_) => {}
                Turn::Do(step, _) => return Some(step),
            }
        }
    }

    /// The queue, for whoever looks.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    fn try_pod(&mut self, attempt: Attempt, now: Duration) -> Option<Step> {
        let profiles = self.profiles.clone();
        let pod = attempt.pod.clone();
        let profile = profile_of(&profiles, &pod)?;
        let spread = profile.default_constraints.apply(&pod, &self.selectors);
        let asked = spread.as_ref().unwrap_or(&pod);
        self.snapshot.prepare(asked);
        // A plugin that panics costs its pod an attempt, and nobody else anything.
        let cycle = || schedule(asked, &self.snapshot, profile, &mut self.search);
        Some(match std::panic::catch_unwind(AssertUnwindSafe(cycle)) {
            Ok(Decision::Place { node, evaluated, feasible }) => {
                tracing::debug!(pod = pod.uid(), %node, evaluated, feasible, "a node is found");
                self.verdicts.lock().forget(pod.uid());
                self.snapshot.assume(pod, &node);
                return self.settle_safely(attempt, node, now);
            }
            Ok(Decision::Unfit(rejection)) => {
                let Rejection { message, rejected_by, verdicts, room } = *rejection;
                // Where room was made nothing else need change.
                let made = matches!(room, NominatingInfo::Made(_));
                let hints = if made { Vec::new() } else { hints(asked, &self.snapshot, &verdicts) };
                let verdict = Verdict { table: verdicts, message: message.clone(), hints, at: now };
                self.verdicts.lock().keep(pod.uid(), Arc::new(verdict));
                self.queue.reject(attempt, rejected_by, now);
                let kept_before = self.snapshot.nominated().node_of(pod.uid()).cloned();
                let outranked = self.keep_room(&pod, &room);
                if self.snapshot.nominated().node_of(pod.uid()) != kept_before.as_ref() {
                    self.queue.changed(now);
                }
                Step::Unschedulable { pod, message, room, outranked }
            }
            Err(panic) => {
                self.queue.fail(attempt, now);
                Step::Panicked { pod, said: panic_text(panic.as_ref()) }
            }
        })
    }

    /// A plugin that panics once the node is decided costs no more than one that does before.
    fn settle_safely(&mut self, attempt: Attempt, node: NodeName, now: Duration) -> Option<Step> {
        let spare = attempt.clone();
        let settled = std::panic::catch_unwind(AssertUnwindSafe(|| self.settle(attempt, node, now)));
        settled.unwrap_or_else(|panic| {
            let pod = spare.pod.clone();
            self.bind_failed(spare, now);
            Some(Step::Panicked { pod, said: panic_text(panic.as_ref()) })
        })
    }

    /// Keeps the node for the pod; answers the pods of lower priority that it is kept for no longer.
    fn keep_room(&mut self, pod: &Arc<PodInfo>, room: &NominatingInfo) -> Vec<Arc<PodInfo>> {
        let preemption = match room {
            NominatingInfo::Unchanged => return Vec::new(),
            NominatingInfo::None => None,
            NominatingInfo::Made(preemption) => Some(preemption),
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
mod placing_tests;
#[cfg(test)]
mod tests;
