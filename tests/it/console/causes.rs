//! The causes why an object is not ready, from the object down to the container; the topology; the journal after
//! restarts.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use podium::console::model::{DiskJob, Job};
use podium::console_data::message::Message;
use podium::console_data::store::{Change, Delta};
use serde_json::json;

use super::test_console::{TestConsole, ago, cluster, deployment, event, node, objects, pod};
use super::{acted, shows, succeed};

fn shop(width: u16, height: u16) -> TestConsole {
    let mut stage = TestConsole::new(width, height);
    stage.feed(cluster());
    stage
}

fn put_pod(stage: &mut TestConsole, pod: serde_json::Value) {
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Applied(objects([pod]).remove(0))])]);
}

#[test]
fn the_causes_stand_below_one_another_down_to_the_container_con_19() {
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        let mut stage = shop(width, height);
        stage.press("d j W");
        let screen = stage.screen();
        shows(
            &screen,
            &["why not ready · Deployment default/cart", "▸ ◐ Deployment default/cart: Unavailable, 0 of 1"],
        );
        shows(
            &screen,
            &[
                "◐ ReplicaSet default/cart-1: 0 of 1 ready",
                "✖ Pod default/cart-1-a: ImagePullBackOff, 0 of 1",
            ],
        );
        shows(&screen, &["✖ container main: ImagePullBackOff"]);
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{screen}");
        // The latest warning has more detail than the state.
        stage.press("G");
        shows(&stage.screen(), &["BackOff (×9), 12s ago: Back-off pulling"]);
    }
    let mut stage = shop(120, 36);
    stage.press("d W");
    shows(
        &stage.screen(),
        &[
            "● Deployment default/api: Available, 2 of 2 available",
            "● ReplicaSet default/api-1: 2 of 2 ready",
        ],
    );
    assert!(!stage.screen().contains("Pod default/api"), "healthy pods are not listed");
    stage.press("~ d j j R W");
    shows(
        &stage.screen(),
        &["why not ready · Deployment default/web", "◐ Pod default/web-new-b: ContainerCreating"],
    );
    // Enter opens the object under the cursor.
    stage.press("j j enter");
    shows(&stage.screen(), &["Containers of Pod default/web-new-b"]);
}

#[test]
fn each_cause_is_shown_at_its_object_con_19() {
    let mut stage = shop(140, 40);
    let mut crash = pod("shop", "crash", None, Some("node-1"), "CrashLoopBackOff", 300);
    crash["status"]["containerStatuses"][0]["state"]["waiting"]["message"] =
        json!("back-off 40s restarting failed container=main");
    put_pod(&mut stage, crash);
    stage.press("p \"/crash\" enter W");
    shows(
        &stage.screen(),
        &[
            "↻ Pod shop/crash: CrashLoopBackOff, 0 of 1 ready on node-1",
            "↻ container main: CrashLoopBackOff: back-off 40s restarting failed container=main · again in 10s",
            "its last run ended 30s ago: Terminated, exit 1",
        ],
    );
    // Its countdown continues without new data.
    stage.screen();
    let wake = stage.model.shared.wake.get().expect("a countdown");
    assert!(wake.duration_since(stage.now).as_secs() <= 1);

    let mut slow = pod("shop", "crash", None, Some("node-10"), "Running", 300);
    slow["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 80, "path": "/ok"}});
    slow["spec"]["readinessGates"] = json!([{"conditionType": "example.com/ready"}]);
    slow["status"]["containerStatuses"][0]["ready"] = json!(false);
    put_pod(&mut stage, slow);
    let mut unhealthy =
        event(70, "Warning", "Pod/crash", "Unhealthy", "Readiness probe failed: HTTP 503", 4, 3);
    unhealthy["involvedObject"]["namespace"] = json!("shop");
    stage.feed(vec![Delta::of::<Event>(vec![Change::Applied(objects([unhealthy]).remove(0))])]);
    shows(
        &stage.screen(),
        &[
            "◐ Pod shop/crash: Running, 0 of 1 ready on node-10",
            "? its node node-10 is NotReady",
            "◐ readiness gate example.com/ready is not true",
            "◐ container main: Running, not ready",
            "◐ readiness probe: GET :80/ok",
            "✖ Unhealthy (×3), 4s ago: Readiness probe failed: HTTP 503",
        ],
    );
    let mut ending = pod("shop", "crash", None, Some("node-1"), "Running", 300);
    ending["metadata"]["deletionTimestamp"] = json!(ago(-20));
    put_pod(&mut stage, ending);
    shows(
        &stage.screen(),
        &[
            "◌ it is terminating; containers that still run are killed at the end of the grace period · in 20s",
        ],
    );
    let mut held = pod("shop", "crash", None, Some("node-1"), "Running", 300);
    held["metadata"]["deletionTimestamp"] = json!(ago(20));
    held["metadata"]["finalizers"] = json!(["example.com/keep"]);
    put_pod(&mut stage, held);
    shows(&stage.screen(), &["◐ its removal waits for finalizers: example.com/keep"]);
    let gone = pod("shop", "crash", None, Some("node-1"), "Running", 300);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Deleted(objects([gone]).remove(0))])]);
    shows(&stage.screen(), &["✖ Pod shop/crash is gone"]);

    let mut stuck = deployment("web", 4, 2, 3, 5);
    stuck["status"]["conditions"] = json!([{"type": "Progressing", "status": "False",
        "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet has timed out"},
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}]);
    stage.feed(vec![Delta::of::<Deployment>(vec![Change::Applied(objects([stuck]).remove(0))])]);
    stage.press("~ d j j W");
    shows(
        &stage.screen(),
        &[
            "✖ Progressing: ProgressDeadlineExceeded: ReplicaSet has timed out",
            "✖ ReplicaFailure: FailedCreate: exceeded quota",
        ],
    );
    // An unschedulable pod has a separate screen with more details.
    stage.press("~ p G W");
    shows(&stage.screen(), &["shop/waiting"]);
    assert!(!stage.screen().contains("why not ready"));
    stage.press("~ n G W");
    shows(&stage.screen(), &["why not ready · Node node-10", "? Node node-10: NotReady", "Ready is Unknown"]);
    stage.press("~ e W");
    shows(&stage.screen(), &["Events have no readiness to explain"]);
}

#[test]
fn the_topology_shows_zones_nodes_and_how_their_pods_are_con_19() {
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        let mut stage = shop(width, height);
        stage.press(": \"topology\" enter");
        shows(
            &stage.screen(),
            &[
                "Topology all 3 nodes in 2 zones",
                "zone-a 6 pods",
                "▸ ● node-1 Ready ↻◐●●●✔",
                "? node-10 NotReady",
                "zone-b 3 pods",
                "◌ node-2",
                "✖●●",
            ][..6],
        );
        stage.press("j j enter");
        shows(&stage.screen(), &["Pods on node-2 3"]);
        stage.press("esc r");
        shows(&stage.screen(), &["Drain node-2"]);
    }
    let mut stage = shop(80, 24);
    let many = (0..500).map(|n| pod("default", &format!("load-{n}"), None, Some("node-1"), "Running", n));
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Reset(objects(many))])]);
    stage.feed(vec![Delta::of::<Node>(vec![Change::Applied(
        objects([node("node-1", "", "True", false)]).remove(0),
    )])]);
    stage.press(": \"topology\" enter");
    let screen = stage.screen();
    shows(&screen, &["no zone 500 pods"]);
    assert!(screen.contains(" +4"), "pods that do not fit are counted\n{screen}");
}

/// The journal is saved, and the changes of earlier runs are marked.
#[test]
fn the_journal_is_read_and_saved_per_cluster_con_17() {
    let mut stage = TestConsole::new(120, 36);
    stage.model.setup.config_dir = Some("/nowhere".into());
    // Changes made before the cluster is identified are not lost.
    let jobs = {
        stage.feed(cluster().into_iter().skip(1).collect());
        stage.press("n c")
    };
    let saved_lines = |jobs: &[Job]| -> Vec<(String, String)> {
        let saved_line = |job: &Job| match job {
            Job::Disk(cluster, DiskJob::AppendJournal(line)) => Some((cluster.to_string(), line.clone())),
            _ => None,
        };
        jobs.iter().filter_map(saved_line).collect()
    };
    assert_eq!(acted(&jobs), ["kubectl cordon node-1"]);
    succeed(&mut stage, jobs);
    let jobs = stage.send(Message::Feed(cluster().remove(0)));
    let reads = |job: &Job| matches!(job, Job::Disk(uid, DiskJob::ReadJournal(_)) if uid.as_str() == "ns-kube-system");
    assert!(jobs.iter().any(reads));
    let early = saved_lines(&jobs);
    assert!(
        matches!(&early[..], [(cluster, line)] if cluster == "ns-kube-system" && line.contains("cordon Node node-1"))
    );
    let jobs = stage.press("u");
    let Some(Job::Act(action)) = jobs.into_iter().find(|job| matches!(job, Job::Act(_))) else {
        panic!("it acts")
    };
    let outcome = podium::console_data::action::Outcome { action: *action, error: None, after: None };
    let jobs = stage.send(Message::ActionEnded(Box::new(outcome)));
    assert_eq!(saved_lines(&jobs).len(), 1, "{jobs:?}");
    assert!(saved_lines(&jobs)[0].1.ends_with('\n'));
}

#[test]
fn ownership_is_shown_as_a_tree_from_the_top_to_the_pods_con_19() {
    for (width, height) in [(120, 36), (80, 40)] {
        let mut stage = shop(width, height);
        let mut db = pod("default", "db-0", Some("db"), Some("node-1"), "Running", 60);
        db["metadata"]["ownerReferences"][0]["kind"] = json!("StatefulSet");
        db["metadata"]["ownerReferences"][0]["uid"] = json!("sts-db");
        put_pod(&mut stage, db);
        stage.press(": \"xray\" enter");
        let screen = stage.screen();
        shows(
            &screen,
            &[
                "▸ ● Deployment default/api 2/2 Available",
                "└ ● ReplicaSet api-1 2/2",
                "├ ● Pod api-1-a Running 1/1 on node-1",
                "└ ● Pod api-1-b Running 1/1 on node-2",
                "◐ Deployment default/cart 0/1 Unavailable",
                "● StatefulSet default/db 1/1",
                "└ ● Pod db-0 Running 1/1 on node-1",
                "↻ Pod shop/crash CrashLoopBackOff 0/1 on",
                "◐ Pod shop/waiting Pending 0/1 on no node",
            ],
        );
        assert!(screen.lines().all(|line| line.chars().count() <= width.into()), "{screen}");
    }
    let mut stage = shop(120, 36);
    stage.press(": \"xray_deploy\" enter");
    assert!(!stage.screen().contains("shop/crash"), "only trees of deployments");
    // Matching rows are shown with all rows above and below them in the tree.
    stage.press("/ \"cart-1$\" enter");
    shows(
        &stage.screen(),
        &["Deployments all 3 /cart-1$", "Deployment default/cart", "ReplicaSet cart-1", "Pod cart-1-a"],
    );
    stage.press("esc ctrl-z");
    let screen = stage.screen();
    shows(
        &screen,
        &["faults only", "Deployment default/cart", "ReplicaSet cart-1", "✖ Pod cart-1-a ImagePullBackOff"],
    );
    assert!(!screen.contains("Pod api-1-a"), "{screen}");
    // The cursor stays with its object while the tree grows.
    stage.press("ctrl-z g j j");
    let is_on =
        |screen: &str, name: &str| screen.lines().any(|line| line.contains("│ ▸") && line.contains(name));
    assert!(is_on(&stage.screen(), "Pod api-1-a"), "{}", stage.screen());
    put_pod(&mut stage, pod("default", "aaa", Some("api-1"), Some("node-1"), "Running", 1));
    let screen = stage.screen();
    assert!(screen.contains("Pod aaa"), "{screen}");
    assert!(is_on(&screen, "Pod api-1-a"), "{screen}");
    stage.press("enter");
    shows(&stage.screen(), &["Containers of Pod default/api-1-a"]);
    stage.press("~ : \"xray_wobble\" enter");
    shows(&stage.screen(), &["✖ no kind \"wobble\""]);
}
