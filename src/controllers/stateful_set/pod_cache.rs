//! One StatefulSet's pods by ordinal, with computed state: each version of a pod is evaluated once.
//!
//! Never looks at the API.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use super::identity;
use super::pod_state::PodState;
use api::{Change, ChangeKind};
use base::sort::CollectMap;
use object::SharedObject;
use object::owner::is_controlled_by;

/// The changes of a set's pods since its last sync.
#[derive(Default)]
pub(super) struct PendingChanges {
    /// The last change of each pod, by name.
    pub(super) pods: BTreeMap<String, Change>,
    /// Ordinals with changed claims.
    pub(super) claims: BTreeSet<i32>,
}

/// One set's pods.
#[derive(Default)]
pub(super) struct PodCache {
    /// The set's generation for which the states were computed.
    generation: Option<i64>,
    /// Versions not yet used in a sync, by name.
    fresh: BTreeMap<String, SharedObject<Pod>>,
    pod_states: BTreeMap<i32, PodState>,
}

impl PodCache {
    /// Creates the cache of these pods, none of which was used in a sync.
    pub(super) fn of(pods: Vec<SharedObject<Pod>>) -> Self {
        let fresh = pods.into_iter().map(|pod| (pod.name().to_string(), pod)).collect_map();
        Self { fresh, ..Self::default() }
    }

    /// Applies the changes since the last sync.
    pub(super) fn apply(&mut self, set: &str, pending: PendingChanges) {
        for ordinal in pending.claims {
            if let Some(pod_state) = self.pod_states.get_mut(&ordinal) {
                pod_state.claims_are_sound = false;
            }
        }
        for (name, change) in pending.pods {
            self.apply_pod(set, &name, &change);
        }
    }

    fn apply_pod(&mut self, set: &str, name: &str, change: &Change) {
        let ordinal = identity::parse(name).map(|(_, ordinal)| ordinal);
        let cached =
            ordinal.filter(|o| self.pod_states.get(o).is_some_and(|pod_state| pod_state.pod.name() == name));
        let known =
            self.fresh.get(name).or_else(|| cached.and_then(|o| self.pod_states.get(&o)).map(|s| &s.pod));
        let is_deleted = change.kind == ChangeKind::Deleted;
        // An adopted pod is known before its change arrives. Deletions reconstructed after a lost watch have the
        // revision of the deleted version.
        let is_old = |known: &SharedObject<Pod>| {
            let known = known.object().revision();
            known > change.revision || known == change.revision && !is_deleted
        };
        if known.is_some_and(is_old) {
            return;
        }
        self.fresh.remove(name);
        if let Some(ordinal) = cached {
            self.pod_states.remove(&ordinal);
        }
        let is_controlled = !is_deleted && is_controlled_by(change.object.meta(), set);
        if let Some(pod) = SharedObject::from_object(&change.object).filter(|_| is_controlled) {
            self.fresh.insert(name.to_string(), pod);
        }
    }

    /// Takes the versions not yet used in a sync; the caller [inserts](Self::insert) those that the set controls.
    pub(super) fn take_fresh(&mut self) -> impl Iterator<Item = SharedObject<Pod>> + use<> {
        std::mem::take(&mut self.fresh).into_values()
    }

    /// Inserts a pod that the set controls at its ordinal.
    pub(super) fn insert(&mut self, set: &SharedObject<StatefulSet>, pod: SharedObject<Pod>) {
        if let Some(ordinal) = identity::ordinal_of(set.name(), pod.name()) {
            self.pod_states.insert(ordinal, PodState::new(set, ordinal, pod));
        }
    }

    /// Updates the parts that depend on the set and the time.
    pub(super) fn refresh(&mut self, set: &StatefulSet, now: Timestamp) {
        let is_same = self.generation == set.metadata.generation;
        let min_ready_seconds = set.spec.min_ready_seconds.unwrap_or(0);
        for pod_state in self.pod_states.values_mut() {
            pod_state.claims_are_sound &= is_same;
            if !is_same || pod_state.is_in_flux() {
                pod_state.refresh(min_ready_seconds, now);
            }
        }
        self.generation = set.metadata.generation;
    }

    /// Returns the pods by ordinal, lowest first.
    pub(super) fn pod_states(&self) -> impl Iterator<Item = (i32, &PodState)> {
        self.pod_states.iter().map(|(ordinal, pod_state)| (*ordinal, pod_state))
    }

    /// Returns the pods by ordinal, lowest first, to be changed.
    pub(super) fn pod_states_mut(&mut self) -> impl Iterator<Item = (i32, &mut PodState)> {
        self.pod_states.iter_mut().map(|(ordinal, pod_state)| (*ordinal, pod_state))
    }

    pub(super) fn pod(&self, ordinal: i32) -> Option<&SharedObject<Pod>> {
        self.pod_states.get(&ordinal).map(|pod_state| &pod_state.pod)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates a refreshed cache of these pods of a set.
    pub(in crate::stateful_set) fn pod_cache(
        set: &SharedObject<StatefulSet>,
        pods: &[SharedObject<Pod>],
        now: Timestamp,
    ) -> PodCache {
        let mut pod_cache = PodCache::default();
        for pod in pods {
            pod_cache.insert(set, pod.clone());
        }
        pod_cache.refresh(set, now);
        pod_cache
    }
}
