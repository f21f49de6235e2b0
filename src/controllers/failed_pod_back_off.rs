//! The back-off before a failed pod of a DaemonSet's node or a StatefulSet's ordinal is replaced: the delay grows with
//! each failure, and is reset after a long time without one.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use base::backoff::BackoffPolicy;
use object::Uid;

/// Failures by set and node or ordinal, on a monotonic clock.
pub(super) struct FailedPodBackOff {
    policy: BackoffPolicy,
    failures: Mutex<HashMap<(Uid, String), FailureRecord>>,
}

#[derive(Clone, Copy)]
struct FailureRecord {
    times: u32,
    last: Duration,
}

impl FailedPodBackOff {
    pub(super) fn new(policy: BackoffPolicy) -> Self {
        Self { policy, failures: Mutex::default() }
    }

    /// Returns the remaining time for which the set's failed pods of this node or ordinal are left alone.
    pub(super) fn wait(&self, set: &str, of: &str, now: Duration) -> Duration {
        let known = self.failures.lock();
        let Some(failed) = known.get(&(set.to_string(), of.to_string())) else { return Duration::ZERO };
        if self.is_over(*failed, now) {
            return Duration::ZERO;
        }
        self.policy.delay(failed.times).saturating_sub(now.saturating_sub(failed.last))
    }

    /// Records that a failed pod of the set was deleted on the node or ordinal.
    pub(super) fn removed(&self, set: &str, of: &str, now: Duration) {
        let mut known = self.failures.lock();
        known.retain(|_, failed| !self.is_over(*failed, now));
        let failed =
            known.entry((set.to_string(), of.to_string())).or_insert(FailureRecord { times: 0, last: now });
        *failed = FailureRecord { times: failed.times.saturating_add(1), last: now };
    }

    /// Drops a deleted set.
    pub(super) fn forget(&self, set: &str) {
        self.failures.lock().retain(|(uid, _), _| uid != set);
    }

    fn is_over(&self, failed: FailureRecord, now: Duration) -> bool {
        now.saturating_sub(failed.last) > self.policy.max * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_fails_its_pods_waits_longer_each_time_ds_1() {
        let seconds = Duration::from_secs;
        let failures = FailedPodBackOff::new(BackoffPolicy { initial: seconds(1), max: seconds(900) });
        assert_eq!(failures.wait("d", "n1", seconds(0)), seconds(0));
        failures.removed("d", "n1", seconds(10));
        assert_eq!(failures.wait("d", "n1", seconds(10)), seconds(1));
        assert_eq!(failures.wait("d", "n2", seconds(10)), seconds(0));
        assert_eq!(failures.wait("d", "n1", seconds(11)), seconds(0));
        failures.removed("d", "n1", seconds(11));
        failures.removed("d", "n1", seconds(13));
        assert_eq!(failures.wait("d", "n1", seconds(14)), seconds(3));
        assert_eq!(failures.wait("d", "n1", seconds(13 + 1801)), seconds(0));
        failures.removed("d", "n1", seconds(13 + 1801));
        assert_eq!(failures.wait("d", "n1", seconds(13 + 1801)), seconds(1), "it starts over");
        failures.forget("d");
        assert_eq!(failures.wait("d", "n1", seconds(13 + 1801)), seconds(0));
    }
}
