//! The scheduling cycles: the scheduler's task runs one cycle after the other, and a step runs a single one while the
//! task is paused. Reports the statistics of cycles (CON-19).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Inner, PLUGIN, SCHEDULER, WATCHED, apply_change, execute};
use crate::core::{Core, CycleOutcome};
use crate::queue::{PendingCounts, QueueTimes};
use crate::state::pod_info::DEFAULT_SCHEDULER;
use api::controller_status::{
    ControllerKeys, ControllerProbe, ControllerState, ControllerStatus, PauseTarget, QueueStatus, QueuedKey,
    ReconcileRecord, ReconcileResult, StepError, Subsystem,
};
use base::task::Tasks;
use object::owner::is_terminating;
use object::pod::{is_terminal, node_name};
use object::{Key, Kind, SharedObject};
use reconcile::{ChangeKind, ControllerStats, FinishedReconcile};

/// The number of pods decided before other tasks and new changes get their turn.
const BATCH: usize = 64;

/// The longest time a step waits for the first lists of the kinds that decisions depend on.
const LISTS: Duration = Duration::from_secs(5);

/// The scheduler from one start to the next stop.
pub(super) struct SchedulerRun {
    inner: Arc<Inner>,
    tasks: Tasks,
    figures: ControllerStats<Key>,
    /// `None` before the first lists have arrived.
    // Held for a batch of decisions, never across an await.
    core: Mutex<Option<Core>>,
    is_started: AtomicBool,
}

/// Marks the task as panicked, until it is restarted.
struct PanicGuard<'a>(&'a AtomicBool);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(false, Ordering::Release);
        }
    }
}

impl SchedulerRun {
    /// Creates a run that has not started.
    pub(super) fn new(inner: &Arc<Inner>, tasks: &Tasks) -> Self {
        let figures = ControllerStats::new(inner.api.clock());
        let (core, is_started) = (Mutex::default(), AtomicBool::new(false));
        Self { inner: inner.clone(), tasks: tasks.clone(), figures, core, is_started }
    }

    /// Runs scheduling cycles for ever.
    pub(super) async fn schedule_forever(self: Arc<Self>) {
        let inner = &self.inner;
        let _panics = PanicGuard(&self.is_started);
        for kind in WATCHED {
            inner.caches.synced(kind).await;
        }
        *self.core.lock() = Some(self.begin());
        self.is_started.store(true, Ordering::Release);
        loop {
            let (busy, next) = {
                let mut core = self.core.lock();
                let core = core.get_or_insert_with(|| self.begin());
                let busy = self.take_batch(core);
                (busy, core.next_wake())
            };
            if busy {
                tokio::task::yield_now().await;
                continue;
            }
            wait(inner, next).await;
        }
    }

    /// Creates a core from the caches' contents. Pending changes, which the caches contain already, are then applied a
    /// second time, which is harmless.
    fn begin(&self) -> Core {
        let inner = &self.inner;
        let times = QueueTimes::of(inner.api.timings());
        let mut core = Core::new(inner.profiles.clone(), times, inner.seed, inner.verdicts.clone());
        for kind in WATCHED {
            for object in inner.caches.objects(kind) {
                apply_change(inner, &mut core, ChangeKind::Added, &object);
            }
        }
        core
    }

    /// Decides some pods; returns true if there are more.
    fn take_batch(&self, core: &mut Core) -> bool {
        self.take_changes(core);
        let mut cycles = 0;
        while cycles < BATCH
            && let Some(ended) = self.run_cycle(core)
        {
            self.figures.take(ended);
            cycles += 1;
        }
        self.report(core);
        cycles == BATCH
    }

    fn take_changes(&self, core: &mut Core) {
        let changes = self.inner.pending_changes.take();
        if !changes.is_empty() {
            core.cluster_changed();
        }
        for change in changes {
            apply_change(&self.inner, core, change.kind, &change.object);
        }
    }

    fn report(&self, core: &Core) {
        let waiting = core.waiting();
        *self.inner.waiting.lock() = waiting;
        let PendingCounts { active, backing_off, unschedulable, gated } = waiting;
        self.inner.api.metrics().scheduler().pending(active, backing_off, unschedulable, gated);
    }

    /// Decides the next pod and returns the result; `None` if none is due.
    fn run_cycle(&self, core: &mut Core) -> Option<FinishedReconcile<Key>> {
        let clock = self.inner.api.clock();
        let started = clock.monotonic();
        let (key, waited, result) = match core.schedule_one(started) {
            CycleOutcome::Idle => return None,
            CycleOutcome::Waiting(attempt) => (attempt.pod.key(), attempt.waited, ReconcileResult::Waiting),
            CycleOutcome::Do(step, waited) => {
                let (key, result) = execute(&self.inner, core, step);
                (key, waited, result)
            }
        };
        let took = clock.monotonic().saturating_sub(started);
        Some(FinishedReconcile { key, waited, took, result })
    }

    /// Returns the pods without a node that the caches show and the core has not processed.
    fn unprocessed_pods(&self, core: Option<&Core>) -> Vec<Key> {
        let is_responsible = |pod: &SharedObject<Pod>| {
            let spec = pod.spec.as_ref();
            let by = spec.and_then(|spec| spec.scheduler_name.as_deref()).filter(|name| !name.is_empty());
            let by = by.unwrap_or(DEFAULT_SCHEDULER);
            let gates = spec.and_then(|spec| spec.scheduling_gates.as_ref());
            self.inner.profiles.iter().any(|profile| profile.scheduler_name == by)
                && gates.is_none_or(Vec::is_empty)
                && node_name(pod).is_none()
                && !is_terminal(pod)
                && !is_terminating(&pod.metadata)
        };
        let Some(core) = core else {
            let pods = self.inner.caches.objects(Kind::Pod);
            let pods = pods.iter().filter_map(SharedObject::<Pod>::from_object);
            return pods.filter(is_responsible).map(|pod| pod.key()).collect();
        };
        // The state after the last pending change of each pod.
        let mut last = BTreeMap::new();
        for change in self.inner.pending_changes.changes.lock().iter() {
            if let Some(pod) = SharedObject::<Pod>::from_object(&change.object) {
                last.insert(pod.uid().to_owned(), (change.kind, pod));
            }
        }
        let new = last.into_iter().filter(|(uid, (kind, pod))| {
            *kind != ChangeKind::Deleted && core.queue().get(uid).is_none() && is_responsible(pod)
        });
        new.map(|(_, (_, pod))| pod.key()).collect()
    }

    fn state(&self) -> ControllerState {
        match () {
            () if self.tasks.stopping().is_cancelled() => ControllerState::Stopped,
            () if self.tasks.is_paused() => ControllerState::Paused,
            () if self.is_started.load(Ordering::Acquire) => ControllerState::Running,
            () if self.core.lock().is_some() => ControllerState::Restarting,
            () => ControllerState::Starting,
        }
    }

    fn may_step(&self) -> Result<(), StepError> {
        match self.state() {
            ControllerState::Stopped => Err(StepError::Stopped),
            ControllerState::Paused => Ok(()),
            _ => Err(StepError::NotPaused),
        }
    }

    async fn take_step(&self) -> Result<ReconcileRecord, StepError> {
        self.may_step()?;
        // A scheduler paused before its start has not waited for the lists itself.
        let listed = async {
            for kind in WATCHED {
                self.inner.caches.synced(kind).await;
            }
        };
        tokio::time::timeout(LISTS, listed).await.map_err(|_| StepError::NotReady)?;
        self.may_step()?;
        let mut core = self.core.lock();
        let core = core.get_or_insert_with(|| self.begin());
        self.take_changes(core);
        let taken = self.run_cycle(core);
        self.report(core);
        // The next due time may have changed.
        self.inner.pending_changes.arrived.notify_one();
        let ended = taken.ok_or(StepError::NothingDue)?;
        let at = self.figures.take(ended.clone());
        Ok(ended.to_record(at, queued_key))
    }
}

/// Waits for a change, or for the time at which a pod is due.
async fn wait(inner: &Inner, next: Option<Duration>) {
    let clock = inner.api.clock();
    let left = next.map(|at| at.saturating_sub(clock.monotonic()));
    tokio::select! {
        () = inner.pending_changes.arrived.notified() => {}
        () = clock.sleep_if_some(left) => {}
    }
}

fn queued_key(key: &Key) -> QueuedKey {
    QueuedKey { key: key.to_string(), object: Some((Kind::Pod, key.clone())) }
}

impl ControllerProbe for SchedulerRun {
    fn status(&self) -> ControllerStatus {
        let now = self.inner.api.clock().monotonic();
        let queue = {
            let core = self.core.lock();
            let unheard = self.unprocessed_pods(core.as_ref()).len();
            let waiting = core.as_ref().map(Core::waiting).unwrap_or_default();
            QueueStatus {
                depth: waiting.active + unheard,
                delayed: waiting.backing_off,
                oldest: core.as_ref().and_then(|core| core.queue().oldest(now)),
                parked: vec![("unschedulable", waiting.unschedulable), ("gated", waiting.gated)],
                ..QueueStatus::default()
            }
        };
        let panics = self.tasks.contained().all();
        let of = |part| panics.get(&part).map_or(0, |panics| panics.count);
        ControllerStatus {
            state: self.state(),
            subsystem: Subsystem::Scheduler,
            pause: PauseTarget::Component(SCHEDULER),
            takes_no_step: None,
            workers: Some(1),
            started_at: self.figures.started_at(),
            panics: of(PLUGIN) + of(("task", SCHEDULER)),
            queue: Some(queue),
            work: self.figures.status(queued_key),
            counts: Vec::new(),
        }
    }

    fn keys(&self, most: usize) -> ControllerKeys {
        let now = self.inner.api.clock().monotonic();
        let (first, unheard) = {
            let core = self.core.lock();
            let first = core.as_ref().map(|core| core.queue().first_pods(now, most)).unwrap_or_default();
            (first, self.unprocessed_pods(core.as_ref()))
        };
        let active =
            first.active.iter().map(|(key, waited, failures)| (queued_key(key), Some(*waited), *failures));
        let unheard = unheard.iter().map(|key| (queued_key(key), None, 0));
        let backing_off =
            first.backing_off.iter().map(|(key, left, failures)| (queued_key(key), *left, *failures));
        let (recent, errors) = self.figures.last(queued_key);
        ControllerKeys {
            waiting: active.chain(unheard).take(most).collect(),
            delayed: backing_off.collect(),
            in_flight: Vec::new(),
            recent,
            errors,
        }
    }

    /// Runs the step in a task of the scheduler's group, as a controller does.
    fn step(self: Arc<Self>, key: Option<String>) -> BoxFuture<'static, Result<ReconcileRecord, StepError>> {
        if key.is_some() {
            return std::future::ready(Err(StepError::OwnOrder)).boxed();
        }
        let (sender, tells) = oneshot::channel();
        let tasks = self.tasks.clone();
        tasks.spawn_finishing("scheduler step", async move {
            // The caller may have stopped waiting.
            let _ = sender.send(self.take_step().await);
        });
        tells.map(|answer| answer.unwrap_or(Err(StepError::Stopped))).boxed()
    }
}
