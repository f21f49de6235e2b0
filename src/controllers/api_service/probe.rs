//! The schedule of one server's probes: pure, with the time as an argument.

use std::time::Duration;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;

use base::backoff::BackoffPolicy;

/// The interval between probes of an available server; Kubernetes' resync.
const RESYNC: Duration = Duration::from_secs(30);
/// The intervals between probes of an unavailable server.
const RETRY: BackoffPolicy = BackoffPolicy { initial: Duration::from_secs(1), max: RESYNC };

/// The state of probing one server.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// The spec that was probed: the result applies to no other.
    spec: Option<APIServiceSpec>,
    is_probing: bool,
    /// The service has changed since the probe under way started.
    is_outdated: bool,
    /// The probe's result, until it is written to the status.
    result: Option<Result<(), String>>,
    /// Failures since the last success.
    failures: u32,
    /// The time of the next probe. Without it, each status written after a probe would cause another.
    due: Option<Duration>,
}

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProbeAction {
    /// Probe the server.
    Ask,
    /// Nothing is due before this time has passed.
    Wait(Duration),
    /// A probe is under way.
    Nothing,
    /// Write the result; the next probe is due after this time.
    Write(Result<(), String>, Duration),
}

impl Probe {
    /// Returns the next action for a spec. Returns `Ask` once for each probe.
    pub(super) fn next(&mut self, spec: &APIServiceSpec, now: Duration) -> ProbeAction {
        if self.is_probing {
            return ProbeAction::Nothing;
        }
        let is_same = self.spec.as_ref() == Some(spec);
        if let Some(answer) = self.result.take()
            && is_same
        {
            self.failures = if answer.is_ok() { 0 } else { self.failures.saturating_add(1) };
            let again = if std::mem::take(&mut self.is_outdated) {
                Duration::ZERO
            } else if answer.is_ok() {
                RESYNC
            } else {
                RETRY.delay(self.failures)
            };
            self.due = Some(now.saturating_add(again));
            return ProbeAction::Write(answer, again);
        }
        let left = self.due.filter(|_| is_same).and_then(|due| due.checked_sub(now));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return ProbeAction::Wait(left);
        }
        (self.spec, self.is_probing, self.is_outdated, self.due) = (Some(spec.clone()), true, false, None);
        ProbeAction::Ask
    }

    /// Takes the result of a probe.
    pub(super) fn answered(&mut self, answer: Result<(), String>) {
        (self.result, self.is_probing) = (Some(answer), false);
    }

    /// Notes that the service has changed: the last result no longer delays the next probe.
    pub(super) fn service_changed(&mut self) {
        self.due = None;
        self.is_outdated = self.is_probing || self.result.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_probed_when_due_and_after_changes_api_17() {
        let spec = |priority: i32| APIServiceSpec { version_priority: priority, ..APIServiceSpec::default() };
        let at = Duration::from_secs;
        let mut probe = Probe::default();
        assert_eq!(probe.next(&spec(1), at(0)), ProbeAction::Ask);
        assert_eq!(probe.next(&spec(1), at(0)), ProbeAction::Nothing);
        let mut next = at(0);
        // A status that changes with each result, as with several failing endpoints, causes no extra probe.
        for (again, why) in [(1, "a"), (2, "b"), (4, "a"), (8, "b"), (16, "a"), (30, "b"), (30, "a")] {
            probe.answered(Err(why.into()));
            assert_eq!(probe.next(&spec(1), next), ProbeAction::Write(Err(why.into()), at(again)));
            assert_eq!(probe.next(&spec(1), next), ProbeAction::Wait(at(again)));
            next += at(again);
            assert_eq!(probe.next(&spec(1), next), ProbeAction::Ask);
        }
        // The result is of another spec.
        probe.answered(Ok(()));
        assert_eq!(probe.next(&spec(2), next), ProbeAction::Ask);
        probe.answered(Ok(()));
        assert_eq!(probe.next(&spec(2), next), ProbeAction::Write(Ok(()), at(30)));
        assert_eq!(probe.next(&spec(2), next + at(10)), ProbeAction::Wait(at(20)));
        probe.service_changed();
        assert_eq!(probe.next(&spec(2), next + at(10)), ProbeAction::Ask);
        // The result is from before the service changed.
        probe.service_changed();
        probe.answered(Ok(()));
        assert_eq!(probe.next(&spec(2), next + at(10)), ProbeAction::Write(Ok(()), at(0)));
        assert_eq!(probe.next(&spec(2), next + at(10)), ProbeAction::Ask);
        probe.answered(Ok(()));
        probe.service_changed();
        assert_eq!(probe.next(&spec(2), next + at(11)), ProbeAction::Write(Ok(()), at(0)));
        assert_eq!(probe.next(&spec(2), next + at(11)), ProbeAction::Ask);
    }
}
