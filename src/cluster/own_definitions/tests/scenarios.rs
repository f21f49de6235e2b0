//! Validation of scenarios.

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
        ("spec: {}".into(), &["spec.title: Required value", UNCHECKED]),
        (
            "spec: {title: ' '}".into(),
            &[
                "spec.title: Required value: must not be empty",
                "spec.check: Required value: must have a check of kind Repair: the scenario cannot be passed without one",
            ],
        ),
        (spec("timeLimit: 25h"), &["spec.timeLimit: Invalid value: \"25h\": must be at most 24h0m0s"]),
        (
            spec("timeLimit: soon"),
            &["spec.timeLimit: Invalid value: \"soon\": must be a duration such as 30s or 1h30m"],
        ),
        (spec("timeLimit: 0s"), &["spec.timeLimit: Invalid value: \"0s\": must be greater than 0"]),
        (
            spec("hints: [a], hintsAsked: 2"),
            &["spec.hintsAsked: Invalid value: must be between 0 and the number of hints, inclusive"],
        ),
        (
            spec("setup: [{kind: Pod}]"),
            &["spec.setup[0].apiVersion: Required value", "spec.setup[0].metadata: Required value", UNCHECKED],
        ),
        (
            spec("setup: [{apiVersion: v1, kind: Pod, metadata: {}}]"),
            &["spec.setup[0].metadata.name: Required value", UNCHECKED],
        ),
        (
            spec("steps: [{at: 1s}]"),
            &["spec.steps[0]: Required value: must specify exactly one of fault, heal, apply, delete"],
        ),
        (
            spec("steps: [{at: 1s, heal: x}]"),
            &["spec.steps: Invalid value: `heal` must name the fault of an earlier step"],
        ),
        (
            spec("steps: [{at: 1s, heal: x}, {at: 1s, fault: {name: x, spec: {}}}]"),
            &["spec.steps: Invalid value: `heal` must name the fault of an earlier step"],
        ),
        (
            spec("steps: [{at: 9s, fault: {name: a, spec: {}}}, {at: 1s, fault: {name: a, spec: {}}}]"),
            &[
                "spec.steps: Invalid value: a step must not be earlier than the previous step",
                "spec.steps: Invalid value: each fault must have a name of its own",
            ],
        ),
        (
            spec("steps: [{at: 11m, fault: {name: a, spec: {}}}]"),
            &["spec.steps: Invalid value: each step must be before the time limit"],
        ),
        (
            spec("timeLimit: 12m, steps: [{at: 11m, fault: {name: a, spec: {}}}]"),
            &[],
        ),
        (
            spec("steps: [{at: 1s, delete: [{apiVersion: v1, kind: Pod}]}]"),
            &["spec.steps[0].delete[0].name: Required value: must specify `name` or `selector`"],
        ),
        (
            spec("steps: [{at: 1s, delete: [{apiVersion: v1, kind: Pod, name: a, selector: {}}]}]"),
            &["spec.steps[0].delete[0].selector: Forbidden: may not be set with `name`"],
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
            spec(&format!("ready: [{{name: r, {object}, holds: 'true'}}, {{name: r, {object}, holds: 'true'}}]")),
            &["spec.ready: Invalid value: each item must have a name of its own"],
        ),
        (
            spec(&format!(
                "ready: [{{name: r, {object}, with: {{now: {{apiVersion: v1, kind: Pod}}}}, holds: 'true'}}]"
            )),
            &[
                "spec.ready[0].with: Invalid value: each key must be an identifier other than certificates, chosen, now, object and objects",
            ],
        ),
        (
            "spec: {title: t, check: [{name: c, kind: Mend, object: {apiVersion: v1, kind: Pod}, holds: ' '}]}".into(),
            &[
                "spec.check[0].kind: Unsupported value: \"Mend\": supported values: \"Always\", \"Detect\", \"Repair\", \"Trouble\"",
                "spec.check[0].holds: Required value: must not be empty",
                "spec.check: Required value: must have a check of kind Repair: the scenario cannot be passed without one",
            ],
        ),
        (
            spec("scoring: {hintCost: 101}"),
            &["spec.scoring.hintCost: Invalid value: 101: must be between 0 and 100, inclusive"],
        ),
    ];
    for (text, expected) in table {
        check::<Scenario>(&[(text.as_str(), expected)]);
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
        check_change::<Scenario>(&[(text(before).as_str(), text(after).as_str(), expected)]);
    }
}

#[test]
fn the_drills_that_ship_with_podium_are_valid_fault_2() {
    let api = api();
    for drill in manifest::drills::DRILLS {
        let mut fields: Value = from_yaml(drill.text).unwrap();
        fields.as_object_mut().unwrap().remove("metadata");
        let made = api.create(object(Scenario::kind(), fields), &WriteOptions::default()).unwrap();
        let changed = api.modify::<Scenario>(&made.key(), |scenario| {
            scenario.metadata.finalizers = Some(vec!["a.b/c".into()]);
            scenario.spec.stop = Some(true);
            Ok(())
        });
        assert_eq!(
            messages(changed),
            [""; 0],
            "{}: what the player changes changes nothing else",
            drill.name
        );
        api.modify::<Scenario>(&made.key(), |scenario| {
            scenario.metadata.finalizers = None;
            Ok(())
        })
        .unwrap();
        api.delete(Scenario::kind(), &made.key(), &DeleteOptions::default()).unwrap();
    }
}
