//! The statistics of one controller: counts, the last waiting times and reconciles, the last errors.
//!
//! Invariant: memory use is bounded, independent of the load: rings overwrite their oldest entries, and texts
//! are cut. A reconcile costs one short lock; keys are formatted only when the statistics are read.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use api::controller_status::{Quantiles, QueuedKey, ReconcileRecord, ReconcileResult, WorkStatus};
use base::clock::Clock;
use base::sort::SliceOrder;

/// The limits of the retained statistics.
#[derive(Clone, Copy, Debug)]
pub struct StatsLimits {
    /// Durations from which quantiles are computed.
    samples: usize,
    /// Retained reconciles, with any result.
    recent: usize,
    /// Retained reconciles that failed.
    errors: usize,
    /// The longest retained message, in bytes.
    message_bytes: usize,
}

impl StatsLimits {
    /// For components of which there are few, such as controllers.
    pub const OF_FEW: Self = Self { samples: 256, recent: 64, errors: 16, message_bytes: 8 * 1024 };
    /// For components of which there are hundreds, such as the kubelets of hollow nodes: about a kilobyte while
    /// nothing fails.
    pub const OF_MANY: Self = Self { samples: 32, recent: 4, errors: 4, message_bytes: 512 };
}

/// The period of a rate, in seconds.
const RATE_SECONDS: u64 = 60;

/// The statistics of one controller since its start.
#[derive(Debug)]
pub struct ControllerStats<K> {
    clock: Clock,
    limits: StatsLimits,
    started_at: Timestamp,
    // Locked for the few assignments of one reconcile, and for a copy when the statistics are read.
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    reconciles: u64,
    errors: u64,
    rate: Rate,
    waits: Samples,
    works: Samples,
    recent: VecDeque<(Timestamp, FinishedReconcile<K>)>,
    failed: VecDeque<(Timestamp, FinishedReconcile<K>)>,
}

/// A finished reconcile.
#[derive(Clone, Debug)]
pub struct FinishedReconcile<K> {
    /// The reconciled key.
    pub key: K,
    /// The time the key waited in the queue, if it is known.
    pub waited: Option<Duration>,
    /// The duration of the reconcile.
    pub took: Duration,
    /// The result.
    pub result: ReconcileResult,
}

impl<K: Clone> ControllerStats<K> {
    /// Creates the statistics of a controller that starts now, by this clock.
    pub fn new(clock: &Clock) -> Self {
        Self::with_limits(clock, StatsLimits::OF_FEW)
    }

    /// Does the same as [`ControllerStats::new`], with other limits.
    pub fn with_limits(clock: &Clock, limits: StatsLimits) -> Self {
        let state = State {
            reconciles: 0,
            errors: 0,
            rate: Rate::default(),
            waits: Samples::default(),
            works: Samples::default(),
            recent: VecDeque::new(),
            failed: VecDeque::new(),
        };
        Self { clock: clock.clone(), limits, started_at: clock.now(), state: Mutex::new(state) }
    }

    /// Returns the time from which these statistics count.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Adds a reconcile that ends now, and returns that time.
    pub fn take(&self, ended: FinishedReconcile<K>) -> Timestamp {
        let (at, second) = (self.clock.now(), self.clock.monotonic().as_secs());
        let ended = FinishedReconcile { result: cut(ended.result, self.limits.message_bytes), ..ended };
        let mut state = self.state.lock();
        state.reconciles += 1;
        state.rate.count(second);
        state.works.put(ended.took, self.limits.samples);
        if let Some(waited) = ended.waited {
            state.waits.put(waited, self.limits.samples);
        }
        if ended.result.is_error() {
            state.errors += 1;
            state.failed.truncate(self.limits.errors - 1);
            state.failed.push_front((at, ended.clone()));
        }
        state.recent.truncate(self.limits.recent - 1);
        state.recent.push_front((at, ended));
        at
    }

    /// Returns the counts, rates and quantiles; `show` formats keys.
    pub fn status(&self, show: impl Fn(&K) -> QueuedKey) -> WorkStatus {
        let second = self.clock.monotonic().as_secs();
        let state = self.state.lock();
        WorkStatus {
            reconciles: state.reconciles,
            errors: state.errors,
            last_minute: state.rate.of_last(second),
            queue_duration: state.waits.quantiles(),
            work_duration: state.works.quantiles(),
            last_error: state.failed.front().map(|last| last.1.to_record(last.0, &show)),
        }
    }

    /// Returns the last reconciles and the last failed ones, newest first; `show` formats keys.
    pub fn last(&self, show: impl Fn(&K) -> QueuedKey) -> (Vec<ReconcileRecord>, Vec<ReconcileRecord>) {
        let state = self.state.lock();
        let shown = |ring: &VecDeque<(Timestamp, FinishedReconcile<K>)>| {
            ring.iter().map(|(at, ended)| ended.to_record(*at, &show)).collect()
        };
        (shown(&state.recent), shown(&state.failed))
    }
}

impl<K> FinishedReconcile<K> {
    /// Converts a reconcile that ended at `at` for the status; `show` formats the key.
    pub fn to_record(&self, at: Timestamp, show: impl Fn(&K) -> QueuedKey) -> ReconcileRecord {
        let Self { key, waited, took, result } = self;
        ReconcileRecord { key: show(key), at, waited: *waited, took: *took, result: result.clone() }
    }
}

/// Cuts the result's message to `bytes`.
fn cut(result: ReconcileResult, bytes: usize) -> ReconcileResult {
    let short = |text: String| {
        if text.len() <= bytes {
            return text;
        }
        format!("{}… ({} bytes in total)", &text[..text.floor_char_boundary(bytes)], text.len())
    };
    match result {
        ReconcileResult::Failed(text) => ReconcileResult::Failed(short(text)),
        ReconcileResult::Panicked(text) => ReconcileResult::Panicked(short(text)),
        ReconcileResult::Unschedulable(text) => ReconcileResult::Unschedulable(short(text)),
        other => other,
    }
}

/// The last durations, in nanoseconds.
#[derive(Debug, Default)]
struct Samples {
    values: Vec<u64>,
    next: usize,
}

impl Samples {
    fn put(&mut self, duration: Duration, most: usize) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if self.values.len() < most {
            self.values.push(nanos);
        } else {
            self.values[self.next] = nanos;
        }
        self.next = (self.next + 1) % most;
    }

    fn quantiles(&self) -> Option<Quantiles> {
        let mut sorted = self.values.clone();
        sorted.order();
        let count = sorted.len();
        // Quantiles by the nearest-rank method.
        let at = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).map(|nanos| Duration::from_nanos(*nanos))
        };
        Some(Quantiles { p50: at(50)?, p99: at(99)?, count })
    }
}

/// The number of reconciles in each of the last seconds.
#[derive(Debug, Default)]
struct Rate {
    /// A ring, indexed by the second modulo its length; empty before the first reconcile.
    counts: Vec<u32>,
    /// The newest second with an entry.
    last: u64,
}

impl Rate {
    fn slot(second: u64) -> usize {
        usize::try_from(second % RATE_SECONDS).unwrap_or(0)
    }

    fn count(&mut self, second: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; usize::try_from(RATE_SECONDS).unwrap_or(0)];
            self.last = second;
        }
        // Slots of the seconds that have passed since hold counts of a minute ago.
        for passed in (self.last + 1..=second).take(self.counts.len()) {
            self.counts[Self::slot(passed)] = 0;
        }
        self.last = self.last.max(second);
        let count = &mut self.counts[Self::slot(second)];
        *count = count.saturating_add(1);
    }

    fn of_last(&self, second: u64) -> u64 {
        let first =
            (second + 1).saturating_sub(RATE_SECONDS).max((self.last + 1).saturating_sub(RATE_SECONDS));
        let seconds = first..=self.last.min(second);
        seconds.filter_map(|one| self.counts.get(Self::slot(one))).map(|count| u64::from(*count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> (ControllerStats<String>, Clock) {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        (ControllerStats::new(&clock), clock)
    }

    fn ended(key: &str, took: u64, result: ReconcileResult) -> FinishedReconcile<String> {
        let (waited, took) = (Some(Duration::from_millis(took * 10)), Duration::from_millis(took));
        FinishedReconcile { key: key.to_owned(), waited, took, result }
    }

    #[expect(clippy::ptr_arg, reason = "the figures' keys are Strings")]
    fn show(key: &String) -> QueuedKey {
        QueuedKey { key: key.clone(), object: None }
    }

    #[tokio::test(start_paused = true)]
    async fn quantiles_are_of_the_last_reconciles_and_the_rate_of_the_last_minute_con_19() {
        let (figures, clock) = figures();
        assert_eq!(figures.status(show), WorkStatus::default());
        for took in 1..=100 {
            figures.take(ended("a/b", took, ReconcileResult::Done));
        }
        let status = figures.status(show);
        let millis = |p50, p99, count| {
            Some(Quantiles { p50: Duration::from_millis(p50), p99: Duration::from_millis(p99), count })
        };
        assert_eq!((status.reconciles, status.errors, status.last_minute), (100, 0, 100));
        assert_eq!(status.work_duration, millis(50, 99, 100));
        assert_eq!(status.queue_duration, millis(500, 990, 100));
        clock.sleep(Duration::from_secs(59)).await;
        figures.take(ended("a/b", 7, ReconcileResult::Done));
        assert_eq!(figures.status(show).last_minute, 101);
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(figures.status(show).last_minute, 1, "results older than a minute do not count");
        clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(figures.status(show).last_minute, 0);
        // Overwrites the older samples.
        for _ in 0..StatsLimits::OF_FEW.samples {
            figures.take(ended("a/b", 3, ReconcileResult::Done));
        }
        assert_eq!(figures.status(show).work_duration, millis(3, 3, StatsLimits::OF_FEW.samples));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_reconciles_and_errors_are_stored_in_bounded_memory_safe_10() {
        let (figures, clock) = figures();
        for number in 0..1000_u64 {
            clock.sleep(Duration::from_secs(1)).await;
            let result = match number % 10 {
                0 => ReconcileResult::Failed(format!("no {number}")),
                1 => ReconcileResult::Requeued(Duration::from_secs(30)),
                _ => ReconcileResult::Done,
            };
            figures.take(ended(&format!("n/{number}"), 1, result));
        }
        let StatsLimits { recent: most, errors: most_errors, message_bytes, .. } = StatsLimits::OF_FEW;
        let (recent, errors) = figures.last(show);
        assert_eq!((recent.len(), errors.len()), (most, most_errors));
        assert_eq!((recent[0].key.key.as_str(), recent[most - 1].key.key.as_str()), ("n/999", "n/936"));
        assert_eq!(errors[0].result, ReconcileResult::Failed("no 990".into()));
        let status = figures.status(show);
        assert_eq!((status.reconciles, status.errors), (1000, 100));
        assert_eq!(status.last_error.as_ref(), errors.first());
        assert_eq!(errors[0].at.to_string(), "2026-11-21T00:16:31Z");
        figures.take(ended("n/long", 1, ReconcileResult::Panicked("ä".repeat(message_bytes))));
        let ReconcileResult::Panicked(message) = &figures.last(show).1[0].result else { panic!("a panic") };
        assert!(
            message.len() < message_bytes + 64 && message.ends_with("(16384 bytes in total)"),
            "{message}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_hundreds_remembers_less_con_19_safe_10() {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let figures = ControllerStats::<String>::with_limits(&clock, StatsLimits::OF_MANY);
        for number in 1..=100 {
            let text = format!("{number}{}", "x".repeat(2000));
            figures.take(ended("n/a", number, ReconcileResult::Failed(text)));
        }
        let (recent, errors) = figures.last(show);
        assert_eq!((recent.len(), errors.len()), (StatsLimits::OF_MANY.recent, StatsLimits::OF_MANY.errors));
        let ReconcileResult::Failed(message) = &errors[0].result else { panic!("it failed") };
        assert!(message.starts_with("100x") && message.len() < 600, "{message}");
        let status = figures.status(show);
        let of_last = status.work_duration.map(|all| (all.p50.as_millis(), all.count));
        assert_eq!((status.errors, status.last_minute, of_last), (100, 100, Some((84, 32))));
    }
}
