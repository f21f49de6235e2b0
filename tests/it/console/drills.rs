//! The drills as the console shows them (FAULT-2).

use object_of::scenario;
use podium::console_data::message::{Data, Message};
use podium::console_screens::drills::DrillsMessage;
use podium::console_screens::drills::scenario_client::DrillsData;
use podium::extension::scenario::{AllScenarioRuns, Scenario};
use serde_json::{Value, json};

use super::test_console::{TestConsole, cluster};
use super::{acted, shows};

mod object_of {
    use podium::extension::scenario::Scenario;
    use serde_json::{Value, json};

    /// The drill of a stuck rollout as it is played.
    pub(super) fn scenario(spec: &Value, status: &Value) -> Scenario {
        let mut one = json!({"metadata": {"name": "stuck-rollout", "uid": "u1"}, "spec": {"title": "A rollout is stuck",
            "hints": ["look", "undo"], "timeLimit": "10m"}, "status": status});
        for (name, value) in spec.as_object().unwrap() {
            one["spec"][name] = value.clone();
        }
        serde_json::from_value(one).unwrap()
    }
}

/// Sends the data that the screen's task would send.
fn tell(stage: &mut TestConsole, data: DrillsData) {
    let (screen, _) = stage.model.top();
    let screen = *screen;
    stage.send(Message::Data(screen, Data::new(DrillsMessage::Seen(data))));
}

/// Scenarios of a cluster without earlier runs.
fn seen(scenarios: Vec<Scenario>) -> DrillsData {
    DrillsData::Seen(scenarios, Ok(AllScenarioRuns::default()))
}

fn playing(more: &Value) -> Value {
    let mut status = json!({"phase": "Running", "startedAt": "2026-05-01T11:58:00Z", "briefing": "Bring it to rest.",
        "checks": [{"name": "all-of-one-version", "kind": "Repair", "holds": false}]});
    for (name, value) in more.as_object().unwrap() {
        status[name] = value.clone();
    }
    status
}

#[test]
fn drills_are_listed_started_hinted_and_scored_fault_2() {
    let mut stage = TestConsole::new(120, 40);
    stage.feed(cluster());
    stage.press(": \"drills\" enter");
    shows(
        &stage.screen(),
        &["NAME TITLE BEST LAST", "▸ stuck-rollout A rollout is stuck – –", "node-lost", "asking the server"],
    );
    tell(&mut stage, seen(Vec::new()));
    stage.press("enter");
    shows(&stage.screen(), &["A rollout is stuck", "The shop (Deployment shop"]);
    let jobs = stage.press("right enter");
    assert_eq!(acted(&jobs), ["podium drill run stuck-rollout"]);

    tell(&mut stage, seen(vec![scenario(&json!({}), &playing(&json!({})))]));
    shows(
        &stage.screen(),
        &[
            "stuck-rollout A rollout is stuck – playing",
            "of 10m0s",
            "✖ to be repaired: all of one version",
            "Bring it to rest.",
        ],
    );
    stage.press("h");
    shows(&stage.screen(), &["The next hint costs 10 points."]);
    assert_eq!(acted(&stage.press("right enter")), ["podium drill hint stuck-rollout"]);
    tell(&mut stage, seen(vec![scenario(&json!({"hintsAsked": 1}), &playing(&json!({"hintsShown": 1})))]));
    shows(&stage.screen(), &["hint 1 of 2: look"]);
    stage.press("x");
    shows(&stage.screen(), &["Drill stuck-rollout stops"]);
    stage.press("esc");

    let over = json!({"phase": "Passed", "score": 88, "message": "Well done.", "cleaned": true});
    tell(&mut stage, seen(vec![scenario(&json!({}), &playing(&over))]));
    shows(&stage.screen(), &["stuck-rollout A rollout is stuck – 88 of 100", "88 of 100: Well done."]);
    // A second run: the remains of the first are removed before.
    stage.press("enter");
    assert_eq!(acted(&stage.press("right enter")), ["kubectl delete scenario stuck-rollout"]);
}

#[test]
fn the_best_and_the_last_run_of_a_drill_are_shown_with_their_dates_fault_2() {
    let run = |uid: &str, day: usize, score: i32, hints: i32| {
        serde_json::from_value(json!({"uid": uid, "played": "p", "startedAt": format!("2026-04-{day:02}T08:00:00Z"),
            "endedAt": format!("2026-04-{day:02}T08:05:00Z"), "passed": score > 0, "score": score, "hints": hints}))
        .unwrap()
    };
    let mut runs = AllScenarioRuns::default();
    runs.add("stuck-rollout", run("a", 1, 88, 1));
    runs.add("stuck-rollout", run("b", 2, 0, 0));
    runs.add("crash-loop", run("c", 3, 0, 2));
    for (width, height) in [(120, 40), (80, 24)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        stage.press(": \"drills\" enter");
        tell(&mut stage, DrillsData::Seen(Vec::new(), Ok(runs.clone())));
        shows(
            &stage.screen(),
            &[
                "▸ stuck-rollout A rollout is stuck 88 failed",
                "failed failed",
                "node-lost",
                "best: 88 of 100, with 1 hint, on 2026-04-01 08:05 UTC",
                "last: failed, on 2026-04-02 08:05 UTC",
            ],
        );
        stage.press("down");
        shows(&stage.screen(), &["last: failed, with 2 hints, on 2026-04-03 08:05 UTC"]);
        // Runs that may not be read are not shown as missing.
        tell(&mut stage, DrillsData::Seen(Vec::new(), Err("configmaps is forbidden".into())));
        shows(
            &stage.screen(),
            &["stuck-rollout A rollout is stuck ? ?", "earlier runs are not known: configmaps is forbidden"],
        );
    }
}

#[test]
fn a_cluster_without_drills_says_so_fault_2() {
    let mut stage = TestConsole::new(120, 40);
    stage.feed(cluster());
    stage.press(": \"drills\" enter");
    tell(&mut stage, DrillsData::NotServed);
    shows(&stage.screen(), &["this is not a Podium cluster: it has no drills"]);
    assert_eq!(acted(&stage.press("enter")), Vec::<String>::new());
    tell(&mut stage, DrillsData::Failed("no route to host".into()));
    shows(&stage.screen(), &["no route to host"]);
}
