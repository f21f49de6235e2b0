//! One StatefulSet's pods by ordinal, with what was found out about each: a pod is read once a version.
//!
//! Never looks at the API.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use super::identity;
use super::rosters::News;
use super::seat::Seat;
use crate::api::{Change, ChangeKind};
use crate::object::Shared;
use crate::object::owner::is_controlled_by;

/// One set's pods.
#[derive(Default)]
pub(super) struct Roster {
    /// The generation of the set that the seats were judged by.
    generation: Option<i64>,
    /// Versions that nobody has judged, by name.
    fresh: BTreeMap<String, Shared<Pod>>,
    seats: BTreeMap<i32, Seat>,
}

impl Roster {
    /// These pods, which nobody has judged.
    pub(super) fn of(pods: Vec<Shared<Pod>>) -> Self {
        let fresh = pods.into_iter().map(|pod| (pod.name().to_string(), pod)).collect();
        Self { fresh, ..Self::default() }
    }

    /// Follows what happened since the last turn.
    pub(super) fn take_in(&mut self, set: &str, news: News) {
        for ordinal in news.claims {
            if let Some(seat) = self.seats.get_mut(&ordinal) {
                seat.claims_are_sound = false;
            }
        }
        for (name, change) in news.pods {
            self.take_in_pod(set, &name, &change);
        }
    }

    fn take_in_pod(&mut self, set: &str, name: &str, change: &Change) {
        let ordinal = identity::parse(name).map(|(_, ordinal)| ordinal);
        let seated = ordinal.filter(|o| self.seats.get(o).is_some_and(|seat| seat.pod.name() == name));
        let known = self.fresh.get(name).or_else(|| seated.and_then(|o| self.seats.get(&o)).map(|s| &s.pod));
        let is_gone = change.kind == ChangeKind::Deleted;
        // What was adopted is known before it is told of. Deletions that were missed are made up for at the
        // revision of the version that is gone.
        let is_old = |known: &Shared<Pod>| {
            let known = known.object().revision();
            known > change.revision || known == change.revision && !is_gone
        };
        if known.is_some_and(is_old) {
            return;
        }
        self.fresh.remove(name);
        if let Some(ordinal) = seated {
            self.seats.remove(&ordinal);
        }
        let is_ours = !is_gone && is_controlled_by(change.object.meta(), set);
        if let Some(pod) = Shared::from_object(&change.object).filter(|_| is_ours) {
            self.fresh.insert(name.to_string(), pod);
        }
    }

    /// The versions that nobody has judged; what the set controls is to be [seated](Self::seat).
    pub(super) fn take_fresh(&mut self) -> impl Iterator<Item = Shared<Pod>> + use<> {
        std::mem::take(&mut self.fresh).into_values()
    }

    /// Gives a pod that the set controls its place.
    pub(super) fn seat(&mut self, set: &Shared<StatefulSet>, pod: Shared<Pod>) {
        if let Some(ordinal) = identity::ordinal_of(set.name(), pod.name()) {
            self.seats.insert(ordinal, Seat::new(set, ordinal, pod));
        }
    }

    /// Brings what follows from the set and the time up to date.
    pub(super) fn look(&mut self, set: &StatefulSet, now: Timestamp) {
        let is_same = self.generation == set.metadata.generation;
        let min_ready_seconds = set.spec.min_ready_seconds.unwrap_or(0);
        for seat in self.seats.values_mut() {
            seat.claims_are_sound &= is_same;
            if !is_same || seat.is_in_flux() {
                seat.look(min_ready_seconds, now);
            }
        }
        self.generation = set.metadata.generation;
    }

    /// The pods in their places, the lowest ordinal first.
    pub(super) fn seats(&self) -> impl Iterator<Item = (i32, &Seat)> {
        self.seats.iter().map(|(ordinal, seat)| (*ordinal, seat))
    }

    /// The same, to be changed.
    pub(super) fn seats_mut(&mut self) -> impl Iterator<Item = (i32, &mut Seat)> {
        self.seats.iter_mut().map(|(ordinal, seat)| (*ordinal, seat))
    }

    /// The pod of an ordinal.
    pub(super) fn pod(&self, ordinal: i32) -> Option<&Shared<Pod>> {
        self.seats.get(&ordinal).map(|seat| &seat.pod)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A roster of these pods of a set, looked at.
    pub(in super::super) fn roster(
        set: &Shared<StatefulSet>,
        pods: &[Shared<Pod>],
        now: Timestamp,
    ) -> Roster {
        let mut roster = Roster::default();
        for pod in pods {
            roster.seat(set, pod.clone());
        }
        roster.look(set, now);
        roster
    }
}
