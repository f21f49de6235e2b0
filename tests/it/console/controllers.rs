//! The controllers of the control plane: their table, the screen of one, and the requests of pausing and stepping.

use jiff::SignedDuration;
use podium::console::linear::{Reader, Speech};
use podium::console::model::Job;
use podium::console_data::builtin_kinds;
use podium::console_data::catalogue::Catalogue;
use podium::console_data::links::{Link, UnavailableReason};
use podium::console_data::message::{Data, Message};
use podium::console_data::resource::{Kind, KindFacts, ResourceKey};
use podium::console_data::scope::Scope;
use podium::console_data::server_table::ServerTable;
use podium::console_data::store::{Change, Delta};
use podium::console_screens::controller::ControllerData;
use podium::console_screens::controller::response::ControllerResponse;
use podium::extension::fault::Fault;
use serde_json::{Value, json};

use super::test_console::{TestConsole, ago, cluster, kind, objects};
use super::{acted, shows};

fn controllers() -> Kind {
    let facts = kind("podium.dev", "v1alpha1", "Controller", &[]);
    Kind::new(KindFacts {
        namespaced: false,
        short_names: vec!["xc".into()],
        verbs: ["get", "list"].map(String::from).into(),
        subresources: [("step".to_owned(), ["create".to_owned()].into())].into(),
        ..(*facts).clone()
    })
}

/// A console on one of our clusters.
fn stage(width: u16, height: u16, read_only: bool) -> TestConsole {
    let mut stage = TestConsole::with(width, height, Scope::All, read_only);
    stage.feed(cluster());
    let mut kinds = builtin_kinds::kinds();
    let faults = kind("podium.dev", "v1alpha1", "Fault", &[]);
    kinds.push(Kind::new(KindFacts { namespaced: false, ..(*faults).clone() }));
    kinds.push(controllers());
    stage.send(Message::Catalogue(Catalogue::of(kinds)));
    stage
}

fn object(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "namespace": "default", "name": name})
}

fn queue(depth: u64, oldest: u64) -> Value {
    json!({"depth": depth, "inFlight": 0, "delayed": 1, "oldestMicroseconds": oldest})
}

fn deployment(state: &str) -> Value {
    json!({"state": state, "component": "deployment", "workers": 5, "startedAt": ago(300), "panics": 0,
        "queue": queue(2, 34_000_000), "reconciles": 1204, "errors": 2, "lastMinute": 12,
        "queueDuration": {"p50Microseconds": 85, "p99Microseconds": 20_000, "samples": 256},
        "workDuration": {"p50Microseconds": 1_250, "p99Microseconds": 9_900, "samples": 256},
        "lastError": {"key": "default/api", "at": ago(90), "result": "Failed", "message": "no room"},
        "waiting": [
            {"key": "default/web", "object": object("Deployment", "web"), "waitedMicroseconds": 34_000_000, "failures": 0},
            {"key": "default/cart", "object": object("Deployment", "cart"), "waitedMicroseconds": 3_000_000, "failures": 1}],
        "delayed": [{"key": "default/api", "object": object("Deployment", "api"), "dueInMicroseconds": 12_000_000,
            "failures": 3}],
        "inFlight": [],
        "recent": [
            {"key": "default/api", "object": object("Deployment", "api"), "at": ago(3), "result": "Done",
                "waitedMicroseconds": 120, "workedMicroseconds": 1_250},
            {"key": "default/api", "object": object("Deployment", "api"), "at": ago(90), "result": "Failed",
                "waitedMicroseconds": 120, "workedMicroseconds": 640, "message": "no room"}],
        "lastErrors": [{"key": "default/api", "object": object("Deployment", "api"), "at": ago(90), "result": "Failed",
            "waitedMicroseconds": 120, "workedMicroseconds": 640,
            "message": "pods \"x\" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0\n\u{1b}[2J"}]})
}

fn table(rows: &[(&str, Value)]) -> Delta {
    let rows: Vec<Value> = rows
        .iter()
        .map(|(name, status)| {
            let uid = format!("controller.podium.dev/{name}");
            json!({"cells": [name], "object": {"metadata": {"name": name, "uid": uid}, "status": status}})
        })
        .collect();
    let table: ServerTable = serde_json::from_value(json!({"kind": "Table", "metadata": {},
        "columnDefinitions": [{"name": "Name", "type": "string"}], "rows": rows}))
    .expect("a table");
    let rows = table.rows.into_iter().map(std::sync::Arc::new).collect();
    Delta::of_table(controllers().resource.clone(), Some(table.column_definitions), vec![Change::Reset(rows)])
}

fn all(state: &str) -> Delta {
    let job = json!({"state": "Running", "component": "job", "workers": 5, "queue": queue(0, 0), "reconciles": 7,
        "errors": 0, "workDuration": {"p50Microseconds": 2_000_000, "p99Microseconds": 2_000_000, "samples": 7}});
    table(&[("deployment", deployment(state)), ("job", job), ("podgc", json!({"state": "Stopped"}))])
}

fn pause_fault(name: &str, component: &str) -> Delta {
    let fault = json!({"metadata": {"name": name, "uid": name, "creationTimestamp": ago(60)},
        "spec": {"type": "Pause", "target": {"component": component}},
        "status": {"startedAt": ago(60), "conditions": [{"type": "Active", "status": "True", "reason": "InForce",
            "message": "", "lastTransitionTime": ago(60)}]}});
    Delta::of::<Fault>(vec![Change::Reset(objects([fault]))])
}

fn answer(stage: &mut TestConsole, answer: ControllerResponse) {
    let screen = stage.model.top().0;
    stage.send(Message::Data(screen, Data::new(ControllerData::Answer(answer))));
}

fn report_status(stage: &mut TestConsole, status: Value) {
    answer(stage, ControllerResponse::Status(Box::new(serde_json::from_value(status).expect("a status"))));
}

fn starts(jobs: &[Job]) -> bool {
    jobs.iter().any(|job| matches!(job, Job::Start(_)))
}

#[test]
fn every_controller_with_its_queue_its_latencies_and_its_errors_con_19() {
    for (width, height) in [(80, 24), (140, 40)] {
        let mut stage = stage(width, height, false);
        let jobs = stage.press(": \"xc\" enter");
        assert!(
            jobs.iter().any(
                |job| matches!(job, Job::Watch(kind, None, podium::console_data::server_table::Include::Object)
                if kind.resource == controllers().resource)
            ),
            "the server is asked for whole objects"
        );
        stage.feed(vec![all("Running")]);
        let screen = stage.screen();
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{screen}");
        shows(&screen, &["╭ Controllers", "NAME ↑ STATUS DEPTH", "▸ deployment ● Running 2"]);
        shows(&screen, &["job ● Running 0", "podgc ✖ Stopped –", "<p>pause/resume"]);
        assert!(width < 100 || screen.contains("WORK P99"), "{screen}");
        stage.press("/ \"stopped\" enter");
        let screen = stage.screen();
        assert!(screen.contains("podgc") && !screen.contains("│ ▸ deployment"), "{screen}");
    }
    let mut wide = stage(200, 40, false);
    wide.press(": \"controllers\" enter");
    wide.feed(vec![all("Running")]);
    shows(
        &wide.screen(),
        &[
            "NAME ↑ STATUS DEPTH FLIGHT LATER OLDEST DONE PER MIN WAIT P99 WORK P99 ERRORS LAST ERROR",
            "▸ deployment ● Running 2 0 1 34.0s 1204 12 20ms 9.9ms ▲2 default/api: Failed: no room",
            "job ● Running 0 0 1 0µs 7 0 – 2.0s 0 –",
            "podgc ✖ Stopped – – – – – – – – – –",
        ],
    );
    // Sorted by the time that reconciles take, regardless of the unit; unknown values come last.
    wide.press(&format!("{}O", "shift-right ".repeat(10)));
    shows(&wide.screen(), &["WORK P99 ↑", "podgc", "deployment", "job"]);
    wide.press("O");
    shows(&wide.screen(), &["WORK P99 ↓", "job", "deployment", "podgc"]);
}

#[test]
fn one_controller_with_its_keys_and_what_came_of_them_con_19() {
    for (width, height) in [(80, 24), (140, 40)] {
        let mut stage = stage(width, height, false);
        stage.press(": \"controllers\" enter");
        stage.feed(vec![all("Paused"), pause_fault("hold", "deployment")]);
        assert!(starts(&stage.press("enter")), "the server is asked");
        shows(&stage.screen(), &["╭ controller deployment", "asking the server …"]);
        report_status(&mut stage, deployment("Paused"));
        let screen = stage.screen();
        shows(
            &screen,
            &[
                "⚠ broken on purpose: Pause hold",
                "◐ Paused by fault hold · started 5m ago · 5 workers",
                "queue 2 due, the oldest for 34.0s · 0 in flight · 1 later",
                "done 1 204 reconciles · 12 in the last minute · 2 errors",
                "times waits p50 85µs, p99 20ms of the last 256",
                "DUE 2",
                "▸ default/web for 34.0s",
                "default/cart for 3.0s, failed once",
                "LATER 1",
                "default/api in 12.0s, failed 3 times",
                "LAST RECONCILES 2",
                "default/api Done in 1.2ms, 3s ago",
                "default/api Failed in 640µs, 90s ago: no room",
                "LAST ERRORS 1",
            ],
        );
        assert_eq!(screen.lines().count(), usize::from(height));
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{screen}");
        // The last error in full, without terminal control characters.
        stage.press("G");
        let screen = stage.screen();
        shows(&screen, &["─ Deployment api ─", "exceeded quota"]);
        assert!(!screen.contains('\u{1b}'));
        // To the next part and back, and to the object.
        stage.press("g tab");
        shows(&stage.screen(), &["▸ default/api in 12.0s"]);
        stage.press("shift-tab");
        shows(&stage.screen(), &["▸ default/web for"]);
        stage.press("/ \"cart\" enter");
        let screen = stage.screen();
        assert!(screen.contains("default/cart") && !screen.contains("default/web"), "{screen}");
        stage.press("esc j enter");
        shows(&stage.screen(), &["Deployments", "▸ default cart"]);
    }
}

#[test]
fn the_cursor_stays_with_its_key_and_the_next_takes_its_place_con_19() {
    let mut stage = stage(120, 40, false);
    stage.press(": \"controllers\" enter");
    stage.feed(vec![all("Paused")]);
    stage.press("enter");
    let mut status = deployment("Paused");
    report_status(&mut stage, status.clone());
    stage.press("j");
    shows(&stage.screen(), &["▸ default/cart"]);
    let first = status["waiting"].as_array_mut().expect("a list").remove(0);
    report_status(&mut stage, status.clone());
    shows(&stage.screen(), &["▸ default/cart"]);
    status["waiting"] = json!([first]);
    report_status(&mut stage, status.clone());
    shows(&stage.screen(), &["▸ default/web"]);
    // Two reconciles of one key in the same second can both be opened.
    let twice = status["recent"][0].clone();
    status["recent"] = json!([twice, twice]);
    status["waiting"] = json!([]);
    status["delayed"] = json!([]);
    report_status(&mut stage, status.clone());
    stage.press("g j j");
    shows(&stage.screen(), &["LAST ERRORS 1", "▸ default/api"]);
}

#[test]
fn pause_makes_a_fault_resume_deletes_it_and_a_step_is_for_what_stands_still_con_19() {
    let mut stage = stage(120, 40, false);
    stage.press(": \"controllers\" enter");
    stage.feed(vec![all("Running")]);
    assert_eq!(
        acted(&stage.press("p")),
        ["podium fault pause controller/deployment --name pause-deployment"]
    );
    // A fault of this name that has ended is left where it is.
    let ended = json!({"metadata": {"name": "pause-deployment", "uid": "old"}, "spec": {"type": "Pause",
        "target": {"component": "deployment"}}, "status": {"endedAt": ago(9)}});
    stage.feed(vec![Delta::of::<Fault>(vec![Change::Reset(objects([ended]))])]);
    assert_eq!(
        acted(&stage.press("p")),
        ["podium fault pause controller/deployment --name pause-deployment-2"]
    );
    // A component that does not run cannot be paused.
    assert!(acted(&stage.press("G p")).is_empty());
    shows(&stage.screen(), &["podgc is not running"]);

    stage.feed(vec![all("Paused"), pause_fault("hold", "deployment")]);
    let jobs = stage.press("g p");
    assert!(acted(&jobs).is_empty() && starts(&jobs), "the fault is asked for before it is healed");
    assert!(starts(&stage.press("s")), "a step of the next key");
    // Healing a fault that pauses all controllers resumes all of them.
    stage.feed(vec![pause_fault("all", "controllers")]);
    assert!(!starts(&stage.press("p")));
    shows(&stage.screen(), &["Resume", "Fault all pauses all controllers: all of them resume."]);
    assert!(starts(&stage.press("right enter")));

    stage.press("enter");
    report_status(&mut stage, deployment("Running"));
    assert!(!starts(&stage.press("s")));
    shows(&stage.screen(), &["deployment is not paused"]);
    assert_eq!(acted(&stage.press("p")).len(), 1);
    report_status(&mut stage, deployment("Paused"));
    assert!(starts(&stage.press("s")));
}

#[test]
fn a_read_only_console_cannot_pause_or_step_controllers_con_19() {
    let mut stage = stage(120, 40, true);
    stage.press(": \"controllers\" enter");
    stage.feed(vec![all("Paused"), pause_fault("hold", "deployment")]);
    assert!(!stage.screen().contains("pause/resume"));
    for keys in ["p", "s"] {
        let jobs = stage.press(keys);
        assert!(acted(&jobs).is_empty() && !starts(&jobs), "{keys}");
        shows(&stage.screen(), &["✖ read-only:"]);
    }
    stage.press("enter");
    report_status(&mut stage, deployment("Paused"));
    for keys in ["p", "s"] {
        let jobs = stage.press(keys);
        assert!(acted(&jobs).is_empty() && !starts(&jobs), "{keys}");
    }
}

#[test]
fn missing_controller_status_is_shown_as_forbidden_absent_deleted_or_stale_con_18_con_19() {
    // Another server has no such resource.
    let mut other = TestConsole::new(120, 36);
    other.feed(cluster());
    other.send(Message::Catalogue(Catalogue::of(builtin_kinds::kinds())));
    other.press(": \"controllers\" enter");
    shows(&other.screen(), &["this server has no controllers.podium.dev"]);
    // Or one of its own of this name.
    let mut kinds = builtin_kinds::kinds();
    kinds.push(kind("x.io", "v1", "Controller", &[]));
    other.send(Message::Catalogue(Catalogue::of(kinds)));
    other.press("esc esc : \"controllers\" enter");
    shows(&other.screen(), &["╭ Controllers"]);
    assert!(!other.screen().contains("pause/resume"));

    for (width, height) in [(80, 24), (140, 40)] {
        let mut stage = stage(width, height, false);
        stage.press(": \"controllers\" enter");
        let why = "controllers.podium.dev is forbidden: User \"dev\" cannot list".to_owned();
        let resource = ResourceKey { ..controllers().resource.clone() };
        stage.send(Message::Link(Link::Refused(resource, UnavailableReason::NotAllowed(why))));
        shows(&stage.screen(), &["not allowed: controllers.podium.dev is forbidden"]);
        stage.feed(vec![all("Running")]);
        stage.press("enter");
        for (refused, words) in [
            (
                ControllerResponse::Forbidden("User \"dev\" cannot get".into()),
                "✖ forbidden: User \"dev\" cannot get",
            ),
            (ControllerResponse::Absent, "✖ this server has no controllers.podium.dev"),
            (ControllerResponse::NotFound, "✖ this controller does not exist"),
            (ControllerResponse::Failed("request failed".into()), "✖ request failed"),
        ] {
            answer(&mut stage, refused);
            shows(&stage.screen(), &[words]);
        }
        // The last known state stays, with its age, and is live again with the next response.
        report_status(&mut stage, deployment("Running"));
        stage.now = stage.now.saturating_add(SignedDuration::from_secs(12)).unwrap();
        answer(&mut stage, ControllerResponse::Failed("request failed".into()));
        shows(&stage.screen(), &["✖ request failed", "below is its state 12s ago", "● Running", "DUE 2"]);
        report_status(&mut stage, json!({"state": "Stopped"}));
        let screen = stage.screen();
        shows(&screen, &["✖ Stopped", "a stopped controller reports nothing more"]);
        assert!(!screen.contains("request failed") && !screen.contains("DUE"));
        assert!(acted(&stage.press("p")).is_empty());
        shows(&stage.screen(), &["deployment is not running"]);
    }
}

#[test]
fn read_aloud_a_state_is_news_and_a_count_that_goes_on_is_not_con_19_con_20() {
    let mut stage = stage(120, 36, false);
    let mut reader = Reader::default();
    let mut read = |stage: &mut TestConsole| -> Vec<String> {
        stage.now = stage.now.saturating_add(SignedDuration::from_secs(2)).unwrap();
        let spoken = reader.read(&stage.model, stage.now).into_iter();
        spoken
            .filter_map(|speech| match speech {
                Speech::Line(line) => Some(line),
                Speech::Typed(_) => None,
            })
            .collect()
    };
    stage.press(": \"controllers\" enter");
    stage.feed(vec![all("Running")]);
    let spoken = read(&mut stage).join("\n");
    assert!(spoken.contains("Selected: deployment, status") && spoken.contains("depth 2"), "{spoken}");
    let mut busier = deployment("Running");
    busier["reconciles"] = json!(1300);
    busier["queue"]["depth"] = json!(9);
    stage.feed(vec![table(&[("deployment", busier.clone())])]);
    let spoken = read(&mut stage).join("\n");
    assert!(!spoken.contains("Changed: deployment"), "{spoken}");
    busier["state"] = json!("Paused");
    stage.feed(vec![table(&[("deployment", busier)])]);
    let spoken = read(&mut stage).join("\n");
    assert!(spoken.contains("Changed: deployment: status Paused, was Running"), "{spoken}");
}

fn kubelet(state: &str) -> Value {
    let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name});
    json!({"state": state, "subsystem": "Kubelet", "component": "kubelet", "node": "n1", "startedAt": ago(300), "panics": 0,
        "cannotStep": "a kubelet's pods start and end by the clock",
        "queue": {"depth": 0, "inFlight": 1, "delayed": 3}, "reconciles": 1, "errors": 1, "lastMinute": 1,
        "counts": [{"name": "pods", "count": 12}, {"name": "failed probes", "count": 2}],
        "queueDuration": {"p50Microseconds": 85, "p99Microseconds": 85, "samples": 1},
        "workDuration": {"p50Microseconds": 640, "p99Microseconds": 640, "samples": 1},
        "inFlight": [{"key": "default/web", "object": pod("web"), "workedMicroseconds": 2_000_000}],
        "recent": [{"key": "node status", "at": ago(3), "result": "Failed", "workedMicroseconds": 9,
            "message": "cannot renew the lease: no room\u{1b}[2J"}],
        "lastErrors": []})
}

fn dns(state: &str) -> Value {
    json!({"state": state, "subsystem": "Network", "startedAt": ago(300), "panics": 0, "reconciles": 7, "errors": 0,
        "lastMinute": 2, "cannotPause": "nothing pauses the network", "cannotStep": "it has no queue",
        "counts": [{"name": "under way", "count": 0}],
        "workDuration": {"p50Microseconds": 640, "p99Microseconds": 900, "samples": 7},
        "recent": [{"key": "3 services", "at": ago(3), "result": "Done", "workedMicroseconds": 640}]})
}

fn everybody() -> Delta {
    table(&[
        ("deployment", deployment("Running")),
        ("dns-names", dns("Running")),
        ("kubelet:n1", kubelet("Running")),
    ])
}

#[test]
fn kubelets_and_loops_are_in_the_table_and_what_has_no_queue_shows_none_con_19() {
    for (width, height) in [(80, 24), (140, 40)] {
        let mut stage = stage(width, height, false);
        stage.press(": \"controllers\" enter");
        stage.feed(vec![everybody()]);
        let screen = stage.screen();
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{screen}");
        shows(&screen, &["deployment ● Running 2", "dns-names ● Running –", "kubelet:n1 ● Running 0"]);
        // The filter selects the components of one part of the cluster.
        stage.press("/ \"network\" enter");
        let screen = stage.screen();
        assert!(screen.contains("dns-names") && !screen.contains("kubelet:n1"), "{screen}");
    }
    let mut stage = stage(200, 40, false);
    stage.press(": \"controllers\" enter");
    stage.feed(vec![everybody()]);
    shows(&stage.screen(), &["dns-names ● Running – – – – 7 2 – 900µs 0 –"]);
    // A component that cannot be paused shows the reason; a kubelet belongs to a node.
    assert!(acted(&stage.press("j p")).is_empty());
    shows(&stage.screen(), &["dns-names cannot be paused: nothing pauses the network"]);
    assert_eq!(acted(&stage.press("j p")), ["podium fault pause kubelet/n1 --name pause-kubelet-n1"]);
}

#[test]
fn a_kubelet_and_a_loop_tell_what_they_do_and_what_is_not_possible_con_19() {
    for (width, height) in [(80, 24), (140, 40)] {
        let mut stage = stage(width, height, false);
        stage.press(": \"controllers\" enter");
        stage.feed(vec![everybody()]);
        stage.press("G enter");
        report_status(&mut stage, kubelet("Running"));
        let screen = stage.screen();
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{screen}");
        shows(
            &screen,
            &[
                "╭ controller kubelet:n1",
                "● Running · started 5m ago",
                "queue 0 due · 1 in flight · 3 later",
                "done 1 pod sync · 1 in the last minute · 1 errors",
                "counts 12 pods · 2 failed probes",
                "IN FLIGHT 1",
                "default/web for 2.0s",
                "LAST SYNCS 1",
                "node status Failed in 9µs, 3s ago: cannot renew the lease: no room",
            ],
        );
        assert!(!screen.contains("worker") && !screen.contains('\u{1b}'), "{screen}");
        assert!(!starts(&stage.press("s")));
        shows(&stage.screen(), &["kubelet:n1 cannot be stepped: a kubelet's pods"]);
        let by_fault = json!({"metadata": {"name": "hold", "uid": "hold", "creationTimestamp": ago(60)},
            "spec": {"type": "Pause", "target": {"component": "kubelet", "node": "n1"}},
            "status": {"startedAt": ago(60), "conditions": [{"type": "Active", "status": "True", "reason": "InForce",
                "message": "", "lastTransitionTime": ago(60)}]}});
        stage.feed(vec![Delta::of::<Fault>(vec![Change::Reset(objects([by_fault]))])]);
        report_status(&mut stage, kubelet("Paused"));
        shows(&stage.screen(), &["◐ Paused by fault hold · started 5m ago"]);
        assert!(starts(&stage.press("p")), "the fault is healed");

        stage.press("esc g j enter");
        report_status(&mut stage, dns("Running"));
        let screen = stage.screen();
        shows(
            &screen,
            &[
                "queue none",
                "done 7 rounds · 2 in the last minute · 0 errors",
                "times takes p50 640µs, p99 900µs of the last 7",
                "pause not possible: nothing pauses the network",
                "LAST ROUNDS 1",
                "3 services Done in 640µs, 3s ago",
            ],
        );
        assert!(!screen.contains("waits p50"), "{screen}");
        for (key, words) in
            [("p", "dns-names cannot be paused: nothing"), ("s", "dns-names cannot be stepped: it has")]
        {
            let jobs = stage.press(key);
            assert!(acted(&jobs).is_empty() && !starts(&jobs), "{key}");
            shows(&stage.screen(), &[words]);
        }
        report_status(&mut stage, json!({"state": "Running", "subsystem": "Network"}));
        shows(&stage.screen(), &["no reconcile has run yet"]);
    }
}

#[test]
fn read_aloud_a_loop_has_no_depth_and_what_it_counts_is_no_news_con_19_con_20() {
    let mut stage = stage(140, 40, false);
    let mut reader = Reader::default();
    let mut read = |stage: &mut TestConsole| -> String {
        stage.now = stage.now.saturating_add(SignedDuration::from_secs(2)).unwrap();
        let spoken = reader.read(&stage.model, stage.now).into_iter();
        let lines = spoken.filter_map(|speech| match speech {
            Speech::Line(line) => Some(line),
            Speech::Typed(_) => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    stage.press(": \"controllers\" enter");
    stage.feed(vec![table(&[("dns-names", dns("Running"))])]);
    let spoken = read(&mut stage);
    assert!(
        spoken.contains("Selected: dns-names, status Running") && !spoken.contains("depth 0"),
        "{spoken}"
    );
    let mut busier = dns("Running");
    busier["reconciles"] = json!(9);
    stage.feed(vec![table(&[("dns-names", busier)])]);
    let spoken = read(&mut stage);
    assert!(!spoken.contains("Changed: dns-names"), "{spoken}");
    stage.feed(vec![table(&[("dns-names", dns("Restarting"))])]);
    let spoken = read(&mut stage);
    assert!(spoken.contains("Changed: dns-names: status Restarting, was Running"), "{spoken}");
}
