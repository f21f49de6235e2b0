//! Exponential back-off per key, as in Kubernetes: an initial delay, doubled with each failure up to a maximum, and
//! reset by a success.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// The growth of a back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// The first delay.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl BackoffPolicy {
    /// Returns the delay after `failures` failures in a row; zero after none.
    pub fn delay(&self, failures: u32) -> Duration {
        match failures {
            0 => Duration::ZERO,
            n => self.initial.saturating_mul(2u32.saturating_pow(n - 1)).min(self.max),
        }
    }
}

/// Failures in a row, by key.
#[derive(Debug)]
pub struct Backoffs<K> {
    policy: BackoffPolicy,
    failures: HashMap<K, u32>,
}

impl<K: Eq + Hash + Clone> Backoffs<K> {
    /// Creates a back-off without failures.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self { policy, failures: HashMap::new() }
    }

    /// Counts one more failure of `key` and returns the delay before the next try.
    pub fn fail(&mut self, key: &K) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        self.policy.delay(*failures)
    }

    /// Returns the number of failures of `key` in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or_default()
    }

    /// Resets the failures of `key`.
    pub fn succeed(&mut self, key: &K) {
        self.failures.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let policy = BackoffPolicy { initial: Duration::from_secs(10), max: Duration::from_mins(5) };
        let seconds: Vec<u64> = [0, 1, 2, 3, 4, 5, 6, 7, 99].map(|n| policy.delay(n).as_secs()).into();
        assert_eq!(seconds, [0, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn success_forgets() {
        let policy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(8) };
        let mut backoffs = Backoffs::new(policy);
        assert_eq!((backoffs.fail(&"a").as_secs(), backoffs.fail(&"a").as_secs()), (1, 2));
        assert_eq!((backoffs.failures(&"a"), backoffs.failures(&"b")), (2, 0));
        backoffs.succeed(&"a");
        assert_eq!(backoffs.fail(&"a").as_secs(), 1);
    }
}
