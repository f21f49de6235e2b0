//! Probe results: most repeat a known result, which needs no pass over the pod.

use std::sync::Arc;

use super::{PodEvent, PodWorker, PodWorkers};
use crate::probe::{ProbeKind, ProbeOutcome};
use crate::runtime::{ContainerId, PodUid};
use base::clock::until;

/// A probe's result.
#[derive(Clone, Debug)]
pub(crate) struct ProbeResult {
    pub(crate) container: String,
    pub(crate) id: ContainerId,
    pub(crate) kind: ProbeKind,
    pub(crate) outcome: ProbeOutcome,
}

impl PodWorkers {
    /// Takes a probe's result; a pass over the pod follows if the result changes anything.
    pub(crate) fn answered(self: &Arc<Self>, pod: &PodUid, answer: ProbeResult) {
        let mut pods = self.pods.lock();
        let Some(slot) = pods.get_mut(pod) else { return };
        if !self.take_quietly(pod, slot, &answer) {
            slot.pending.push(PodEvent::Probe(answer));
            self.start_pass(pod, slot);
        }
    }

    /// Takes a result that only changes the time of the next probe; returns false if a pass must handle it.
    fn take_quietly(&self, pod: &PodUid, slot: &mut PodWorker, answer: &ProbeResult) -> bool {
        let Some(state) = slot.state.as_mut().filter(|_| !slot.pending.is_dirty()) else { return false };
        let ProbeResult { container, id, kind, outcome } = answer;
        let runs = state.observed.latest(container).is_some_and(|r| r.id == *id && r.exit.is_none());
        let quiet =
            runs && !state.stale && state.observed.stop.is_none() && *outcome == ProbeOutcome::Success;
        let attempt = state.observed.memory_mut(container).current.as_mut();
        let Some(attempt) = attempt.filter(|attempt| quiet && attempt.id == *id) else { return false };
        let now = self.context.clock.steady();
        let mut probes = attempt.probes.clone();
        if probes.answered(*kind, outcome, now) {
            return false;
        }
        let (due, next) = probes.due(now);
        if !due.is_empty() {
            return false;
        }
        attempt.probes = probes;
        if let Some(at) = next {
            self.wakes.sooner(pod, self.context.clock.monotonic() + until(now, at));
        }
        true
    }
}
