//! A running controller: reconciles one key after the other, contains panics, and retries errors with back-off.
//! Reports statistics, and takes single steps while it is paused (CON-19).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::cache::Caches;
use super::queue::{QueueKey, WorkQueue};
use super::runner::{ReconcileError, Reconciler};
use super::stats::{ControllerStats, FinishedReconcile};
use api::controller_status::{
    ControllerKeys, ControllerProbe, ControllerState, ControllerStatus, PauseTarget, QueueStatus, QueuedKey,
    ReconcileRecord, ReconcileResult, StepError, Subsystem,
};
use base::mistakes::Mistake;
use base::step_observer;
use base::task::Tasks;
use object::{Key, Kind};

/// The longest time a step waits for the first lists of the kinds the controller reads.
const LISTS: Duration = Duration::from_secs(5);

/// Returns the object that a key belongs to.
pub(super) type KeyObjectFn<K> = fn(&K) -> Option<(Kind, Key)>;

/// The state that a controller's workers share. It does not depend on the reconciler's type, so that it is compiled once
/// for each type of keys.
pub(super) struct Worker<K: QueueKey> {
    /// The controller's name.
    pub(super) name: &'static str,
    pub(super) reconciler: Arc<dyn Reconciler<Key = K>>,
    pub(super) queue: WorkQueue<K>,
    pub(super) caches: Caches,
    /// The controller waits for the first lists of these kinds.
    pub(super) reads: Vec<Kind>,
    /// The group of the controller's tasks.
    pub(super) tasks: Tasks,
    pub(super) component: &'static str,
    /// The number of keys that may be reconciled at once.
    pub(super) workers: usize,
    pub(super) object_of: Option<KeyObjectFn<K>>,
    pub(super) figures: ControllerStats<K>,
    /// The first lists have arrived, and the workers have started.
    pub(super) is_started: AtomicBool,
    /// Workers that have panicked and wait for their restart.
    pub(super) down: AtomicUsize,
}

/// Counts a worker as down if it panics.
struct PanicGuard<'a>(&'a AtomicUsize);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl<K: QueueKey> Worker<K> {
    /// Processes the queue forever, one key after the other.
    pub(super) async fn work(self: Arc<Self>) {
        // A restarted worker no longer counts as down; a new one was never counted.
        let _ = self.down.fetch_update(Ordering::AcqRel, Ordering::Acquire, |down| down.checked_sub(1));
        let _panics = PanicGuard(&self.down);
        loop {
            let (key, waited) = self.queue.next().await;
            let ended = self.reconcile(key, waited);
            self.figures.take(ended);
            // Reconciles are synchronous: let the caches process the writes.
            tokio::task::yield_now().await;
        }
    }

    /// Reconciles a key taken from the queue, and returns the key to the queue.
    fn reconcile(&self, key: K, waited: Duration) -> FinishedReconcile<K> {
        let clock = self.caches.api().clock();
        step_observer::record_step(format_args!("{} {key:?}", self.name));
        let started = clock.monotonic();
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| self.reconciler.reconcile(&key)));
        let took = clock.monotonic().saturating_sub(started);
        if let Some(metrics) = self.queue.metrics() {
            metrics.worked(took.as_secs_f64());
        }
        let result = self.finish(&key, outcome);
        self.queue.done(&key);
        FinishedReconcile { key, waited: Some(waited), took, result }
    }

    /// Requeues the key as the outcome requires, and returns the result for the statistics.
    fn finish(&self, key: &K, outcome: std::thread::Result<Result<(), ReconcileError>>) -> ReconcileResult {
        let (name, queue) = (self.name, &self.queue);
        match outcome {
            Ok(Ok(())) => {
                queue.forget(key);
                if Mistake::NeverRest.is_enabled() {
                    queue.add_after(key.clone(), Duration::from_millis(500));
                }
                ReconcileResult::Done
            }
            Ok(Err(ReconcileError::After(delay))) => {
                queue.forget(key);
                queue.add_after(key.clone(), delay);
                ReconcileResult::Requeued(delay)
            }
            Ok(Err(ReconcileError::Api(error))) => {
                if !error.is_conflict() {
                    tracing::warn!(controller = name, ?key, "reconcile failed, will retry: {error}");
                }
                if Mistake::ForgetBackOff.is_enabled() {
                    queue.add(key.clone());
                } else if !Mistake::ForgetRetry.is_enabled() {
                    queue.add_rate_limited(key.clone());
                }
                ReconcileResult::Failed(error.to_string())
            }
            Err(panic) => {
                let text = self.tasks.contained().record((CONTROLLER, name), panic.as_ref());
                tracing::error!(controller = name, ?key, "reconcile panicked, will retry: {text}");
                queue.add_rate_limited(key.clone());
                ReconcileResult::Panicked(text)
            }
        }
    }

    fn queued_key(&self, key: &K) -> QueuedKey {
        QueuedKey { key: key.to_string(), object: self.object_of.and_then(|object_of| object_of(key)) }
    }

    fn state(&self) -> ControllerState {
        match () {
            () if self.tasks.stopping().is_cancelled() => ControllerState::Stopped,
            () if self.tasks.is_paused() => ControllerState::Paused,
            () if !self.is_started.load(Ordering::Acquire) => ControllerState::Starting,
            () if self.down.load(Ordering::Acquire) > 0 => ControllerState::Restarting,
            () => ControllerState::Running,
        }
    }

    fn may_step(&self) -> Result<(), StepError> {
        match self.state() {
            ControllerState::Stopped => Err(StepError::Stopped),
            ControllerState::Paused => Ok(()),
            _ => Err(StepError::NotPaused),
        }
    }

    async fn take_step(&self, key: Option<&str>) -> Result<ReconcileRecord, StepError> {
        self.may_step()?;
        // A controller that was paused before its start has not waited for the lists yet.
        let listed = async {
            for kind in &self.reads {
                self.caches.synced(*kind).await;
            }
        };
        tokio::time::timeout(LISTS, listed).await.map_err(|_| StepError::NotReady)?;
        self.may_step()?;
        let (key, waited) = self.queue.take(key)?;
        let ended = self.reconcile(key, waited);
        let at = self.figures.take(ended.clone());
        Ok(ended.to_record(at, |key| self.queued_key(key)))
    }
}

/// The names under which panics of a controller and of its task are counted.
const CONTROLLER: &str = "controller";
const TASK: &str = "task";

impl<K: QueueKey> ControllerProbe for Worker<K> {
    fn status(&self) -> ControllerStatus {
        let panics = self.tasks.contained().all();
        let of = |part| panics.get(&(part, self.name)).map_or(0, |panics| panics.count);
        ControllerStatus {
            state: self.state(),
            subsystem: Subsystem::Controllers,
            pause: PauseTarget::Component(self.component),
            takes_no_step: None,
            workers: Some(self.workers),
            started_at: self.figures.started_at(),
            panics: of(CONTROLLER) + of(TASK),
            queue: Some(self.queue.status()),
            work: self.figures.status(|key| self.queued_key(key)),
            counts: Vec::new(),
        }
    }

    fn work_queue(&self) -> Option<QueueStatus> {
        Some(self.queue.status())
    }

    fn keys(&self, most: usize) -> ControllerKeys {
        let keys = self.queue.first_keys(most);
        let (recent, errors) = self.figures.last(|key| self.queued_key(key));
        let with = |(key, time, failures): (K, Duration, u32)| (self.queued_key(&key), time, failures);
        ControllerKeys {
            waiting: keys
                .waiting
                .into_iter()
                .map(with)
                .map(|(key, time, failures)| (key, Some(time), failures))
                .collect(),
            delayed: keys.delayed.into_iter().map(with).collect(),
            in_flight: keys.in_flight.into_iter().map(|(key, time)| (self.queued_key(&key), time)).collect(),
            recent,
            errors,
        }
    }

    /// Runs the step in a task of the controller's group: stopping the controller waits for the step, and the
    /// caller's task-local identity does not reach the controller's writes.
    fn step(self: Arc<Self>, key: Option<String>) -> BoxFuture<'static, Result<ReconcileRecord, StepError>> {
        let (sender, tells) = oneshot::channel();
        let tasks = self.tasks.clone();
        tasks.spawn_finishing("controller step", async move {
            // The caller may no longer wait.
            let _ = sender.send(self.take_step(key.as_deref()).await);
        });
        tells.map(|answer| answer.unwrap_or(Err(StepError::Stopped))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::controller::Controller;
    use crate::test_api::{api, create_config_map};
    use api::{Api, ApiError};

    /// Fails at `bad`, panics at `worse`, and requeues `later`.
    struct FlakyReconciler(Arc<AtomicU32>);

    impl Reconciler for FlakyReconciler {
        type Key = Key;
        fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            match key.name.as_str() {
                "bad" => Err(ApiError::Internal("no luck".into()).into()),
                "worse" => panic!("no sense"),
                "later" => Err(ReconcileError::After(Duration::from_secs(90))),
                _ => Ok(()),
            }
        }
    }

    fn start(caches: &Caches, tasks: &Tasks) -> Arc<AtomicU32> {
        let count = Arc::new(AtomicU32::new(0));
        Controller::new("moody", caches, |_| FlakyReconciler(count.clone()))
            .for_::<ConfigMap>()
            .workers(2)
            .run(tasks);
        count
    }

    async fn pass(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    fn probe(api: &Api) -> Option<Arc<dyn ControllerProbe>> {
        api.controller("moody").flatten()
    }

    fn status(api: &Api) -> ControllerStatus {
        probe(api).expect("it runs").status()
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_tells_what_came_of_each_key_con_19() {
        let (api, tasks) = (api(), Tasks::new());
        let caches = Caches::new(&api, &tasks);
        let controllers = tasks.child();
        assert!(api.controller("moody").is_none());
        start(&caches, &controllers);
        assert_eq!(status(&api).state, ControllerState::Starting, "it has not run yet");
        for name in ["bad", "good", "later", "worse"] {
            create_config_map(&api, name);
        }
        pass(1).await;
        let current = status(&api);
        assert_eq!((current.state, current.workers), (ControllerState::Running, Some(2)));
        assert_eq!(current.pause, PauseTarget::Component("moody"));
        let waits = current.queue.as_ref().expect("it has a queue");
        assert_eq!((waits.depth, waits.in_flight, waits.delayed), (0, 0, 3));
        assert!(
            current.work.errors >= 2 && current.panics >= 1 && current.work.reconciles > current.work.errors,
            "{current:?}"
        );
        let keys = probe(&api).unwrap().keys(100);
        let of = |name: &str| keys.recent.iter().find(|one| one.key.key == format!("n/{name}")).unwrap();
        assert_eq!(of("good").result, ReconcileResult::Done);
        assert_eq!(of("later").result, ReconcileResult::Requeued(Duration::from_secs(90)));
        assert_eq!(of("worse").result, ReconcileResult::Panicked("no sense".into()));
        assert!(matches!(&of("bad").result, ReconcileResult::Failed(why) if why.contains("no luck")));
        assert_eq!(of("good").key.object, Some((Kind::ConfigMap, Key::new("n", "good"))));
        let (last, left, failures) = keys.delayed.last().unwrap();
        assert_eq!((last.key.as_str(), left.as_secs(), *failures), ("n/later", 89, 0));
        assert!(keys.delayed[..2].iter().all(|(key, _, failures)| *failures > 0 && key.key != "n/good"));
        assert!(keys.errors.iter().all(|one| one.result.is_error()));
        // Only the name of a stopped controller remains.
        controllers.stop().await;
        assert!(probe(&api).is_none() && api.controller("moody").is_some());
        tasks.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_paused_before_it_begins_does_nothing_and_is_stepped_con_19() {
        let (api, tasks) = (api(), Tasks::new());
        let caches = Caches::new(&api, &tasks);
        let controllers = tasks.child();
        controllers.pause();
        let count = start(&caches, &controllers);
        create_config_map(&api, "bad");
        create_config_map(&api, "good");
        pass(600).await;
        let current = status(&api);
        let waits = |status: &ControllerStatus| status.queue.clone().expect("it has a queue");
        assert_eq!(
            (current.state, waits(&current).depth, count.load(Ordering::SeqCst)),
            (ControllerState::Paused, 2, 0)
        );
        assert_eq!(waits(&current).oldest.map(|age| age.as_secs()), Some(600));
        let step = async |key: Option<&str>| probe(&api).unwrap().step(key.map(ToOwned::to_owned)).await;
        let done = step(Some("n/good")).await.unwrap();
        assert_eq!((done.key.key.as_str(), &done.result), ("n/good", &ReconcileResult::Done));
        assert_eq!(
            (done.waited.map(|waited| waited.as_secs()), count.load(Ordering::SeqCst)),
            (Some(600), 1)
        );
        let done = step(None).await.unwrap();
        assert!(matches!(&done.result, ReconcileResult::Failed(why) if why.contains("no luck")), "{done:?}");
        assert_eq!(step(None).await, Err(StepError::NothingDue), "it backs off");
        pass(600).await;
        assert_eq!(
            (waits(&status(&api)).depth, count.load(Ordering::SeqCst)),
            (1, 2),
            "it is due, and not taken"
        );
        // Concurrent steps take two different keys; a third step finds none.
        create_config_map(&api, "third");
        pass(1).await;
        let (one, other, last) = tokio::join!(step(None), step(None), step(None));
        let mut taken: Vec<String> =
            [&one, &other].into_iter().map(|done| done.as_ref().unwrap().key.key.clone()).collect();
        taken.sort_unstable();
        assert_eq!((taken, last), (vec!["n/bad".into(), "n/third".into()], Err(StepError::NothingDue)));
        controllers.resume();
        pass(1).await;
        assert_eq!(status(&api).state, ControllerState::Running);
        assert_eq!(step(None).await, Err(StepError::NotPaused));
        let probe = probe(&api).unwrap();
        controllers.stop().await;
        assert_eq!(probe.step(None).await, Err(StepError::Stopped));
        tasks.stop().await;
    }
}
