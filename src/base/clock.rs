//! The only source of time.
//!
//! A [`Clock`] is either the machine's or a virtual one that starts at a given instant and moves with tokio's paused
//! time, so that a whole control plane runs ten minutes in a millisecond, reproducibly. Waiting uses tokio's timers in
//! both cases; only the reading differs.
//!
//! Of Kubernetes' types this module uses only the API's two types of times.
//!
//! Architecture Invariant: nothing else reads the wall clock (clippy's `disallowed_methods`). Timeouts may use tokio's
//! `Instant`, which virtual time moves as well; `std`'s `Instant` is allowed only for real processes and measurements
//! (`tests/it/layers/mod.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

/// A cheap handle to a source of time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    /// Added to every wall reading: the injected clock-skew fault.
    skew_millis: AtomicI64,
}

#[derive(Debug)]
enum Source {
    Machine {
        begin: Timestamp,
        start: tokio::time::Instant,
    },
    Virtual {
        epoch: Timestamp,
        start: tokio::time::Instant,
    },
    /// Follows another clock ([`Clock::apart`]).
    Other(Clock),
}

impl Clock {
    /// Returns the machine's clock.
    #[expect(clippy::disallowed_methods, reason = "with `now` the one place that reads the machine's clock")]
    pub fn machine() -> Self {
        Self::new(Source::Machine { begin: Timestamp::now(), start: tokio::time::Instant::now() })
    }

    /// Creates a clock that reads `epoch` now and moves with tokio's (paused) time from here on.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self::new(Source::Virtual { epoch, start: tokio::time::Instant::now() })
    }

    /// Creates a clock that follows this one and can be skewed separately, for a component with a clock of its own.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self::new(Source::Other(self.clone()))
    }

    fn new(source: Source) -> Self {
        Self(Arc::new(Inner { source, skew_millis: AtomicI64::new(0) }))
    }

    /// Returns the wall-clock time.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn now(&self) -> Timestamp {
        let wall = match &self.0.source {
            Source::Machine { .. } => Timestamp::now(),
            Source::Virtual { epoch, start } => saturating_after(*epoch, start.elapsed()),
            Source::Other(clock) => clock.now(),
        };
        wall.checked_add(self.skew()).unwrap_or(wall)
    }

    /// Returns the wall-clock time in the API's form: whole seconds.
    pub fn time(&self) -> Time {
        time(self.now())
    }

    /// Returns the wall-clock time in the form of Leases and Event series: microseconds.
    pub fn micro_time(&self) -> MicroTime {
        let now = self.now();
        MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
    }

    /// Returns the time since this clock was created; never goes back, even if the wall clock does.
    pub fn monotonic(&self) -> Duration {
        match &self.0.source {
            Source::Machine { start, .. } | Source::Virtual { start, .. } => start.elapsed(),
            Source::Other(clock) => clock.monotonic(),
        }
    }

    /// Returns the time the wall clock would show had it not been set since this clock was created: for deadlines
    /// that a step of the wall clock must neither advance nor postpone. Never write it anywhere: every process has
    /// its own.
    pub fn steady(&self) -> Timestamp {
        match &self.0.source {
            Source::Machine { begin: origin, start } | Source::Virtual { epoch: origin, start } => {
                saturating_after(*origin, start.elapsed())
            }
            Source::Other(clock) => clock.steady(),
        }
    }

    /// Returns the wall clock and the steady clock at the same moment.
    pub fn both(&self) -> ClockReading {
        ClockReading { wall: self.now(), steady: self.steady() }
    }

    /// Waits for `duration`.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits for `duration`; for ever if there is none.
    pub async fn sleep_if_some(&self, duration: Option<Duration>) {
        if_some(duration.map(|duration| self.sleep(duration))).await;
    }

    /// Returns the shift of this clock's wall readings; for a clock that follows another, in addition to the other's
    /// shift.
    pub fn skew(&self) -> SignedDuration {
        SignedDuration::from_millis(self.0.skew_millis.load(Ordering::Relaxed))
    }

    /// Shifts all wall readings by `millis` from now on (0 heals).
    pub fn set_skew_millis(&self, millis: i64) {
        self.0.skew_millis.store(millis, Ordering::Relaxed);
    }
}

/// Waits for a future; for ever if there is none.
pub async fn if_some<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Readings of the wall clock and the steady clock at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The wall clock, as other programs read it.
    pub wall: Timestamp,
    /// [`Clock::steady`].
    pub steady: Timestamp,
}

impl ClockReading {
    /// Converts a past wall-clock time to the steady clock; a time in the future becomes now.
    pub fn steady_of(&self, wall: Timestamp) -> Timestamp {
        let ago = SignedDuration::try_from(since(self.wall, wall)).unwrap_or(SignedDuration::MAX);
        self.steady.checked_sub(ago).unwrap_or(Timestamp::MIN)
    }
}

/// Takes a time as the reading of both clocks, as if the wall clock had never been set.
impl From<Timestamp> for ClockReading {
    fn from(now: Timestamp) -> Self {
        Self { wall: now, steady: now }
    }
}

/// Converts `at` to the API's form: whole seconds.
pub fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// Returns the time from `now` until `at`; zero if it has passed.
pub fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// Returns the time from `then` until `now`; zero if `then` lies ahead.
pub fn since(now: Timestamp, then: Timestamp) -> Duration {
    until(then, now)
}

/// Returns `then` plus `duration`, or the largest timestamp if the sum does not fit.
pub fn saturating_after(then: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration).ok().and_then(|d| then.checked_add(d).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_virtual_clock_moves_only_with_paused_time() {
        let epoch: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(epoch);
        assert_eq!(clock.now(), epoch);
        clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(clock.now().to_string(), "2026-11-21T00:10:00Z");
        clock.set_skew_millis(-60_000);
        assert_eq!(clock.now().to_string(), "2026-11-21T00:09:00Z");
        assert_eq!(clock.monotonic(), Duration::from_mins(10));
        assert_eq!(clock.steady().to_string(), "2026-11-21T00:10:00Z");
        let own = clock.apart();
        own.set_skew_millis(1_000);
        assert_eq!(
            (own.skew(), clock.skew()),
            (SignedDuration::from_secs(1), SignedDuration::from_secs(-60))
        );
        assert_eq!((own.now().to_string().as_str(), own.steady()), ("2026-11-21T00:09:01Z", clock.steady()));
        let now = clock.both();
        assert_eq!(
            now.steady_of("2026-11-21T00:08:00Z".parse().unwrap()).to_string(),
            "2026-11-21T00:09:00Z"
        );
        assert_eq!(now.steady_of("2027-01-01T00:00:00Z".parse().unwrap()), now.steady);
    }

    #[test]
    fn api_times_are_whole_seconds() {
        let at: Timestamp = "2026-11-21T00:00:00.987654321Z".parse().unwrap();
        assert_eq!(serde_json::to_value(time(at)).unwrap(), "2026-11-21T00:00:00Z");
    }
}
