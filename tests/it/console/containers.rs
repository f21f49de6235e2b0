//! Pods in detail: their usage, their containers, and actions on CronJobs and Secrets.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use podium::console::model::Job;
use podium::console_data::builtin_kinds;
use podium::console_data::catalogue::Catalogue;
use podium::console_data::message::{Data, Message};
use podium::console_data::server_table::ServerTable;
use podium::console_data::store::{Change, Delta, PodUsages, ResourceUsage};
use podium::console_data::thresholds::{Threshold, Thresholds};
use podium::console_screens::LiveScope;
use podium::console_screens::yaml::YamlData;
use serde_json::json;

use super::test_console::{TestConsole, ago, cluster, kind, objects, pod};
use super::{acted, shows};

fn used(cpu_millis: i64, mebibytes: i64) -> ResourceUsage {
    ResourceUsage { cpu_millis, memory_bytes: mebibytes << 20 }
}

fn measured(stage: &mut TestConsole) {
    stage.send(Message::Usage(Some([("node-1".to_owned(), used(1000, 4096))].into())));
    let mut pods = PodUsages::default();
    for (name, used) in [("api-1-a", used(12, 30)), ("api-1-b", used(230, 61)), ("cart-1-a", used(0, 0))] {
        pods.put("default", name, [("main", used)]);
    }
    stage.send(Message::PodUsage(Some(pods)));
}

/// Each pod's row shows its measured use, and a value near its limit is marked.
#[test]
fn pods_tell_what_they_use_con_4() {
    for (width, height) in [(140, 36), (100, 24)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        let mut limited = pod("default", "api-1-b", Some("api-1"), Some("node-2"), "Running", 7100);
        limited["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "1", "memory": "64Mi"});
        stage.feed(vec![Delta::of::<Pod>(vec![Change::Applied(objects([limited]).remove(0))])]);
        let jobs = stage.press("p");
        assert!(jobs.iter().any(|job| matches!(job, Job::MeasurePods(true))), "{jobs:?}");
        assert!(!stage.screen().contains(" CPU "), "no usage was measured");
        measured(&mut stage);
        shows(
            &stage.screen(),
            &[
                "RESTARTS CPU MEM",
                "▸ default api-1-a 1/1 ● Running 0 12m 30Mi",
                "api-1-b 1/1 ● Running 0 230m ▲61Mi",
                "web-new-a 1/1 ● Running 0 – –",
            ],
        );
        // The highest usage comes first; in reverse order, missing measurements do.
        stage.press("shift-right shift-right shift-right shift-right shift-right O O");
        shows(&stage.screen(), &["CPU ↓", "api-1-b", "api-1-a", "cart-1-a", "web-new-a"]);
        let jobs = stage.press("~");
        assert!(
            jobs.iter().any(|job| matches!(job, Job::MeasurePods(false))),
            "no screen shows measurements: {jobs:?}"
        );
        assert!(stage.press("n").iter().all(|job| !matches!(job, Job::MeasurePods(_))));
    }
}

/// The usage of very many pods enters their rows in portions: keys do not wait, and the result is the same as all at
/// once.
#[test]
fn usage_of_many_pods_is_applied_in_portions_between_other_work_con_1_con_4() {
    const PODS: i64 = 1300;
    let mut stage = TestConsole::new(140, 24);
    stage.feed(cluster());
    let name = |n: i64| format!("many-{n:04}");
    let many = objects((0..PODS).map(|n| pod("shop", &name(n), None, Some("node-1"), "Running", 60)));
    stage.feed(vec![Delta::of::<Pod>(many.into_iter().map(Change::Applied).collect())]);
    stage.press("p \"/many\" enter");
    while stage.model.works() {
        stage.send(Message::Work);
    }
    measured(&mut stage);
    let mut measured = PodUsages::default();
    for n in 0..PODS {
        measured.put("shop", &name(n), [("main", used(n, 30))]);
    }
    stage.send(Message::PodUsage(Some(measured)));
    // A pod is deleted in the middle of it, and keys still work.
    stage.send(Message::Work);
    let gone = objects([pod("shop", &name(0), None, Some("node-1"), "Running", 60)]).remove(0);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Deleted(gone)])]);
    stage.press("j");
    let mut turns = 0;
    while stage.model.works() {
        stage.send(Message::Work);
        turns += 1;
        assert!(turns < 20, "it works without end");
    }
    assert!(turns > 1, "it was done at once");
    shows(
        &stage.screen(),
        &["many-0001 1/1 ● Running 0 1m 30Mi", "▸ shop many-0002 1/1 ● Running 0 2m 30Mi"],
    );
    stage.press("G");
    shows(&stage.screen(), &["many-1299 1/1 ● Running 0 ▴1299m 30Mi"]);
    assert!(!stage.screen().contains("many-0000"));
}

/// The columns of k9s: usage in percent of requests and limits, where there is space or the table is wide. A missing
/// request or limit is `n/a`, a missing measurement `–`.
#[test]
fn pods_and_containers_tell_what_share_of_requests_and_limits_they_use_con_16() {
    let mut stage = TestConsole::new(210, 36);
    stage.feed(cluster());
    let mut limited = pod("default", "api-1-b", Some("api-1"), Some("node-2"), "Running", 7100);
    limited["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "1", "memory": "64Mi"});
    let mut free = pod("default", "cart-1-a", Some("cart-1"), Some("node-2"), "Running", 7100);
    free["spec"]["containers"][0]["resources"] = json!({});
    for changed in [limited, free] {
        stage.feed(vec![Delta::of::<Pod>(vec![Change::Applied(objects([changed]).remove(0))])]);
    }
    stage.press("p");
    measured(&mut stage);
    let heads = "RESTARTS CPU %CPU/R %CPU/L MEM %MEM/R %MEM/L NODE";
    shows(
        &stage.screen(),
        &[
            heads,
            "api-1-a 1/1 ● Running 0 12m 4 n/a 30Mi 23 n/a",
            "api-1-b 1/1 ● Running 0 230m ▲92 23 ▲61Mi 47 ▲95",
            "cart-1-a 1/1 ● Running 0 0m n/a n/a 0Mi n/a n/a",
            "web-new-a 1/1 ● Running 0 – – – – – –",
        ],
    );
    // The columns take no space from others; wide mode shows all of them.
    stage.resize(120, 36);
    shows(&stage.screen(), &["RESTARTS CPU MEM NODE"]);
    stage.press("ctrl-w");
    shows(&stage.screen(), &["CPU %CPU/R"]);
    stage.press("ctrl-w");
    // Thresholds are the user's.
    let calm = Threshold::new(96, 200).unwrap();
    stage.model.shared.thresholds = Thresholds { memory: calm, ..Thresholds::default() };
    shows(&stage.screen(), &["api-1-b 1/1 ● Running 0 230m 61Mi"]);
    let strict = Threshold::new(10, 20).unwrap();
    stage.model.shared.thresholds = Thresholds { memory: strict, cpu: strict };
    // Above the request, without a limit: only the former is shown.
    shows(&stage.screen(), &["api-1-a 1/1 ● Running 0 12m ▴30Mi", "api-1-b 1/1 ● Running 0 ▲230m ▲61Mi"]);
    // Its containers.
    stage.model.shared.thresholds = Thresholds::default();
    stage.press("/ \"api-1-b\" enter enter");
    shows(
        &stage.screen(),
        &[
            "Containers of Pod default/api-1-b",
            "RESTARTS CPU MEM IMAGE",
            "0 230m ▲61Mi",
            "cpu uses 230m, requests 250m (92%), limit 1000m (23%)",
            "memory uses 61Mi, requests 128Mi (47%), limit 64Mi (95%)",
        ],
    );
    stage.resize(160, 36);
    shows(&stage.screen(), &["CPU %CPU/R %CPU/L MEM %MEM/R %MEM/L IMAGE", "230m ▲92 23 ▲61Mi 47 ▲95"]);
}

/// Enter on a pod shows its containers, each with its commands.
#[test]
fn a_pod_opens_to_its_containers_con_16() {
    for (width, height) in [(120, 36), (80, 24)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        let mut many = pod("shop", "crash", None, Some("node-1"), "CrashLoopBackOff", 300);
        many["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 8080}]);
        many["spec"]["containers"][0]["livenessProbe"] = json!({"tcpSocket": {"port": 8080}});
        many["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "side", "image": "envoy:1"}));
        many["spec"]["initContainers"] = json!([{"name": "setup", "image": "busybox"}]);
        many["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff",
            "message": "back-off 40s restarting failed container=main"}});
        many["status"]["containerStatuses"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "side", "ready": true,
            "restartCount": 0, "image": "", "imageID": "", "state": {"running": {"startedAt": ago(60)}}}));
        many["status"]["initContainerStatuses"] = json!([{"name": "setup", "ready": true, "restartCount": 0,
            "image": "", "imageID": "", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]);
        stage.feed(vec![Delta::of::<Pod>(vec![Change::Applied(objects([many]).remove(0))])]);
        stage.press("p \"/crash\" enter enter");
        let screen = stage.screen();
        shows(
            &screen,
            &[
                "Containers of Pod shop/crash",
                "NAME STATE RESTARTS",
                "▸ ↻ main CrashLoopBackOff 4",
                "● side Running 0",
                "✔ setup (init) Completed 0",
                "message back-off 40s restarting failed container=main",
                "last exit Terminated, exit 1, 30s ago",
                "again in 10s",
                "ports http 8080/TCP",
                "liveness connect :8080 every 10s, fails after 3",
                "cpu requests 250m, limit none",
            ],
        );
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{screen}");
        // A container that does not run has no shell.
        assert!(acted(&stage.press("s")).is_empty());
        shows(&stage.screen(), &["✖ container main is not running: CrashLoopBackOff"]);
        stage.press("j");
        shows(&stage.screen(), &["▸ ● side Running", "running for 60s", "image envoy:1"]);
        let jobs = stage.press("s");
        assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "nothing is asked: {jobs:?}");
        assert!(stage.model.dialog.is_none());
        shows(&stage.screen(), &["side"]);
        stage.press("ctrl-]");
        shows(&stage.screen(), &["Containers of Pod shop/crash"]);
        // The pod is deleted and recreated under the same name: the screen reports that and follows.
        let gone = pod("shop", "crash", None, Some("node-1"), "CrashLoopBackOff", 300);
        stage.feed(vec![Delta::of::<Pod>(vec![Change::Deleted(objects([gone]).remove(0))])]);
        stage.press("~ p");
        assert!(!stage.screen().contains("crash"));
    }
}

/// A server with CronJobs and Secrets, and one of the kind in its table.
fn open(word: &str, read_only: bool) -> TestConsole {
    let mut stage = TestConsole::with(120, 36, podium::console_data::scope::Scope::All, read_only);
    stage.feed(cluster());
    let mut kinds = builtin_kinds::kinds();
    kinds.push(kind("batch", "v1", "CronJob", &[]));
    kinds.push(kind("", "v1", "Secret", &[]));
    stage.send(Message::Catalogue(Catalogue::of(kinds)));
    stage.press(&format!(": \"{word}\" enter"));
    let table: ServerTable = serde_json::from_value(json!({
        "kind": "Table", "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "priority": 0}],
        "rows": [{"cells": ["one"], "object": {"metadata": {"name": "one", "namespace": "default", "uid": "one"}}}],
    }))
    .expect("a table");
    let table = table.as_table();
    let Some(LiveScope::Kind(kind)) = stage.model.top().1.follows() else { panic!("a table of a kind") };
    let changes = vec![Change::Reset(table.rows.into_iter().map(Arc::new).collect())];
    stage.feed(vec![Delta::of_table(kind.resource.clone(), Some(table.column_definitions), changes)]);
    stage
}

/// A CronJob is triggered, suspended and resumed.
#[test]
fn a_cron_job_is_triggered_and_suspended_con_16() {
    let mut stage = open("cronjobs", false);
    shows(&stage.screen(), &["▸ default one", "<t>trigger <s>suspend/resume"]);
    stage.press("t");
    shows(&stage.screen(), &["Trigger CronJob default/one", "▸ job one-manual-"]);
    assert!(stage.press("ctrl-u enter").is_empty());
    shows(&stage.screen(), &["✖ a Job name has 1 to 63 characters"]);
    // The Job gets the server's current template.
    let jobs = stage.press("\"now\" enter");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))) && acted(&jobs).is_empty(), "{jobs:?}");
    let jobs = stage.press("s");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    let mut stage = open("cronjobs", true);
    for key in ["t", "s"] {
        assert!(stage.press(key).is_empty());
        assert!(stage.model.dialog.is_none());
        shows(&stage.screen(), &["✖ read-only"]);
    }
}

/// A Secret is decoded only on request.
#[test]
fn a_secret_is_decoded_on_request_only_con_16() {
    let mut stage = open("secrets", false);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one", "namespace": "default"},
        "data": {"password": "aHVudGVyMg==", "key": "//79/A==", "evil": "G1sySm93bmVk"}});
    let loaded = |stage: &mut TestConsole| {
        let screen = stage.model.top().0;
        stage.send(Message::Data(screen, Data::new(YamlData::Object(Box::new(secret.clone())))));
    };
    stage.press("y");
    loaded(&mut stage);
    shows(&stage.screen(), &["password: aHVudGVyMg=="]);
    stage.press("x");
    shows(&stage.screen(), &["data decoded", "password: hunter2"]);
    stage.press("x");
    assert!(!stage.screen().contains("hunter2"));
    stage.press("esc x");
    loaded(&mut stage);
    let screen = stage.screen();
    shows(&screen, &["data decoded", "password: hunter2"]);
    shows(&screen, &["(4 bytes of binary data)"]);
    assert!(!screen.chars().any(|c| c.is_control() && c != '\n'), "{screen}");
    // Other objects have nothing to decode.
    stage.press("~ d y x");
    shows(&stage.screen(), &["only a Secret has data to decode"]);
}

/// A script or a hostile word is one line, quoted; only a message may have several lines.
#[test]
fn values_with_line_ends_and_escapes_keep_the_layout_of_a_container_con_16_sec_3() {
    let mut stage = TestConsole::new(80, 24);
    let mut hostile = pod("default", "hostile", None, Some("node-1"), "CrashLoopBackOff", 60);
    hostile["spec"]["containers"][0]["command"] = json!(["sh", "-c", "while true; do\n  date\ndone\n"]);
    hostile["spec"]["containers"][0]["args"] = json!(["a b", "\u{1b}[31mred", ""]);
    hostile["spec"]["containers"][0]["image"] = json!("nginx\nimage");
    hostile["spec"]["containers"][0]["livenessProbe"] =
        json!({"exec": {"command": ["sh", "-c", "test -d /\ntrue"]}, "periodSeconds": 5});
    let lines = (1..=20).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
    hostile["status"]["containerStatuses"][0]["state"]["waiting"]["message"] = json!(lines);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Reset(objects([hostile]))])]);
    stage.press("p enter");
    let screen = stage.screen();
    shows(
        &screen,
        &[
            "message line 1",
            "line 5",
            "…",
            "image nginx␊image",
            r#"liveness sh -c "test -d /\ntrue" every 5s, fails after 3"#,
            "memory requests 128Mi, limit none",
            r#"command sh -c "while true; do\n date\ndone\n" "a b" "\x1b[31mred" """#,
        ],
    );
    assert!(!screen.contains("line 6"), "the description has the rest\n{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}
