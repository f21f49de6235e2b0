//! Delays the retry of a failed action, regardless of the pod's events meanwhile: each failure doubles the delay, and
//! the log reports a changed reason.

use std::time::Duration;

use super::plan::Action;
use base::backoff::BackoffPolicy;

/// The actions of a pod that failed and have not been done since.
#[derive(Debug, Default)]
pub(super) struct Retry {
    failed: Vec<FailedAction>,
}

#[derive(Debug)]
struct FailedAction {
    action: Action,
    failures: u32,
    /// On the monotonic clock.
    until: Duration,
    text: String,
}

impl Retry {
    /// Returns the end of this action's wait; `None` if the action may be executed at `now`.
    pub(super) fn waits(&self, action: &Action, now: Duration) -> Option<Duration> {
        let failed = self.failed.iter().find(|failed| failed.action == *action)?;
        (failed.until > now).then_some(failed.until)
    }

    /// Notes that the action failed at `now`; returns the time of the next attempt, and true if the failure must be
    /// reported.
    pub(super) fn failed(
        &mut self,
        action: Action,
        text: String,
        now: Duration,
        policy: BackoffPolicy,
    ) -> (Duration, bool) {
        let before = self.failed.iter().position(|failed| failed.action == action);
        let before = before.map(|index| self.failed.swap_remove(index));
        // Actions that are no longer planned are never retried.
        self.failed.retain(|failed| failed.until.saturating_add(policy.max) > now);
        let failures = before.as_ref().map_or(0, |failed| failed.failures).saturating_add(1);
        let is_new = before.is_none_or(|failed| failed.text != text);
        let until = now.saturating_add(policy.delay(failures));
        self.failed.push(FailedAction { action, failures, until, text });
        (until, is_new)
    }

    /// The largest number of consecutive failures of one action.
    pub(super) fn failures(&self) -> u32 {
        self.failed.iter().map(|failed| failed.failures).max().unwrap_or_default()
    }

    /// Notes that the action succeeded.
    pub(super) fn done(&mut self, action: &Action) {
        self.failed.retain(|failed| failed.action != *action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that could not be removed caused 3 400 attempts a second.
    #[test]
    fn each_failure_doubles_the_wait_and_only_a_new_reason_is_reported() {
        let policy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_mins(2) };
        let (mut retry, mut now) = (Retry::default(), Duration::ZERO);
        let mut waits = Vec::new();
        for text in ["a", "a", "a", "b", "b", "b", "b", "b", "b"] {
            let (until, is_new) = retry.failed(Action::Remove, text.into(), now, policy);
            assert_eq!(retry.waits(&Action::Remove, now), Some(until));
            assert_eq!(retry.waits(&Action::StopSandbox, now), None, "another action is tried at once");
            waits.push((until.saturating_sub(now).as_secs(), is_new));
            now = until;
        }
        let expected = [1, 2, 4, 8, 16, 32, 64, 120, 120];
        let expected: Vec<_> = expected.into_iter().zip((0..9).map(|n| n == 0 || n == 3)).collect();
        assert_eq!(waits, expected);
        assert_eq!(retry.waits(&Action::Remove, now), None, "its time has come");
        // Two actions that fail alternately do not reset each other's back-off.
        retry.failed(Action::StopSandbox, "c".into(), now, policy);
        let (until, _) = retry.failed(Action::Remove, "b".into(), now, policy);
        assert_eq!(until.saturating_sub(now), Duration::from_mins(2));
        retry.done(&Action::Remove);
        let (until, _) = retry.failed(Action::Remove, "b".into(), now, policy);
        assert_eq!(until.saturating_sub(now), Duration::from_secs(1));
    }
}
