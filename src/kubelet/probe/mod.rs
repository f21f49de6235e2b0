//! Probes: their schedule and the meaning of their results (POD-5).
//!
//! The state machines here are pure; [`check`] runs the probes, and `first_probe` those of a program that has just
//! started. Thresholds, the startup gate and the initial results are those of Kubernetes' prober. Times are the steady
//! clock's.

pub(crate) mod check;
pub(super) mod first_probe;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Probe};

use base::clock::saturating_after;

/// The type of a container's probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    /// Its failure restarts the container; its first success lets the other two begin.
    Startup,
    /// Its failure restarts the container.
    Liveness,
    /// Its failure makes the container unready.
    Readiness,
}

impl ProbeKind {
    /// All probes, in the order in which they run.
    pub(crate) const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];

    /// `Liveness`, at the start of event texts.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    /// `liveness`, inside event texts.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
        }
    }

    /// The container's probe of this kind.
    pub(crate) fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    /// The check succeeded.
    Success,
    /// The container responded with a failure or not at all; the text explains it.
    Failure(String),
    /// The probe itself failed: no result.
    Unknown(String),
}

/// One probe of one container attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeState {
    period: Duration,
    success_threshold: u32,
    failure_threshold: u32,
    /// The time of the next probe.
    due: Timestamp,
    in_flight: bool,
    last: Option<bool>,
    run: u32,
    verdict: Option<bool>,
}

impl ProbeState {
    fn new(probe: &Probe, started_at: Timestamp) -> Self {
        let count =
            |field: Option<i32>, default| field.and_then(|n| u32::try_from(n).ok()).unwrap_or(default);
        Self {
            period: Duration::from_secs(u64::from(count(probe.period_seconds, 10).max(1))),
            success_threshold: count(probe.success_threshold, 1).max(1),
            failure_threshold: count(probe.failure_threshold, 3).max(1),
            due: saturating_after(
                started_at,
                Duration::from_secs(u64::from(count(probe.initial_delay_seconds, 0))),
            ),
            in_flight: false,
            last: None,
            run: 0,
            verdict: None,
        }
    }

    /// Takes a result that came at `now`; returns true if the verdict changed.
    fn take(&mut self, outcome: &ProbeOutcome, now: Timestamp) -> bool {
        self.in_flight = false;
        // The next probe follows the schedule, not the response; a slow response skips periods.
        self.due = saturating_after(self.due, self.period);
        if self.due <= now {
            self.due = saturating_after(now, self.period);
        }
        let success = match outcome {
            ProbeOutcome::Success => true,
            ProbeOutcome::Failure(_) => false,
            ProbeOutcome::Unknown(_) => return false,
        };
        if self.last == Some(success) {
            self.run = self.run.saturating_add(1);
        } else {
            (self.last, self.run) = (Some(success), 1);
        }
        let threshold = if success { self.success_threshold } else { self.failure_threshold };
        if self.run < threshold || self.verdict == Some(success) {
            return false;
        }
        self.verdict = Some(success);
        true
    }
}

/// The probes of one container attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbeSet {
    startup: Option<ProbeState>,
    liveness: Option<ProbeState>,
    readiness: Option<ProbeState>,
}

impl ProbeSet {
    /// The probes of a container that started at `started_at`.
    pub(crate) fn new(container: &Container, started_at: Timestamp) -> Self {
        let state = |kind: ProbeKind| kind.of(container).map(|probe| ProbeState::new(probe, started_at));
        Self {
            startup: state(ProbeKind::Startup),
            liveness: state(ProbeKind::Liveness),
            readiness: state(ProbeKind::Readiness),
        }
    }

    /// The probes of a container found running after a restart of the kubelet: the result in its status holds until a
    /// probe reports another (SAFE-7).
    pub(crate) fn adopted(
        container: &Container,
        started_at: Timestamp,
        started: bool,
        ready: bool,
        now: Timestamp,
    ) -> Self {
        let mut set = Self::new(container, started_at);
        for state in [&mut set.startup, &mut set.liveness, &mut set.readiness].into_iter().flatten() {
            state.due = state.due.max(now);
        }
        if let Some(startup) = set.startup.as_mut().filter(|_| started) {
            startup.verdict = Some(true);
        }
        if let Some(readiness) = set.readiness.as_mut().filter(|_| ready) {
            readiness.verdict = Some(true);
        }
        set
    }

    fn state(&self, kind: ProbeKind) -> Option<&ProbeState> {
        match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
        }
    }

    fn state_mut(&mut self, kind: ProbeKind) -> Option<&mut ProbeState> {
        match kind {
            ProbeKind::Startup => self.startup.as_mut(),
            ProbeKind::Liveness => self.liveness.as_mut(),
            ProbeKind::Readiness => self.readiness.as_mut(),
        }
    }

    /// Returns true if the startup probe has succeeded, or there is none.
    pub(crate) fn startup_passed(&self) -> bool {
        self.startup.as_ref().is_none_or(|s| s.verdict == Some(true))
    }

    /// Returns true if the readiness probe succeeds, or there is none.
    pub(crate) fn ready(&self) -> bool {
        self.readiness.as_ref().is_none_or(|s| s.verdict == Some(true))
    }

    /// The failed probe that requires a restart.
    pub(crate) fn failed(&self) -> Option<ProbeKind> {
        [ProbeKind::Startup, ProbeKind::Liveness]
            .into_iter()
            .find(|kind| self.state(*kind).is_some_and(|s| s.verdict == Some(false)))
    }

    /// Returns the probes due at `now`, and the time at which the next one after them is due.
    pub(crate) fn due(&self, now: Timestamp) -> (Vec<ProbeKind>, Option<Timestamp>) {
        let mut due = Vec::new();
        let mut next: Option<Timestamp> = None;
        for kind in ProbeKind::ALL {
            let Some(state) = self.state(kind) else { continue };
            let gate_open = match kind {
                ProbeKind::Startup => state.verdict.is_none(),
                ProbeKind::Liveness | ProbeKind::Readiness => self.startup_passed(),
            };
            if !gate_open || state.in_flight {
                continue;
            }
            if state.due <= now {
                due.push(kind);
            } else {
                next = Some(next.map_or(state.due, |n| n.min(state.due)));
            }
        }
        (due, next)
    }

    /// Marks this probe as in flight.
    pub(crate) fn probe_started(&mut self, kind: ProbeKind) {
        if let Some(state) = self.state_mut(kind) {
            state.in_flight = true;
        }
    }

    /// Takes the result of a probe; returns true if its verdict changed.
    pub(crate) fn answered(&mut self, kind: ProbeKind, outcome: &ProbeOutcome, now: Timestamp) -> bool {
        let changed = self.state_mut(kind).is_some_and(|state| state.take(outcome, now));
        if changed && kind == ProbeKind::Startup && self.startup_passed() {
            // The startup probe succeeded: the probes it held back do not wait a whole period.
            for state in [&mut self.liveness, &mut self.readiness].into_iter().flatten() {
                state.due = state.due.max(now);
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn probe(initial: i32, period: i32, successes: i32, failures: i32) -> Probe {
        Probe {
            initial_delay_seconds: Some(initial),
            period_seconds: Some(period),
            success_threshold: Some(successes),
            failure_threshold: Some(failures),
            ..Probe::default()
        }
    }

    /// Runs each due probe with the next letter as its result: `+`, `-` or `?`. Returns `second:verdict` for each
    /// result of the readiness probe.
    fn run(probe: Probe, answers: &str) -> String {
        let container = Container { readiness_probe: Some(probe), ..Container::default() };
        let mut set = ProbeSet::new(&container, at(0));
        let mut now = at(0);
        let mut verdicts = Vec::new();
        for answer in answers.chars() {
            loop {
                let (due, next) = set.due(now);
                if !due.is_empty() {
                    break;
                }
                now = next.unwrap();
            }
            let outcome = match answer {
                '+' => ProbeOutcome::Success,
                '-' => ProbeOutcome::Failure("no".into()),
                _ => ProbeOutcome::Unknown("?".into()),
            };
            set.probe_started(ProbeKind::Readiness);
            set.answered(ProbeKind::Readiness, &outcome, now);
            verdicts.push(format!("{}:{}", now.as_second(), if set.ready() { "ready" } else { "not" }));
        }
        verdicts.join(" ")
    }

    #[test]
    fn readiness_follows_its_numbers_pod_5() {
        for (probe, answers, expected) in [
            (probe(0, 10, 1, 3), "+", "0:ready"),
            (probe(5, 2, 1, 1), "-+-", "5:not 7:ready 9:not"),
            (probe(0, 1, 2, 3), "+-++", "0:not 1:not 2:not 3:ready"),
            (probe(0, 1, 1, 3), "+--+---", "0:ready 1:ready 2:ready 3:ready 4:ready 5:ready 6:not"),
            (probe(0, 1, 1, 2), "+-?-", "0:ready 1:ready 2:ready 3:not"),
        ] {
            assert_eq!(run(probe, answers), expected, "{answers}");
        }
    }

    #[test]
    fn startup_gates_the_others_and_ends_with_its_first_success_pod_5() {
        let container = Container {
            startup_probe: Some(probe(0, 5, 1, 2)),
            liveness_probe: Some(probe(0, 10, 1, 1)),
            readiness_probe: Some(probe(0, 10, 1, 1)),
            ..Container::default()
        };
        let mut set = ProbeSet::new(&container, at(0));
        assert_eq!(set.due(at(0)), (vec![ProbeKind::Startup], None));
        set.probe_started(ProbeKind::Startup);
        assert_eq!(set.due(at(0)), (vec![], None), "one asking at a time");
        set.answered(ProbeKind::Startup, &ProbeOutcome::Failure("x".into()), at(0));
        assert_eq!((set.failed(), set.due(at(1))), (None, (vec![], Some(at(5)))));
        set.answered(ProbeKind::Startup, &ProbeOutcome::Success, at(5));
        assert_eq!(set.due(at(5)).0, [ProbeKind::Liveness, ProbeKind::Readiness]);
        set.answered(ProbeKind::Liveness, &ProbeOutcome::Failure("x".into()), at(5));
        assert_eq!(set.failed(), Some(ProbeKind::Liveness));

        let mut never = ProbeSet::new(&container, at(0));
        never.answered(ProbeKind::Startup, &ProbeOutcome::Failure("x".into()), at(0));
        never.answered(ProbeKind::Startup, &ProbeOutcome::Failure("x".into()), at(5));
        assert_eq!(never.failed(), Some(ProbeKind::Startup));
        assert_eq!(never.due(at(60)), (vec![], None), "a failed startup probe waits for the restart");
    }

    #[test]
    fn an_adopted_container_keeps_its_readiness_safe_7() {
        let container = Container { readiness_probe: Some(probe(0, 1, 1, 1)), ..Container::default() };
        let mut set = ProbeSet::adopted(&container, at(0), true, true, at(100));
        assert!(set.ready() && set.due(at(99)).0.is_empty());
        set.answered(ProbeKind::Readiness, &ProbeOutcome::Failure("x".into()), at(100));
        assert!(!set.ready());
    }
}
