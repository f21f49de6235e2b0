//! The heavy screens without a server: rollout, drain, logs, describe and the terminal pane.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use podium::console::model::Job;
use podium::console_data::message::{Data, Message};
use podium::console_data::resource::Uid;
use podium::console_data::store::{Change, Delta};
use podium::console_operations::operations::drain::{BudgetTracker, EvictionState, Options, Progress, plan};
use podium::console_operations::pane::{Outcome, PaneEvent, StartProgress};
use podium::console_screens::describe::DescribeData as Described;
use podium::console_screens::logs::LogLine;
use podium::console_screens::logs::LogsData as Logged;
use podium::console_screens::terminal::TerminalData as Opened;
use serde_json::json;

use super::acted;
use super::test_console::{TestConsole, cluster, event, node, now, objects, pod};

/// Checks that all of these texts are anywhere on the screen.
fn shows(screen: &str, expected: &[&str]) {
    for want in expected {
        assert!(screen.contains(want), "{want:?} is not in\n{screen}");
    }
}

fn budget(name: &str, app: &str, allowed: i32, healthy: i32, desired: i32) -> Delta {
    Delta::of::<PodDisruptionBudget>(vec![Change::Reset(objects([json!({
        "metadata": { "name": name, "namespace": "default", "uid": name, "generation": 1 },
        "spec": { "minAvailable": desired, "selector": { "matchLabels": { "app": app } } },
        "status": { "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
            "expectedPods": 5, "observedGeneration": 1 },
    })]))])
}

pub(super) fn revision(
    name: &str,
    number: &str,
    want: i32,
    image: &str,
    cause: Option<&str>,
) -> serde_json::Value {
    json!({
        "metadata": { "namespace": "default", "name": name, "uid": format!("rs-{name}"),
            "creationTimestamp": super::test_console::ago(600),
            "annotations": { "deployment.kubernetes.io/revision": number, "kubernetes.io/change-cause": cause.unwrap_or_default() },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                "uid": "deploy-web", "controller": true }] },
        "spec": { "replicas": want, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web", "pod-template-hash": name } },
            "spec": { "containers": [{ "name": "main", "image": image }] } } },
        "status": { "replicas": want },
    })
}

/// Returns a console with the rollout of `web` on the screen.
fn rollout(width: u16, height: u16) -> TestConsole {
    let mut stage = TestConsole::new(width, height);
    stage.feed(cluster());
    stage.feed(vec![Delta::of::<ReplicaSet>(vec![Change::Reset(objects([
        revision("web-new", "2", 2, "nginx:1.27", None),
        revision("web-old", "1", 3, "nginx:1.25", Some("first try")),
    ]))])]);
    stage.press("d \"/web\" enter R");
    stage
}

#[test]
fn the_rollout_shows_both_sides_their_limits_and_the_way_back_con_5() {
    let mut stage = rollout(120, 36);
    let screen = stage.screen();
    shows(
        &screen,
        &[
            "Deployment web ─ revision 2 ── RollingUpdate surge 25% (1) unavailable 25% (1)",
            "desired 4",
            "──┴┬┘  available 3 ≥ 3   total 5 ≤ 5",
            "new web-new",
            "●◐···",
            "1 ready, 1 starting",
            "old web-old",
            "Revisions",
            "2 10m    ● image nginx:1.25 → nginx:1.27",
            "▸   1 10m      nginx:1.25  first try",
        ],
    );
    shows(
        &screen,
        &["- ", "+ ", "╭ Pods ─", "new web-new-b  ◐ ContainerCreating", "old web-old-a  ● Running"],
    );
    let small = rollout(80, 24).screen();
    shows(&small, &["desired 4", "total 5 ≤ 5", "new web-new", "old web-old", "▸   1 10m"]);
}

#[test]
fn an_undo_is_dry_run_and_confirmed_before_it_is_applied_con_5() {
    let mut stage = rollout(120, 36);
    let jobs = stage.press("u");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "a dry run is on its way");
    shows(
        &stage.screen(),
        &["Undo web", "Back to revision 1: first try", "- image: nginx:1.27", "+ image: nginx:1.25"],
    );
    let jobs = stage.press("right enter");
    assert_eq!(acted(&jobs), ["kubectl rollout undo -n default deployment/web --to-revision=1"]);
    assert_eq!(acted(&stage.press("p")), ["kubectl rollout pause -n default deployment/web"]);
}

/// A pod of node-2 that is ready: `scratch` has no controller.
fn ready(name: &str) -> Change<k8s_openapi::api::core::v1::Pod> {
    let owner = name.starts_with("web").then_some("web-old");
    let mut pod = pod("default", name, owner, Some("node-2"), "Running", 50);
    pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    Change::Applied(Arc::new(serde_json::from_value(pod).expect("a pod")))
}

/// Returns a console with the drain of `node-2` on the screen.
fn drain(width: u16, height: u16) -> TestConsole {
    let mut stage = TestConsole::new(width, height);
    stage.feed(cluster());
    stage.feed(vec![
        budget("web-pdb", "web", 0, 3, 3),
        Delta::of::<Pod>(["web-old-b", "scratch"].map(ready).to_vec()),
    ]);
    stage.press("n \"/node-2\" enter r");
    stage
}

#[test]
fn the_drain_says_before_what_will_happen_to_each_pod_con_6() {
    let mut stage = drain(120, 36);
    let screen = stage.screen();
    shows(&screen, &["Drain node-2 ── 4 pods, 3 leave"]);
    shows(&screen, &["evict   api-1-b"]);
    shows(&screen, &["waits   web-old-b", "budget web-pdb: 3 available − 1 < 3"]);
    shows(&screen, &["refuse  scratch", "no controller: would be lost", "[ ] evict it anyway"]);
    shows(&screen, &["grace: pod's own", "[x] ignore DaemonSets", "[ ] bypass budgets"]);
    // The exception applies to this pod only.
    stage.press("down down down space");
    shows(&stage.screen(), &["Drain node-2 ── 4 pods, 4 leave"]);
    shows(&stage.screen(), &["[x] evict it anyway"]);
}

#[test]
fn the_same_rows_carry_the_progress_and_the_result_stays_con_6() {
    let mut stage = drain(120, 36);
    let jobs = stage.press("D");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "the drain runs");
    let screen = stage.model.top().0;
    let context = stage.model.shared.context(now());
    let rows = plan(
        context.stores.pods_on("node-2"),
        &mut BudgetTracker::new(context.stores.budgets().iter().map(|(_, budget)| budget)),
        &Options::default(),
        &std::collections::BTreeSet::new(),
        None,
    );
    let tell = |stage: &mut TestConsole, progress| {
        stage.send(Message::Data(screen, Data::new(progress)));
    };
    tell(&mut stage, Progress::Began { node: 0, rows });
    let blocked = EvictionState::Waiting {
        since: super::test_console::ago(12).parse().expect("a time"),
        retry_at: now().saturating_add(jiff::SignedDuration::from_secs(5)).expect("in range"),
        message: "The disruption budget web-pdb needs 3 healthy pods and has 3 currently".to_owned(),
    };
    let gone = EvictionState::Deleted { after: jiff::SignedDuration::from_secs(4) };
    tell(
        &mut stage,
        Progress::Evictions {
            node: 0,
            evictions: vec![(Uid::from("pod-web-old-b"), blocked), (Uid::from("pod-api-1-b"), gone.clone())],
        },
    );
    let text = stage.screen();
    shows(&text, &["Drain node-2 ── 1 of 3 gone", "api-1-b", "✔ evicted in 4s"]);
    shows(&text, &["web-pdb needs 3 healthy pods", "◐ waiting 12s, retry in 5s"]);
    tell(&mut stage, Progress::Evictions { node: 0, evictions: vec![(Uid::from("pod-web-old-b"), gone)] });
    tell(&mut stage, Progress::Ended { node: 0, result: Ok(()) });
    tell(&mut stage, Progress::Over);
    shows(&stage.screen(), &["Drain node-2 ── ◐ not empty: 1 refused, 2 of 3 gone"]);
    // After leaving and returning, the result is still there, and does not count as work that quitting would stop.
    stage.press("esc");
    shows(&stage.screen(), &["Nodes", "is over; :background shows its result"]);
    assert!(stage.press("q q").iter().any(|job| matches!(job, Job::Quit)), "nothing is under way");
    stage.model.toasts.expire(now().saturating_add(jiff::SignedDuration::from_mins(1)).expect("in range"));
    stage.press(": \"background\" enter");
    shows(&stage.screen(), &["Drain node-2 ── ◐ not empty: 1 refused, 2 of 3 gone", "✔ evicted in 4s"]);
}

/// A node with remaining pods is not drained: the words, the colour, the bar and the toast agree.
#[test]
fn a_drain_that_leaves_pods_behind_is_not_done_con_6() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.feed(vec![Delta::of::<Pod>(vec![ready("scratch")])]);
    stage.press("n space j space r D");
    let screen = stage.model.top().0;
    let tell = |stage: &mut TestConsole, progress| stage.send(Message::Data(screen, Data::new(progress)));
    for (node, name) in ["node-1", "node-2"].into_iter().enumerate() {
        let context = stage.model.shared.context(now());
        let pods: Vec<_> = context.stores.pods_on(name).cloned().collect();
        let none = std::collections::BTreeSet::new();
        let rows = plan(pods.iter(), &mut BudgetTracker::new([]), &Options::default(), &none, None);
        let gone = EvictionState::Deleted { after: jiff::SignedDuration::from_secs(4) };
        let leave = rows.iter().filter(|row| row.delete_status.leaves());
        let evictions: Vec<_> = leave.map(|row| (row.uid.clone(), gone.clone())).collect();
        tell(&mut stage, Progress::Began { node, rows: rows.clone() });
        tell(&mut stage, Progress::Evictions { node, evictions: evictions.clone() });
        for pod in pods
            .into_iter()
            .filter(|pod| evictions.iter().any(|(uid, _)| Some(uid.as_str()) == pod.metadata.uid.as_deref()))
        {
            stage.feed(vec![Delta::of::<Pod>(vec![Change::Deleted(Arc::new(pod))])]);
        }
        tell(&mut stage, Progress::Ended { node, result: Ok(()) });
    }
    stage.press("esc");
    tell(&mut stage, Progress::Over);
    shows(&stage.screen(), &["⚠ 2 nodes not empty: 2 refused"]);
    stage.press("esc : \"background\" enter");
    let screen = stage.screen();
    shows(
        &screen,
        &["◐ not empty: 2 refused, ", "◐ node-1  not empty: 1 refused, ", "◐ node-2  not empty: 1 refused, "],
    );
    assert!(!screen.contains("done") && !screen.contains("✔ node"), "{screen}");
    let bar = screen.lines().find(|line| line.contains("not empty: 2")).expect("a title");
    assert!(bar.contains('█') && bar.contains('·'), "the bar is not full: {bar}");
    // The pods that could not be evicted are deleted: now the drain is done.
    let crash = pod("shop", "crash", None, Some("node-1"), "CrashLoopBackOff", 300);
    let scratch = pod("default", "scratch", None, Some("node-2"), "Running", 50);
    stage.feed(vec![Delta::of::<Pod>(objects([crash, scratch]).into_iter().map(Change::Deleted).collect())]);
    shows(&stage.screen(), &["── done, ", "✔ node-1", "✔ node-2"]);
}

/// A drain without any eviction reports that, on its screen and at the key that starts it.
#[test]
fn a_drain_with_nothing_to_evict_says_so_con_6() {
    let mut stage = TestConsole::new(80, 24);
    stage.feed(cluster());
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Reset(objects([
        pod("shop", "one", None, Some("node-1"), "Running", 300),
        pod("shop", "two", None, Some("node-1"), "Running", 300),
    ]))])]);
    stage.press("n r");
    shows(&stage.screen(), &["2 pods, 0 leave, 2 refused", "no pod can be evicted: 2 refused"]);
    assert!(stage.press("D").is_empty());
    shows(&stage.screen(), &["⚠ no pod can be evicted from node-1: 2 refused; space on a pod"]);
}

#[test]
fn a_stopped_drain_goes_on_and_keeps_what_is_gone_con_6() {
    let mut stage = drain(120, 36);
    stage.press("D");
    let screen = stage.model.top().0;
    let tell = |stage: &mut TestConsole, progress| stage.send(Message::Data(screen, Data::new(progress)));
    let plan_now = |stage: &TestConsole| {
        let context = stage.model.shared.context(now());
        let budgets = context.stores.budgets().iter().map(|(_, budget)| budget);
        let pods = context.stores.pods_on("node-2");
        plan(
            pods,
            &mut BudgetTracker::new(budgets),
            &Options::default(),
            &std::collections::BTreeSet::new(),
            None,
        )
    };
    let rows = plan_now(&stage);
    tell(&mut stage, Progress::Began { node: 0, rows });
    let gone = EvictionState::Deleted { after: jiff::SignedDuration::from_secs(4) };
    tell(&mut stage, Progress::Evictions { node: 0, evictions: vec![(Uid::from("pod-api-1-b"), gone)] });
    shows(&stage.screen(), &["api-1-b", "not replaced yet"]);

    // The pod is gone from the node, and its controller has created another one.
    let mut old = pod("default", "api-1-b", Some("api-1"), Some("node-2"), "Running", 7100);
    old["spec"]["nodeName"] = json!("node-2");
    let made = pod("default", "api-1-c", Some("api-1"), Some("node-1"), "ContainerCreating", 0);
    let one = |value| objects([value]).remove(0);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Deleted(one(old)), Change::Applied(one(made))])]);
    shows(&stage.screen(), &["api-1-c starts on node-1"]);

    stage.press("x");
    shows(&stage.screen(), &["Drain node-2 ── stopped, 1 of 3 gone, 1 refused", "D resumes"]);
    let jobs = stage.press("D");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "it goes on");
    let rows = plan_now(&stage);
    tell(&mut stage, Progress::Began { node: 0, rows });
    shows(&stage.screen(), &["Drain node-2 ── 1 of 3 gone", "api-1-b", "✔ evicted in 4s"]);
}

/// Returns a console with the logs of a pod on the screen.
fn logs(width: u16, height: u16) -> TestConsole {
    let mut stage = TestConsole::new(width, height);
    stage.feed(cluster());
    stage.press("p \"/web-new-a\" enter l");
    stage
}

fn send_log_lines(stage: &mut TestConsole, lines: &[&str]) {
    let source: Arc<str> = Arc::from("web-new-a/main");
    let lines = lines.iter().map(|line| LogLine::parse(&source, line.as_bytes())).collect();
    let screen = stage.model.top().0;
    stage.send(Message::Data(screen, Data::new(Logged::Lines(1, lines))));
}

#[test]
fn logs_follow_search_and_filter_con_10() {
    let mut stage = logs(100, 20);
    shows(&stage.screen(), &["logs · default/web-new-a · main · last 1 000", "waiting for the first line"]);
    let many: Vec<String> = (0..100).map(|n| format!("2026-05-01T11:59:00.{n:03}Z line {n}")).collect();
    send_log_lines(&mut stage, &many.iter().map(String::as_str).collect::<Vec<_>>());
    shows(&stage.screen(), &["line 99", "100 lines · ● following"]);
    stage.press("g");
    shows(&stage.screen(), &["line 0", "held"]);
    send_log_lines(&mut stage, &["2026-05-01T12:00:00Z \u{1b}[31mERROR\u{1b}[0m \u{1b}]0;evil\u{7}late"]);
    shows(&stage.screen(), &["line 0", "101 lines"]);
    stage.press("/ \"late\" enter n");
    shows(&stage.screen(), &["ERROR late", "/late 1/1"]);
    stage.press("F t");
    let screen = stage.screen();
    shows(&screen, &["12:00:00 ERROR late", "only matches · 1 line"]);
    assert!(!screen.contains("line 98"), "{screen}");
}

#[test]
fn a_search_in_a_held_log_shows_the_first_match_con_10() {
    let mut stage = logs(100, 20);
    let many: Vec<String> = (0..100).map(|n| format!("2026-05-01T11:59:00.{n:03}Z line {n}")).collect();
    send_log_lines(&mut stage, &many.iter().map(String::as_str).collect::<Vec<_>>());
    stage.press("g / \"line_6\" enter");
    shows(&stage.screen(), &["line 6", "1/11"]);
    stage.press("n");
    shows(&stage.screen(), &["line 60", "2/11"]);
}

/// Regression: another range was requested from the server, which no longer had it, and the lines were gone.
#[test]
fn the_log_of_a_deleted_pod_keeps_its_lines_con_10() {
    let mut stage = logs(100, 20);
    send_log_lines(&mut stage, &["2026-05-01T11:59:00Z the last words"]);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Reset(Vec::new())])]);
    for key in ["1", "p", "2"] {
        let jobs = stage.press(key);
        let screen = stage.screen();
        assert!(jobs.is_empty(), "{key}: {jobs:?}");
        shows(&screen, &["the last words", "is gone: its log cannot be read again"]);
    }
}

#[test]
fn a_container_without_log_lines_shows_its_events_con_10() {
    let mut stage = TestConsole::new(100, 20);
    stage.feed(cluster());
    stage.press("p \"/cart-1-a\" enter l");
    let note = LogLine::note(&Arc::from("cart-1-a/main"), "main waits: ImagePullBackOff");
    let screen = stage.model.top().0;
    stage.send(Message::Data(screen, Data::new(Logged::Lines(1, vec![note]))));
    shows(
        &stage.screen(),
        &[
            "▪ main waits: ImagePullBackOff",
            "Meanwhile, its events:",
            "12s ⚠ BackOff  Back-off pulling image",
        ],
    );
    send_log_lines(&mut stage, &["2026-05-01T12:00:00Z at last"]);
    let screen = stage.screen();
    shows(&screen, &["at last"]);
    assert!(!screen.contains("Meanwhile"), "{screen}");
}

#[test]
fn dropped_log_lines_are_reported_at_their_position_con_10() {
    let mut stage = logs(100, 20);
    let many: Vec<String> = (0..100_250).map(|n| format!("line {n}")).collect();
    send_log_lines(&mut stage, &many.iter().map(String::as_str).collect::<Vec<_>>());
    shows(&stage.screen(), &["line 100249", "100 000 lines"]);
    stage.press("g");
    let screen = stage.screen();
    shows(&screen, &["… 250 lines dropped here", "line 250"]);
}

#[test]
fn a_scrolled_log_does_not_move_while_lines_flood_in_con_10() {
    let mut stage = logs(100, 20);
    let flood = |stage: &mut TestConsole, range: std::ops::Range<u32>| {
        let many: Vec<String> = range.map(|n| format!("line {n}")).collect();
        send_log_lines(stage, &many.iter().map(String::as_str).collect::<Vec<_>>());
    };
    flood(&mut stage, 0..50_000);
    stage.press("g");
    shows(&stage.screen(), &["line 0", "‖ held"]);
    assert!(!stage.screen().contains("reading waits"), "there is room");
    flood(&mut stage, 50_000..95_000);
    shows(&stage.screen(), &["line 0", "reading waits"]);
    stage.press("G");
    flood(&mut stage, 95_000..95_001);
    let screen = stage.screen();
    shows(&screen, &["line 95000", "● following"]);
    // Late lines of an earlier stream are not mixed into the new one.
    stage.press("1");
    let screen = stage.model.top().0;
    let late = LogLine::parse(&Arc::from("p/c"), b"too late");
    stage.send(Message::Data(screen, Data::new(Logged::Lines(1, vec![late]))));
    assert!(!stage.screen().contains("too late"));
}

#[test]
fn an_attach_offers_the_debugger_that_was_left_con_8() {
    let mut stage = TestConsole::new(100, 24);
    stage.feed(cluster());
    let mut value = pod("default", "web-new-a", Some("web-new"), Some("node-1"), "Running", 40);
    value["spec"]["ephemeralContainers"] = json!([
        { "name": "debugger-a", "image": "busybox" }, { "name": "debugger-b", "image": "busybox" },
        { "name": "debugger-c", "image": "busybox" },
    ]);
    let state = |name: &str, state: serde_json::Value| json!({ "name": name, "image": "busybox", "imageID": "", "ready": false, "restartCount": 0, "state": state });
    value["status"]["ephemeralContainerStatuses"] = json!([
        state("debugger-a", json!({ "running": {} })),
        state("debugger-b", json!({ "running": {} })),
        state("debugger-c", json!({ "terminated": { "exitCode": 0 } })),
    ]);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Applied(objects([value]).remove(0))])]);
    stage.press("p \"/web-new-a\" enter a");
    shows(&stage.screen(), &["Attach to web-new-a", "‹ debugger-b ›"]);
    // A shell is meant for the application.
    stage.press("esc s");
    shows(&stage.screen(), &["Shell in web-new-a", "‹ main ›"]);
}

#[test]
fn a_debug_container_is_requested_shown_starting_and_attached_to_con_8() {
    let mut stage = TestConsole::new(100, 24);
    stage.feed(cluster());
    stage.press("p \"/web-new-a\" enter D");
    shows(&stage.screen(), &["Debug web-new-a", "target", "main", "image", "busybox"]);
    // All fields are filled in: the effect of Enter is shown below.
    shows(&stage.screen(), &["<enter>start"]);
    stage.press("enter");
    let screen = stage.model.top().0;
    let tell = |stage: &mut TestConsole, event| {
        stage.send(Message::Data(screen, Data::new(Opened::Event(event))));
    };
    shows(&stage.screen(), &["debug · web-new-a · debugger-", "adding container debugger-"]);
    tell(
        &mut stage,
        PaneEvent::Progress(StartProgress::Waiting {
            reason: "ErrImagePull".to_owned(),
            message: "no such image".to_owned(),
            trouble: true,
        }),
    );
    shows(&stage.screen(), &["✖ ErrImagePull", "no such image", "Kubernetes tries again"]);
    tell(&mut stage, PaneEvent::Opened { container: "debugger-x".to_owned(), tty: true, stdin: true });
    tell(&mut stage, PaneEvent::Output(bytes::Bytes::from_static(b"/ # \x1b[1mls\x1b[0m\r\nbin")));
    shows(&stage.screen(), &["/ # ls", "bin█", "ctrl-] detach"]);
    // Every key belongs to the process, also the console's own.
    stage.press("q : ?");
    shows(&stage.screen(), &["/ # ls"]);
    // In the background it continues with the output so far, and quitting asks for confirmation.
    stage.press("ctrl-]");
    shows(&stage.screen(), &["⧗ debug web-new-a", "Pods all"]);
    tell(&mut stage, PaneEvent::Output(bytes::Bytes::from_static(b"\r\nmeanwhile")));
    stage.press("ctrl-c");
    shows(&stage.screen(), &["1 background task will be stopped."]);
    stage.press("esc : \"background\" enter");
    assert_eq!(stage.model.top().0, screen);
    shows(&stage.screen(), &["/ # ls", "bin", "meanwhile"]);
    tell(&mut stage, PaneEvent::Ended(Outcome::Exited(3)));
    shows(&stage.screen(), &["command terminated with exit code 3", "enter close", "<c>copy"]);
}

#[test]
fn describe_tells_what_kubectl_would_and_searches_con_3() {
    let mut stage = TestConsole::new(110, 40);
    stage.feed(cluster());
    stage.press("p \"/cart-1-a\" enter d");
    let screen = stage.model.top().0;
    let object = Box::new({
        let mut pod = pod("default", "cart-1-a", Some("cart-1"), Some("node-2"), "ImagePullBackOff", 133);
        pod["kind"] = json!("Pod");
        pod
    });
    stage.send(Message::Data(screen, Data::new(Described::Object(object))));
    let text = stage.screen();
    shows(
        &text,
        &[
            "describe · Pod default/cart-1-a", "Name:             cart-1-a",
            "Controlled By:    ReplicaSet/cart-1", "Containers:", "  main:",
            "    Image:          nginx:1.27", "    State:          Waiting",
            "      Reason:  ImagePullBackOff", "Events:", "Type     Reason   Age",
            "Warning  BackOff  12s (x9 over",
        ],
    );
}

/// Returns the description of an object of [`cluster`] that is opened by these keys.
fn described(stage: &mut TestConsole, keys: &str, kind: &str, mut object: serde_json::Value) -> String {
    stage.press(keys);
    object["kind"] = json!(kind);
    let screen = stage.model.top().0;
    stage.send(Message::Data(screen, Data::new(Described::Object(Box::new(object)))));
    stage.screen()
}

#[test]
fn describe_shows_no_events_of_objects_of_the_same_name_con_3() {
    let about = |id: u32, object: &str, namespace: Option<&str>, uid: Option<&str>, reason: &str| {
        let mut event = event(id, "Normal", object, reason, "", 12, 1);
        event["metadata"]["namespace"] = json!(namespace.unwrap_or("default"));
        event["involvedObject"]["namespace"] = json!(namespace);
        event["involvedObject"]["uid"] = json!(uid);
        event
    };
    let mut stage = TestConsole::new(110, 60);
    stage.feed(cluster());
    stage.feed(vec![Delta::of::<Event>(vec![Change::Reset(objects([
        about(1, "Pod/api-1-a", Some("default"), None, "WithoutUid"),
        about(2, "Pod/api-1-a", None, None, "WithoutNamespace"),
        about(3, "Pod/api-1-a", Some("shop"), None, "OfAnotherNamespace"),
        about(4, "Pod/api-1-a", Some("default"), Some("api-1-a"), "OfAnotherUid"),
        about(5, "Node/node-1", None, Some("node-1"), "NameAsUid"),
        about(6, "Node/node-1", None, None, "NodeWithoutUid"),
    ]))])]);
    let api = pod("default", "api-1-a", Some("api-1"), Some("node-1"), "Running", 7100);
    let text = described(&mut stage, "p \"/api-1-a\" enter d", "Pod", api);
    shows(&text, &["describe · Pod default/api-1-a", "WithoutUid", "WithoutNamespace"]);
    assert!(!text.contains("OfAnother"), "{text}");
    let text =
        described(&mut stage, "~ n \"/node-1\" enter d", "Node", node("node-1", "zone-a", "True", false));
    shows(&text, &["describe · Node node-1", "NameAsUid", "NodeWithoutUid"]);
}

/// Init containers and overhead count, as on `kubectl describe node`.
#[test]
fn describe_of_a_node_counts_effective_requests_con_3() {
    let mut stage = TestConsole::new(130, 60);
    stage.feed(cluster());
    let mut heavy = pod("default", "heavy", None, Some("node-2"), "Running", 7100);
    heavy["spec"]["initContainers"] = json!([{ "name": "setup", "image": "busybox",
        "resources": { "requests": { "cpu": "1", "memory": "64Mi" } } }]);
    heavy["spec"]["overhead"] = json!({ "cpu": "500m", "memory": "128Mi" });
    heavy["spec"]["containers"][0]["resources"]["limits"] = json!({ "cpu": "2" });
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Reset(objects([heavy]))])]);
    let text = described(&mut stage, "n \"/node-2\" enter d", "Node", node("node-2", "zone-b", "True", true));
    let row = text.lines().find(|line| line.contains("heavy")).expect("the pod is listed");
    let cells: Vec<&str> = row.split_whitespace().collect();
    let expected = ["default", "heavy", "1500m", "(37%)", "2500m", "(62%)", "256Mi", "(3%)", "0", "(0%)"];
    assert!(cells.windows(expected.len()).any(|cells| cells == expected), "{row}");
}
