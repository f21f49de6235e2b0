//! Advances a scenario by its observations, purely: the status is the only state.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::score::{score, times};
use base::clock::{saturating_after, since};
use extension::scenario::{
    READY_LIMIT, Scenario, ScenarioCheck, ScenarioCheckStatus, ScenarioPhase, ScenarioSpec, ScenarioStatus,
};
use object::time::go_duration;

#[derive(Debug, Default)]
pub(super) struct ScenarioObservation {
    /// The results of the checks that count in this phase; or the errors of their evaluation.
    pub(super) checks: Vec<Result<bool, String>>,
    /// The first action of a client outside the control plane since the trouble began.
    pub(super) action: Option<(Timestamp, String)>,
    /// The error of an expression that does not compile.
    pub(super) invalid_expression: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    /// Only observe again.
    Wait,
    /// Create the setup object with this index.
    SetUp(usize),
    /// The scenario's objects are ready: look up the variables, and begin the scenario ([`begin`]).
    Begin,
    /// The step with this index is due.
    Step(usize),
    /// The scenario is over: end its faults, and remove the objects that it has created.
    CleanUp,
}

/// The checks that count in a phase.
pub(super) fn checks_of(scenario: &Scenario) -> &[ScenarioCheck] {
    match scenario.phase() {
        ScenarioPhase::Preparing => &scenario.spec.ready,
        ScenarioPhase::Running => &scenario.spec.check,
        _ => &[],
    }
}

/// Returns the scenario's new status and the next action. If the phase has changed, the status must be written before
/// the action.
pub(super) fn next(
    scenario: &Scenario,
    observed: &ScenarioObservation,
    now: Timestamp,
) -> (ScenarioStatus, NextAction) {
    let spec = &scenario.spec;
    let mut status = scenario.status.clone().unwrap_or_default();
    if !status.phase.has_ended() && spec.stop == Some(true) {
        fail(spec, &mut status, "GivenUp", "the scenario was given up", now);
        return (status, NextAction::Wait);
    }
    if status.phase == ScenarioPhase::Pending
        && let Some(error) = &observed.invalid_expression
    {
        fail(spec, &mut status, "InvalidExpression", error, now);
        return (status, NextAction::Wait);
    }
    let act = match status.phase {
        ScenarioPhase::Pending => {
            status.phase = ScenarioPhase::Preparing;
            status.prepared_at = Some(Time(now));
            status.message = Some("creating the objects of the scenario".into());
            NextAction::Wait
        }
        ScenarioPhase::Preparing => prepare(spec, &mut status, observed, now),
        ScenarioPhase::Running => play(spec, &mut status, observed, now),
        ScenarioPhase::Passed | ScenarioPhase::Failed if status.cleaned => NextAction::Wait,
        ScenarioPhase::Passed | ScenarioPhase::Failed => NextAction::CleanUp,
    };
    (status, act)
}

/// Marks a scenario as running from now on, with the briefing in which variables are replaced.
pub(super) fn begin(spec: &ScenarioSpec, status: &mut ScenarioStatus, briefing: String, now: Timestamp) {
    status.phase = ScenarioPhase::Running;
    status.started_at = Some(Time(now));
    status.briefing = Some(briefing).filter(|text| !text.is_empty());
    status.message = None;
    status.checks = Vec::new();
    if spec.steps.is_empty() {
        status.troubled_at = Some(Time(now));
    }
}

/// Resets the time for which each check has held, after a time in which scenarios were not observed: a check may have
/// failed in between. Returns true if there was anything to reset.
pub(super) fn resume(status: &mut ScenarioStatus) -> bool {
    let mut counted = false;
    for check in &mut status.checks {
        counted |= check.since.take().is_some();
    }
    counted
}

/// Records that the step with this index was executed; the first one begins the trouble.
pub(super) fn step_done(status: &mut ScenarioStatus, index: usize, now: Timestamp) {
    status.steps_done = i32::try_from(index + 1).unwrap_or(i32::MAX);
    status.troubled_at.get_or_insert(Time(now));
}

/// Marks a scenario as failed, with a score of 0.
pub(super) fn fail(
    spec: &ScenarioSpec,
    status: &mut ScenarioStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let text = spec.verdict.as_ref().map(|verdict| verdict.failed.trim()).unwrap_or_default();
    // The explanation of the failure does not apply to a scenario that never began.
    let text = if status.started_at.is_some() { text } else { "" };
    status.phase = ScenarioPhase::Failed;
    status.reason = Some(reason.into());
    status.message = Some(if text.is_empty() { message.to_owned() } else { format!("{message}. {text}") });
    status.ended_at = Some(Time(now));
    status.score = Some(0);
}

fn pass(spec: &ScenarioSpec, status: &mut ScenarioStatus, now: Timestamp) {
    status.phase = ScenarioPhase::Passed;
    status.reason = Some("Repaired".into());
    status.ended_at = Some(Time(now));
    let (sum, points) = score(spec, status);
    (status.score, status.points) = (Some(sum), points);
    let (noticed, repaired) = times(status);
    let display = |time: Option<Duration>| time.map(go_duration).unwrap_or_default();
    let mut message = format!("noticed after {}, repaired after {}", display(noticed), display(repaired));
    if let Some(text) =
        spec.verdict.as_ref().map(|verdict| verdict.passed.trim()).filter(|text| !text.is_empty())
    {
        message = format!("{message}. {text}");
    }
    status.message = Some(message);
}

fn prepare(
    spec: &ScenarioSpec,
    status: &mut ScenarioStatus,
    observed: &ScenarioObservation,
    now: Timestamp,
) -> NextAction {
    let prepared = status.prepared_at.get_or_insert(Time(now)).0;
    let done = usize::try_from(status.setup_done).unwrap_or(0);
    let is_late = since(now, prepared) >= READY_LIMIT;
    if done < spec.setup.len() {
        if is_late {
            let message = status.message.clone().unwrap_or_default();
            let message = format!(
                "cannot create the scenario's objects within {}: {message}",
                go_duration(READY_LIMIT)
            );
            fail(spec, status, "NotReady", &message, now);
            return NextAction::Wait;
        }
        return NextAction::SetUp(done);
    }
    status.checks = update_checks(&spec.ready, &status.checks, observed, true, now);
    if status.checks.iter().all(|check| check.settled) {
        return NextAction::Begin;
    }
    let waits: Vec<String> =
        status.checks.iter().filter(|check| !check.settled).map(describe_check).collect();
    if is_late {
        let message =
            format!("the scenario was not ready within {}: {}", go_duration(READY_LIMIT), waits.join("; "));
        fail(spec, status, "NotReady", &message, now);
    } else {
        status.message = Some(format!("waiting for {}", waits.join("; ")));
    }
    NextAction::Wait
}

/// Describes a check with the reason why it does not hold.
fn describe_check(check: &ScenarioCheckStatus) -> String {
    match &check.message {
        Some(message) => format!("{} ({message})", check.name),
        None => check.name.clone(),
    }
}

fn play(
    spec: &ScenarioSpec,
    status: &mut ScenarioStatus,
    observed: &ScenarioObservation,
    now: Timestamp,
) -> NextAction {
    let most = i32::try_from(spec.hints.len()).unwrap_or(i32::MAX);
    status.hints_shown = spec.hints_requested.unwrap_or_default().clamp(0, most).max(status.hints_shown);
    status.checks = update_checks(&spec.check, &status.checks, observed, status.troubled_at.is_some(), now);
    let of = |kind: &str| status.checks.iter().filter(move |check| check.kind == kind).collect::<Vec<_>>();
    if let Some(broken) = of("Always").into_iter().find(|check| check.settled) {
        let message = format!("a check that must always hold does not hold: {}", describe_check(broken));
        fail(spec, status, "Broken", &message, now);
        return NextAction::Wait;
    }
    let started = status.started_at.get_or_insert(Time(now)).0;
    let done = usize::try_from(status.steps_done).unwrap_or(0);
    if let Some(step) = spec.steps.get(done)
        && now >= saturating_after(started, step.at())
    {
        return NextAction::Step(done);
    }
    if let Some(troubled) = status.troubled_at.as_ref().map(|at| at.0) {
        let all = |kind: &str| of(kind).iter().all(|check| check.settled);
        let has_detect = !of("Detect").is_empty();
        let noticed = if has_detect {
            all("Detect").then(|| (now, "the Detect checks".to_owned()))
        } else {
            observed.action.clone()
        };
        let repaired = done >= spec.steps.len() && all("Trouble") && all("Detect") && all("Repair");
        let whole = of("Repair").iter().filter_map(|check| Some(check.since.as_ref()?.0)).max();
        if let Some((at, by)) = noticed.filter(|_| status.detected_at.is_none()) {
            status.detected_at = Some(Time(at.clamp(troubled, now)));
            status.detected_by = Some(by);
        }
        if repaired {
            let at = whole.unwrap_or(now).clamp(troubled, now);
            status.repaired_at = Some(Time(at));
            // A client that removes a field leaves no entry in the managed fields, so the repair itself may be the
            // first action that is observed.
            if status.detected_at.is_none() {
                status.detected_at = Some(Time(at));
                status.detected_by = Some("the repair".into());
            }
            pass(spec, status, now);
            return NextAction::Wait;
        }
    }
    if since(now, started) >= spec.time_limit() {
        let open: Vec<String> = status
            .checks
            .iter()
            .filter(|check| check.kind != "Always" && !check.settled)
            .map(describe_check)
            .collect();
        let message = format!(
            "the time limit of {} was reached without {}",
            go_duration(spec.time_limit()),
            open.join("; ")
        );
        fail(spec, status, "TimeOver", &message, now);
    }
    NextAction::Wait
}

/// Updates the checks' statuses by the observations. Before the trouble begins (`counts` is false) only checks of the
/// kind `Always` count.
fn update_checks(
    checks: &[ScenarioCheck],
    previous: &[ScenarioCheckStatus],
    observed: &ScenarioObservation,
    counts: bool,
    now: Timestamp,
) -> Vec<ScenarioCheckStatus> {
    let one = |(index, check): (usize, &ScenarioCheck)| {
        let (holds, message) = match observed.checks.get(index) {
            Some(Ok(holds)) => (*holds, None),
            Some(Err(why)) => (false, Some(why.clone())),
            None => (false, Some("not evaluated".to_owned())),
        };
        let before = previous.iter().find(|before| before.name == check.name && before.kind == check.kind());
        let is_always = check.kind() == "Always";
        let counts = counts || is_always;
        let since_when = match before {
            Some(before) if before.holds == holds && counts => before.since.as_ref().map_or(now, |at| at.0),
            _ => now,
        };
        let is_due = since(now, since_when) >= check.hold_duration();
        // A check that was settled stays settled, except a `Repair`, which has to hold at the end.
        let stays = before.is_some_and(|before| before.settled) && check.kind() != "Repair";
        ScenarioCheckStatus {
            name: check.name.clone(),
            kind: check.kind().to_owned(),
            holds,
            since: counts.then_some(Time(since_when)),
            settled: stays && check.kind() != "Ready" || counts && is_due && holds != is_always,
            message,
        }
    };
    checks.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn scenario(spec: &Value) -> Scenario {
        serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap()
    }

    fn check(name: &str, kind: &str, duration: &str) -> Value {
        json!({"name": name, "kind": kind, "object": {"apiVersion": "v1", "kind": "Pod"}, "holds": "true", "for": duration})
    }

    /// Plays a scenario: at each of these seconds the checks have these results. Due steps are done at once. Returns
    /// the last status.
    fn played(scenario: &mut Scenario, looks: &[(i64, &[bool])], action: Option<i64>) -> ScenarioStatus {
        for (second, checks) in looks {
            let now = at(*second);
            loop {
                let seen = ScenarioObservation {
                    checks: checks.iter().map(|holds| Ok(*holds)).collect(),
                    action: action.filter(|when| when <= second).map(|when| (at(when), "a user".to_owned())),
                    invalid_expression: None,
                };
                let (mut status, act) = next(scenario, &seen, now);
                match act {
                    NextAction::Begin => begin(&scenario.spec, &mut status, "go".into(), now),
                    NextAction::Step(index) => step_done(&mut status, index, now),
                    NextAction::SetUp(index) => status.setup_done = i32::try_from(index).unwrap() + 1,
                    NextAction::Wait | NextAction::CleanUp => {}
                }
                let is_same = scenario.status.as_ref() == Some(&status);
                scenario.status = Some(status);
                if is_same || act == NextAction::CleanUp {
                    break;
                }
            }
        }
        scenario.status.clone().unwrap()
    }

    /// A scenario with trouble at 10 s and two checks: the trouble is visible; the repair holds for 5 s.
    fn ordinary() -> Scenario {
        scenario(&json!({"title": "t", "timeLimit": "5m", "steps": [{"at": "10s", "heal": "x"}],
            "check": [check("shows", "Trouble", "0s"), check("well", "Repair", "5s")],
            "verdict": {"passed": "Well done", "failed": "Try again"}}))
    }

    #[test]
    fn nothing_is_repaired_before_the_trouble_has_shown_fault_2() {
        let mut one = ordinary();
        let looks: &[(i64, &[bool])] =
            &[(0, &[false, true]), (9, &[true, true]), (30, &[false, true]), (35, &[false, true])];
        let status = played(&mut one, looks, None);
        assert_eq!((status.phase, status.steps_done), (ScenarioPhase::Running, 1));
        assert!(!status.checks[0].settled, "a symptom before the trouble does not count");
        assert!(status.checks[1].settled && status.repaired_at.is_none());
        let looks: &[(i64, &[bool])] =
            &[(40, &[true, false]), (50, &[false, true]), (54, &[false, true]), (55, &[false, true])];
        let status = played(&mut one, looks, Some(45));
        assert_eq!(status.phase, ScenarioPhase::Passed);
        let seconds = |time: Option<Time>| time.map(|time| time.0.as_second() - at(0).as_second());
        assert_eq!(
            (
                seconds(status.troubled_at),
                seconds(status.detected_at),
                seconds(status.repaired_at),
                seconds(status.ended_at)
            ),
            (Some(30), Some(45), Some(50), Some(55)),
            "it was repaired when it began to be well"
        );
        assert_eq!(status.score, Some(100));
        assert_eq!(status.message.as_deref(), Some("noticed after 15s, repaired after 20s. Well done"));
    }

    #[test]
    fn a_repair_check_must_stay_true_until_the_time_limit_fails_it_fault_2() {
        let mut one = ordinary();
        let looks: &[(i64, &[bool])] =
            &[(0, &[false, true]), (10, &[true, false]), (20, &[true, true]), (24, &[true, false])];
        assert_eq!(played(&mut one, looks, None).phase, ScenarioPhase::Running);
        let status = played(&mut one, &[(299, &[true, false])], None);
        assert_eq!(status.phase, ScenarioPhase::Running);
        let status = played(&mut one, &[(300, &[true, false])], None);
        assert_eq!(
            (status.phase, status.reason.as_deref(), status.score),
            (ScenarioPhase::Failed, Some("TimeOver"), Some(0))
        );
        assert_eq!(
            status.message.as_deref(),
            Some("the time limit of 5m0s was reached without well. Try again")
        );
        // An ended scenario does not change.
        assert_eq!(played(&mut one, &[(400, &[true, true])], None), status);
    }

    #[test]
    fn an_always_check_tolerates_failures_up_to_its_duration_fault_2() {
        let spec = json!({"title": "t", "check": [check("up", "Always", "3s"), check("well", "Repair", "0s"),
            check("shows", "Trouble", "0s")]});
        let mut one = scenario(&spec);
        let looks: &[(i64, &[bool])] = &[
            (0, &[true, false, false]),
            (1, &[false, false, false]),
            (3, &[false, false, false]),
            (4, &[true, false, false]),
            (6, &[false, false, false]),
        ];
        assert_eq!(played(&mut one, looks, None).phase, ScenarioPhase::Running);
        let status = played(&mut one, &[(9, &[false, true, true])], None);
        assert_eq!((status.phase, status.reason.as_deref()), (ScenarioPhase::Failed, Some("Broken")));
    }

    /// The control plane does not run from the 15th to the 100th second.
    #[test]
    fn unobserved_time_does_not_count_for_checks_fault_2() {
        let spec = json!({"title": "t", "timeLimit": "5m", "steps": [{"at": "10s", "heal": "x"}],
            "check": [check("shows", "Trouble", "0s"), check("well", "Repair", "30s"), check("up", "Always", "20s")]});
        let mut one = scenario(&spec);
        let looks: &[(i64, &[bool])] =
            &[(0, &[false, true, true]), (10, &[true, true, true]), (14, &[false, true, false])];
        played(&mut one, looks, None);
        assert!(resume(one.status.as_mut().unwrap()));
        let status = played(&mut one, &[(100, &[false, true, false])], None);
        assert_eq!(status.phase, ScenarioPhase::Running, "neither well for 30 s nor broken for 20 s");
        assert!(status.checks[0].settled, "the trouble was seen");
        let status = played(&mut one, &[(110, &[false, true, true]), (130, &[false, true, true])], None);
        assert_eq!(status.phase, ScenarioPhase::Passed);
        let repaired = status.repaired_at.map(|time| time.0.as_second() - at(0).as_second());
        assert_eq!(repaired, Some(100), "it is not known to have been well before");
        assert!(!resume(&mut ScenarioStatus::default()));
    }

    #[test]
    fn a_check_may_say_when_it_was_noticed_fault_2() {
        let spec =
            json!({"title": "t", "check": [check("alert", "Detect", "0s"), check("well", "Repair", "0s")]});
        let mut one = scenario(&spec);
        let looks: &[(i64, &[bool])] = &[(0, &[false, true]), (20, &[true, false]), (60, &[false, true])];
        let status = played(&mut one, looks, Some(1));
        let seconds = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second() - at(0).as_second());
        assert_eq!((status.phase, seconds(&status.detected_at)), (ScenarioPhase::Passed, Some(20)));
        assert_eq!(status.detected_by.as_deref(), Some("the Detect checks"));
    }

    #[test]
    fn a_scenario_that_is_not_ready_in_time_fails_fault_2() {
        let ready =
            json!({"name": "r", "object": {"apiVersion": "v1", "kind": "Pod"}, "holds": "true", "for": "2s"});
        let spec = json!({"title": "t", "setup": [{}, {}], "ready": [ready], "check": [check("well", "Repair", "2s")]});
        let mut one = scenario(&spec);
        let status = played(&mut one, &[(0, &[false]), (1, &[true]), (2, &[true])], None);
        assert_eq!((status.phase, status.setup_done), (ScenarioPhase::Preparing, 2));
        assert_eq!(status.message.as_deref(), Some("waiting for r"));
        assert_eq!(played(&mut one, &[(3, &[true])], None).phase, ScenarioPhase::Running);
        let mut late = scenario(&spec);
        let status = played(&mut late, &[(0, &[false]), (300, &[false])], None);
        assert_eq!((status.phase, status.reason.as_deref()), (ScenarioPhase::Failed, Some("NotReady")));
    }

    #[test]
    fn a_scenario_with_an_expression_that_does_not_compile_does_not_begin_fault_2() {
        let one = ordinary();
        let invalid_expression = Some("spec.check[0].holds: undeclared reference".to_owned());
        let observed = ScenarioObservation { invalid_expression, ..ScenarioObservation::default() };
        let (status, act) = next(&one, &observed, at(0));
        assert_eq!((status.phase, act), (ScenarioPhase::Failed, NextAction::Wait));
        assert_eq!(status.reason.as_deref(), Some("InvalidExpression"));
        assert_eq!(status.message.as_deref(), Some("spec.check[0].holds: undeclared reference"));
    }

    #[test]
    fn giving_up_fails_in_any_phase_and_hints_appear_on_request_fault_2() {
        let mut one = ordinary();
        one.spec.hints = vec!["a".into(), "b".into()];
        one.spec.hints_requested = Some(9);
        let status = played(&mut one, &[(0, &[false, true])], None);
        assert_eq!(status.hints_shown, 2);
        one.spec.stop = Some(true);
        let status = played(&mut one, &[(1, &[false, true])], None);
        assert_eq!((status.phase, status.reason.as_deref()), (ScenarioPhase::Failed, Some("GivenUp")));
        let (_, act) = next(&one, &ScenarioObservation::default(), at(2));
        assert_eq!(act, NextAction::CleanUp);
        let mut fresh = ordinary();
        fresh.spec.stop = Some(true);
        assert_eq!(
            played(&mut fresh, &[(0, &[])], None).message.as_deref(),
            Some("the scenario was given up")
        );
    }
}
