//! The current values that changes of objects lead to, and the keys that changed.
//!
//! A follower remembers which keys are dirty, never their intermediate values: taking the dirty keys gives the current
//! values, however many changes led to them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use api::Change;
use object::{Key, Kind};
use reconcile::Caches;

/// Follows values through the shared caches; subscriptions of a dropped follower do nothing. The value of an unknown key
/// is the default.
pub struct ChangeFollower<V> {
    state: Mutex<FollowedValues<V>>,
    changed: Notify,
}

/// The values by key, and the keys that changed since they were taken.
#[derive(Default)]
pub(crate) struct FollowedValues<V> {
    values: HashMap<Key, V>,
    dirty: HashSet<Key>,
}

impl<V> FollowedValues<V> {
    /// Replaces the value of a key. The key counts as changed unless it neither had nor has a value.
    pub(crate) fn update(&mut self, key: Key, update: impl FnOnce(Option<V>) -> Option<V>) {
        let before = self.values.remove(&key);
        let was_known = before.is_some();
        let now = update(before);
        if was_known || now.is_some() {
            self.dirty.insert(key.clone());
        }
        if let Some(now) = now {
            self.values.insert(key, now);
        }
    }
}

impl<V: Clone + Default + Send + 'static> ChangeFollower<V> {
    /// Starts following objects of these kinds. Readers see all or none of what `apply` does for one change.
    pub(crate) fn follow(
        caches: &Caches,
        kinds: &[Kind],
        apply: impl Fn(&mut FollowedValues<V>, &Change) + Clone + Send + Sync + 'static,
    ) -> Arc<Self> {
        let follower = Arc::new(Self { state: Mutex::default(), changed: Notify::new() });
        for kind in kinds {
            let (weak, apply) = (Arc::downgrade(&follower), apply.clone());
            caches.on_any_change(*kind, move |change| {
                let Some(follower) = weak.upgrade() else { return };
                let mut state = follower.state.lock();
                apply(&mut state, change);
                let has_changed = !state.dirty.is_empty();
                drop(state);
                if has_changed {
                    follower.changed.notify_one();
                }
            });
        }
        follower
    }

    /// Waits for changes and takes all of them: each changed key with its current value.
    pub async fn take(&self) -> Vec<(Key, V)> {
        loop {
            let changed = self.changed.notified();
            let taken = self.take_now();
            if !taken.is_empty() {
                return taken;
            }
            changed.await;
        }
    }

    /// Takes the changed keys without waiting.
    pub fn take_now(&self) -> Vec<(Key, V)> {
        let mut state = self.state.lock();
        let dirty = std::mem::take(&mut state.dirty);
        let now = |key: Key| {
            let value = state.values.get(&key).cloned().unwrap_or_default();
            (key, value)
        };
        dirty.into_iter().map(now).collect()
    }

    /// Returns the current value of a key.
    pub fn get(&self, key: &Key) -> V {
        self.state.lock().values.get(key).cloned().unwrap_or_default()
    }

    /// Marks keys as dirty, so that the next [`Self::take`] returns them.
    pub fn mark(&self, keys: impl IntoIterator<Item = Key>) {
        self.state.lock().dirty.extend(keys);
        self.changed.notify_one();
    }

    /// Marks every key with a value as dirty.
    pub fn mark_all(&self) {
        {
            let mut state = self.state.lock();
            let FollowedValues { values, dirty } = &mut *state;
            dirty.extend(values.keys().cloned());
        }
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_never_had_a_value_does_not_count_as_changed_net_2() {
        let mut followed = FollowedValues::default();
        let key = Key::new("default", "a");
        for (before, now, is_dirty) in
            [(None, None, false), (None, Some(1), true), (Some(1), Some(2), true), (Some(2), None, true)]
        {
            followed.update(key.clone(), |known| {
                assert_eq!(known, before);
                now
            });
            assert_eq!(followed.dirty.remove(&key), is_dirty, "{before:?} {now:?}");
            assert_eq!(followed.values.get(&key).copied(), now);
        }
    }
}
