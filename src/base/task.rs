//! Supervised tasks: every task of the control plane is named, cancelled and joined.
//!
//! A [`Tasks`] group belongs to one component. A panic in a task is noted with its name ([`PanicLog`]), and a task
//! started with [`Tasks::spawn_restarting`] is restarted after a short back-off. A group can be
//! [paused](Tasks::pause), as by SIGSTOP.
//!
//! Futures are boxed, here and in [`start`], [`JoinSet`] and [`blocking`], because a runtime's code for a task (some
//! twenty functions) is compiled for every type of future.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinError, JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::backoff::BackoffPolicy;
use super::gate::Gate;
use super::panics::PanicLog;

/// A group of tasks that stop together.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    token: CancellationToken,
    gate: Arc<Gate>,
    contained: PanicLog,
}

/// Cancels its task when it is dropped.
#[derive(Debug)]
pub struct TaskGuard {
    _cancels: DropGuard,
}

/// Makes the future of a task that is restarted.
type MakeFuture = Box<dyn FnMut() -> BoxFuture<'static, ()> + Send>;

/// The type under which tasks' panics are counted.
const TASK: &str = "task";

impl Tasks {
    /// Creates an independent group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an independent group that notes panics in `contained`.
    pub fn noting(contained: &PanicLog) -> Self {
        Self { contained: contained.clone(), ..Self::default() }
    }

    /// Returns the record of panics in this group and in groups that stop with it.
    pub fn contained(&self) -> &PanicLog {
        &self.contained
    }

    /// Creates a group that also stops when this one does.
    #[must_use]
    pub fn child(&self) -> Self {
        let gate = Arc::new(Gate::below(&self.gate));
        let contained = self.contained.clone();
        Self { tracker: TaskTracker::new(), token: self.token.child_token(), gate, contained }
    }

    /// Suspends every task of the group, and of groups that stop with it, at its next await until [`Tasks::resume`].
    /// Timers run on; those that fire meanwhile take effect at once afterwards. A paused task still stops on request.
    pub fn pause(&self) {
        self.gate.close();
    }

    /// Resumes paused tasks.
    pub fn resume(&self) {
        self.gate.open();
    }

    /// Returns true if the group's tasks are paused.
    pub fn is_paused(&self) -> bool {
        self.gate.is_closed()
    }

    /// Returns a token that fires when the group is stopped.
    pub fn stopping(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Runs `future` until it ends or the group stops, which drops it at its next await.
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(name, Box::pin(future));
    }

    /// Runs `future` as [`Tasks::spawn`] does; dropping the guard cancels it.
    pub fn spawn_guarded(
        &self,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> TaskGuard {
        let token = self.token.child_token();
        let guard = token.clone().drop_guard();
        self.spawn(name, async move {
            token.run_until_cancelled(future).await;
        });
        TaskGuard { _cancels: guard }
    }

    fn spawn_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        let (token, gate, contained) = (self.token.clone(), self.gate.clone(), self.contained.clone());
        self.tracker.spawn(async move {
            let guarded = gate.hold(std::panic::AssertUnwindSafe(future).catch_unwind());
            tokio::select! {
                () = token.cancelled() => {}
                outcome = guarded => if let Err(panic) = outcome {
                    contained.record((TASK, name), panic.as_ref());
                }
            }
        });
    }

    /// Runs futures returned by `make`, a new one after each panic, until one ends by itself or the group stops.
    pub fn spawn_restarting<F>(&self, name: &'static str, mut make: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_restarting_boxed(name, Box::new(move || Box::pin(make())));
    }

    fn spawn_restarting_boxed(&self, name: &'static str, mut make: MakeFuture) {
        let policy = BackoffPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(10) };
        let contained = self.contained.clone();
        self.spawn(name, async move {
            let mut failures = 0;
            while let Err(panic) = std::panic::AssertUnwindSafe(make()).catch_unwind().await {
                failures += 1;
                contained.record((TASK, name), panic.as_ref());
                tokio::time::sleep(policy.delay(failures)).await;
            }
        });
    }

    /// Runs `future` to its end even if the group stops or is paused: for work that must not be interrupted.
    pub fn spawn_finishing(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_finishing_boxed(name, Box::pin(future));
    }

    fn spawn_finishing_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        let contained = self.contained.clone();
        self.tracker.spawn(async move {
            if let Err(panic) = std::panic::AssertUnwindSafe(future).catch_unwind().await {
                contained.record((TASK, name), panic.as_ref());
            }
        });
    }

    /// Asks every task to stop, without waiting for it; those of [`Tasks::spawn_finishing`] run to their end.
    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// Asks every task to stop, and waits until all have ended.
    pub async fn stop(&self) {
        self.token.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Runs a future as a task of its own, like `tokio::spawn`.
pub fn start<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(future.boxed())
}

/// Tasks that stop when the set is dropped, like tokio's set.
#[derive(Debug)]
pub struct JoinSet<T>(tokio::task::JoinSet<T>);

impl<T> JoinSet<T> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self(tokio::task::JoinSet::new())
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Runs a future as a task of the set.
    pub fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) -> AbortHandle {
        self.0.spawn(future.boxed())
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for JoinSet<T> {
    type Target = tokio::task::JoinSet<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for JoinSet<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Runs work that blocks on a thread for such work, like `tokio::task::spawn_blocking`.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> BlockingTask<T> {
    let result = Arc::new(Mutex::new(None));
    let slot = result.clone();
    BlockingTask { task: start_blocking(Box::new(move || *slot.lock() = Some(work()))), result }
}

fn start_blocking(work: Box<dyn FnOnce() + Send>) -> JoinHandle<()> {
    tokio::task::spawn_blocking(work)
}

/// Work of [`blocking`]. It runs to its end even if this is dropped. An error means that it panicked, or that the runtime
/// has stopped.
#[derive(Debug)]
pub struct BlockingTask<T> {
    task: JoinHandle<()>,
    result: Arc<Mutex<Option<T>>>,
}

impl<T> Future for BlockingTask<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.task).poll(context));
        Poll::Ready(outcome.map(|()| self.result.lock().take().expect("the work has set its result")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_panicking_task_is_started_again_and_stop_joins() {
        let tasks = Tasks::new();
        let starts = Arc::new(AtomicU32::new(0));
        let (done, finished) = tokio::sync::oneshot::channel();
        let (counter, mut done) = (starts.clone(), Some(done));
        tasks.spawn_restarting("test", move || {
            let start = counter.fetch_add(1, Ordering::SeqCst);
            let done = if start == 2 { done.take() } else { None };
            async move {
                assert!(start >= 2, "start {start}");
                done.map(|d| d.send(()));
            }
        });
        finished.await.unwrap();
        tasks.stop().await;
        assert_eq!(starts.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn panics_are_counted_by_task_and_announced_to_subscribers_safe_6() {
        let contained = PanicLog::default();
        let mut subscription = contained.subscribe();
        let above = Tasks::noting(&contained);
        let below = above.child();
        below.spawn("once", async { panic!("no {}", "luck") });
        below.spawn_finishing("last", async { panic!("at the end") });
        let count = Arc::new(AtomicU32::new(0));
        above.spawn_restarting("twice", move || {
            let count = count.fetch_add(1, Ordering::SeqCst);
            async move { assert!(count >= 2, "start {count}") }
        });
        subscription.wait_for(|count| *count == 4).await.unwrap();
        let all = contained.all();
        let reported: Vec<_> =
            all.iter().map(|((_, name), panics)| (*name, panics.count, panics.last.as_str())).collect();
        assert_eq!(reported, [("last", 1, "at the end"), ("once", 1, "no luck"), ("twice", 2, "start 1")]);
        above.stop().await;
    }

    #[tokio::test]
    async fn blocking_work_returns_its_result_or_its_panic() {
        assert_eq!(blocking(|| 7).await.unwrap(), 7);
        assert!(blocking(|| panic!("no luck")).await.is_err_and(|error| error.is_panic()));
    }

    #[tokio::test(start_paused = true)]
    async fn paused_tasks_stand_still_and_go_on_where_they_were_fault_1() {
        let above = Tasks::new();
        let tasks = above.child();
        let ticks = Arc::new(AtomicU32::new(0));
        let counter = ticks.clone();
        tasks.spawn("ticks", async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        let pass = async |millis| tokio::time::sleep(Duration::from_millis(millis)).await;
        pass(2500).await;
        for group in [&tasks, &above] {
            let before = ticks.load(Ordering::SeqCst);
            group.pause();
            assert!(tasks.is_paused());
            // A task started meanwhile is paused too.
            let counter = ticks.clone();
            tasks.spawn("late", async move {
                counter.fetch_add(100, Ordering::SeqCst);
            });
            pass(10_000).await;
            assert_eq!(ticks.load(Ordering::SeqCst), before);
            group.resume();
            pass(2500).await;
            // The tick that was due, and two seconds of ticks.
            assert_eq!(ticks.load(Ordering::SeqCst), before + 103);
        }
        tasks.pause();
        tasks.stop().await;
    }
}
