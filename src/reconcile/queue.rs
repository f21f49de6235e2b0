//! A deduplicating work queue: a key waits at most once, and is never handed out while it is worked on.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use api::metrics::WorkQueueMetrics;
use base::backoff::{BackoffPolicy, Backoffs};

/// What a queue's keys must be.
pub trait QueueKey: Clone + Eq + Ord + Hash + Debug + Send + Sync + 'static {}
impl<K: Clone + Eq + Ord + Hash + Debug + Send + Sync + 'static> QueueKey for K {}

/// A cheap handle to a queue.
#[derive(Clone)]
pub struct WorkQueue<K: QueueKey> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    /// Whom it tells how it is; nobody before its controller runs.
    metrics: OnceLock<WorkQueueMetrics>,
}

struct State<K> {
    ready: VecDeque<K>,
    /// Waiting in `ready`, or asked for again while being worked on.
    dirty: HashSet<K>,
    working: HashSet<K>,
    /// By due time; a key waits for its earliest.
    delayed: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    backoffs: Backoffs<K>,
}

impl<K: QueueKey> WorkQueue<K> {
    /// An empty queue whose failing keys come back after growing delays.
    pub(crate) fn new(policy: BackoffPolicy) -> Self {
        let state = State {
            ready: VecDeque::new(),
            dirty: HashSet::new(),
            working: HashSet::new(),
            delayed: BTreeSet::new(),
            due: HashMap::new(),
            backoffs: Backoffs::new(policy),
        };
        let inner = Inner { state: Mutex::new(state), changed: Notify::new(), metrics: OnceLock::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Tells from now on how it is.
    pub(crate) fn tell(&self, metrics: WorkQueueMetrics) {
        let state = self.inner.state.lock();
        metrics.added(state.dirty.len());
        metrics.depth(state.ready.len());
        // Who runs a queue a second time tells of the same one.
        let _ = self.inner.metrics.set(metrics);
    }

    /// Whom it tells how it is.
    pub(crate) fn metrics(&self) -> Option<&WorkQueueMetrics> {
        self.inner.metrics.get()
    }

    fn tell_depth(&self, state: &State<K>) {
        if let Some(metrics) = self.metrics() {
            metrics.depth(state.ready.len());
        }
    }

    /// Asks for work on a key, soon.
    pub fn add(&self, key: K) {
        {
            let mut state = self.inner.state.lock();
            let is_new = state.add(key);
            if let Some(metrics) = self.metrics() {
                metrics.added(usize::from(is_new));
            }
            self.tell_depth(&state);
        }
        self.inner.changed.notify_one();
    }

    /// Asks for work on a key after a delay; an earlier request for the same key stands.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        if let Some(metrics) = self.metrics() {
            metrics.retried();
        }
        let due = Instant::now() + delay;
        {
            let mut state = self.inner.state.lock();
            match state.due.get(&key) {
                Some(earlier) if *earlier <= due => return,
                Some(later) => {
                    let later = (*later, key.clone());
                    state.delayed.remove(&later);
                }
                None => {}
            }
            state.due.insert(key.clone(), due);
            state.delayed.insert((due, key));
        }
        self.inner.changed.notify_one();
    }

    /// Asks for work on a key that has just failed, after its back-off.
    pub fn add_rate_limited(&self, key: K) {
        let delay = self.inner.state.lock().backoffs.fail(&key);
        self.add_after(key, delay);
    }

    /// Forgets a key's failures.
    pub(crate) fn forget(&self, key: &K) {
        self.inner.state.lock().backoffs.succeed(key);
    }

    /// How many keys wait to be worked on now.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.inner.state.lock().ready.len()
    }

    /// The next key; to be given back with [`WorkQueue::done`].
    pub(crate) async fn next(&self) -> K {
        loop {
            let changed = self.inner.changed.notified();
            let wake = {
                let mut state = self.inner.state.lock();
                let added = state.release_due(Instant::now());
                if added > 0
                    && let Some(metrics) = self.metrics()
                {
                    metrics.added(added);
                }
                if let Some(key) = state.take() {
                    self.tell_depth(&state);
                    // Another worker may be waiting for the keys behind this one.
                    if !state.ready.is_empty() {
                        self.inner.changed.notify_one();
                    }
                    return key;
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

    /// The work on a key is over; it comes again if it was asked for meanwhile.
    pub(crate) fn done(&self, key: &K) {
        let again = {
            let mut state = self.inner.state.lock();
            state.working.remove(key);
            let again = state.dirty.contains(key);
            if again {
                state.ready.push_back(key.clone());
                self.tell_depth(&state);
            }
            again
        };
        if again {
            self.inner.changed.notify_one();
        }
    }
}

impl<K: QueueKey> State<K> {
    /// Whether it was not asked for already.
    fn add(&mut self, key: K) -> bool {
        let is_new = self.dirty.insert(key.clone());
        if is_new && !self.working.contains(&key) {
            self.ready.push_back(key);
        }
        is_new
    }

    /// How many keys were not asked for already.
    fn release_due(&mut self, now: Instant) -> usize {
        let mut added = 0;
        while self.delayed.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, key)) = self.delayed.pop_first() else { break };
            self.due.remove(&key);
            added += usize::from(self.add(key));
        }
        added
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.dirty.remove(&key);
        self.working.insert(key.clone());
        Some(key)
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
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert_eq!(queue.next().await, "b");
        assert_eq!(queue.len(), 0, "a is being worked on");
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
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
        assert_eq!(queue.next().await, "a");
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
