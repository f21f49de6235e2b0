//! The editor: errors at their lines, the diff before saving, and the merge of two changes (CON-11).

use podium::console::model::Job;
use podium::console_data::message::{Data, Message};
use podium::console_screens::edit::{CheckResult, EditData, Problem};
use serde_json::{Value, json};

use super::test_console::{TestConsole, cluster};

fn shows(screen: &str, expected: &[&str]) {
    for want in expected {
        assert!(screen.contains(want), "{want:?} is not in\n{screen}");
    }
}

fn web(version: &str, replicas: i32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default", "uid": "deploy-web", "resourceVersion": version,
            "generation": 3, "managedFields": [{ "manager": "x" }] },
        "spec": { "replicas": replicas, "template": { "spec": { "containers": [
            { "name": "main", "image": image }] } } },
        "status": { "replicas": replicas },
    })
}

fn tell(stage: &mut TestConsole, loaded: EditData) -> Vec<Job> {
    let screen = stage.model.top().0;
    stage.send(Message::Data(screen, Data::new(loaded)))
}

/// The editor of `web` with `spec.replicas: 3`; the cursor is at `spec:`.
fn editor() -> TestConsole {
    let mut stage = TestConsole::new(100, 24);
    stage.feed(cluster());
    stage.press("d \"/web\" enter e");
    tell(&mut stage, EditData::Object(Box::new(web("7", 3, "nginx:1.27"))));
    stage
}

/// Types `spec.replicas: 5`; the text is number three then: loaded, one letter less, one letter more.
fn set_five_replicas(stage: &mut TestConsole) -> Vec<Job> {
    stage.press("down end backspace 5")
}

/// Counts the requests to the server; the delayed saving of a draft makes none.
fn starts(jobs: &[Job]) -> usize {
    let asks = |job: &&Job| matches!(job, Job::Start(task) if !format!("{task:?}").contains("\"draft\""));
    jobs.iter().filter(asks).count()
}

#[test]
fn only_what_can_be_changed_is_typed_in_con_11() {
    let mut stage = editor();
    let screen = stage.screen();
    shows(&screen, &["Deployment default/web edit unchanged", "  replicas: 3", "<ctrl-s>save"]);
    for hidden in ["managedFields", "resourceVersion", "status:", "uid:"] {
        assert!(!screen.contains(hidden), "{hidden} is the server's:\n{screen}");
    }
    assert_eq!(starts(&stage.press("ctrl-s")), 0, "nothing was changed");
}

#[test]
fn each_pause_asks_the_server_and_its_complaints_stand_at_their_lines_con_11() {
    let mut stage = editor();
    assert_eq!(starts(&set_five_replicas(&mut stage)), 2, "each change asks anew");
    shows(&stage.screen(), &["edit changed"]);
    let message = "spec.replicas: Invalid value: 5: must be less than or equal to 4, because the quota of this \
                namespace says so, and that is a long story which is read to its end";
    let wrong = || {
        let problem = Problem { line: Some(7), text: message.to_owned() };
        CheckResult::Wrong(vec![problem, Problem::general("and the moon is full")])
    };
    tell(&mut stage, EditData::Checked(2, wrong()));
    shows(&stage.screen(), &["edit changed"]);
    tell(&mut stage, EditData::Checked(3, wrong()));
    let screen = stage.screen();
    shows(
        &screen,
        &["✖ 2 problems", " 7✖   replicas: 5", "╰ spec.replicas: Invalid value: 5", "read to its end"],
    );
    shows(&screen, &["✖ and the moon is full"]);
    let line = |what: &str| screen.lines().position(|line| line.contains(what)).expect("on the screen");
    assert_eq!(line("╰ spec.replicas"), line("replicas: 5") + 1, "it stands below its line");
    // The next letter changes the text.
    stage.press("backspace");
    assert!(!stage.screen().contains("problem"));
}

/// Regression: after a stray letter, Enter did not save, however long the user waited.
#[test]
fn enter_saves_again_some_time_after_a_stray_letter_con_11() {
    let mut stage = editor();
    set_five_replicas(&mut stage);
    stage.press("ctrl-s");
    tell(&mut stage, EditData::Checked(3, CheckResult::Good));
    stage.press("m");
    stage.now += jiff::SignedDuration::from_secs(1);
    assert_eq!(starts(&stage.press("enter")), 0);
    shows(&stage.screen(), &["enter came with other keys: press it alone to save"]);
    stage.now += jiff::SignedDuration::from_secs(2);
    assert_eq!(starts(&stage.press("enter")), 1, "{}", stage.screen());
}

#[test]
fn the_difference_is_shown_before_it_is_saved_con_11() {
    let mut stage = editor();
    set_five_replicas(&mut stage);
    assert_eq!(starts(&stage.press("ctrl-s")), 1, "the server is asked at once");
    shows(&stage.screen(), &["the server is checking it"]);
    tell(&mut stage, EditData::Checked(3, CheckResult::Good));
    shows(
        &stage.screen(),
        &["✔ the server would accept this", "-   replicas: 3", "+   replicas: 5", "<enter>save"],
    );
    stage.press("esc");
    shows(&stage.screen(), &["<ctrl-s>save", "  replicas: 5"]);
    assert_eq!(starts(&stage.press("ctrl-s")), 0, "the answer about this text is known");
    assert_eq!(starts(&stage.press("enter")), 1, "now it is saved");
    tell(&mut stage, EditData::Saved);
    shows(&stage.screen(), &["Deployments"]);
}

#[test]
fn a_newer_version_is_merged_and_shown_first_con_11() {
    let mut stage = editor();
    set_five_replicas(&mut stage);
    stage.press("ctrl-s");
    let jobs =
        tell(&mut stage, EditData::Checked(3, CheckResult::Newer(Box::new(web("9", 3, "nginx:1.28")))));
    assert_eq!(starts(&jobs), 1, "the merged text is checked in its turn");
    tell(&mut stage, EditData::Checked(4, CheckResult::Good));
    let screen = stage.screen();
    shows(
        &screen,
        &[
            "Changed by someone else meanwhile",
            "spec.template.spec.containers[main].image: nginx:1.27 → nginx:1.28",
            "-   replicas: 3",
            "+   replicas: 5",
        ],
    );
    assert!(!screen.contains("- image: nginx:1.27"), "their change is not shown as mine:\n{screen}");
    stage.press("esc");
    shows(&stage.screen(), &["replicas: 5", "image: nginx:1.28"]);
}

#[test]
fn fields_that_only_the_server_writes_cause_no_edit_conflict_con_11() {
    let mut stage = editor();
    set_five_replicas(&mut stage);
    let mut newer = web("9", 3, "nginx:1.27");
    newer["status"]["replicas"] = json!(2);
    let jobs = tell(&mut stage, EditData::Checked(3, CheckResult::Newer(Box::new(newer))));
    assert_eq!(starts(&jobs), 1, "asked again on top of the newer version");
    let screen = stage.screen();
    shows(&screen, &["edit changed ─", "replicas: 5"]);
}

#[test]
fn the_same_field_changed_twice_is_for_the_user_to_decide_con_11() {
    for (key, then, wins) in [("m", 5, "+   replicas: 5"), ("t", 6, "spec.replicas: 3 → 4")] {
        let mut stage = editor();
        set_five_replicas(&mut stage);
        stage.press("down down down down end backspace 9 ctrl-s");
        let theirs = web("9", 4, "nginx:1.27");
        let number = 5;
        tell(&mut stage, EditData::Checked(number, CheckResult::Newer(Box::new(theirs))));
        shows(
            &stage.screen(),
            &[
                "✖ changed by someone else too", "spec.replicas", "it was  3", "yours   5", "theirs  4",
                "<m>take mine",
            ],
        );
        stage.resize(60, 24);
        shows(&stage.screen(), &["You and someone else changed the same field.", "nothing is lost."]);
        stage.resize(40, 12);
        shows(
            &stage.screen(),
            &["nothing is lost.", "theirs  4", "<esc>edit", "<m>take mine", "<t>take theirs"],
        );
        stage.resize(40, 10);
        shows(&stage.screen(), &["spec.replicas", "2 more lines ─╯"]);
        stage.resize(100, 24);
        stage.press("esc");
        shows(&stage.screen(), &["replicas: 5", "<ctrl-s>save"]);
        stage.press("ctrl-s");
        tell(&mut stage, EditData::Checked(number, CheckResult::Newer(Box::new(web("9", 4, "nginx:1.27")))));
        assert_eq!(starts(&stage.press(key)), 1, "the picked version is checked");
        tell(&mut stage, EditData::Checked(then, CheckResult::Good));
        shows(&stage.screen(), &[wins, "image: nginx:1.29", "would accept this"]);
    }
}

/// The user sees the whole change before it is saved, and which lines of the text continue beyond the edge.
#[test]
fn long_lines_are_marked_in_the_text_and_complete_in_the_diff_con_11_con_20() {
    let mut stage = editor();
    let image = format!("registry.example.com/{}/nginx:1.28", "long".repeat(30));
    tell(&mut stage, EditData::Object(Box::new(web("7", 3, &image))));
    let screen = stage.screen();
    assert!(screen.contains("long") && screen.contains("› │"), "{screen}");
    stage.press("down down down down down end backspace 9 ctrl-s");
    // The number of the text that is checked.
    for number in 2..6 {
        tell(&mut stage, EditData::Checked(number, CheckResult::Good));
    }
    shows(&stage.screen(), &["would accept this", "nginx:1.29"]);
}

#[test]
fn leaving_with_changes_asks_con_11() {
    let mut stage = editor();
    set_five_replicas(&mut stage);
    stage.press("esc");
    shows(&stage.screen(), &["Discard the changes", "are not saved", "▸ Cancel      Discard"]);
    stage.press("enter");
    shows(&stage.screen(), &["replicas: 5"]);
    stage.press("esc right enter");
    shows(&stage.screen(), &["Deployments"]);
}

#[test]
fn a_save_of_a_text_with_a_problem_says_why_nothing_is_saved_con_11() {
    let mut stage = editor();
    set_five_replicas(&mut stage);
    stage.press("ctrl-end \"x\"");
    let wrong = || CheckResult::Wrong(vec![Problem::general("no such field".to_owned())]);
    let mut number = 4;
    tell(&mut stage, EditData::Checked(number, wrong()));
    assert!(!stage.screen().contains("not saved"), "{}", stage.screen());
    stage.press("ctrl-s");
    tell(&mut stage, EditData::Checked(number, wrong()));
    shows(&stage.screen(), &["not saved: the text has 1 problem", "✖ no such field"]);
    // The text begins and ends where ctrl-home and ctrl-end go.
    stage.press("ctrl-home \"y\"");
    number += 1;
    tell(&mut stage, EditData::Checked(number, wrong()));
    shows(&stage.screen(), &[" 1  yapiVersion", "12          name: mainx"]);
}

#[test]
fn text_from_the_external_editor_is_validated_con_11() {
    let mut stage = editor();
    let jobs = stage.press("ctrl-o");
    let text = jobs.iter().find_map(|job| match job {
        Job::Editor(_, text) => Some(text.clone()),
        _ => None,
    });
    let text = text.expect("the terminal is handed over");
    assert!(text.contains("replicas: 3"), "{text}");
    assert_eq!(
        starts(&tell(&mut stage, EditData::External("\n".to_owned()))),
        0,
        "an emptied file is no change"
    );
    let jobs = tell(&mut stage, EditData::External(text.replace("replicas: 3", "replicas: 8")));
    assert_eq!(starts(&jobs), 1);
    tell(&mut stage, EditData::Checked(2, CheckResult::Good));
    shows(&stage.screen(), &["+   replicas: 8"]);
}
