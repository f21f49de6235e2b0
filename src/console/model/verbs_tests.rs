//! A command is one verb on every screen: one line in `[keys]` moves it everywhere (CON-3).

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::Job;
use super::tabs_tests::{TestConsole, objects, pod};
use console_data::store::{Change, Delta};
use console_toolkit::command::{Bindings, Command, UserKeys};
use console_toolkit::keys::Key;

fn owner(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}])
}

/// A Deployment with two pods on a node.
fn shop() -> TestConsole {
    let mut stage = TestConsole::new(140, 40);
    let web = json!({"metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": []}}}});
    let set = json!({"metadata": {"name": "web-1", "namespace": "default", "uid": "web-1",
        "ownerReferences": owner("Deployment", "web")}, "spec": {"selector": {}}});
    let pods = ["web-1-a", "web-1-b"].map(|name| {
        let mut pod = pod("default", name);
        pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "web-1");
        pod["spec"]["nodeName"] = json!("node-1");
        pod
    });
    stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects([web]))]));
    stage.feed(Delta::of::<ReplicaSet>(vec![Change::Reset(objects([set]))]));
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
    let node = json!({"metadata": {"name": "node-1", "uid": "node-1"}});
    stage.feed(Delta::of::<Node>(vec![Change::Reset(objects([node]))]));
    stage
}

/// Scripts that lead to screens with an object.
const SCREENS: &[&str] =
    &["p", "d", "d W", "d R", "d y", "p enter", ": \"xray\" enter", ": \"topology\" enter"];

#[test]
fn one_line_moves_a_command_on_every_screen_con_3() {
    for screen in SCREENS {
        for (command, key, expected) in [
            (Command::Describe, "d", "Describe"),
            (Command::Describe, "f5", "Describe"),
            (Command::Yaml, "y", "Yaml"),
            (Command::Yaml, "f5", "Yaml"),
            (Command::Explain, "W", "Explain"),
            (Command::Explain, "f5", "Explain"),
        ] {
            let mut stage = shop();
            stage.press(screen);
            let entry = command.entry_in(&stage.model.key_contexts(stage.now));
            let Some(entry) = entry.filter(|entry| stage.model.offers(entry, stage.now)) else { continue };
            let own = UserKeys::from([((command, None), vec![Key::parse(key).expect("a key")])]);
            stage.model.shared.bindings = Bindings::with(&own).expect("a free key");
            stage.press(key);
            let top = stage.model.top().1.name();
            assert_eq!(top, expected, "{screen} {} ({:?})", entry.name, entry.context);
        }
    }
}

#[test]
fn the_ends_of_a_drains_pods_are_not_its_options_con_6() {
    let mut stage = shop();
    stage.press("n r");
    let selected = |stage: &mut TestConsole| {
        let screen = stage.screen();
        let line = screen.lines().find(|line| line.contains("▸ ") && !line.contains("podium ▸"));
        line.map(|line| line.split_whitespace().skip(1).take(3).collect::<Vec<_>>().join(" "))
    };
    for (keys, name) in
        [("end", "web-1-b"), ("home", "web-1-a"), ("pagedown", "web-1-b"), ("G", "web-1-b"), ("g", "web-1-a")]
    {
        stage.press(keys);
        let selected = selected(&mut stage).unwrap_or_default();
        assert!(selected.contains(name), "{keys}: {selected}\n{}", stage.screen());
    }
    // One step further are the options, and back.
    stage.press("G j");
    let on_options = selected(&mut stage).unwrap_or_default();
    assert!(!on_options.contains("web-1"), "{on_options}");
    stage.press("k");
    assert!(selected(&mut stage).unwrap_or_default().contains("web-1-b"), "{}", stage.screen());
}

/// Regression: `-1` in an empty field became `01`.
#[test]
fn a_number_field_takes_no_sign_con_6() {
    let mut stage = shop();
    stage.press("d s ctrl-u - 1");
    let screen = stage.screen();
    assert!(screen.contains("replicas   1▏") && screen.contains("letters do nothing here"), "{screen}");
}

/// Regression: after a stray letter in a number field, Enter did nothing while the footer offered it.
#[test]
fn enter_after_a_stray_letter_says_what_to_do_con_6() {
    let mut stage = shop();
    stage.press("d s 1 x");
    let screen = stage.screen();
    assert!(screen.contains("letters do nothing here"), "{screen}");
    assert!(!screen.contains("<enter>"), "{screen}");
    assert!(stage.press("enter").is_empty() && stage.model.dialog.is_some());
    let screen = stage.screen();
    assert!(screen.contains("press it again") && screen.contains("<enter>scale"), "{screen}");
    let jobs = stage.press("enter");
    assert!(jobs.iter().any(|job| matches!(job, Job::Act(_))), "{jobs:?}\n{}", stage.screen());
}
