//! Faults and fenced nodes: shown in all screens, healed and taken back from the console.

use jiff::SignedDuration;
use podium::console::model::Job;
use podium::console_data::action::{Mutation, Outcome};
use podium::console_data::builtin_kinds;
use podium::console_data::catalogue::Catalogue;
use podium::console_data::context::ScreenId;
use podium::console_data::message::Message;
use podium::console_data::scope::Scope;
use podium::console_data::store::{Change, Delta};
use podium::console_operations::effect::{Outbox, Runner};
use podium::extension::fault::Fault;
use podium::extension::node_fence::NodeFence;
use serde_json::{Value, json};

use super::test_console::{TestConsole, ago, cluster, kind, objects};
use super::{acted, shows};
use crate::instance::DataDir;
use crate::needs::needs;

/// A console on one of our clusters.
fn stage(width: u16, height: u16, read_only: bool) -> TestConsole {
    let mut stage = TestConsole::with(width, height, Scope::All, read_only);
    stage.feed(cluster());
    let mut kinds = builtin_kinds::kinds();
    for name in ["Fault", "SchedulingVerdict"] {
        kinds.push(kind("podium.dev", "v1alpha1", name, &[]));
    }
    let fences = podium::console_data::resource::KindFacts {
        resource: podium::console_data::resource::ResourceKey::of::<NodeFence>(),
        namespaced: false,
        ..(*kind("podium.dev", "v1alpha1", "NodeFence", &[])).clone()
    };
    kinds.push(podium::console_data::resource::Kind::new(fences));
    stage.send(Message::Catalogue(Catalogue::of(kinds)));
    stage
}

fn fault(name: &str, type_: &str, duration: Option<&str>, started: Option<i64>, ended: bool) -> Value {
    let active = if started.is_some() && !ended { "True" } else { "False" };
    json!({"metadata": {"name": name, "uid": name, "creationTimestamp": ago(60)},
        "spec": {"type": type_, "from": {"node": "node-1"}, "duration": duration},
        "status": {"startedAt": started.map(ago), "endedAt": ended.then(|| ago(1)), "meets": "node-1 and 6 pods",
            "conditions": [{"type": "Active", "status": active, "reason": "InForce", "message": "",
                "lastTransitionTime": ago(5)}]}})
}

fn faults(stage: &mut TestConsole, all: Vec<Value>) {
    stage.feed(vec![Delta::of::<Fault>(vec![Change::Reset(objects(all))])]);
}

#[test]
fn a_fault_in_force_is_shown_on_every_screen_with_its_remaining_time_fault_1() {
    let mut stage = stage(120, 36, false);
    assert!(!stage.screen().contains("on purpose"));
    faults(&mut stage, vec![fault("cut", "Partition", Some("30s"), Some(5), false)]);
    for keys in ["~", "p", "n", "d", "d enter", "n d", "d y", "U", "?", "n r", "p l"] {
        stage.press(keys);
        let screen = stage.screen();
        shows(&screen, &["⚠ broken on purpose: Partition cut node/node-1 ↔ all, 25s left :faults heals"]);
        assert_eq!(screen.lines().count(), 36);
        stage.press("~");
    }
    // It continues without new data, second by second.
    stage.screen();
    let wake = stage.model.shared.wake.get().expect("a countdown is on the screen");
    assert!(wake <= stage.now.saturating_add(SignedDuration::from_secs(1)).unwrap());
    stage.now = stage.now.saturating_add(SignedDuration::from_secs(20)).unwrap();
    shows(&stage.screen(), &["5s left"]);
    faults(&mut stage, vec![fault("cut", "Partition", Some("30s"), Some(40), true)]);
    assert!(!stage.screen().contains("on purpose"), "an ended fault is not shown");
}

#[test]
fn any_type_of_fault_is_shown_by_name_and_many_fit_any_width_fault_1() {
    let all: Vec<Value> = ["Crash", "ClockSkew", "PowerOff", "Disk", "OutOfMemory", "Whatever"]
        .iter()
        .enumerate()
        .map(|(at, type_)| {
            let mut fault = fault(&format!("f-{at}"), type_, None, Some(5), false);
            fault["spec"]["from"] = Value::Null;
            fault["spec"]["target"] = json!({"node": "node-2"});
            fault
        })
        .collect();
    for (width, label) in [
        (300, "Whatever node-1 and 6 pods (f-5)"),
        (120, "Crash node-1 and 6 pods (f-0)"),
        (60, "Crash node-"),
    ] {
        let mut stage = stage(width, 20, false);
        faults(&mut stage, all.clone());
        let screen = stage.screen();
        shows(&screen, &["⚠ 6 broken on purpose:"]);
        let line = screen.lines().find(|line| line.contains("on purpose")).expect("a banner").to_owned();
        assert!(line.contains(label), "{line}");
        assert!(line.chars().count() <= usize::from(width), "{line}");
        assert!(width > 150 || line.contains(" more"), "omitted faults are counted: {line}");
    }
    // A single fault shows its target before its name.
    let mut alone = stage(80, 20, false);
    let mut off = fault("poweroff-xhlqg", "PowerOff", None, Some(5), false);
    off["spec"] = json!({"type": "PowerOff", "target": {"node": "node-3"}});
    off["status"]["meets"] = json!("node node-3");
    faults(&mut alone, vec![off]);
    shows(&alone.screen(), &["⚠ broken on purpose: PowerOff node node-3 (poweroff-xhlqg) :faults heals"]);
    // The target is shown before the name of the fault, its end and the hint, and never cut while it fits.
    let mut cut = fault("partition-x7h2k", "Partition", Some("30s"), Some(12), false);
    cut["spec"]["to"] = json!({"node": "node-2"});
    for (width, banner) in [
        (
            100,
            "⚠ broken on purpose: Partition partition-x7h2k node/node-1 ↔ node/node-2, 18s left :faults heals",
        ),
        (80, "⚠ broken on purpose: Partition node/node-1 ↔ node/node-2, 18s left"),
        (50, "⚠ broken: Partition node/node-1 ↔ node/node-2"),
        (40, "⚠ broken: Partition node/node-1 ↔…"),
    ] {
        let mut narrow = stage(width, 20, false);
        faults(&mut narrow, vec![cut.clone()]);
        shows(&narrow.screen(), &[banner]);
    }
    // An empty table explains how to create one.
    faults(&mut alone, Vec::new());
    alone.press(": \"faults\" enter");
    shows(&alone.screen(), &["no faults; <a> adds a fault"]);
    let mut stage = stage(80, 20, false);
    let mut hostile = fault("x", "\u{1b}[2J", Some("1e9h"), Some(5), false);
    hostile["spec"]["from"] = json!({"node": "n".repeat(300)});
    faults(&mut stage, vec![hostile]);
    let screen = stage.screen();
    assert!(!screen.chars().any(|c| c.is_control() && c != '\n'), "{screen}");
}

#[test]
fn faults_are_listed_with_what_is_left_of_them_fault_1() {
    let mut stage = stage(120, 36, false);
    faults(
        &mut stage,
        vec![
            fault("cut", "Partition", Some("30s"), Some(5), false),
            fault("old", "Latency", Some("10s"), Some(40), true),
            fault("slow", "Latency", None, Some(5), false),
        ],
    );
    stage.press(": \"faults\" enter");
    shows(
        &stage.screen(),
        &[
            "NAME ↑ TYPE STATUS LEFT MEETS FROM TO AGE",
            "▸ cut Partition ✖ Active 25s node-1 and 6 pods node/node-1 <none> 60s",
            "old Latency ✔ Ended ended",
            "slow Latency ✖ Active until healed",
            "<H>heal",
        ],
    );
    // The fault is read before it is healed, so that it can be created again.
    let jobs = stage.press("H");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))) && acted(&jobs).is_empty());
    let mut looking = self::stage(120, 36, true);
    faults(&mut looking, vec![fault("cut", "Partition", None, Some(5), false)]);
    assert!(looking.press(": \"faults\" enter H").iter().all(|job| !matches!(job, Job::Start(_))));
    shows(&looking.screen(), &["✖ read-only: \"heal\" changes the cluster"]);
}

#[test]
fn the_form_of_a_fault_warns_of_targets_that_do_not_exist_fault_1() {
    let mut stage = stage(80, 24, false);
    stage.press(": \"faults\" enter a enter \"node/node-11\"");
    shows(&stage.screen(), &["⚠ no node \"node-11\"; did you mean \"node-1\"?"]);
    stage.press("backspace");
    assert!(!stage.screen().contains('⚠'), "{}", stage.screen());
    stage.press("tab \"pod/default/gone\"");
    shows(&stage.screen(), &["⚠ no pod \"gone\" in default: the fault begins when it appears"]);
    stage.press("ctrl-u \"nodes:a=b\"");
    shows(&stage.screen(), &["⚠ no node has these labels: the fault begins when it appears"]);
    // It is accepted all the same: the target may appear later.
    let jobs = stage.press("tab tab \"50ms\" enter");
    assert!(jobs.iter().any(|job| matches!(job, Job::Act(_))), "{jobs:?}\n{}", stage.screen());
}

/// The fence of node-1 in this phase.
fn fence(phase: &str, reason: &str, status: &str, message: &str) -> Value {
    json!({"metadata": {"name": "node-1", "uid": "fence-1", "creationTimestamp": ago(9)}, "spec": {"reason": "hangs"},
        "status": {"phase": phase, "startedAt": ago(8), "conditions": [{"type": "Fenced", "status": status,
            "reason": reason, "message": message, "lastTransitionTime": ago(5)}]}})
}

#[test]
fn fencing_a_node_lists_the_killed_pods_and_needs_its_name_typed_safe_5() {
    let mut stage = stage(120, 36, false);
    stage.press("n F");
    shows(
        &stage.screen(),
        &[
            "Fence Node node-1",
            "All its processes are killed",
            "▸ name ▏ type node-1",
            "⚠ The processes of 5 pods are killed at once",
            "default/api-1-a",
            "⚠ node-1 is Ready: a drain would stop its pods gracefully.",
        ],
    );
    assert!(acted(&stage.press("enter enter")).is_empty(), "nothing is typed yet");
    shows(&stage.screen(), &["✖ type node-1 to fence it"]);
    stage.press("esc");
    assert!(acted(&stage.press("F \"node-2\" enter enter")).is_empty());
    stage.press("esc");
    let jobs = stage.press("F \"node-1\" tab \"it's_stuck\" enter");
    assert_eq!(acted(&jobs), [r"podium fence node-1 --yes --reason 'it'\''s stuck'"]);
    let Some(Job::Act(action)) = jobs.iter().find(|job| matches!(job, Job::Act(_))) else {
        panic!("{jobs:?}")
    };
    let Mutation::Create { body, .. } = &action.mutation else { panic!("it makes a fence") };
    assert_eq!(
        body,
        &json!({"apiVersion": "podium.dev/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1"},
            "spec": {"reason": "it's stuck"}})
    );
    assert_eq!(action.inverse.as_ref().expect("a way back").kubectl, "podium fence --release node-1");
    // Its steps are shown from now on.
    shows(&stage.screen(), &["describe · NodeFence node-1"]);
}

#[test]
fn the_progress_of_a_fence_is_shown_at_its_node_and_it_is_undone_after_confirmation_safe_5() {
    let mut stage = stage(140, 36, false);
    stage.press("n");
    for (fence, word) in [
        (fence("Killing", "Killing", "False", "killing"), "◌ Ready,Killing"),
        (fence("Fenced", "ProcessesDead", "True", "all are dead"), "✖ Ready,Fenced"),
    ] {
        stage.feed(vec![Delta::of::<NodeFence>(vec![Change::Reset(objects([fence]))])]);
        shows(&stage.screen(), &[&format!("▸ node-1 {word}")]);
    }
    assert!(acted(&stage.press("F enter")).is_empty(), "Cancel comes first");
    stage.press("F");
    shows(&stage.screen(), &["Unfence Node node-1", "starts again without pods"]);
    assert_eq!(acted(&stage.press("right enter")), ["podium fence --release node-1"]);
    stage.press(": \"nodefences\" enter");
    shows(&stage.screen(), &["▸ node-1 ✖ Fenced hangs all are dead"]);
    assert_eq!(acted(&stage.press("u right enter")), ["podium fence --release node-1"]);
    stage.press("~ n space j space F");
    shows(&stage.screen(), &["fence: one at a time, and 2 are marked"]);
}

#[test]
fn another_server_fences_nothing_safe_5() {
    let mut stage = stage(120, 36, false);
    stage.send(Message::Catalogue(Catalogue::of(builtin_kinds::kinds())));
    stage.press("n");
    assert!(!stage.screen().contains("<F>"), "{}", stage.screen());
    assert!(stage.press("F").is_empty() && stage.model.dialog.is_none());
    shows(&stage.screen(), &["this server does not support fences of nodes"]);
}

/// The whole path, over the API of a server: a fault is healed and created again by undo; a node is fenced.
#[tokio::test(flavor = "multi_thread")]
async fn faults_are_healed_and_nodes_fenced_over_the_api_safe_5_fault_1() {
    needs!(Kubectl);
    let home = DataDir::new();
    let server = home.start(&["--nodes", "0", "--hollow-nodes", "2"]);
    let client = server.impatient_client().await;
    let faults: kube::Api<Fault> = kube::Api::all(client.clone());
    let cut: Fault = serde_json::from_value(json!({"metadata": {"name": "slow"}, "spec": {"type": "Latency",
        "from": {"cidr": "203.0.113.0/24"}, "latency": {"delay": "50ms"}}}))
    .expect("a fault");
    faults.create(&kube::api::PostParams::default(), &cut).await.expect("created");
    let (sender, mut inbox) = tokio::sync::mpsc::channel(16);
    let mut runner = Runner::new(client.clone(), sender.clone());
    let mut stage = stage(120, 36, false);
    let there = faults.get("slow").await.expect("there");
    stage.feed(vec![Delta::of::<Fault>(vec![Change::Reset(vec![std::sync::Arc::new(there)])])]);
    for job in stage.press(": \"faults\" enter H") {
        if let Job::Start(task) = job {
            runner.start(task);
        }
    }
    let outcome = acted_on(&mut inbox).await;
    assert_eq!(outcome.error, None);
    assert!(faults.get_opt("slow").await.expect("an answer").is_none(), "it is healed");
    let again = outcome.action.inverse.clone().expect("a way back");
    let out = Outbox::new(
        client.clone(),
        sender,
        ScreenId::new(7, podium::console_data::resource::ClusterId::HOME),
    );
    out.act(*again).await.expect("broken again");
    let recreated = faults.get("slow").await.expect("there again");
    assert_eq!(recreated.spec.latency.map(|latency| latency.delay), Some("50ms".to_owned()));

    for job in stage.press("~ n F \"node-1\" enter") {
        if let Job::Act(action) = job {
            // The made-up shop has a node-1; the server's hollow ones have other names.
            assert_eq!(action.kubectl, "podium fence node-1 --yes");
            out.act(*action).await.expect("the server takes the fence");
        }
    }
    let fences: kube::Api<NodeFence> = kube::Api::all(client);
    assert!(fences.get_opt("node-1").await.expect("an answer").is_some());
    server.stop();
}

/// Waits for the outcome of the next action.
async fn acted_on(inbox: &mut tokio::sync::mpsc::Receiver<Message>) -> Outcome {
    let wait = async {
        loop {
            match inbox.recv().await.expect("a message") {
                Message::ActionEnded(outcome) => return *outcome,
                Message::Toast(toast) => panic!("{toast:?}"),
                _ => {}
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), wait).await.expect("the action ends")
}
