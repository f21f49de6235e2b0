//! Dialogs: keys typed into them have no effect outside, and invalid input is requested again.

use k8s_openapi::api::apps::v1::Deployment;
use podium::console::model::Job;
use podium::console_data::message::Message;
use podium::console_data::store::{Change, Delta};
use serde_json::{Value, json};

use super::test_console::{TestConsole, cluster, deployment, objects};
use super::{acted, shows};

fn shop() -> TestConsole {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage
}

/// Every letter of a name reaches the dialog's field, including letters that are keys of other screens.
#[test]
fn a_confirmation_field_takes_every_letter_con_6() {
    let mut stage = shop();
    stage.press("n ctrl-d");
    let jobs = stage.press("\"nqyc-hl_j\"");
    assert!(jobs.is_empty());
    shows(&stage.screen(), &["Remove Node node-1", "▸ name nqyc-hl j▏ type node-1"]);
    // On a button, too: letters are no shortcuts while a text is required.
    for button in ["tab", "tab tab"] {
        stage.press(&format!("esc ctrl-d {button}"));
        assert!(stage.press("\"nqy\"").is_empty());
        shows(&stage.screen(), &["Remove Node node-1", "▸ name nqy▏"]);
    }
    let jobs = stage.press("ctrl-u \"node-1\" enter");
    assert_eq!(acted(&jobs), ["kubectl delete node/node-1"]);
}

/// Typing replaces a field's initial text, such as a count, unless the cursor is moved to its end first.
#[test]
fn typed_text_replaces_the_initial_text_of_a_field_con_6() {
    for (keys, image) in [
        ("\"nginx:1.28\"", "nginx:1.28"),
        ("right \".3\"", "nginx:1.27.3"),
        ("end \".3\"", "nginx:1.27.3"),
        ("backspace \"8\"", "nginx:1.28"),
    ] {
        let mut stage = shop();
        stage.press("d i");
        let jobs = stage.press(&format!("{keys} enter"));
        assert_eq!(
            acted(&jobs),
            [format!("kubectl set image deployment/api -n default main={image}")],
            "{keys}"
        );
    }
    let mut stage = shop();
    stage.press("d i");
    stage.send(Message::Paste("nginx:1.28".into()));
    assert_eq!(acted(&stage.press("enter")), ["kubectl set image deployment/api -n default main=nginx:1.28"]);
}

/// `nc` at a dialog that `n` closes does not cordon the node behind it.
#[test]
fn keys_typed_in_one_burst_with_the_end_of_a_dialog_do_not_reach_the_screen_behind_con_6() {
    for (open, typed, script) in [
        ("p ctrl-d", None, "n d c s"),
        ("n L", Some("\"a=b\""), "enter c c r"),
        ("n L", None, "esc c"),
        ("d s", Some("9"), "enter r enter s enter"),
    ] {
        let mut stage = shop();
        stage.press(open);
        stage.screen();
        let before = stage.model.screens.len();
        stage.burst_before_enter(typed);
        let jobs = stage.burst(script);
        assert!(
            jobs.iter().all(|job| matches!(job, Job::Act(action) if action.kubectl.contains("label")
            || action.kubectl.contains("scale"))),
            "{open} {script}: {jobs:?}"
        );
        assert_eq!(
            (stage.model.screens.len(), stage.model.dialog.is_none()),
            (before, true),
            "{open} {script}"
        );
        stage.send(Message::Paste("ra".into()));
        assert_eq!(stage.model.screens.len(), before, "pasted text belongs to the same burst");
    }
    // Leaving and moving are harmless; after a moment all keys work.
    let mut stage = shop();
    stage.press("n ctrl-d");
    stage.burst("esc down up");
    assert_eq!(acted(&stage.press("c")), ["kubectl cordon node-1"]);
    // All keys of a burst are ignored, however long it is; the pause after it ends that.
    stage.press("ctrl-d");
    stage.burst("esc");
    for _ in 0..10 {
        for key in ["n", "o", "d", "c", "r"] {
            stage.now += std::time::Duration::from_millis(200);
            assert!(stage.burst(key).is_empty());
        }
    }
    assert_eq!((stage.model.dialog.is_none(), stage.model.screens.len()), (true, 2));
    // Nor does a key that is held down lock the keyboard.
    for _ in 0..8 {
        stage.now += std::time::Duration::from_millis(40);
        stage.burst("j");
    }
    assert_eq!(acted(&stage.burst("c")), ["kubectl cordon node-10"]);
}

/// Digits are refused, never dropped.
#[test]
fn a_number_that_is_too_large_is_refused_as_it_was_typed_con_6() {
    let mut stage = shop();
    stage.press("d \"/web\" enter s");
    stage.press("ctrl-u \"99999999999\"");
    shows(
        &stage.screen(),
        &["▸ replicas 99999999999▏ now 4", "⚠ replicas: 99999999999 is more than 2 147 483 647"],
    );
    assert!(stage.press("enter").is_empty());
    let screen = stage.screen();
    shows(&screen, &["▸ replicas 99999999999▏", "✖ replicas: 99999999999 is more than 2 147 483 647"]);
    assert_eq!(screen.matches("is more than").count(), 1, "said once: {screen}");
    for _ in 0..4 {
        stage.press("\"0123456789\"");
    }
    assert!(stage.press("+ enter").is_empty(), "nor by other keys");
    shows(&stage.screen(), &["✖ replicas: 99999999999"]);
    stage.press("ctrl-u");
    stage.send(Message::Paste("5\n".into()));
    shows(&stage.screen(), &["▸ replicas 5▏"]);
    stage.send(Message::Paste("x7".into()));
    assert_eq!(acted(&stage.press("enter")), ["kubectl scale deployment/web -n default --replicas=5"]);
}

/// A count above ten times the current one, or above the capacity of the nodes, needs a second confirmation.
#[test]
fn an_excessive_replica_count_needs_a_second_confirmation_con_6() {
    let mut stage = shop();
    stage.press("d \"/web\" enter s");
    // Only node-1 is ready and schedulable: 4 CPUs, less the requests there, in quarters.
    shows(&stage.screen(), &["now 4 · fits: "]);
    for (count, doubts) in [
        ("41", vec!["⚠ web to 41: 10 times the present 4"]),
        (
            "999999999",
            vec!["⚠ web to 999 999 999: 249 999 999 times the present 4", "the ready nodes have room for "],
        ),
    ] {
        stage.press("esc s");
        stage.burst_before_enter(Some(&format!("\"{count}\"")));
        assert!(stage.burst("enter enter").is_empty(), "the second Enter is of the same burst");
        shows(&stage.screen(), &["Confirm replicas"]);
        shows(&stage.screen(), &doubts);
        shows(&stage.screen(), &["▸ Cancel Scale"]);
        assert!(stage.press("enter").is_empty(), "Cancel comes first");
        stage.press("s");
        stage.press(&format!("\"{count}\" enter"));
        let jobs = stage.press("right enter");
        assert_eq!(acted(&jobs), [format!("kubectl scale deployment/web -n default --replicas={count}")]);
        stage.press("s");
    }
    stage.press("esc s");
    assert_eq!(acted(&stage.press("2 enter")).len(), 1, "fewer is never too many");
}

/// Two marked workloads with the same name have a field each.
#[test]
fn workloads_of_one_name_in_two_namespaces_are_scaled_apart_con_6() {
    let mut stage = shop();
    let web = |namespace: &str, count: i32| -> Value {
        let mut web = deployment("web", count, count, count, count);
        web["metadata"]["namespace"] = json!(namespace);
        web["metadata"]["uid"] = json!(format!("web-{namespace}"));
        web
    };
    stage.feed(vec![Delta::of::<Deployment>(vec![Change::Reset(objects([
        web("default", 3),
        web("prod", 10),
    ]))])]);
    stage.press("d space j space s");
    shows(&stage.screen(), &["Scale 2 workloads", "▸ default/web 3▏ now 3", "prod/web 10 now 10"]);
    let jobs = stage.press("enter");
    assert!(acted(&jobs).is_empty(), "nothing was changed: {jobs:?}");
    stage.press("s tab");
    let jobs = stage.press("9 enter");
    assert_eq!(acted(&jobs), ["kubectl scale deployment/web -n prod --replicas=9"]);
}

/// There is one restart, from every screen.
#[test]
fn no_screen_restarts_a_paused_deployment_and_all_restarts_write_the_same_annotation_con_5() {
    let mut stage = shop();
    let mut paused = deployment("web", 4, 4, 4, 4);
    paused["spec"]["paused"] = json!(true);
    let list = [paused, deployment("api", 2, 2, 2, 2)];
    stage.feed(vec![Delta::of::<Deployment>(vec![Change::Reset(objects(list))])]);
    for keys in ["d \"/web\" enter r", "~ d \"/web\" enter R r", "~ d space j space r"] {
        assert!(acted(&stage.press(keys)).is_empty());
        assert!(stage.model.dialog.is_none(), "{keys}");
        shows(&stage.screen(), &["web: can't restart paused deployment"]);
        stage.press("esc");
    }
    let stamp = |jobs: &[Job]| match jobs {
        [Job::Act(action)] => match &action.mutation {
            podium::console_data::action::Mutation::Patch { body, .. } => body.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let annotation = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";
    for keys in ["~ d \"/api\" enter r", "~ d \"/api\" enter R r"] {
        stage.press(keys);
        shows(
            &stage.screen(),
            &["Restart Deployment default/api", "Its 2 pods are replaced", "▸ Cancel Restart"],
        );
        let body = stamp(&stage.press("right enter"));
        let stamp = body.pointer(annotation).and_then(Value::as_str).expect("the annotation");
        assert!(stamp.ends_with('Z') && !stamp.contains('.'), "{stamp}: to the second, as kubectl's");
    }
}

#[test]
fn a_restart_names_every_workload_con_5() {
    let mut stage = shop();
    let list = (0..10).map(|n| deployment(&format!("d-{n}"), 2, 2, 2, 2));
    stage.feed(vec![Delta::of::<Deployment>(vec![Change::Reset(objects(list))])]);
    stage.press(&format!("d{} r", " space j".repeat(10)));
    let screen = stage.screen();
    shows(&screen, &["Restart 10 workloads"]);
    for n in 0..10 {
        assert!(screen.contains(&format!("Deployment default/d-{n}")), "d-{n}: {screen}");
    }
}

/// A long hint is wrapped beside its field, at word ends.
#[test]
fn hints_of_fields_are_wrapped_below_themselves_con_20() {
    let mut stage = TestConsole::new(80, 24);
    stage.feed(cluster());
    stage.press("p F");
    let screen = stage.screen();
    let line = |text: &str| {
        screen.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}\n{screen}"))
    };
    let (hint, rest) = (line("the same, or 8000 more"), line("free one"));
    let column = |line: &str, text: &str| line[..line.find(text).expect("it")].chars().count();
    assert_ne!(hint, rest, "it takes two lines\n{screen}");
    assert!(column(rest, "free one") >= column(hint, "the same"), "{screen}");
}

#[test]
fn the_name_of_an_image_has_no_spaces_con_6() {
    let mut stage = shop();
    stage.press("d");
    let jobs = stage.press("i ctrl-u \"nginx_1.28\" enter");
    assert!(acted(&jobs).is_empty(), "{jobs:?}");
    shows(&stage.screen(), &["✖ main: the name of an image has no spaces"]);
}
