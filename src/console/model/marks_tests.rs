//! Every command acts on all marked rows, or gives a reason why not (CON-3).

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Service};
use serde_json::json;

use super::tabs_tests::{TestConsole, objects};
use super::*;
use console_data::store::{Change, Delta};
use console_screens::object_commands::{MarkScope, marks};
use console_toolkit::command::{Command, TABLE};

/// Tables and the names of their first two rows.
const TABLES: &[(&str, [&str; 2])] = &[
    ("p 1", ["api", "cart"]),
    ("d", ["one", "two"]),
    ("n", ["n1", "n2"]),
    ("s", ["s1", "s2"]),
    (": \"namespaces\" enter", ["default", "shop"]),
    (": \"workloads\" enter / \"deployment\" enter", ["one", "two"]),
];

fn shop() -> TestConsole {
    let mut stage = TestConsole::new(140, 40);
    let deployment = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}},
                "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}}})
    };
    let service =
        |name: &str| json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {}});
    let node = |name: &str| json!({"metadata": {"name": name, "uid": name}});
    stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects([deployment("one"), deployment("two")]))]));
    stage.feed(Delta::of::<Service>(vec![Change::Reset(objects([service("s1"), service("s2")]))]));
    stage.feed(Delta::of::<Node>(vec![Change::Reset(objects([node("n1"), node("n2")]))]));
    stage
}

/// Describes the outcome of a command in words.
fn outcome(stage: &mut TestConsole, jobs: &[Job]) -> String {
    let dialogs = stage.model.dialog.iter().chain(&stage.model.asking).map(|(id, dialog)| {
        let cx = stage.model.shared.context_of(*id, stage.now);
        format!("{} {}", dialog.title, dialog.text_lines(&cx).join(" "))
    });
    let dialogs: Vec<String> = dialogs.collect();
    let (id, top) = stage.model.top();
    let title = top.title(&stage.model.shared.context_of(*id, stage.now));
    let nodes = match top {
        Screen::Drain(drain) => drain.keep().nodes.join(" "),
        _ => String::new(),
    };
    let jobs: Vec<String> = jobs.iter().map(|job| format!("{job:?}")).collect();
    format!("{} {title} {nodes} {}", dialogs.join(" "), jobs.join(" "))
}

#[test]
fn every_command_acts_on_all_marks_or_says_why_not_con_3() {
    for (table, names) in TABLES {
        let mut stage = shop();
        stage.press(table);
        stage.press("space j space");
        let contexts = stage.model.key_contexts(stage.now);
        assert!(stage.screen().contains("2 marked"), "{table}: {}", stage.screen());
        for entry in TABLE.iter().filter(|entry| contexts.contains(&entry.context)) {
            let mut stage = shop();
            stage.press(table);
            stage.press("space j space");
            let before = stage.model.screens.len();
            let jobs = stage.model.command(entry.command, stage.now);
            let of = format!("{table} {}", entry.name);
            match marks(entry.command) {
                MarkScope::One => {
                    assert!(!stage.model.offers(entry, stage.now), "{of} is offered");
                    let screen = stage.screen();
                    assert!(screen.contains("one at a time, and 2 are marked"), "{of}: {screen}");
                    assert_eq!(
                        (stage.model.screens.len(), stage.model.dialog.is_none()),
                        (before, true),
                        "{of}"
                    );
                    assert!(
                        !jobs.iter().any(|job| matches!(job, Job::Act(_) | Job::Copy(_))),
                        "{of}: {jobs:?}"
                    );
                }
                MarkScope::All => {
                    // The console refuses commands that the kind does not have.
                    if stage.screen().contains("cannot be") || stage.screen().contains("have no namespace") {
                        continue;
                    }
                    let outcome = outcome(&mut stage, &jobs);
                    let is_namespaces = entry.command == Command::CopyNamespace;
                    let expected = if is_namespaces { ["default", "default"] } else { *names };
                    assert!(
                        expected.iter().all(|name| outcome.contains(name)),
                        "{of}: {outcome}\n{}",
                        stage.screen()
                    );
                }
                MarkScope::None => {
                    assert!(!jobs.iter().any(|job| matches!(job, Job::Act(_))), "{of}: {jobs:?}");
                }
            }
        }
    }
}

/// As in k9s: a second press takes the mark away, and the arrow goes to the next row.
#[test]
fn a_mark_leaves_the_cursor_on_its_row_con_3() {
    let mut stage = shop();
    stage.press("p 1 space");
    let marked = stage.model.top().1.selected(&stage.model.shared.context(stage.now));
    assert_eq!(marked.map(|object| object.name).as_deref(), Some("api"));
    assert!(stage.screen().contains("◆ 1 marked"), "{}", stage.screen());
    stage.press("space");
    assert!(!stage.screen().contains("marked"), "{}", stage.screen());
    assert!(!stage.screen().contains("unmark"), "{}", stage.screen());
    stage.press("space j space");
    assert!(stage.screen().contains("◆ 2 marked"), "{}", stage.screen());
    // The footer names the key that takes all marks away, also a narrow one.
    stage.resize(80, 24);
    assert!(stage.screen().contains("<ctrl-\\>unmark"), "{}", stage.screen());
    stage.press("space");
    assert!(stage.screen().contains("<ctrl-\\>unmark"), "{}", stage.screen());
}

#[test]
fn a_command_for_one_object_goes_to_the_one_that_is_marked_con_3() {
    let mut stage = shop();
    stage.press("p 1 space j");
    let _ = stage.model.command(Command::Describe, stage.now);
    let (id, top) = stage.model.top();
    assert!(top.title(&stage.model.shared.context_of(*id, stage.now)).contains("api"));
    // Regression: a filter, two marks, and `l`.
    let mut stage = shop();
    stage.press("p 1 / \"a\" enter space j space l");
    assert!(stage.screen().contains("one at a time, and 2 are marked; ctrl-\\ clears"), "{}", stage.screen());
    stage.press("ctrl-\\ l");
    assert!(matches!(stage.model.top().1, Screen::Logs(_)));
}
