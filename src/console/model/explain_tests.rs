//! Explanations of objects that are not ready, with the last log lines of crashed containers and each cause once
//! (CON-19).

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::tabs_tests::{TestConsole, objects};
use super::*;
use console_data::message::Message;
use console_data::resource::ObjectRef;
use console_data::store::{Change, Delta};
use console_operations::effect::{Route, Runner};

/// A console on a server with logs.
struct CrashingConsole {
    stage: TestConsole,
    runner: Runner,
    messages: mpsc::Receiver<Message>,
    /// The log requests.
    requests: Arc<Mutex<Vec<String>>>,
}

/// Returns the log of a pod; that of `mute` cannot be read.
fn log(path: &str, query: &str) -> (u16, String) {
    let of = path.strip_suffix("/log").and_then(|path| path.rsplit('/').next()).expect("a log");
    if of == "mute" {
        let message = "previous terminated container \"main\" in pod \"mute\" not found";
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "BadRequest", "code": 400});
        return (400, status.to_string());
    }
    let run = if query.contains("previous=true") { "before" } else { "current" };
    let line = |text: &str| format!("2026-05-01T11:59:00.000000000Z {text}\n");
    (200, line(&format!("{of} {run}: \u{1b}[31mpanic\u{1b}[0m: no such \u{7}file")) + &line("    at main"))
}

impl CrashingConsole {
    fn new(width: u16, height: u16) -> Self {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = requests.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let seen = seen.clone();
            async move {
                let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
                seen.lock().unwrap().push(format!("{path}?{query}"));
                let (code, text) = log(path, query);
                let response = Response::builder().status(code);
                Ok::<_, kube::Error>(response.body(Body::from(text.into_bytes())).unwrap())
            }
        });
        let (sender, messages) = mpsc::channel(16);
        let runner = Runner::new(Client::new(service, "default"), sender);
        Self { stage: TestConsole::new(width, height), runner, messages, requests }
    }

    fn feed(&mut self, deltas: Vec<Delta>) -> Vec<Job> {
        deltas.into_iter().flat_map(|delta| self.stage.feed(delta)).collect()
    }

    /// Starts the tasks, and waits for this many results.
    async fn run_jobs(&mut self, jobs: Vec<Job>, count: usize) {
        for job in jobs {
            if let Job::Start(task) = job {
                self.runner.start(task);
            }
        }
        for _ in 0..count {
            let message = self.messages.recv().await.expect("an answer");
            self.stage.model.update(message, self.stage.now);
        }
    }

    fn shows(&mut self, expected: &[&str]) {
        let screen = self.stage.screen();
        let narrow = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = screen.lines().map(narrow);
        for want in expected {
            assert!(lines.any(|line| line.contains(want)), "{want:?} is not (there) in\n{screen}");
        }
    }
}

/// A pod in back-off after it ended with this exit code.
fn crashing(name: &str, exit: i32, back_off: u32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "web-1", "controller": true}]},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "i"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [{
            "name": "main", "ready": false, "restartCount": 3, "image": "i", "imageID": "",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message":
                format!("back-off {back_off}s restarting failed container=main pod={name}_default(uid-{name})")}},
            "lastState": {"terminated": {"exitCode": exit, "reason": "Error", "finishedAt": "2026-05-01T11:59:30Z"}},
        }]},
    })
}

fn web(pods: Vec<Value>) -> Vec<Delta> {
    let deployment = json!({"metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {"replicas": 4, "selector": {}, "template": {"spec": {"containers": []}}}, "status": {"replicas": 4}});
    let set = json!({"metadata": {"name": "web-1", "namespace": "default", "uid": "web-1", "ownerReferences":
        [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true}]},
        "spec": {"replicas": 4, "selector": {}}, "status": {"replicas": 4}});
    let node = json!({"metadata": {"name": "node-1", "uid": "node-1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    vec![
        Delta::of::<Node>(vec![Change::Reset(objects([node]))]),
        Delta::of::<Deployment>(vec![Change::Reset(objects([deployment]))]),
        Delta::of::<ReplicaSet>(vec![Change::Reset(objects([set]))]),
        Delta::of::<Pod>(vec![Change::Reset(objects(pods))]),
    ]
}

#[tokio::test]
async fn a_crashing_pod_is_explained_with_the_last_lines_of_its_log_con_19() {
    let mut show = CrashingConsole::new(110, 30);
    show.feed(web(vec![crashing("web-1-a", 3, 40)]));
    let jobs = show.stage.press("p W");
    show.shows(&["log of the previous run of web-1-a: loading …"]);
    show.run_jobs(jobs, 1).await;
    // The previous run crashed; control sequences in its log do not reach the terminal.
    show.shows(&[
        "container main: CrashLoopBackOff: back-off 40s",
        "its last run ended 30s ago: Error, exit 3",
        "log of the previous run of web-1-a, the last lines:",
        "web-1-a before: panic: no such file",
        "at main",
    ]);
    assert!(show.requests.lock().unwrap()[0].contains("tailLines=8"), "{:?}", show.requests);
    // Unchanged logs are not requested again.
    assert!(!show.feed(web(vec![crashing("web-1-a", 3, 40)])).iter().any(|job| matches!(job, Job::Start(_))));
    // Another run has another log; a container that has ended without back-off still has the current one.
    let mut ended = crashing("web-1-a", 3, 40);
    let last = &mut ended["status"]["containerStatuses"][0];
    last["restartCount"] = json!(4);
    last["state"] = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
    let jobs = show.feed(web(vec![ended]));
    show.run_jobs(jobs, 1).await;
    show.shows(&["log of this run of web-1-a, the last lines:", "web-1-a current: panic"]);
    // A log that cannot be read states the reason.
    let jobs = show.feed(web(vec![crashing("mute", 3, 40)]));
    assert!(!jobs.iter().any(|job| matches!(job, Job::Start(_))), "it is of another pod");
    let jobs = show.stage.press("~ p W");
    show.run_jobs(jobs, 1).await;
    show.shows(&["log of the previous run of mute cannot be read: previous terminated container"]);
}

#[tokio::test]
async fn a_cause_of_several_pods_is_listed_once_the_most_frequent_first_con_19() {
    for (width, height) in [(110, 30), (80, 24)] {
        let mut show = CrashingConsole::new(width, height);
        let mut pods = vec![crashing("alone", 7, 10)];
        pods.extend((0..3).map(|at| crashing(&format!("web-1-{at}"), 3, 10 << at)));
        show.feed(web(pods));
        let jobs = show.stage.press("d W");
        show.run_jobs(jobs, 2).await;
        show.shows(&[
            "Deployment default/web:",
            "ReplicaSet default/web-1: 0 of 4 ready",
            "↻ 3 pods: container main: CrashLoopBackOff: back-off 10s restarting",
            "web-1-0, web-1-1, web-1-2",
            "its last run ended 30s ago: Error, exit 3",
            "log of the previous run of web-1-0, the last lines:",
            "web-1-0 before: panic: no such file",
            "↻ Pod alone: container main: CrashLoopBackOff",
            "its last run ended 30s ago: Error, exit 7",
            "alone before: panic: no such file",
        ]);
        let screen = show.stage.screen();
        assert_eq!(screen.matches("CrashLoopBackOff").count(), 2, "{screen}");
        // One log is read per cause.
        assert_eq!(show.requests.lock().unwrap().len(), 2, "{:?}", show.requests);
        // The line of a cause leads to its first pod.
        show.stage.press("g j j d");
        assert!(show.stage.screen().contains("describe · Pod default/web-1-0"), "{}", show.stage.screen());
    }
}

#[tokio::test]
async fn causes_and_pods_are_counted_where_there_are_very_many_con_19() {
    let mut show = CrashingConsole::new(200, 100);
    show.feed(web((0..300).map(|at| crashing(&format!("web-1-{at:03}"), at % 20 + 1, 10)).collect()));
    show.stage.press("d W");
    show.shows(&[
        "↻ 10 pods: container main: CrashLoopBackOff",
        "web-1-000, web-1-020, web-1-040",
        "and 8 more causes",
        "and 100 more pods not ready",
    ]);
    let screen = show.stage.screen();
    assert_eq!(screen.matches("log of the previous run").count(), 6, "{screen}");
}

#[test]
fn only_an_event_about_the_pending_pod_requests_its_verdict_again_con_9() {
    let mut stage = TestConsole::new(100, 30);
    stage.feed(Delta::of::<Event>(vec![Change::Reset(Vec::new())]));
    let pod = ObjectRef {
        kind: builtin_kinds::kind::<Pod>(),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
        uid: Some(Uid::from("default-web")),
    };
    let now = stage.now;
    stage.model.open(Route::Pending(pod).into(), now);
    for (kind, uid, expected) in
        [("Pod", "default-web", 1), ("Pod", "an-earlier-pod", 0), ("Deployment", "deployment", 0)]
    {
        let event = json!({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "type": "Warning",
            "reason": "FailedScheduling", "message": "0/3 nodes are available",
            "involvedObject": {"kind": kind, "namespace": "default", "name": "web", "uid": uid}});
        let jobs = stage.feed(Delta::of::<Event>(vec![Change::Applied(objects([event]).remove(0))]));
        let is_request = |job: &&Job| matches!(job, Job::Start(task) if task.slot() == "verdict");
        assert_eq!(jobs.iter().filter(is_request).count(), expected, "{kind} {uid}");
    }
}
