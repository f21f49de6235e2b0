//! The list of drills on a test terminal (FAULT-2).

use extension::scenario::{AllScenarioRuns, Scenario};
use serde_json::json;

use super::tabs_tests::TestConsole;
use console_data::message::{Data, Message};
use console_screens::drills::DrillsMessage;
use console_screens::drills::scenario_client::DrillsData;

fn tell(stage: &mut TestConsole, scenarios: Vec<Scenario>) {
    let id = stage.model.top().0;
    let seen = DrillsMessage::Seen(DrillsData::Seen(scenarios, Ok(AllScenarioRuns::default())));
    stage.model.update(Message::Data(id, Data::new(seen)), stage.now);
}

fn stuck_rollout(phase: &str) -> Scenario {
    let value = json!({"metadata": {"name": "stuck-rollout", "uid": "u1"},
        "spec": {"title": "A rollout is stuck"}, "status": {"phase": phase}});
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_frame_of_the_drills_names_the_running_one_and_its_keys_fault_2() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut stage = TestConsole::new(width, height);
        stage.press(": \"drills\" enter");
        assert!(!stage.screen().contains("starts one"), "the server has not answered");
        tell(&mut stage, Vec::new());
        assert!(stage.screen().contains(" enter starts one ╯"), "{}", stage.screen());
        for phase in ["Preparing", "Running"] {
            tell(&mut stage, vec![stuck_rollout(phase)]);
            let screen = stage.screen();
            assert!(screen.contains(" stuck-rollout is running · h hint · x stop ╯"), "{screen}");
            stage.press("down");
            let screen = stage.screen();
            assert!(screen.contains(" stuck-rollout is running ╯"), "{screen}");
            assert!(!screen.contains("starts one"), "{screen}");
            stage.press("up");
        }
        tell(&mut stage, vec![stuck_rollout("Passed")]);
        assert!(stage.screen().contains(" enter starts one ╯"), "{}", stage.screen());
    }
}

/// The story of a drill and its hints are what the player reads: the list makes room for them.
#[test]
fn the_story_of_a_running_drill_is_complete_at_80_by_24_fault_2() {
    let value = json!({"metadata": {"name": "stuck-rollout", "uid": "u1"},
        "spec": {"title": "A rollout is stuck", "hints": ["the first word of the hint and its end"]},
        "status": {"phase": "Running", "startedAt": "2026-05-01T12:00:00Z", "hintsShown": 1, "checks": [
            {"name": "rollout-is-stuck", "kind": "Trouble", "holds": true},
            {"name": "shop-is-served", "kind": "Always", "holds": true},
            {"name": "all-of-one-version", "kind": "Repair", "holds": false}]}});
    let one: Scenario = serde_json::from_value(value).unwrap();
    let mut stage = TestConsole::new(80, 24);
    stage.press(": \"drills\" enter");
    tell(&mut stage, vec![one.clone()]);
    let screen = stage.screen();
    for text in [
        "stuck-rollout  ",
        "⚠ the trouble is there: rollout is stuck",
        "hint 1 of 1: the first word of the hint and its end",
        "have the same version.",
    ] {
        assert!(screen.contains(text), "{text}\n{screen}");
    }
    assert!(!screen.contains("more line"), "{screen}");
    let mut stage = TestConsole::new(40, 10);
    stage.press(": \"drills\" enter");
    tell(&mut stage, vec![one]);
    let screen = stage.screen();
    assert!(screen.contains("stuck-rollout") && screen.contains(" more lines "), "{screen}");
    assert!(screen.contains("NAME") && !screen.contains("BE"), "columns are whole\n{screen}");
}
