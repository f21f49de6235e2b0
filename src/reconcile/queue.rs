//! A deduplicating work queue: a key waits at most once, and is never handed out while it is being processed.
//!
//! `queue_head.rs` reports its status.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use api::metrics::WorkQueueMetrics;
use base::backoff::{BackoffPolicy, Backoffs};

/// The requirements on keys. A key's `Display` form must be unique within its queue.
pub trait QueueKey: Clone + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static {}
impl<K: Clone + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static> QueueKey for K {}

/// A cheap handle to a queue.
#[derive(Clone)]
pub struct WorkQueue<K: QueueKey> {
    pub(super) inner: Arc<Inner<K>>,
}

pub(super) struct Inner<K> {
    pub(super) state: Mutex<State<K>>,
    changed: Notify,
    /// The metrics that the queue reports to; empty before its controller runs.
    metrics: OnceLock<WorkQueueMetrics>,
}

pub(super) struct State<K> {
    pub(super) ready: VecDeque<K>,
    /// Keys that wait in `ready`, or were enqueued again while being processed, with the time from which they wait.
    pub(super) dirty: HashMap<K, Instant>,
    /// Keys being processed, with the time at which processing started.
    pub(super) working: HashMap<K, Instant>,
    /// Delayed keys by due time; a key that was delayed several times has only its earliest due time.
    pub(super) delayed: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    pub(super) backoffs: Backoffs<K>,
}

impl<K: QueueKey> WorkQueue<K> {
    /// Creates an empty queue with a back-off for failing keys.
    pub(crate) fn new(policy: BackoffPolicy) -> Self {
        let state = State {
            ready: VecDeque::new(),
            dirty: HashMap::new(),
            working: HashMap::new(),
            delayed: BTreeSet::new(),
            due: HashMap::new(),
            backoffs: Backoffs::new(policy),
        };
        let inner = Inner { state: Mutex::new(state), changed: Notify::new(), metrics: OnceLock::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Reports to these metrics from now on.
    pub(crate) fn set_metrics(&self, metrics: WorkQueueMetrics) {
        let state = self.inner.state.lock();
        metrics.added(state.dirty.len());
        metrics.depth(state.ready.len());
        // Fails only for a queue that runs a second time, and then the metrics are the same.
        let _ = self.inner.metrics.set(metrics);
    }

    /// Returns the metrics that the queue reports to.
    pub(crate) fn metrics(&self) -> Option<&WorkQueueMetrics> {
        self.inner.metrics.get()
    }

    pub(super) fn report_depth(&self, state: &State<K>) {
        if let Some(metrics) = self.metrics() {
            metrics.depth(state.ready.len());
        }
    }

    /// Enqueues a key.
    pub fn add(&self, key: K) {
        {
            let mut state = self.inner.state.lock();
            let is_new = state.add(key, Instant::now());
            if let Some(metrics) = self.metrics() {
                metrics.added(usize::from(is_new));
            }
            self.report_depth(&state);
        }
        self.inner.changed.notify_one();
    }

    /// Enqueues a key after a delay, unless it is due earlier already.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let due = Instant::now() + delay;
        if !self.inner.state.lock().delay(key, due) {
            return;
        }
        if let Some(metrics) = self.metrics() {
            metrics.retried();
        }
        self.inner.changed.notify_one();
    }

    /// Enqueues a key that has just failed, after its back-off.
    pub fn add_rate_limited(&self, key: K) {
        let delay = self.inner.state.lock().backoffs.fail(&key);
        self.add_after(key, delay);
    }

    /// Resets a key's back-off.
    pub(crate) fn forget(&self, key: &K) {
        self.inner.state.lock().backoffs.succeed(key);
    }

    /// Returns the number of keys that are ready.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.inner.state.lock().ready.len()
    }

    /// Waits for the next key; returns it and its waiting time. The caller must return the key with
    /// [`WorkQueue::done`].
    pub(crate) async fn next(&self) -> (K, Duration) {
        loop {
            let changed = self.inner.changed.notified();
            let wake = {
                let mut state = self.inner.state.lock();
                self.release_due(&mut state);
                if let Some(taken) = state.ready.pop_front().map(|key| self.mark_in_flight(&mut state, key)) {
                    // Another worker may be waiting for the keys behind this one.
                    if !state.ready.is_empty() {
                        self.inner.changed.notify_one();
                    }
                    return taken;
                }
                state.delayed.first().map(|(due, _)| *due)
            };
            match wake {
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Moves delayed keys that are due to the ready ones.
    pub(super) fn release_due(&self, state: &mut State<K>) {
        let added = state.release_due(Instant::now());
        if added > 0
            && let Some(metrics) = self.metrics()
        {
            metrics.added(added);
        }
    }

    /// Marks a key, already removed from `ready`, as being processed; returns it and its waiting time.
    pub(super) fn mark_in_flight(&self, state: &mut State<K>, key: K) -> (K, Duration) {
        let now = Instant::now();
        let queued_at = state.dirty.remove(&key);
        state.working.insert(key.clone(), now);
        let waited = queued_at.map(|queued_at| now.saturating_duration_since(queued_at)).unwrap_or_default();
        if let Some(metrics) = self.metrics() {
            metrics.observe_queue_time(waited.as_secs_f64());
        }
        self.report_depth(state);
        (key, waited)
    }

    /// Ends the processing of a key; the key is ready again if it was enqueued meanwhile.
    pub(crate) fn done(&self, key: &K) {
        let again = {
            let mut state = self.inner.state.lock();
            state.working.remove(key);
            let again = state.dirty.contains_key(key);
            if again {
                state.ready.push_back(key.clone());
                self.report_depth(&state);
            }
            again
        };
        if again {
            self.inner.changed.notify_one();
        }
    }
}

impl<K: QueueKey> State<K> {
    /// Returns false if the key was enqueued already.
    fn add(&mut self, key: K, now: Instant) -> bool {
        if self.dirty.contains_key(&key) {
            return false;
        }
        if !self.working.contains_key(&key) {
            self.ready.push_back(key.clone());
        }
        self.dirty.insert(key, now);
        true
    }

    /// Delays a key until `due`. Returns false, and does nothing, if the key is due earlier already.
    fn delay(&mut self, key: K, due: Instant) -> bool {
        match self.due.get(&key) {
            Some(earlier) if *earlier <= due => return false,
            Some(later) => {
                let later = (*later, key.clone());
                self.delayed.remove(&later);
            }
            None => {}
        }
        self.due.insert(key.clone(), due);
        self.delayed.insert((due, key));
        true
    }

    /// Enqueues the due keys and returns the number of new ones. Their waiting time counts from when they were due.
    fn release_due(&mut self, now: Instant) -> usize {
        let mut added = 0;
        while self.delayed.first().is_some_and(|(due, _)| *due <= now) {
            let Some((due, key)) = self.delayed.pop_first() else { break };
            self.due.remove(&key);
            added += usize::from(self.add(key, due));
        }
        added
    }

    /// Removes a key from the delayed ones; returns false if it was not delayed.
    pub(super) fn take_delayed(&mut self, key: &K) -> bool {
        let Some(due) = self.due.remove(key) else { return false };
        self.delayed.remove(&(due, key.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> WorkQueue<&'static str> {
        WorkQueue::new(BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(8) })
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_is_never_worked_on_twice_at_once_safe_6() {
        let queue = queue();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.next().await.0, "a");
        queue.add("a");
        assert_eq!(queue.next().await.0, "b");
        assert_eq!(queue.len(), 0, "a is being worked on");
        queue.done(&"a");
        assert_eq!(queue.next().await.0, "a");
        queue.done(&"a");
        assert_eq!(queue.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn delays_keep_the_earliest_and_failures_back_off() {
        let queue = queue();
        let start = Instant::now();
        queue.add_after("a", Duration::from_mins(1));
        queue.add_after("a", Duration::from_secs(5));
        queue.add_after("a", Duration::from_secs(30));
        assert_eq!(queue.next().await.0, "a");
        assert_eq!(start.elapsed().as_secs(), 5);
        queue.done(&"a");
        let mut waited = Vec::new();
        for _ in 0..5 {
            let before = Instant::now();
            queue.add_rate_limited("a");
            queue.next().await;
            waited.push(before.elapsed().as_secs());
            queue.done(&"a");
        }
        assert_eq!(waited, [1, 2, 4, 8, 8]);
    }
}
