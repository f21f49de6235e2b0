//! The pod caches of all StatefulSets between their syncs.
//!
//! A set of a thousand pods created one after the other has thousands of syncs; each should only cost as much as has
//! changed since the last one, and a brief check of the rest. Follows the changes passed to it; never looks at the
//! API.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

use super::pod_cache::{PendingChanges, PodCache};
use api::Change;
use object::owner::controller_of;
use object::{SharedObject, Uid};

/// The pod caches of all sets, between their syncs.
#[derive(Default)]
pub(super) struct PodCaches {
    /// The changes for the next sync. A set has an entry from its first sync on.
    pending: Mutex<HashMap<Uid, PendingChanges>>,
    idle: Mutex<HashMap<Uid, PodCache>>,
}

impl PodCaches {
    /// Notes a pod's change for its controller's cache, and for that of its previous controller.
    pub(super) fn observe(&self, change: &Change) {
        let mut all = self.pending.lock();
        for object in change.previous.iter().chain([&change.object]) {
            if let Some(pending) = controller_of(object.meta()).and_then(|owner| all.get_mut(&owner.uid)) {
                pending.pods.insert(change.object.name().to_string(), change.clone());
            }
        }
    }

    /// Notes a change of a claim of the pod with this ordinal.
    pub(super) fn claim_changed(&self, set: &str, ordinal: i32) {
        if let Some(pending) = self.pending.lock().get_mut(set) {
            pending.claims.insert(ordinal);
        }
    }

    /// Returns the set's pod cache with all observed changes; calls `list` for its pods if there is none.
    ///
    /// The next sync lists again unless the cache is [stored](Self::store).
    pub(super) fn take(&self, set: &str, list: impl FnOnce() -> Vec<SharedObject<Pod>>) -> PodCache {
        let pending = std::mem::take(self.pending.lock().entry(set.to_string()).or_default());
        let idle = self.idle.lock().remove(set);
        match idle {
            Some(mut pod_cache) => {
                pod_cache.apply(set, pending);
                pod_cache
            }
            // The list includes all pending changes.
            None => PodCache::of(list()),
        }
    }

    /// Stores the pod cache for the set's next sync.
    pub(super) fn store(&self, set: &str, pod_cache: PodCache) {
        // A set dropped meanwhile has no next sync.
        if self.pending.lock().contains_key(set) {
            self.idle.lock().insert(set.to_string(), pod_cache);
        }
    }

    /// Drops a deleted set.
    pub(super) fn forget(&self, set: &str) {
        self.pending.lock().remove(set);
        self.idle.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::apps::v1::StatefulSet;
    use serde_json::{Value, json};

    use super::*;
    use api::ChangeKind;
    use object::{Kind, Object, Revision};

    fn set() -> SharedObject<StatefulSet> {
        let value = json!({"metadata": {"name": "web", "uid": "set", "generation": 1},
            "spec": {"selector": {}, "serviceName": "", "template": {}}});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    #[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
    fn pod(name: &str, revision: u64, owner: Value) -> Arc<Object> {
        let value = json!({"metadata": {"name": name, "uid": name, "resourceVersion": revision.to_string(),
            "ownerReferences": owner}, "spec": {"containers": []}, "status": {"phase": "Running"}});
        Arc::new(Object::from_value(Kind::Pod, value).unwrap())
    }

    fn by(uid: &str) -> Value {
        let kind = ("apps/v1", "StatefulSet");
        json!([{"apiVersion": kind.0, "kind": kind.1, "name": "web", "uid": uid, "controller": true}])
    }

    fn change(
        kind: ChangeKind,
        revision: u64,
        object: &Arc<Object>,
        previous: Option<&Arc<Object>>,
    ) -> Change {
        Change::new(Revision(revision), kind, object.clone(), previous.cloned())
    }

    /// Runs a sync that takes new versions and stores the cache; returns the pods as `ordinal@revision`.
    fn sync(pod_caches: &PodCaches, list: &[&Arc<Object>]) -> String {
        let pods = list.iter().filter_map(|object| SharedObject::from_object(object)).collect();
        let mut pod_cache = pod_caches.take("set", || pods);
        let fresh: Vec<_> = pod_cache.take_fresh().collect();
        for pod in fresh {
            pod_cache.insert(&set(), pod);
        }
        pod_cache.refresh(&set(), Timestamp::UNIX_EPOCH);
        let actual: Vec<String> = pod_cache
            .pod_states()
            .map(|(ordinal, pod_state)| format!("{ordinal}@{}", pod_state.pod.object().revision().0))
            .collect();
        pod_caches.store("set", pod_cache);
        actual.join(" ")
    }

    #[test]
    fn a_pod_cache_follows_its_pods_and_lists_only_once_sts_1() {
        use ChangeKind::{Added, Deleted, Modified};
        let pod_caches = PodCaches::default();
        let (zero, one) = (pod("web-0", 1, by("set")), pod("web-1", 2, by("set")));
        pod_caches.observe(&change(Added, 1, &zero, None));
        assert_eq!(sync(&pod_caches, &[&zero, &one]), "0@1 1@2", "the missed pod was listed");
        assert_eq!(sync(&pod_caches, &[]), "0@1 1@2");
        // The event of a listed version arrives late.
        pod_caches.observe(&change(Added, 2, &one, None));
        assert_eq!(sync(&pod_caches, &[]), "0@1 1@2");
        let newer = pod("web-0", 5, by("set"));
        pod_caches.observe(&change(Modified, 5, &newer, Some(&zero)));
        pod_caches.observe(&change(Deleted, 6, &one, None));
        assert_eq!(sync(&pod_caches, &[]), "0@5");
        // Deleted and recreated between two syncs.
        let again = pod("web-0", 8, by("set"));
        pod_caches.observe(&change(Deleted, 7, &newer, None));
        pod_caches.observe(&change(Added, 8, &again, None));
        assert_eq!(sync(&pod_caches, &[]), "0@8");
        // Released, and adopted by another set.
        let other = pod("web-0", 9, by("other"));
        pod_caches.observe(&change(Modified, 9, &other, Some(&again)));
        assert_eq!(sync(&pod_caches, &[]), "");
        // A list after a lost watch: the deletion has the revision of the deleted version.
        let last = pod("web-2", 11, by("set"));
        pod_caches.observe(&change(Added, 11, &last, None));
        assert_eq!(sync(&pod_caches, &[]), "2@11");
        pod_caches.observe(&change(Deleted, 11, &last, None));
        assert_eq!(sync(&pod_caches, &[]), "");
    }

    #[test]
    fn a_sync_that_came_to_nothing_lists_again_and_a_set_that_is_gone_is_forgotten_sts_1() {
        let pod_caches = PodCaches::default();
        let zero = pod("web-0", 1, by("set"));
        drop(pod_caches.take("set", Vec::new));
        assert_eq!(sync(&pod_caches, &[&zero]), "0@1");
        let pod_cache = pod_caches.take("set", Vec::new);
        pod_caches.forget("set");
        pod_caches.store("set", pod_cache);
        assert!(pod_caches.idle.lock().is_empty() && pod_caches.pending.lock().is_empty());
    }

    #[test]
    fn cached_claim_states_end_when_the_claim_or_the_set_changes_sts_1() {
        let pod_caches = PodCaches::default();
        let pods: Vec<_> = (0..3).map(|n| pod(&format!("web-{n}"), 1, by("set"))).collect();
        sync(&pod_caches, &pods.iter().collect::<Vec<_>>());
        let sound = |all: bool| {
            let mut pod_cache = pod_caches.take("set", Vec::new);
            let mut set = (*set()).clone();
            set.metadata.generation = Some(if all { 1 } else { 2 });
            pod_cache.refresh(&set, Timestamp::UNIX_EPOCH);
            let actual: Vec<bool> =
                pod_cache.pod_states().map(|(_, pod_state)| pod_state.claims_are_sound).collect();
            for (_, pod_state) in pod_cache.pod_states_mut() {
                pod_state.claims_are_sound = true;
            }
            pod_caches.store("set", pod_cache);
            actual
        };
        assert_eq!(sound(true), [false; 3]);
        assert_eq!(sound(true), [true; 3]);
        pod_caches.claim_changed("set", 1);
        assert_eq!(sound(true), [true, false, true]);
        assert_eq!(sound(false), [false; 3], "another generation may ask for other owners");
    }
}
