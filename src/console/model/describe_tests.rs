//! The describe screen on a test terminal (CON-3, CON-20).

use serde_json::{Value, json};

use super::tabs_tests::{TestConsole, pod};
use console_data::message::{Data, Message};
use console_screens::describe::DescribeData;

/// A console with the description of a pod that has long annotations.
fn description() -> TestConsole {
    let mut stage = TestConsole::new(80, 24);
    stage.press("p d");
    let id = stage.model.top().0;
    let mut object = pod("default", "api");
    object["kind"] = json!("Pod");
    object["metadata"]["annotations"] = (0..30)
        .map(|at| (format!("note-{at}"), json!(format!("{} end-{at}", "x".repeat(300)))))
        .collect::<Value>();
    stage.model.update(Message::Data(id, Data::new(DescribeData::Object(Box::new(object)))), stage.now);
    stage
}

#[test]
fn the_end_of_a_wrapped_description_can_be_reached_con_20() {
    let mut stage = description();
    stage.press("w G");
    let screen = stage.screen();
    assert!(screen.contains("Events:"), "{screen}");
    let rows: Vec<&str> = screen.lines().collect();
    let state = rows[rows.len() - 2];
    let (last, all) = state.split_once('–').and_then(|(_, rest)| rest.split_once(" of ")).expect(state);
    assert!(all.starts_with(last), "the last row is counted: {state}");
    // The search goes to the row of the match.
    stage.press("g / \"end-7\" enter");
    assert!(stage.screen().contains("end-7"), "{}", stage.screen());
}

#[test]
fn a_description_scrolls_to_the_right_and_to_its_matches_con_20() {
    let mut stage = description();
    stage.press("right");
    let screen = stage.screen();
    assert!(screen.contains("│           api "), "eight columns: {screen}");
    stage.press("/ \"end-7\" enter");
    assert!(stage.screen().contains("x end-7"), "{}", stage.screen());
}
