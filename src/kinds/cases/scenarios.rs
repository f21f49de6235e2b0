//! Scenarios.

use super::*;

/// A valid check.
const REPAIR: &str =
    "{name: c, kind: Repair, object: {apiVersion: v1, kind: Pod, name: p}, holds: object != null}";

fn spec(more: &str) -> String {
    format!("spec: {{title: t, check: [{REPAIR}], {more}}}")
}

#[test]
fn errors_of_a_scenario_name_the_field_fault_2() {
    let object = "object: {apiVersion: v1, kind: Pod}";
    let right = spec(
        "briefing: b, hints: [a, b], hintsAsked: 2, timeLimit: 5m, setup: [{apiVersion: v1, kind: Namespace, metadata: {name: team}}], \
         ready: [{name: r, object: {apiVersion: v1, kind: Node}, holds: objects.size() > 0, for: 1s}], \
         variables: [{name: node, object: {apiVersion: v1, kind: Pod}, value: 'objects[0].spec.nodeName'}], \
         steps: [{at: 0s, fault: {name: f, spec: {type: Crash}}}, {at: 5s, heal: f}, \
         {at: 5s, delete: [{apiVersion: v1, kind: Pod, name: p}]}]",
    );
    let table: &[(String, &[&str])] = &[
        (right, &[]),
        (
            "spec: {}".into(),
            &[
                "spec.title: Required value",
                "spec.check: Required value: must have a check of kind Repair: the scenario cannot be passed without one",
            ],
        ),
        (spec("timeLimit: 25h"), &["spec.timeLimit: Invalid value: \"25h\": must be at most 24h0m0s"]),
        (
            spec("timeLimit: soon"),
            &["spec.timeLimit: Invalid value: \"soon\": must be a duration such as 30s or 1h30m"],
        ),
        (spec("timeLimit: 0s"), &["spec.timeLimit: Invalid value: must be greater than 0"]),
        (
            spec("hints: [a], hintsAsked: 2"),
            &["spec.hintsAsked: Invalid value: 2: must be between 0 and 1, inclusive"],
        ),
        (
            spec("setup: [{kind: Pod}]"),
            &["spec.setup[0].apiVersion: Required value", "spec.setup[0].metadata.name: Required value"],
        ),
        (
            spec("steps: [{at: 1s}]"),
            &["spec.steps[0]: Required value: must specify exactly one of fault, heal, apply, delete"],
        ),
        (spec("steps: [{at: 1s, heal: x}]"), &["spec.steps[0].heal: Not found: \"x\""]),
        (
            spec("steps: [{at: 9s, fault: {name: a, spec: {}}}, {at: 1s, fault: {name: a, spec: {}}}]"),
            &[
                "spec.steps[1].at: Invalid value: \"1s\": must not be earlier than the previous step",
                "spec.steps[1].fault.name: Duplicate value: \"a\"",
            ],
        ),
        (
            spec("steps: [{at: 11m, fault: {name: a, spec: {}}}]"),
            &["spec.steps[0].at: Invalid value: \"11m\": must be before the time limit"],
        ),
        (
            spec("steps: [{at: 1s, delete: [{apiVersion: v1, kind: Pod}]}]"),
            &["spec.steps[0].delete[0].name: Required value: must specify `name` or `selector`"],
        ),
        (
            spec(&format!("variables: [{{name: 1x, {object}, value: \"'a'\"}}]")),
            &["spec.variables[0].name: Invalid value: \"1x\": must be an identifier such as node"],
        ),
        (
            spec(&format!("ready: [{{name: r, kind: Repair, {object}, holds: 'true'}}]")),
            &["spec.ready[0].kind: Forbidden: may not be set for checks in ready"],
        ),
        (
            spec(&format!(
                "ready: [{{name: r, {object}, with: {{now: {{apiVersion: v1, kind: Pod}}}}, holds: 'true'}}]"
            )),
            &[
                "spec.ready[0].with[now]: Invalid value: \"now\": must be an identifier other than certificates, chosen, now, object and objects",
            ],
        ),
        (
            spec("scoring: {hintCost: 101}"),
            &["spec.scoring.hintCost: Invalid value: 101: must be between 0 and 100, inclusive"],
        ),
    ];
    for (text, expected) in table {
        check(Kind::Scenario, &[(text.as_str(), expected)]);
    }
}

#[test]
fn an_expression_that_cannot_be_read_is_refused_fault_2() {
    for (holds, why) in [
        ("objec.x", "undeclared reference to 'objec'"),
        ("object.", "compilation failed"),
        ("'a'", "must evaluate to a bool"),
    ] {
        let text = format!(
            "spec: {{title: t, check: [{{name: c, kind: Repair, object: {{apiVersion: v1, kind: Pod}}, holds: \"{holds}\"}}]}}"
        );
        let errors = validate_create(&object(Kind::Scenario, &text));
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        assert!(
            error.to_string().starts_with("spec.check[0].holds: Invalid value")
                && error.to_string().contains(why),
            "{error}"
        );
    }
}

#[test]
fn a_player_may_ask_for_hints_and_give_up_and_no_more_fault_2() {
    let text = |more: &str| spec(&format!("hints: [a, b]{more}"));
    let only: &[&str] = &["spec: Forbidden: only hintsAsked and stop can be changed"];
    for (before, after, expected) in [
        ("", ", hintsAsked: 1", &[][..]),
        (", hintsAsked: 1", ", hintsAsked: 2, stop: true", &[]),
        (
            ", hintsAsked: 2",
            ", hintsAsked: 1",
            &["spec.hintsAsked: Forbidden: may not decrease: hints that were shown still count"],
        ),
        (
            ", stop: true",
            "",
            &["spec.stop: Forbidden: may not be unset: a scenario that was given up cannot continue"],
        ),
        ("", ", timeLimit: 1h", only),
    ] {
        check_change(Kind::Scenario, &[(text(before).as_str(), text(after).as_str(), expected)]);
    }
}
