//! The builder of a controller, after controller-runtime's and kube-rs': the kind it reconciles, the kinds it owns and
//! watches, and its number of workers.
//!
//! ```text
//! change of an object ─► handler ─► keys ─► work queue ─► workers ─► Reconciler::reconcile(key)
//! ```

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::cache::{Caches, Handler, Subscription};
use super::queue::{QueueKey, WorkQueue};
use super::runner::Reconciler;
use super::stats::ControllerStats;
use super::worker::{KeyObjectFn, Worker};
use api::controller_status::ControllerProbe;
use api::{Change, ChangeKind};
use base::backoff::BackoffPolicy;
use base::task::Tasks;
use object::owner::controller_of;
use object::{Key, Kind, Object, TypedKind};

/// The result of a handler: the keys to enqueue, or `()` if the handler has enqueued them itself.
pub trait Requests<K: QueueKey> {
    /// Puts the keys on the queue.
    fn enqueue(self, queue: &WorkQueue<K>);
}

impl<K: QueueKey> Requests<K> for () {
    fn enqueue(self, _: &WorkQueue<K>) {}
}

impl<K: QueueKey> Requests<K> for Option<K> {
    fn enqueue(self, queue: &WorkQueue<K>) {
        if let Some(key) = self {
            queue.add(key);
        }
    }
}

impl<K: QueueKey> Requests<K> for Vec<K> {
    fn enqueue(self, queue: &WorkQueue<K>) {
        for key in self {
            queue.add(key);
        }
    }
}

/// A controller under construction. It reconciles nothing before [`Controller::run`], and then only once every cache
/// it names has its first list: with an incomplete view it would create objects that exist already.
#[must_use = "a controller does nothing until it runs"]
pub struct Controller<R: Reconciler> {
    reconciler: Arc<R>,
    parts: ControllerParts<R::Key>,
}

/// A controller without its reconciler.
struct ControllerParts<K: QueueKey> {
    queue: WorkQueue<K>,
    caches: Caches,
    workers: usize,
    name: &'static str,
    /// The component's name in Fault objects.
    component: &'static str,
    object_of: Option<KeyObjectFn<K>>,
    /// The controller waits for the first lists of these kinds.
    reads: Vec<Kind>,
    subscriptions: Vec<Subscription>,
    /// Called for each kind that is not read yet, and for each kind added later; subscribes to the kind if it is
    /// watched.
    every_kind: Vec<SubscribeFn>,
}

type SubscribeFn = Box<dyn Fn(Kind) -> Option<Subscription> + Send + Sync>;

impl<R: Reconciler> Controller<R> {
    /// Creates a controller with one worker that watches nothing yet. `new` receives its queue, which has the cluster's
    /// back-off. The name is used in logs and in `--disable`, and for its component in Fault objects.
    pub fn new(name: &'static str, caches: &Caches, new: impl FnOnce(WorkQueue<R::Key>) -> R) -> Self {
        let parts = ControllerParts::new(name, caches);
        Self { reconciler: Arc::new(new(parts.queue.clone())), parts }
    }

    /// Calls the handler for every existing object of a kind and for every later change, and enqueues the keys it
    /// returns.
    pub fn watches<T: TypedKind, Q: Requests<R::Key> + 'static>(self, handler: fn(&R, &Change) -> Q) -> Self {
        self.watches_kind(T::kind(), handler)
    }

    /// Does the same as [`Controller::watches`], for a kind known only at run time.
    pub(crate) fn watches_kind<Q: Requests<R::Key> + 'static>(
        mut self,
        kind: Kind,
        handler: fn(&R, &Change) -> Q,
    ) -> Self {
        let subscription = self.parts.caches.subscribe(kind, self.handle(handler));
        self.parts.subscriptions.push(subscription);
        self.reads_kind(kind)
    }

    /// Does the same as [`Controller::watches`], for every watched kind, including kinds added at run time.
    pub fn watches_every_kind<Q: Requests<R::Key> + 'static>(
        mut self,
        is_watched: fn(Kind) -> bool,
        handler: fn(&R, &Change) -> Q,
    ) -> Self {
        let handle = self.handle(handler);
        self.parts.watch_every_kind(is_watched, handle);
        self
    }

    fn handle<Q: Requests<R::Key> + 'static>(&self, handler: fn(&R, &Change) -> Q) -> Handler {
        let (reconciler, queue) = (self.reconciler.clone(), self.parts.queue.clone());
        Arc::new(move |change: &Change| handler(&reconciler, change).enqueue(&queue))
    }

    /// Waits for the first list of a kind, because the reconciler reads its cache.
    pub fn reads<T: TypedKind>(self) -> Self {
        self.reads_kind(T::kind())
    }

    fn reads_kind(mut self, kind: Kind) -> Self {
        self.parts.reads.push(kind);
        self
    }

    /// Sets the number of keys that may be reconciled at once. One key is never reconciled twice at once.
    pub fn workers(mut self, workers: usize) -> Self {
        self.parts.workers = workers;
        self
    }

    /// Sets the name of one of several controllers of a component, which keeps its own name in Fault objects.
    pub fn named(mut self, name: &'static str) -> Self {
        self.parts.name = name;
        self
    }

    /// Returns the controller's queue.
    pub fn queue(&self) -> WorkQueue<R::Key> {
        self.parts.queue.clone()
    }

    /// Sets the function that maps a key to its object, for readers of the queue's status.
    pub fn keys_are(mut self, object_of: fn(&R::Key) -> Option<(Kind, Key)>) -> Self {
        self.parts.object_of = Some(object_of);
        self
    }

    /// Runs the controller in tasks of `tasks`; its handlers are removed when these stop.
    pub fn run(self, tasks: &Tasks) {
        self.parts.run(self.reconciler, tasks);
    }
}

impl<K: QueueKey> ControllerParts<K> {
    fn new(name: &'static str, caches: &Caches) -> Self {
        let timings = caches.api().timings();
        let queue = WorkQueue::new(BackoffPolicy {
            initial: timings.reconcile_back_off_initial.0,
            max: timings.reconcile_back_off_max.0,
        });
        Self {
            queue,
            caches: caches.clone(),
            workers: 1,
            name,
            component: name,
            object_of: None,
            reads: Vec::new(),
            subscriptions: Vec::new(),
            every_kind: Vec::new(),
        }
    }

    fn watch_every_kind(&mut self, is_watched: fn(Kind) -> bool, handle: Handler) {
        let caches = self.caches.clone();
        let subscribe = move |kind: Kind| is_watched(kind).then(|| caches.subscribe(kind, handle.clone()));
        for kind in self.caches.api().kinds().all() {
            if let Some(subscription) = subscribe(kind) {
                self.subscriptions.push(subscription);
                self.reads.push(kind);
            }
        }
        self.every_kind.push(Box::new(subscribe));
    }

    fn run(self, reconciler: Arc<dyn Reconciler<Key = K>>, tasks: &Tasks) {
        let Self { queue, caches, workers, name, component, object_of, reads, .. } = self;
        let (mut subscriptions, every_kind) = (self.subscriptions, self.every_kind);
        queue.set_metrics(caches.api().metrics().work_queue(name));
        let worker = Arc::new(Worker {
            figures: ControllerStats::new(caches.api().clock()),
            name,
            component,
            tasks: tasks.clone(),
            is_started: AtomicBool::new(false),
            down: AtomicUsize::new(0),
            caches: caches.clone(),
            reconciler,
            queue,
            reads,
            workers,
            object_of,
        });
        let probe: Arc<dyn ControllerProbe> = worker.clone();
        caches.api().controller_runs(name, &probe);
        tasks.spawn(name, async move {
            // The API holds only a weak reference: the probe answers while this task runs.
            let _probe = probe;
            let mut known: HashSet<Kind> = worker.reads.iter().copied().collect();
            for kind in &worker.reads {
                caches.synced(*kind).await;
            }
            for _ in 0..workers {
                let worker = worker.clone();
                worker.tasks.clone().spawn_restarting(name, move || worker.clone().work());
            }
            worker.is_started.store(true, Ordering::Release);
            let mut changed = caches.api().kinds_changed();
            loop {
                for kind in caches.api().kinds().all().filter(|kind| known.insert(*kind)) {
                    subscriptions.extend(every_kind.iter().filter_map(|subscribe| subscribe(kind)));
                }
                if changed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        });
    }
}

impl<R: Reconciler<Key = Key>> Controller<R> {
    /// Sets the kind that the controller reconciles: each change of an object enqueues its key.
    pub fn for_<T: TypedKind>(self) -> Self {
        self.keys_of::<T>().watches::<T, _>(|reconciler, change| {
            if change.kind == ChangeKind::Deleted {
                reconciler.forget(change.object.uid());
            }
            Some(change.object.key())
        })
    }

    /// Declares that the queue's keys are the keys of objects of this kind.
    pub fn keys_of<T: TypedKind>(self) -> Self {
        self.keys_are(|key| Some((T::kind(), key.clone())))
    }

    /// Watches a kind that objects of type `O` control: each change enqueues the current
    /// controller and the previous one.
    pub fn owns<T: TypedKind, O: TypedKind>(self) -> Self {
        self.watches::<T, _>(|_, change| controllers_of(change, O::kind()))
    }
}

/// Returns the key of a changed object if it still exists and `is_due` returns true for it.
pub fn key_if<T: TypedKind>(change: &Change, is_due: impl FnOnce(&T) -> bool) -> Option<Key> {
    let object = change.object.get::<T>().filter(|_| change.kind != ChangeKind::Deleted);
    object.is_some_and(is_due).then(|| change.object.key())
}

/// Returns the keys of a changed object's controllers of this kind: the current one and the one before the change.
pub fn controllers_of(change: &Change, kind: Kind) -> Vec<Key> {
    let before = change.previous.as_deref().and_then(|object| controller_key(object, kind));
    let mut keys: Vec<Key> = controller_key(&change.object, kind).into_iter().collect();
    keys.extend(before.filter(|before| !keys.contains(before)));
    keys
}

/// Returns the key of the controller of an object, if the controller is of this kind.
pub fn controller_key(object: &Object, kind: Kind) -> Option<Key> {
    let owner = controller_of(object.meta()).filter(|reference| reference.kind == kind.info().name)?;
    Some(Key::new(object.namespace(), owner.name.as_str()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::ReconcileError;
    use crate::test_api::{api, create_config_map};
    use api::DeleteOptions;

    /// Records the keys it reconciles.
    #[derive(Default)]
    struct CallLog {
        reconciled: Mutex<Vec<String>>,
        forgotten: AtomicUsize,
    }

    struct RecordingReconciler(Arc<CallLog>);

    impl Reconciler for RecordingReconciler {
        type Key = Key;

        fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
            self.0.reconciled.lock().push(key.name.clone());
            Ok(())
        }

        fn forget(&self, _: &str) {
            self.0.forgotten.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn reconciled_names(notes: &CallLog) -> Vec<String> {
        // The paused clock advances only when no task has work left.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut names = std::mem::take(&mut *notes.reconciled.lock());
        names.sort();
        names
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_reconciles_its_kind_and_the_owners_of_its_dependents() {
        let (api, tasks) = (api(), Tasks::new());
        let caches = Caches::new(&api, &tasks);
        let notes = Arc::new(CallLog::default());
        Controller::new("noting", &caches, |_| RecordingReconciler(notes.clone()))
            .for_::<ConfigMap>()
            .owns::<Secret, ConfigMap>()
            .workers(3)
            .run(&tasks);
        let map = create_config_map(&api, "a");
        assert_eq!(reconciled_names(&notes).await, ["a"]);
        let owned = json!({"metadata": {"name": "s", "namespace": "n", "ownerReferences": [{"apiVersion": "v1",
            "kind": "ConfigMap", "name": "a", "uid": map.uid(), "controller": true}]}});
        let secret = api.create_as(serde_json::from_value::<Secret>(owned).unwrap()).unwrap();
        assert_eq!(reconciled_names(&notes).await, ["a"], "a change of an owned object triggers its owner");
        api.modify::<Secret>(&secret.key(), |secret| {
            secret.metadata.owner_references = None;
            Ok(())
        })
        .unwrap();
        assert_eq!(reconciled_names(&notes).await, ["a"], "a released object triggers its former owner");
        api.delete(Kind::ConfigMap, &map.key(), &DeleteOptions::default()).unwrap();
        assert_eq!(
            (reconciled_names(&notes).await, notes.forgotten.load(Ordering::Relaxed)),
            (vec!["a".into()], 1)
        );
        tasks.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn handlers_go_when_their_controller_goes() {
        let (api, tasks) = (api(), Tasks::new());
        let caches = Caches::new(&api, &tasks);
        let notes = Arc::new(CallLog::default());
        let controllers = tasks.child();
        Controller::new("noting", &caches, |_| RecordingReconciler(notes.clone()))
            .for_::<ConfigMap>()
            .run(&controllers);
        create_config_map(&api, "a");
        assert_eq!(reconciled_names(&notes).await, ["a"]);
        controllers.stop().await;
        assert_eq!(Arc::strong_count(&notes), 1, "nothing of the controller is left");
        create_config_map(&api, "b");
        assert!(reconciled_names(&notes).await.is_empty());
        tasks.stop().await;
    }
}
