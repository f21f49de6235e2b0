//! What is new of a scenario since it was looked at last, line by line: pure.

use std::time::Duration;

use base::clock::since;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use object::scenario::{Scenario, ScenarioPhase, ScenarioStatus};
use object::time::go_duration;

/// The lines that say what has changed; all there is to say where nothing was known.
pub(super) fn news(before: Option<&ScenarioStatus>, scenario: &Scenario) -> Vec<String> {
    let (nothing, spec) = (ScenarioStatus::default(), &scenario.spec);
    let before = before.unwrap_or(&nothing);
    let Some(now) = &scenario.status else { return Vec::new() };
    let mut lines = Vec::new();
    if now.phase != before.phase {
        match now.phase {
            ScenarioPhase::Preparing => lines.push(format!("{}: it is prepared …", spec.title)),
            ScenarioPhase::Running => {
                lines.extend(now.briefing.iter().map(|text| format!("\n{}\n", text.trim())));
                lines.push(format!("It begins; there are {}.", go_duration(spec.time_limit())));
            }
            ScenarioPhase::Pending | ScenarioPhase::Passed | ScenarioPhase::Failed => {}
        }
    }
    if now.phase == ScenarioPhase::Preparing && now.message != before.message {
        lines.extend(now.message.clone());
    }
    if now.troubled_at.is_some() && before.troubled_at.is_none() {
        lines.push(at(now, now.troubled_at.as_ref(), "the trouble has begun"));
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
        lines.push(at(now, now.detected_at.as_ref(), &format!("it was noticed: {by}")));
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

/// What is said at the end.
fn verdict(scenario: &Scenario, status: &ScenarioStatus) -> Vec<String> {
    let phase = if status.phase == ScenarioPhase::Passed { "Passed" } else { "Failed" };
    let score = status.score.unwrap_or_default();
    let mut lines = vec![format!("\n{phase}: {}, {score} of 100", scenario.spec.title)];
    for part in &status.points {
        let why = part.message.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let of = if part.most > 0 { format!(" of {}", part.most) } else { String::new() };
        lines.push(format!("  {:>4}{of} {}{why}", part.points, part.name));
    }
    lines.extend(status.message.clone());
    lines
}

/// A line with how long after the beginning that was.
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
    fn what_is_new_is_told_once_fault_2() {
        let of = |status: Value| -> Scenario {
            serde_json::from_value(json!({"metadata": {"name": "s"},
                "spec": {"title": "A drill", "hints": ["look", "act"], "timeLimit": "5m"}, "status": status}))
            .unwrap()
        };
        let check = |holds: bool| json!([{"name": "well", "kind": "Repair", "holds": holds, "since": "2026-11-21T00:00:30Z"}]);
        let start = "2026-11-21T00:00:00Z";
        let stages = [
            (
                json!({"phase": "Preparing", "message": "waits for a"}),
                "A drill: it is prepared …|waits for a",
            ),
            (
                json!({"phase": "Running", "briefing": "Go.", "startedAt": start, "checks": check(false)}),
                "\nGo.\n|It begins; there are 5m0s.",
            ),
            (
                json!({"phase": "Running", "briefing": "Go.", "startedAt": start, "troubledAt": "2026-11-21T00:00:05Z",
                    "checks": check(false), "hintsShown": 1}),
                "    5s  the trouble has begun|hint 1 of 2: look",
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
