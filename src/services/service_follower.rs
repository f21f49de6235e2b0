//! Services joined with their EndpointSlices: which of them changed, and their current state.
//!
//! A follower remembers which services are dirty, never their intermediate states: taking the dirty services gives the
//! current state, however many changes led to it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use parking_lot::Mutex;
use tokio::sync::Notify;

use api::{Change, ChangeKind};
use object::well_known::label::SERVICE_NAME;
use object::{Key, Kind, Object, SharedObject};
use reconcile::Caches;

/// A service and its EndpointSlices as they are now; `service` is `None` if it was deleted or never existed.
#[derive(Clone, Default)]
pub struct ServiceEndpoints {
    /// The Service object.
    pub service: Option<SharedObject<Service>>,
    /// Its EndpointSlices by key.
    pub slices: BTreeMap<Key, SharedObject<EndpointSlice>>,
}

impl ServiceEndpoints {
    fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }
}

/// Follows all services through the shared caches; subscriptions of a dropped follower do nothing.
pub struct Follower {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    joined: HashMap<Key, ServiceEndpoints>,
    dirty: HashSet<Key>,
}

impl Follower {
    /// Starts following; every existing service counts as changed.
    pub fn start(caches: &Caches) -> Arc<Self> {
        let follower = Arc::new(Self { state: Mutex::default(), changed: Notify::new() });
        for kind in [Kind::Service, Kind::EndpointSlice] {
            let weak: Weak<Self> = Arc::downgrade(&follower);
            caches.on_any_change(kind, move |change| {
                if let Some(follower) = weak.upgrade() {
                    follower.apply(change);
                }
            });
        }
        follower
    }

    /// Waits for changes and takes all of them: each changed service in its current state.
    pub async fn take(&self) -> Vec<(Key, ServiceEndpoints)> {
        loop {
            let changed = self.changed.notified();
            let taken = self.take_now();
            if !taken.is_empty() {
                return taken;
            }
            changed.await;
        }
    }

    /// Takes the changed services without waiting.
    pub fn take_now(&self) -> Vec<(Key, ServiceEndpoints)> {
        let mut state = self.state.lock();
        let dirty = std::mem::take(&mut state.dirty);
        let now = |key: Key| {
            let joined = state.joined.get(&key).cloned().unwrap_or_default();
            (key, joined)
        };
        dirty.into_iter().map(now).collect()
    }

    /// Returns the current state of a service.
    pub fn get(&self, key: &Key) -> ServiceEndpoints {
        self.state.lock().joined.get(key).cloned().unwrap_or_default()
    }

    /// Marks services as dirty, so that the next [`Self::take`] returns them.
    pub fn mark(&self, keys: impl IntoIterator<Item = Key>) {
        self.state.lock().dirty.extend(keys);
        self.changed.notify_one();
    }

    /// Marks every service as dirty.
    pub fn mark_all(&self) {
        {
            let mut state = self.state.lock();
            let State { joined, dirty } = &mut *state;
            dirty.extend(joined.keys().cloned());
        }
        self.changed.notify_one();
    }

    fn apply(&self, change: &Change) {
        self.state.lock().apply(change);
        self.changed.notify_one();
    }
}

impl State {
    fn apply(&mut self, change: &Change) {
        let now = (change.kind != ChangeKind::Deleted).then_some(&change.object);
        if change.object.kind() == Kind::Service {
            let key = change.object.key();
            self.edit(key, |joined| joined.service = now.and_then(SharedObject::from_object));
            return;
        }
        let slice = change.object.key();
        // A slice may move to another service.
        let before = change.previous.as_ref().and_then(|previous| service_of(previous));
        if let Some(before) = before {
            self.edit(before, |joined| drop(joined.slices.remove(&slice)));
        }
        let Some(service) = service_of(&change.object) else { return };
        self.edit(service, |joined| match now.and_then(SharedObject::from_object) {
            Some(now) => drop(joined.slices.insert(slice, now)),
            None => drop(joined.slices.remove(&slice)),
        });
    }

    fn edit(&mut self, key: Key, edit: impl FnOnce(&mut ServiceEndpoints)) {
        let joined = self.joined.entry(key.clone()).or_default();
        edit(joined);
        if joined.is_empty() {
            self.joined.remove(&key);
        }
        self.dirty.insert(key);
    }
}

fn service_of(slice: &Object) -> Option<Key> {
    let name = slice.meta().labels.as_ref()?.get(SERVICE_NAME)?;
    Some(Key::new(slice.namespace(), name.as_str()))
}
