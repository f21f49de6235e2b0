//! A StatefulSet's pods as input of its decisions.

use k8s_openapi::api::core::v1::Pod;

use super::desired::DesiredSet;
use object::owner::is_terminating;
use object::pod::{Availability, Phase, is_terminal, phase};

/// The state of a pod, from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The pod is terminating.
    Terminating,
    /// The pod succeeded or failed, although pods of StatefulSets should run for ever.
    Ended,
    /// Not running and ready; `pending` if it has not been started.
    Unready { pending: bool },
    /// Running and ready, but not for `minReadySeconds`.
    Ready,
    /// Running and ready for `minReadySeconds`.
    Available,
}

impl State {
    /// Returns the state of a pod with this availability.
    pub(super) fn of(pod: &Pod, availability: Availability) -> Self {
        if is_terminating(&pod.metadata) {
            return Self::Terminating;
        }
        if is_terminal(pod) {
            return Self::Ended;
        }
        match (phase(pod), availability) {
            (Phase::Running, Availability::Available) => Self::Available,
            (Phase::Running, Availability::In(_)) => Self::Ready,
            (phase, _) => Self::Unready { pending: phase == Phase::Pending },
        }
    }
}

/// A pod as input of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) state: State,
    /// It has the newest template.
    pub(super) updated: bool,
    /// Its identity, volumes and claims are as desired.
    pub(super) sound: bool,
}

impl Member {
    pub(super) fn is_available(self) -> bool {
        self.state == State::Available
    }

    pub(super) fn is_outdated(self) -> bool {
        !self.updated && self.state != State::Terminating
    }
}

/// A set's pods by ordinal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Members(Vec<(i32, Member)>);

impl Members {
    /// Creates the set from pods in ascending order of ordinals.
    pub(super) fn in_order(members: Vec<(i32, Member)>) -> Self {
        debug_assert!(members.is_sorted_by_key(|(ordinal, _)| *ordinal));
        Self(members)
    }

    /// Returns the pod of an ordinal.
    pub(super) fn get(&self, ordinal: i32) -> Option<Member> {
        let found = self.0.binary_search_by_key(&ordinal, |(ordinal, _)| *ordinal);
        found.ok().map(|index| self.0[index].1)
    }

    /// Returns the pods with desired ordinals, lowest first.
    pub(super) fn desired(&self, desired: &DesiredSet) -> &[(i32, Member)] {
        let from = self.0.partition_point(|(ordinal, _)| *ordinal < desired.ordinals.start);
        let to = self.0.partition_point(|(ordinal, _)| *ordinal < desired.ordinals.end);
        &self.0[from..to.max(from)]
    }

    /// Returns the pods beyond the desired ordinals.
    pub(super) fn condemned(&self, desired: &DesiredSet) -> impl DoubleEndedIterator<Item = (i32, Member)> {
        self.0.iter().copied().filter(|(ordinal, _)| !desired.ordinals.contains(ordinal))
    }
}
