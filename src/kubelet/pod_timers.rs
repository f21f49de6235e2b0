//! One timer for all pods of the process: holds the time of each pod's next sync.
//!
//! A waiting pod costs one map entry here, not a task or a timer of its own.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::runtime::PodUid;
use base::clock::Clock;

/// The times of the pods' next syncs, on the clock's monotonic scale; a pod has one at most.
#[derive(Debug, Default)]
pub(super) struct PodTimers {
    // A mutex, never held across an await: every call is a map change.
    inner: Mutex<Inner>,
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    order: BTreeSet<(Duration, PodUid)>,
    at: HashMap<PodUid, Duration>,
}

impl Inner {
    fn forget(&mut self, pod: &PodUid) {
        if let Some(at) = self.at.remove(pod) {
            self.order.remove(&(at, pod.clone()));
        }
    }
}

impl PodTimers {
    /// Replaces the time of the pod's next sync; `None` removes it.
    pub(super) fn set(&self, pod: &PodUid, at: Option<Duration>) {
        let mut inner = self.inner.lock();
        inner.forget(pod);
        if let Some(at) = at {
            inner.at.insert(pod.clone(), at);
            inner.order.insert((at, pod.clone()));
            if inner.order.first().is_some_and(|(_, first)| first == pod) {
                self.earlier.notify_one();
            }
        }
    }

    /// Moves the pod's next sync to this time, unless it is earlier already.
    pub(super) fn sooner(&self, pod: &PodUid, at: Duration) {
        let known = self.inner.lock().at.get(pod).copied();
        if known.is_none_or(|known| at < known) {
            self.set(pod, Some(at));
        }
    }

    /// The time of the pod's next pass; none if none is scheduled.
    pub(super) fn at(&self, pod: &PodUid) -> Option<Duration> {
        self.inner.lock().at.get(pod).copied()
    }

    /// Waits until some pods are due and returns them.
    pub(super) async fn due(&self, clock: &Clock) -> Vec<PodUid> {
        loop {
            let now = clock.monotonic();
            let next = {
                let mut inner = self.inner.lock();
                let mut due = Vec::new();
                while let Some((at, pod)) = inner.order.first().cloned() {
                    if at > now {
                        break;
                    }
                    inner.forget(&pod);
                    due.push(pod);
                }
                if !due.is_empty() {
                    return due;
                }
                inner.order.first().map(|(at, _)| *at)
            };
            match next {
                None => self.earlier.notified().await,
                Some(at) => tokio::select! {
                    () = clock.sleep(at.saturating_sub(now)) => {}
                    () = self.earlier.notified() => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_earliest_pod_wakes_first_and_a_new_time_replaces_the_old() {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let wakes = PodTimers::default();
        let (a, b) = ("a".to_string(), "b".to_string());
        wakes.set(&a, Some(Duration::from_secs(5)));
        wakes.set(&b, Some(Duration::from_secs(9)));
        wakes.set(&a, Some(Duration::from_secs(30)));
        wakes.sooner(&a, Duration::from_secs(20));
        wakes.sooner(&a, Duration::from_secs(25));
        assert_eq!(wakes.due(&clock).await, ["b"]);
        assert_eq!(clock.monotonic().as_secs(), 9);
        wakes.set(&b, Some(Duration::from_secs(10)));
        wakes.set(&b, None);
        assert_eq!(wakes.due(&clock).await, ["a"]);
        assert_eq!(clock.monotonic().as_secs(), 20);
    }
}
