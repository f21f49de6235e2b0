//! The delay before a Job replaces a failed pod: it grows with each failure since the last success.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use base::backoff::BackoffPolicy;
use base::clock::since;
use object::conditions::{Condition as _, ConditionStatus};
use object::pod::condition;
use object::well_known::condition::READY;

/// Failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BackOff {
    failures: u32,
    last_failure: Option<Timestamp>,
}

impl BackOff {
    /// Returns the back-off after these further successes and failures, given by their times.
    pub(super) fn after(
        self,
        succeeded: impl Iterator<Item = Timestamp>,
        failed: impl Iterator<Item = Timestamp>,
    ) -> Self {
        let before = match succeeded.max() {
            Some(success) => (Self::default(), Some(success)),
            None => (self, None),
        };
        let (before, success) = before;
        failed.filter(|at| success.is_none_or(|success| *at > success)).fold(before, |so_far, at| Self {
            failures: so_far.failures.saturating_add(1),
            last_failure: so_far.last_failure.max(Some(at)),
        })
    }

    /// Returns the remaining delay.
    pub(super) fn remaining(self, policy: BackoffPolicy, now: Timestamp) -> Duration {
        self.last_failure.map_or(Duration::ZERO, |at| remaining(policy, self.failures, at, now))
    }
}

/// Returns the rest of the delay after this many failures, the last of them at `last`.
pub(super) fn remaining(policy: BackoffPolicy, failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    policy.delay(failures).saturating_sub(since(now, last))
}

/// Returns the time at which a pod ended: the end of its last container, or else the time it stopped being ready, was
/// deleted, or at least was created.
pub(super) fn ended_at(pod: &Pod) -> Timestamp {
    let meta = &pod.metadata;
    let ends = || {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        let end = |c: &k8s_openapi::api::core::v1::ContainerStatus| {
            c.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|t| t.0)
        };
        statuses.iter().map(end).collect::<Option<Vec<_>>>()?.into_iter().max()
    };
    let not_ready = || {
        let ready = condition(pod, READY).filter(|c| c.is(ConditionStatus::False))?;
        ready.last_transition_time.as_ref().map(|t| t.0)
    };
    let deleted = || {
        let grace = SignedDuration::from_secs(meta.deletion_grace_period_seconds.unwrap_or(0));
        meta.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok()
    };
    ends()
        .or_else(not_ready)
        .or_else(deleted)
        .or_else(|| meta.creation_timestamp.as_ref().map(|t| t.0))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_delay_doubles_with_each_failure_since_a_success_job_1() {
        let policy = BackoffPolicy { initial: Duration::from_secs(10), max: Duration::from_mins(6) };
        // (ends before, successes, failures, now, seconds to wait)
        let none: &[i64] = &[];
        for (before, succeeded, failed, now, expected) in [
            (none, none, none, 100, 0),
            (none, none, &[100][..], 100, 10),
            (none, none, &[100], 104, 6),
            (none, none, &[100], 111, 0),
            (none, none, &[90, 100], 100, 20),
            (&[90, 80, 70], none, &[100], 100, 80),
            (&[10, 20, 30, 40, 50, 60], none, &[100], 100, 360),
            // A success resets earlier failures, even if it is seen later.
            (&[70, 80, 90], &[95], &[100], 100, 10),
            (&[70, 80, 90], &[95], none, 100, 0),
            (none, &[100], &[90, 100, 105], 110, 5),
        ] {
            let times = |seconds: &[i64]| seconds.iter().copied().map(at).collect::<Vec<_>>();
            let record = BackOff::default().after(std::iter::empty(), times(before).into_iter());
            let record = record.after(times(succeeded).into_iter(), times(failed).into_iter());
            let actual = record.remaining(policy, at(now)).as_secs();
            assert_eq!(actual, expected, "{before:?} then {succeeded:?} {failed:?} at {now}");
        }
    }

    #[test]
    fn a_pod_ended_when_its_last_container_did_job_1() {
        let time = |second: i64| json!(at(second));
        let container = |state: serde_json::Value| {
            json!({"name": "c", "image": "", "imageID": "",
            "ready": false, "restartCount": 0, "state": state})
        };
        let ended =
            |second: i64| container(json!({"terminated": {"exitCode": 1, "finishedAt": time(second)}}));
        let running = container(json!({"running": {}}));
        let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": time(7)}]);
        let going = json!({"creationTimestamp": time(1), "deletionTimestamp": time(40),
            "deletionGracePeriodSeconds": 30});
        for (meta, status, expected) in [
            (
                json!({}),
                json!({"containerStatuses": [ended(5), ended(9), ended(3)], "conditions": unready}),
                9,
            ),
            (json!({}), json!({"containerStatuses": [ended(5), running], "conditions": unready}), 7),
            (going, json!({"containerStatuses": [running]}), 10),
            (json!({"creationTimestamp": time(1)}), json!({}), 1),
        ] {
            let pod: Pod = serde_json::from_value(json!({"metadata": meta, "status": status})).unwrap();
            assert_eq!(ended_at(&pod), at(expected), "{pod:?}");
        }
    }
}
