//! Shared caches, as client-go's informers: one list and watch for each kind, indexed, with handlers that run after
//! the cache shows a change.

use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use api::Api;
use api::{Change, ChangeKind, Visibility};
use base::sort::SliceOrder;
use base::task::Tasks;
use object::owner::controller_of;
use object::pod::node_name;
use object::{Key, KeyMap, Kind, Object, Revision, SharedObject, TypedKind};

/// A handler, called with every change of a kind.
pub(super) type Handler = Arc<dyn Fn(&Change) + Send + Sync>;

/// The caches of all kinds; each starts at its first use.
#[derive(Clone)]
pub struct Caches {
    inner: Arc<Inner>,
}

struct Inner {
    api: Api,
    tasks: Tasks,
    slots: Mutex<HashMap<Kind, Arc<KindCache>>>,
}

/// One kind's objects and the handlers of their changes.
struct KindCache {
    kind: Kind,
    index: RwLock<Index>,
    // Held while an event is applied and handed on, so that a new handler sees each object exactly once.
    handlers: Mutex<Handlers>,
    synced: watch::Sender<bool>,
    /// Notified when a caller requests a new list.
    relist: Notify,
}

/// An object that has different versions in a cache and in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The object's kind.
    pub kind: Kind,
    /// The object's key.
    pub key: Key,
    /// The version in the cache; `None` if the cache lacks the object.
    pub cached: Option<Revision>,
    /// The version in the store; `None` if the store lacks the object.
    pub stored: Option<Revision>,
}

#[derive(Default)]
struct Handlers {
    list: Vec<(u64, Handler)>,
    /// The number of the next handler.
    next: u64,
}

/// A handler's registration; dropping it removes the handler.
#[must_use = "the handler goes with its subscription"]
pub struct Subscription {
    slot: Arc<KindCache>,
    number: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.slot.handlers.lock().list.retain(|(number, _)| *number != self.number);
    }
}

#[derive(Default)]
struct Index {
    objects: KeyMap<Arc<Object>>,
    by_controller: Groups,
    by_node: Groups,
}

/// Objects grouped by a shared value, such as a node's name.
#[derive(Default)]
struct Groups(HashMap<String, HashMap<Key, Arc<Object>>>);

impl Caches {
    /// Creates caches that run their tasks in `tasks`; none runs yet.
    pub fn new(api: &Api, tasks: &Tasks) -> Self {
        let inner = Inner { api: api.clone(), tasks: tasks.clone(), slots: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    pub(super) fn api(&self) -> &Api {
        &self.inner.api
    }

    /// Returns the cache of `T`s.
    pub fn of<T: TypedKind>(&self) -> Cache<T> {
        Cache { slot: self.slot(T::kind()), of: PhantomData }
    }

    /// Calls `handler` for every existing object of a kind and for every later change; see [`Cache::on_change`].
    pub fn on_any_change(&self, kind: Kind, handler: impl Fn(&Change) + Send + Sync + 'static) {
        self.slot(kind).subscribe(Arc::new(handler));
    }

    /// As [`Caches::on_any_change`], until the subscription is dropped.
    pub fn watch(&self, kind: Kind, handler: impl Fn(&Change) + Send + Sync + 'static) -> Subscription {
        self.subscribe(kind, Arc::new(handler))
    }

    pub(super) fn subscribe(&self, kind: Kind, handler: Handler) -> Subscription {
        let slot = self.slot(kind);
        let number = slot.subscribe(handler);
        Subscription { slot, number }
    }

    /// Returns true if the cache of the change's kind shows this change or a newer one.
    pub fn shows(&self, change: &Change) -> bool {
        let slot = self.slot(change.object.kind());
        let index = slot.index.read();
        match index.objects.get(&change.object.key()) {
            Some(there) => there.revision() >= change.revision,
            None => change.kind == ChangeKind::Deleted,
        }
    }

    /// Waits until the cache has the first list of a kind.
    pub async fn synced(&self, kind: Kind) {
        let slot = self.slot(kind);
        let mut synced = slot.synced.subscribe();
        // Cannot fail: `slot` holds the sender.
        let _ = synced.wait_for(|done| *done).await;
    }

    /// Returns the differences between the caches and the store at this moment. After a write a cache lags for a
    /// moment; only a difference that lasts indicates a bug.
    pub fn differences(&self) -> Vec<Difference> {
        let slots: Vec<Arc<KindCache>> = self.inner.slots.lock().values().cloned().collect();
        let mut all = Vec::new();
        for slot in slots.iter().filter(|slot| *slot.synced.borrow()) {
            let stored = self.inner.api.list(slot.kind, None).objects;
            let index = slot.index.read();
            let mut cached: HashMap<Key, Revision> =
                index.objects.values().map(|object| (object.key(), object.revision())).collect();
            drop(index);
            let mut found = |key, cached: Option<Revision>, stored| {
                all.push(Difference { kind: slot.kind, key, cached, stored });
            };
            for object in stored {
                let there = cached.remove(&object.key());
                if there != Some(object.revision()) {
                    found(object.key(), there, Some(object.revision()));
                }
            }
            for (key, revision) in cached {
                found(key, Some(revision), None);
            }
        }
        all.order();
        all
    }

    /// Makes a kind's cache list again.
    pub fn relist(&self, kind: Kind) {
        self.slot(kind).relist.notify_one();
    }

    /// Returns every object of a kind.
    pub fn objects(&self, kind: Kind) -> Vec<Arc<Object>> {
        self.slot(kind).index.read().objects.values().cloned().collect()
    }

    fn slot(&self, kind: Kind) -> Arc<KindCache> {
        let mut slots = self.inner.slots.lock();
        slots
            .entry(kind)
            .or_insert_with(|| {
                let slot = Arc::new(KindCache {
                    kind,
                    index: RwLock::default(),
                    handlers: Mutex::default(),
                    synced: watch::Sender::new(false),
                    relist: Notify::new(),
                });
                let (api, follower) = (self.inner.api.clone(), slot.clone());
                self.inner.tasks.spawn_restarting("cache", move || follow(api.clone(), follower.clone()));
                slot
            })
            .clone()
    }
}

/// Lists, then applies changes forever; lists again after falling behind.
async fn follow(api: Api, slot: Arc<KindCache>) {
    loop {
        let snapshot = api.list(slot.kind, None);
        let mut watcher = api.watch(slot.kind, snapshot.revision, Visibility::Applied);
        slot.replace_all(snapshot.objects);
        slot.synced.send_replace(true);
        loop {
            let changes = tokio::select! {
                changes = watcher.next() => changes,
                () = slot.relist.notified() => break,
            };
            let Ok(changes) = changes else { break };
            for change in &changes {
                slot.apply(change);
            }
            tokio::task::consume_budget().await;
        }
    }
}

impl KindCache {
    fn apply(&self, change: &Change) {
        let handlers = self.handlers.lock();
        self.index.write().apply(change);
        for (_, handler) in &handlers.list {
            handler(change);
        }
    }

    /// Replaces the contents by a new list, as a sequence of changes. An object that has the name of a cached one, but
    /// another uid, counts as a deletion and an addition.
    fn replace_all(&self, objects: Vec<Arc<Object>>) {
        let listed: HashSet<(Key, &str)> = objects.iter().map(|o| (o.key(), o.uid())).collect();
        let (known, gone): (HashMap<Key, Arc<Object>>, Vec<Arc<Object>>) = {
            let index = self.index.read();
            let removed = index.objects.values().filter(|o| !listed.contains(&(o.key(), o.uid()))).cloned();
            (index.objects.values().map(|o| (o.key(), o.clone())).collect(), removed.collect())
        };
        for object in gone {
            self.apply(&change(ChangeKind::Deleted, object.clone(), Some(object)));
        }
        for object in objects {
            match known.get(&object.key()) {
                Some(old) if old.revision() == object.revision() => {}
                Some(old) if old.uid() == object.uid() => {
                    self.apply(&change(ChangeKind::Modified, object, Some(old.clone())));
                }
                _ => self.apply(&change(ChangeKind::Added, object, None)),
            }
        }
    }

    /// Registers a handler and returns its number.
    fn subscribe(&self, handler: Handler) -> u64 {
        let mut handlers = self.handlers.lock();
        for object in self.index.read().objects.values() {
            handler(&change(ChangeKind::Added, object.clone(), None));
        }
        let number = handlers.next;
        handlers.next += 1;
        handlers.list.push((number, handler));
        number
    }
}

fn change(kind: ChangeKind, object: Arc<Object>, previous: Option<Arc<Object>>) -> Change {
    Change::new(object.revision(), kind, object, previous)
}

fn node_of(object: &Object) -> Option<&str> {
    node_name(object.get::<Pod>()?)
}

fn owner_of(object: &Object) -> Option<&str> {
    controller_of(object.meta()).map(|owner| owner.uid.as_str())
}

impl Index {
    fn apply(&mut self, change: &Change) {
        let (key, object) = (change.object.key(), &change.object);
        let (known, old) = if change.kind == ChangeKind::Deleted {
            (None, self.objects.remove(&key))
        } else {
            (Some(object), self.objects.insert(key.clone(), object.clone()))
        };
        let old = old.as_deref();
        self.by_controller.change(old.and_then(owner_of), known.and_then(|o| owner_of(o)), &key, object);
        self.by_node.change(old.and_then(node_of), known.and_then(|o| node_of(o)), &key, object);
    }
}

impl Groups {
    /// Moves the object from one group to another; either may be `None`, and both may be equal.
    fn change(&mut self, old: Option<&str>, new: Option<&str>, key: &Key, object: &Arc<Object>) {
        let left = old.filter(|old| Some(*old) != new);
        if let Some((old, group)) = left.and_then(|old| Some((old, self.0.get_mut(old)?))) {
            group.remove(key);
            if group.is_empty() {
                self.0.remove(old);
            }
        }
        let Some(new) = new else { return };
        let group = match self.0.get_mut(new) {
            Some(group) => group,
            None => self.0.entry(new.to_string()).or_default(),
        };
        match group.get_mut(key) {
            Some(member) => *member = object.clone(),
            None => drop(group.insert(key.clone(), object.clone())),
        }
    }

    fn of(&self, group: &str) -> impl Iterator<Item = &Arc<Object>> {
        self.0.get(group).into_iter().flat_map(HashMap::values)
    }
}

/// The cached objects of type `T`.
pub struct Cache<T> {
    slot: Arc<KindCache>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self { slot: self.slot.clone(), of: PhantomData }
    }
}

impl<T: TypedKind> Cache<T> {
    /// Returns the object with this key.
    pub fn get(&self, key: &Key) -> Option<SharedObject<T>> {
        self.slot.index.read().objects.get(key).and_then(SharedObject::from_object)
    }

    /// Returns all objects, ordered by key.
    pub fn list(&self) -> Vec<SharedObject<T>> {
        self.slot.index.read().objects.values().filter_map(SharedObject::from_object).collect()
    }

    /// Returns the objects of one namespace, ordered by key.
    pub fn in_namespace(&self, namespace: &str) -> Vec<SharedObject<T>> {
        let index = self.slot.index.read();
        index.objects.in_namespace(namespace).filter_map(SharedObject::from_object).collect()
    }

    /// Returns the objects that the object with this uid controls, in no order.
    pub fn controlled_by(&self, owner: &str) -> Vec<SharedObject<T>> {
        let index = self.slot.index.read();
        index.by_controller.of(owner).filter_map(SharedObject::from_object).collect()
    }

    /// Returns the pods bound to this node, in no order.
    pub fn on_node(&self, node: &str) -> Vec<SharedObject<T>> {
        let index = self.slot.index.read();
        index.by_node.of(node).filter_map(SharedObject::from_object).collect()
    }

    /// Calls `handler` for every object, as an addition, and from then on for every change, in order and
    /// after the cache shows it. The handler must not block, and must not subscribe to the same cache.
    pub fn on_change(&self, handler: impl Fn(&Change) + Send + Sync + 'static) {
        self.slot.subscribe(Arc::new(handler));
    }

    /// Waits until the cache has its first list.
    pub async fn synced(&self) {
        let mut synced = self.slot.synced.subscribe();
        // Cannot fail: `self` holds the slot, and the slot the sender.
        let _ = synced.wait_for(|done| *done).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::test_api::{api, create_config_map};
    use api::DeleteOptions;

    /// Simulation seed 1542: objects owned by the first of two with the same name stayed forever, because handlers
    /// never received its deletion.
    #[tokio::test(start_paused = true)]
    async fn an_object_replaced_while_the_watch_lagged_is_reported_as_deleted_gc_1() {
        let api = api();
        let (tasks, events) = (Tasks::new(), Arc::new(Mutex::new(Vec::new())));
        let caches = Caches::new(&api, &tasks);
        let make = || create_config_map(&api, "map").uid().to_owned();
        let first = make();
        let cache: Cache<ConfigMap> = caches.of();
        cache.synced().await;
        let seen = events.clone();
        cache.on_change(move |change| seen.lock().push((change.kind, change.object.uid().to_owned())));
        let key = Key::new("n", "map");
        // The compaction makes the watch expire, so that the cache learns of both writes from a new list.
        api.delete(Kind::ConfigMap, &key, &DeleteOptions::default()).unwrap();
        let second = make();
        api.compact(api.revision());
        // The time limit is virtual time, which advances only while all tasks sleep.
        let caught_up = async {
            while cache.get(&key).is_none_or(|map| map.uid() != second) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), caught_up)
            .await
            .expect("the cache has the second object");
        let expected =
            [(ChangeKind::Added, first.clone()), (ChangeKind::Deleted, first), (ChangeKind::Added, second)];
        assert_eq!(*events.lock(), expected);
        tasks.stop().await;
    }
}
