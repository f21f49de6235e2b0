//! Limits the rate at which a set creates pods that do not last.
//!
//! kube-controller-manager may send twenty requests per second (`--kube-api-qps`): pods that fail at once, or that
//! another client deletes, are recreated no faster. These controllers use no network and would do it thousands of
//! times a second. So each set has an allowance, several times its desired size, that refills with time.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use object::Uid;

/// The least allowance of a set.
const LEAST: f64 = 30.0;
/// The allowance, as a multiple of the desired size.
const TIMES: f64 = 5.0;
/// The least refill per second.
const LEAST_A_SECOND: f64 = 5.0;
/// The shortest wait.
const SOON: Duration = Duration::from_millis(1);

/// The recent creations of each set, on a monotonic clock.
#[derive(Default)]
pub(super) struct CreationPace {
    creations: Mutex<HashMap<Uid, RecentCreations>>,
}

/// The creations that still count at a given time.
#[derive(Clone, Copy)]
struct RecentCreations {
    pods: f64,
    at: Duration,
}

impl CreationPace {
    /// Calls `make` with the number of missing pods that the set may create now; returns its result, or the time to
    /// wait. Pods that were refused do not count: they are tried again with their own back-off.
    pub(super) fn spend<T, E>(
        &self,
        set: &str,
        desired: usize,
        missing: usize,
        now: Duration,
        make: impl FnOnce(usize) -> Result<T, E>,
    ) -> Result<Result<T, E>, Duration> {
        let taken = self.take(set, desired, missing, now)?;
        let made = make(taken);
        if made.is_err() {
            self.return_unused(set, taken);
        }
        Ok(made)
    }

    /// Takes the missing pods from the allowance of a set with this desired size, as far as it suffices. Returns the
    /// number of pods that may be created now, or the time to wait.
    fn take(&self, set: &str, desired: usize, missing: usize, now: Duration) -> Result<usize, Duration> {
        let a_second = (desired as f64).max(LEAST_A_SECOND);
        let most = (desired as f64 * TIMES).max(LEAST);
        let mut made = self.creations.lock();
        let known = made.entry(set.to_owned()).or_insert(RecentCreations { pods: 0.0, at: now });
        let back = now.saturating_sub(known.at).as_secs_f64() * a_second;
        *known = RecentCreations { pods: (known.pods - back).max(0.0), at: now };
        let capacity = most - known.pods;
        if capacity < 1.0 {
            // A wait below the clock's resolution would never pass.
            return Err(Duration::from_secs_f64((1.0 - capacity) / a_second).max(SOON));
        }
        let taken = missing.min(capacity as usize);
        known.pods += taken as f64;
        Ok(taken)
    }

    /// Gives back to the allowance the pods that were not created.
    fn return_unused(&self, set: &str, pods: usize) {
        if let Some(made) = self.creations.lock().get_mut(set) {
            made.pods = (made.pods - pods as f64).max(0.0);
        }
    }

    /// Drops a deleted set.
    pub(super) fn forget(&self, set: &str) {
        self.creations.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lived_pods_are_recreated_at_a_limited_rate_rs_1() {
        let (pace, second) = (CreationPace::default(), Duration::from_secs(1));
        let mut made = 0;
        let mut wait = Duration::ZERO;
        // Four pods that disappear at once, for ten seconds.
        while wait < 10 * second {
            match pace.take("set", 4, 4, wait) {
                Ok(taken) => made += taken,
                Err(longer) => {
                    assert!(longer > Duration::ZERO && longer <= second);
                    wait += longer;
                }
            }
        }
        assert!((78..=82).contains(&made), "30, and 5 a second: {made}");
        assert_eq!(pace.take("another", 4, 4, wait), Ok(4));
        let left = pace.take("set", 4, 4, wait).unwrap_or(0);
        assert!(left <= 1 && pace.take("set", 4, 4, wait).is_err());
        pace.return_unused("set", 2);
        assert_eq!(pace.take("set", 4, 2, wait), Ok(2), "returned creations are available again");
        pace.forget("set");
        assert_eq!(pace.take("set", 4, 4, wait), Ok(4));
    }

    #[test]
    fn a_large_set_comes_and_goes_several_times_at_once_rs_1() {
        let pace = CreationPace::default();
        for _ in 0..5 {
            assert_eq!(pace.take("set", 1000, 1000, Duration::ZERO), Ok(1000));
        }
        assert!(pace.take("set", 1000, 1000, Duration::ZERO).is_err());
        assert_eq!(pace.take("set", 1000, 1000, Duration::from_secs(1)), Ok(1000));
    }
    /// Fractions of pods are not exact: the remaining wait may be less than a nanosecond.
    #[test]
    fn a_wait_is_never_so_short_that_no_time_passes_rs_1() {
        let pace = CreationPace::default();
        let mut now = Duration::ZERO;
        for step in 0..20_000_u32 {
            match pace.take("set", 3, 1, now) {
                Ok(_) => now += Duration::from_nanos(u64::from(step % 7) * 333),
                Err(wait) => {
                    assert!(wait >= SOON, "{wait:?}");
                    now += wait.saturating_sub(Duration::from_nanos(1));
                }
            }
        }
    }
}
