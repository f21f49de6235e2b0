//! A work queue's status, and the removal of a single key for a step while its workers are paused (CON-19).

use std::time::Duration;

use tokio::time::Instant;

use super::queue::{QueueKey, WorkQueue};
use api::controller_status::{QueueStatus, StepError};
use base::sort::SliceOrder;

/// The first keys of each part of a queue.
#[derive(Debug)]
pub(super) struct QueueHead<K> {
    /// Ready keys in order, with waiting time and number of failures.
    pub(super) waiting: Vec<(K, Duration, u32)>,
    /// Delayed keys, with time until due and number of failures.
    pub(super) delayed: Vec<(K, Duration, u32)>,
    /// Keys being processed, longest first, with the time since the start.
    pub(super) in_flight: Vec<(K, Duration)>,
}

impl<K: QueueKey> WorkQueue<K> {
    /// Returns the number of keys in each state. Delayed keys that are due count as waiting, although no worker has
    /// moved them yet.
    pub(super) fn status(&self) -> QueueStatus {
        let now = Instant::now();
        let state = self.inner.state.lock();
        let due = state.delayed.iter().take_while(|(due, _)| *due <= now);
        // A due key that is also enqueued or being processed counts once.
        let overdue =
            due.clone().filter(|(_, key)| !state.dirty.contains_key(key) && !state.working.contains_key(key));
        let since = |at: &Instant| now.saturating_duration_since(*at);
        // The first key in `ready` was enqueued first, except for keys enqueued while being processed and for delayed
        // keys.
        let first = state.ready.iter().take(OLDEST_OF).filter_map(|key| state.dirty.get(key));
        let oldest = first.chain(due.map(|(due, _)| due)).min().map(since);
        let unfinished = state.working.values().map(since);
        QueueStatus {
            depth: state.ready.len() + overdue.count(),
            in_flight: state.working.len(),
            delayed: state.delayed.iter().filter(|(due, _)| *due > now).count(),
            oldest,
            unfinished: (unfinished.clone().sum(), unfinished.max().unwrap_or_default()),
            parked: Vec::new(),
        }
    }

    /// Returns the first `most` keys of each state.
    pub(super) fn first_keys(&self, most: usize) -> QueueHead<K> {
        let now = Instant::now();
        let state = self.inner.state.lock();
        let since = |at: &Instant| now.saturating_duration_since(*at);
        let ready = state.ready.iter().map(|key| (key, state.dirty.get(key).map(since).unwrap_or_default()));
        let due = state.delayed.iter().take_while(|(due, _)| *due <= now);
        let due = due
            .filter(|(_, key)| !state.dirty.contains_key(key) && !state.working.contains_key(key))
            .map(|(due, key)| (key, since(due)));
        let failures = |key: &K| state.backoffs.failures(key);
        let waiting = ready.chain(due).take(most).map(|(key, waited)| (key.clone(), waited, failures(key)));
        let later = state.delayed.iter().skip_while(|(due, _)| *due <= now).take(most);
        let delayed =
            later.map(|(due, key)| (key.clone(), due.saturating_duration_since(now), failures(key)));
        let mut in_flight: Vec<(K, Duration)> =
            state.working.iter().map(|(key, at)| (key.clone(), since(at))).collect();
        // The map's order is random.
        in_flight.order_by(|(a, since_a), (b, since_b)| since_b.cmp(since_a).then_with(|| a.cmp(b)));
        in_flight.truncate(most);
        QueueHead { waiting: waiting.collect(), delayed: delayed.collect(), in_flight }
    }

    /// Takes the next ready key, or the one with this text, even if it is delayed; returns it and its waiting time.
    /// The caller must return it with `done`.
    pub(super) fn take(&self, written: Option<&str>) -> Result<(K, Duration), StepError> {
        let mut state = self.inner.state.lock();
        self.release_due(&mut state);
        let Some(written) = written else {
            let key = state.ready.pop_front().ok_or(StepError::NothingDue)?;
            return Ok(self.mark_in_flight(&mut state, key));
        };
        let mut text = String::new();
        let mut is_meant = |key: &K| {
            use std::fmt::Write as _;
            text.clear();
            // Writing to a String cannot fail.
            let _ = write!(text, "{key}");
            text == written
        };
        if let Some(place) = state.ready.iter().position(&mut is_meant)
            && let Some(key) = state.ready.remove(place)
        {
            return Ok(self.mark_in_flight(&mut state, key));
        }
        if state.working.keys().any(&mut is_meant) {
            return Err(StepError::InFlight(written.to_owned()));
        }
        let delayed = state.delayed.iter().map(|(_, key)| key).find(|key| is_meant(key)).cloned();
        let key = delayed.ok_or_else(|| StepError::NoSuchKey(written.to_owned()))?;
        state.take_delayed(&key);
        Ok(self.mark_in_flight(&mut state, key))
    }
}

/// The number of keys at the front of the queue that are searched for the oldest.
const OLDEST_OF: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use base::backoff::BackoffPolicy;

    fn queue() -> WorkQueue<&'static str> {
        WorkQueue::new(BackoffPolicy { initial: Duration::from_secs(2), max: Duration::from_secs(8) })
    }

    async fn pass(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_unworked_queue_reports_waiting_and_delayed_keys_con_19() {
        let queue = queue();
        assert_eq!(queue.status(), QueueStatus::default());
        queue.add("a");
        pass(3).await;
        queue.add("b");
        queue.add("a");
        queue.add_rate_limited("c");
        queue.add_after("d", Duration::from_mins(1));
        let status = queue.status();
        assert_eq!((status.depth, status.delayed, status.in_flight), (2, 2, 0));
        assert_eq!(status.oldest, Some(Duration::from_secs(3)), "asking again makes it no younger");
        pass(5).await;
        // The key is due, although no worker has moved it.
        let status = queue.status();
        assert_eq!((status.depth, status.delayed), (3, 1));
        let keys = queue.first_keys(10);
        let seconds = |keys: &[(&'static str, Duration, u32)]| -> Vec<(&'static str, u64, u32)> {
            keys.iter().map(|(key, time, failures)| (*key, time.as_secs(), *failures)).collect()
        };
        assert_eq!(seconds(&keys.waiting), [("a", 8, 0), ("b", 5, 0), ("c", 3, 1)]);
        assert_eq!(seconds(&keys.delayed), [("d", 55, 0)]);
        assert_eq!(queue.first_keys(2).waiting.len(), 2);
        let (key, waited) = queue.next().await;
        assert_eq!((key, waited.as_secs()), ("a", 8));
        pass(2).await;
        let status = queue.status();
        assert_eq!((status.depth, status.in_flight), (2, 1));
        assert_eq!(status.unfinished, (Duration::from_secs(2), Duration::from_secs(2)));
        assert_eq!(queue.first_keys(10).in_flight, [("a", Duration::from_secs(2))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_takes_the_next_key_or_the_chosen_one_con_19() {
        let queue = queue();
        assert_eq!(queue.take(None), Err(StepError::NothingDue));
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
        queue.add_after("later", Duration::from_mins(1));
        pass(1).await;
        assert_eq!(queue.take(Some("b")), Ok(("b", Duration::from_secs(1))));
        assert_eq!(queue.take(Some("b")), Err(StepError::InFlight("b".into())));
        assert_eq!(queue.take(Some("x")), Err(StepError::NoSuchKey("x".into())));
        assert_eq!(queue.take(None).map(|taken| taken.0), Ok("a"));
        // A delayed key is taken early and does not come a second time.
        assert_eq!(queue.take(Some("later")), Ok(("later", Duration::ZERO)));
        for key in ["a", "b", "later"] {
            queue.done(&key);
        }
        assert_eq!(queue.take(None).map(|taken| taken.0), Ok("c"));
        queue.done(&"c");
        pass(120).await;
        assert_eq!(queue.take(None), Err(StepError::NothingDue));
        // A key enqueued while it is processed comes again, once.
        queue.add("a");
        assert!(queue.take(None).is_ok());
        queue.add("a");
        assert_eq!(queue.take(Some("a")), Err(StepError::InFlight("a".into())));
        queue.done(&"a");
        assert_eq!(queue.take(Some("a")), Ok(("a", Duration::ZERO)));
    }
}
