//! Formats the changes of a scenario since the last poll, line by line: pure.

use std::time::Duration;

use base::clock::since;
use extension::scenario::{Scenario, ScenarioPhase, ScenarioRun, ScenarioRuns, ScenarioStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use object::time::go_duration;

/// Returns the lines for all changes since the status `before`; for the whole status if there is no earlier one.
pub(super) fn news(before: Option<&ScenarioStatus>, scenario: &Scenario) -> Vec<String> {
    let (nothing, spec) = (ScenarioStatus::default(), &scenario.spec);
    let before = before.unwrap_or(&nothing);
    let Some(now) = &scenario.status else { return Vec::new() };
    let mut lines = Vec::new();
    if now.phase != before.phase {
        match now.phase {
            ScenarioPhase::Preparing => lines.push(format!("{}: preparing …", spec.title)),
            ScenarioPhase::Running => {
                lines.extend(now.briefing.iter().map(|text| format!("\n{}\n", text.trim())));
                lines.push(format!("Started; the time limit is {}.", go_duration(spec.time_limit())));
            }
            ScenarioPhase::Pending | ScenarioPhase::Passed | ScenarioPhase::Failed => {}
        }
    }
    if now.phase == ScenarioPhase::Preparing && now.message != before.message {
        lines.extend(now.message.clone());
    }
    if now.troubled_at.is_some() && before.troubled_at.is_none() {
        lines.push(at(now, now.troubled_at.as_ref(), "the trouble started"));
    }
    for check in &now.checks {
        let known = before.checks.iter().find(|known| known.name == check.name && known.kind == check.kind);
        if now.started_at.is_none() || known.is_none() && !check.holds {
            continue;
        }
        if known.is_none_or(|known| known.holds != check.holds) {
            let holds = if check.holds { "holds" } else { "does not hold" };
            let line = format!("{} ({}) {holds}", check.name, check.kind.to_lowercase());
            lines.push(at(now, check.since.as_ref(), &line));
        }
    }
    if let (Some(by), None) = (&now.detected_by, &before.detected_at) {
        lines.push(at(now, now.detected_at.as_ref(), &format!("noticed: {by}")));
    }
    let hint = |number: i32| usize::try_from(number).ok().and_then(|number| spec.hints.get(number));
    for number in before.hints_shown..now.hints_shown {
        lines.extend(hint(number).map(|text| format!("hint {} of {}: {text}", number + 1, spec.hints.len())));
    }
    if now.phase.has_ended() && !before.phase.has_ended() {
        lines.extend(verdict(scenario, now));
    }
    lines
}

/// The lines at the end of a scenario.
fn verdict(scenario: &Scenario, status: &ScenarioStatus) -> Vec<String> {
    let phase = if status.phase == ScenarioPhase::Passed { "Passed" } else { "Failed" };
    let score = status.score.unwrap_or_default();
    let mut lines = vec![format!("\n{phase}: {}, {score} of 100", scenario.spec.title)];
    for part in &status.points {
        let reason = part.message.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let of = if part.most > 0 { format!(" of {}", part.most) } else { String::new() };
        lines.push(format!("  {:>4}{of} {}{reason}", part.points, part.name));
    }
    lines.extend(status.message.clone());
    lines
}

/// Compares a run that has ended with earlier runs; `None` if it never started.
pub(super) fn compared(scenario: &Scenario, runs: Option<&ScenarioRuns>) -> Option<String> {
    let run = ScenarioRun::of(scenario)?;
    let earlier = runs.and_then(|runs| runs.best_before(&run));
    let describe = |best: &ScenarioRun| format!("{}, on {}", best.summary(), best.date());
    let compared = match earlier {
        None => "the first run".to_owned(),
        Some(best) if run.is_better_than(best) => format!("a new best (the best before: {})", describe(best)),
        Some(best) if best.is_better_than(&run) => format!("the best is still {}", describe(best)),
        Some(best) => format!("equal to the best so far, {}", describe(best)),
    };
    Some(format!("This run: {}; {compared}.", run.summary()))
}

/// Prefixes a line with the time from the scenario's start to `when`.
fn at(status: &ScenarioStatus, when: Option<&Time>, line: &str) -> String {
    match (when, &status.started_at) {
        (Some(when), Some(started)) => {
            let after = Duration::from_secs(since(when.0, started.0).as_secs());
            format!("{:>6}  {line}", go_duration(after))
        }
        _ => format!("        {line}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_run_is_compared_with_the_best_before_it_fault_2() {
        let of = |uid: &str, hour: usize, score: i32, hints: i32| -> Scenario {
            let phase = if score > 0 { "Passed" } else { "Failed" };
            let at = |second: usize| format!("2026-11-21T{hour:02}:00:{second:02}Z");
            serde_json::from_value(json!({"metadata": {"name": "s", "uid": uid}, "spec": {"title": "t"},
                "status": {"phase": phase, "startedAt": at(0), "troubledAt": at(0), "repairedAt": at(30),
                    "endedAt": at(40), "score": score, "hintsShown": hints}}))
            .unwrap()
        };
        let mut runs = ScenarioRuns::default();
        for (one, expected) in [
            (of("a", 1, 0, 0), "This run: failed; the first run."),
            (
                of("b", 2, 70, 1),
                "This run: 70 of 100, with 1 hint; a new best (the best before: failed, on 2026-11-21 01:00 UTC).",
            ),
            (
                of("c", 3, 60, 0),
                "This run: 60 of 100; the best is still 70 of 100, with 1 hint, on 2026-11-21 02:00 UTC.",
            ),
            (
                of("d", 4, 70, 1),
                "This run: 70 of 100, with 1 hint; equal to the best so far, 70 of 100, with 1 hint, on \
                 2026-11-21 02:00 UTC.",
            ),
        ] {
            runs.add(ScenarioRun::of(&one).unwrap());
            assert_eq!(compared(&one, Some(&runs)).unwrap(), expected);
        }
        let never: Scenario =
            serde_json::from_value(json!({"metadata": {"uid": "n"}, "spec": {"title": "t"}})).unwrap();
        assert_eq!(compared(&never, Some(&runs)), None);
    }

    #[test]
    fn progress_of_a_drill_is_printed_once_fault_2() {
        let of = |status: Value| -> Scenario {
            serde_json::from_value(json!({"metadata": {"name": "s"},
                "spec": {"title": "A drill", "hints": ["look", "act"], "timeLimit": "5m"}, "status": status}))
            .unwrap()
        };
        let check = |holds: bool| json!([{"name": "well", "kind": "Repair", "holds": holds, "since": "2026-11-21T00:00:30Z"}]);
        let start = "2026-11-21T00:00:00Z";
        let stages = [
            (json!({"phase": "Preparing", "message": "waits for a"}), "A drill: preparing …|waits for a"),
            (
                json!({"phase": "Running", "briefing": "Go.", "startedAt": start, "checks": check(false)}),
                "\nGo.\n|Started; the time limit is 5m0s.",
            ),
            (
                json!({"phase": "Running", "briefing": "Go.", "startedAt": start, "troubledAt": "2026-11-21T00:00:05Z",
                    "checks": check(false), "hintsShown": 1}),
                "    5s  the trouble started|hint 1 of 2: look",
            ),
            (
                json!({"phase": "Passed", "startedAt": start, "troubledAt": "2026-11-21T00:00:05Z", "checks": check(true),
                    "hintsShown": 1, "score": 88, "message": "Well.", "points": [
                        {"name": "repaired", "points": 40, "most": 40}, {"name": "hints", "points": -10, "most": 0, "message": "1"}]}),
                "   30s  well (repair) holds|\nPassed: A drill, 88 of 100|    40 of 40 repaired|   -10 hints (1)|Well.",
            ),
        ];
        let mut before = None;
        for (status, expected) in stages {
            let scenario = of(status);
            assert_eq!(news(before.as_ref(), &scenario).join("|"), expected);
            assert_eq!(news(scenario.status.as_ref(), &scenario), Vec::<String>::new());
            before = scenario.status;
        }
    }
}
