//! Text that is typed or pasted for another purpose confirms no dialog (CON-6).

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use proptest::prelude::*;
use serde_json::json;

use super::tabs_tests::{TestConsole, objects, pod};
use super::*;
use console_data::message::Message;
use console_data::store::{Change, Delta};
use console_operations::dialog::Focus;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, TABLE};
use console_toolkit::keys::Key;

/// Keys that lead to a screen with commands that open dialogs.
const VIEWS: &[&str] = &["~", "p", "d", "n", "s", ": \"namespaces\" enter", ": \"rs\" enter", "d R"];

/// A text and the milliseconds between its keys.
type TypedText = (String, i64);

fn shop() -> TestConsole {
    let mut stage = TestConsole::new(120, 30);
    let owned = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}]);
    let template = json!({"spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]}});
    let web = json!({"metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    let set = json!({"metadata": {"name": "web-1", "namespace": "default", "uid": "web-1",
        "ownerReferences": owned("Deployment", "web")}, "spec": {"selector": {}, "template": template}});
    let mut of_web = pod("default", "web-1-a");
    of_web["metadata"]["ownerReferences"] = owned("ReplicaSet", "web-1");
    let service = json!({"metadata": {"name": "web", "namespace": "default", "uid": "service-web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects([web]))]));
    stage.feed(Delta::of::<ReplicaSet>(vec![Change::Reset(objects([set]))]));
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([of_web]))]));
    stage.feed(Delta::of::<Service>(vec![Change::Reset(objects([service]))]));
    stage.feed(Delta::of::<Node>(vec![Change::Reset(objects([
        json!({"metadata": {"name": "node-1", "uid": "n"}}),
    ]))]));
    stage
}

/// Returns a console with the dialog that a command opens in a view.
fn with_dialog(view: &str, command: Command) -> Option<TestConsole> {
    let mut stage = shop();
    stage.press(view);
    stage.now += Duration::from_secs(1);
    let _ = stage.model.command(command, stage.now);
    stage.model.dialog.is_some().then_some(stage)
}

/// Types a text into the dialog, and pauses after it. Returns the effects on the cluster or the console.
fn effects_of(stage: &mut TestConsole, (text, gap): &TypedText) -> Vec<String> {
    let mut jobs = Vec::new();
    for letter in text.chars() {
        let key = match letter {
            '\n' => "enter".to_owned(),
            ' ' => "space".to_owned(),
            letter => letter.to_string(),
        };
        stage.now += jiff::SignedDuration::from_millis(*gap);
        jobs.extend(stage.model.update(Message::Tick, stage.now));
        jobs.extend(stage.model.update(Message::Key(Key::parse(&key).unwrap().event()), stage.now));
    }
    for _ in 0..4 {
        stage.now += Duration::from_millis(400);
        jobs.extend(stage.model.update(Message::Tick, stage.now));
    }
    let does =
        |job: &Job| matches!(job, Job::Act(_) | Job::Run(_) | Job::Quit | Job::SaveState(_) | Job::Start(_));
    jobs.iter().filter(|job| does(job)).map(|job| format!("{job:?}")).collect()
}

/// Reports whether the dialog accepts arbitrary text.
fn takes_any_text(dialog: &Dialog) -> bool {
    match dialog.focus {
        Focus::Field(index) => dialog.fields[index].takes_text() && !dialog.fields[index].confirms,
        Focus::Cancel | Focus::Submit => false,
    }
}

/// Every view and command that opens a dialog.
static DIALOGS: LazyLock<Vec<(&str, Command)>> = LazyLock::new(|| {
    let commands = || TABLE.iter().map(|entry| entry.command).collect::<BTreeSet<_>>();
    let all = VIEWS.iter().flat_map(|view| commands().into_iter().map(move |command| (*view, command)));
    all.filter(|(view, command)| with_dialog(view, *command).is_some()).collect()
});

fn typed() -> impl Strategy<Value = TypedText> {
    // Shorter words could match a row after `/`, or change a number or a choice.
    let word = "[a-z]{3,9}";
    let words = proptest::collection::vec(word, 1..4).prop_map(|words| words.join(" "));
    let known = prop_oneof![
        Just("deploy".to_owned()),
        Just("logs".to_owned()),
        Just("yaml".to_owned()),
        Just("yes".to_owned()),
        Just("ly".to_owned()),
        Just("kubectl get deployment xyz".to_owned()),
        Just("restart all\ny".to_owned()),
        words,
    ];
    let sign = prop_oneof![Just(""), Just(":"), Just("/")];
    let end = prop_oneof![Just(""), Just("\n"), Just("\ny"), Just("\n\n")];
    // The speed of a paste, or of human typing.
    let gap = prop_oneof![Just(0_i64), Just(5), 60_i64..290];
    (sign, known, end, gap).prop_map(|(sign, text, end, gap)| (format!("{sign}{text}{end}"), gap))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 200,
        // The default writes files beside the sources.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_text_for_another_purpose_confirms_a_question_con_6(typed in typed()) {
        // A command typed after `:` acts by itself; its own effect does not answer the dialog.
        let is_command = typed.0.starts_with(':');
        for (view, command) in DIALOGS.iter() {
            let mut stage = with_dialog(view, *command).expect("it asked before");
            let any_text = stage.model.dialog.as_ref().is_some_and(|(_, dialog)| takes_any_text(dialog));
            // Typed by hand, such text is valid input for the field. It may contain a slash, as image names do.
            if any_text && !is_command && typed.1 >= 50 {
                continue;
            }
            let done = effects_of(&mut stage, &typed);
            prop_assert!(done.is_empty() || is_command, "{view} {command:?}, {typed:?}: {done:?}");
            prop_assert!(!done.iter().any(|job| job.starts_with("Act")), "{view} {command:?}, {typed:?}: {done:?}");
        }
    }
}

#[test]
fn the_command_line_and_the_filter_leave_every_question_and_open_con_6() {
    assert!(DIALOGS.len() > 20, "few commands ask: {:?}", *DIALOGS);
    for (view, command) in DIALOGS.iter() {
        let mut stage = with_dialog(view, *command).expect("it asked before");
        let done = effects_of(&mut stage, &(":deplo".to_owned(), 10));
        let prompt = stage.model.prompt.as_ref().map(|prompt| prompt.text.clone());
        assert_eq!(
            (prompt.as_deref(), stage.model.dialog.is_none()),
            (Some("deplo"), true),
            "{view} {command:?}"
        );
        assert!(done.is_empty(), "{done:?}");

        let mut stage = with_dialog(view, *command).expect("it asked before");
        if stage.model.dialog.as_ref().is_some_and(|(_, dialog)| takes_any_text(dialog)) {
            continue;
        }
        effects_of(&mut stage, &("/web".to_owned(), 10));
        let prompt = stage.model.prompt.as_ref().map(|prompt| prompt.text.clone());
        assert_eq!(
            (prompt.as_deref(), stage.model.dialog.is_none()),
            (Some("web"), true),
            "{view} {command:?}"
        );
    }
}

/// Regression: `:deploy`, `:logs` Enter and a paste without brackets deleted the pod.
#[test]
fn letters_answer_a_question_only_by_themselves_con_6() {
    let acts = |keys: &str, gap: i64| {
        let mut stage = with_dialog("p", Command::Delete).expect("it asks");
        let done = effects_of(&mut stage, &(keys.to_owned(), gap));
        (!done.is_empty(), stage.model.dialog.is_some(), stage)
    };
    for (keys, gap, deletes, stays) in [
        ("y", 200, true, false),
        ("n", 200, false, false),
        ("deploy", 200, false, true),
        ("logs\n", 200, false, false),
        ("ly", 400, false, true),
        ("yes", 200, false, true),
        ("y\n", 200, false, true),
        ("y\n", 0, false, true),
        ("kubectl get deployment xyz\n", 0, false, false),
        ("kubectl get deployment xyz", 0, false, true),
    ] {
        let (deleted, open, mut stage) = acts(keys, gap);
        assert_eq!((deleted, open), (deletes, stays), "{keys:?}");
        if open {
            assert!(stage.screen().contains("letters do nothing here"), "{keys}: {}", stage.screen());
            // A key that moves the focus re-enables letters.
            let jobs = stage.press("right y");
            assert!(jobs.iter().any(|job| matches!(job, Job::Act(_))), "{keys}");
        }
    }
    // `y` at the end of a word; the first letters of the word opened the dialog.
    let mut stage = shop();
    stage.press("d");
    let done = effects_of(&mut stage, &("ry".to_owned(), 100));
    assert!(done.is_empty() && stage.screen().contains("press it again"), "{}", stage.screen());
    assert_eq!(stage.press("y").iter().filter(|job| matches!(job, Job::Act(_))).count(), 1);
}

/// Enter in a form is ignored within a paste, and after letters that the form cannot take.
#[test]
fn a_form_is_not_sent_by_what_was_typed_for_another_purpose_con_6() {
    for (text, gap, sends) in [("1\n", 200, true), ("1\n", 0, false), ("sed 1\n", 200, false)] {
        let mut stage = shop();
        stage.press("d s");
        let done = effects_of(&mut stage, &(text.to_owned(), gap));
        assert_eq!(!done.is_empty(), sends, "{text:?} {gap}");
    }
}

/// A text field accepts a slash and is submitted by Enter, but not by the line feed of a paste.
#[test]
fn a_slash_is_typed_into_a_text_field_con_6() {
    for (text, gap, sends) in [("/web\n", 60, true), ("/web\n", 0, false), ("/web\n\n", 5, false)] {
        let mut stage = with_dialog("p", Command::SetImage).expect("it asks");
        let done = effects_of(&mut stage, &(text.to_owned(), gap));
        assert!(done.iter().all(|job| job.contains("main=/web")), "{text:?} {gap}: {done:?}");
        assert_eq!(!done.is_empty(), sends, "{text:?} {gap}");
    }
}

#[test]
fn a_question_waits_until_a_command_is_typed_con_6() {
    let mut stage = shop();
    stage.press("p : \"depl\"");
    let id = stage.model.top().0;
    let dialog = Dialog::new("Late", "Do it", |_, _| Ok(vec![Effect::Quit]));
    let _ = stage.model.apply(id, vec![Effect::dialog(dialog)], stage.now);
    let done = effects_of(&mut stage, &("oy".to_owned(), 200));
    assert!(done.is_empty() && stage.model.prompt.is_some() && stage.model.dialog.is_none());
    stage.press("esc");
    assert!(stage.model.dialog.is_some(), "it is asked after that");
}

/// Deleting a namespace deletes everything in it, so it requires the name, as for a node.
#[test]
fn a_namespace_is_deleted_by_its_name_alone_con_6() {
    let deletions = |jobs: &[Job]| jobs.iter().filter(|job| matches!(job, Job::Act(_))).count();
    let mut stage = with_dialog(": \"namespaces\" enter", Command::Delete).expect("it asks");
    assert!(stage.screen().contains("type default"), "{}", stage.screen());
    assert_eq!(deletions(&stage.press("y")), 0);
    assert_eq!(deletions(&stage.press("enter")), 0);
    assert_eq!(deletions(&stage.press("ctrl-u \"shop\" enter")), 0, "another name");
    assert_eq!(deletions(&stage.press("ctrl-u \"default\" enter")), 1);
    // For several, their number must be typed.
    let mut stage = shop();
    let more = ["a", "b"].map(|name| json!({"metadata": {"name": name, "uid": name}}));
    stage.feed(Delta::of::<Namespace>(vec![Change::Reset(objects(more))]));
    stage.press(": \"namespaces\" enter space j space ctrl-d");
    assert!(stage.screen().contains("type 2 namespaces"), "{}", stage.screen());
    assert_eq!(deletions(&stage.press("\"2_namespaces\" enter")), 2);
}

/// A letter right after a dialog may be meant for the dialog, but moving and typing a command do no harm.
#[test]
fn moving_and_the_command_line_work_right_after_a_dialog_con_6() {
    let after = |first: &str, keys: &[&str], gap: i64| {
        let mut stage = TestConsole::new(120, 30);
        stage.press("p ctrl-d");
        assert!(stage.screen().contains("Delete Pod default/api"), "{}", stage.screen());
        for key in [first].iter().chain(keys) {
            stage.now += jiff::SignedDuration::from_millis(gap);
            let _ = stage.model.update(Message::Key(Key::parse(key).unwrap().event()), stage.now);
        }
        stage
    };
    for (keys, next) in
        [(&["j", "ctrl-d"][..], "cart"), (&["d", "j", "ctrl-d"][..], "cart"), (&["ctrl-d"][..], "api")]
    {
        let screen = after("n", keys, 100).screen();
        assert!(screen.contains(&format!("Delete Pod default/{next}")), "{keys:?}: {screen}");
    }
    let prompt = after("n", &[":", "s", "v", "c"], 100).model.prompt;
    assert_eq!(prompt.map(|prompt| prompt.text).as_deref(), Some("svc"));
    // Other letters, and all of a paste, are dropped.
    for (keys, gap) in [(&["l", "d", "y", "enter", "space"][..], 100), (&[":", "j", "d"][..], 5)] {
        let mut stage = after("enter", keys, gap);
        assert!(stage.model.dialog.is_none() && stage.model.prompt.is_none(), "{keys:?}");
        assert!(matches!(stage.model.top().1, Screen::Table(_)), "{keys:?}");
        stage.press("ctrl-d");
        assert!(stage.screen().contains("Delete Pod default/api"), "{keys:?}: {}", stage.screen());
    }
}

/// Ctrl-c and Enter do not end a drain in progress.
#[test]
fn leaving_starts_on_cancel_while_something_goes_on_con_6() {
    let mut stage = shop();
    stage.press("n r D");
    assert!(
        stage
            .model
            .top()
            .1
            .background(&stage.model.shared.context_of(stage.model.top().0, stage.now))
            .is_some()
    );
    let jobs = stage.press("ctrl-c enter");
    assert!(!jobs.iter().any(|job| matches!(job, Job::Quit)) && stage.model.dialog.is_none());
    assert!(stage.press("ctrl-c ctrl-c").iter().any(|job| matches!(job, Job::Quit)));
}

/// Enter keeps the prompt open with the error, so that a half-typed pattern is not taken for the filter in effect.
#[test]
fn an_invalid_filter_is_refused_with_its_error_con_3() {
    for view in [
        "p", "d", "shift-o", ": \"workloads\" enter", ": \"xray\" enter", ": \"aliases\" enter", "p y",
        "p l", "?",
    ] {
        let mut stage = TestConsole::new(80, 24);
        stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([pod("default", "web")]))]));
        stage.press(view);
        for (typed, error) in [("zzz(", "unclosed group"), ("[a", "unclosed character class")] {
            stage.press(&format!("/ \"{typed}\" enter enter"));
            let screen = stage.screen();
            assert!(screen.contains(&format!("/{typed}   ✖ {error}")), "{view}: {typed}\n{screen}");
            stage.press("esc");
            assert!(!stage.screen().contains("zzz"), "{view}: esc removes the filter\n{}", stage.screen());
        }
    }
}
