//! The reason for which a pod waits for a node: the verdict of Podium's scheduler, and the conditions and events of
//! other clusters.

use k8s_openapi::api::core::v1::{Event, Pod};
use podium::console::model::Job;
use podium::console_data::message::{Data, Message};
use podium::console_data::store::{Change, Delta};
use podium::console_screens::pending::PendingData;
use podium::console_screens::pending::verdict::VerdictResponse;
use serde_json::{Value, json};

use super::shows;
use super::test_console::{TestConsole, ago, cluster, event, objects, pod};

fn applied(pod: Value) -> Vec<Delta> {
    vec![Delta::of::<Pod>(vec![Change::Applied(objects([pod]).remove(0))])]
}

/// The pod `shop/waiting` under the cursor.
fn stage(width: u16, height: u16) -> TestConsole {
    let mut stage = TestConsole::new(width, height);
    stage.feed(cluster());
    stage.press("p / \"waiting\" enter");
    stage
}

fn answer(stage: &mut TestConsole, answer: VerdictResponse) {
    let (screen, _) = stage.model.top();
    let screen = *screen;
    stage.send(Message::Data(screen, Data::new(PendingData::VerdictResponse(answer))));
}

fn verdict(value: Value) -> VerdictResponse {
    VerdictResponse::Verdict(Box::new(serde_json::from_value(value).expect("a verdict")))
}

fn refused(name: &str, refusals: &[(&str, &str)], scores: [i64; 2]) -> Value {
    let refusals: Vec<Value> =
        refusals.iter().map(|(plugin, reason)| json!({"plugin": plugin, "reasons": [reason]})).collect();
    json!({"name": name, "refusals": refusals, "scores": scores})
}

const CORDON: (&str, &str) = ("NodeUnschedulable", "node(s) were unschedulable");
const CPU: (&str, &str) = ("NodeResourcesFit", "Insufficient cpu");
const TAINT: (&str, &str) = ("TaintToleration", "node(s) had untolerated taint {gpu: yes}");

fn three_nodes() -> VerdictResponse {
    verdict(json!({
        "attemptedAt": ago(12), "message": "0/3 nodes are available: the rest.",
        "hints": [{"node": "node-2", "changes": ["uncordon the node"], "alike": 0},
            {"node": "node-1", "changes": ["free 1500m cpu"], "alike": 0}],
        "filters": ["NodeUnschedulable", "TaintToleration", "NodeResourcesFit"],
        "scoredBy": [{"plugin": "TaintToleration", "weight": 3}, {"plugin": "ImageLocality", "weight": 1}],
        "nodes": [refused("node-1", &[CPU], [100, 5]), refused("node-2", &[CORDON], [100, 9]),
            refused("node-3", &[TAINT, CPU], [0, 7])],
    }))
}

#[test]
fn the_key_is_there_where_it_applies_con_9() {
    let mut stage = stage(120, 30);
    shows(&stage.screen(), &["<W>why pending <l>logs"]);
    stage.press("esc / \"api-1-a\" enter");
    assert!(!stage.screen().contains("why pending"), "a pod with a node has no such question");
    stage.press("W");
    shows(&stage.screen(), &["why not ready · Pod default/api-1-a"]);
    assert!(!stage.screen().contains("why pending"));
    // From its description, too.
    let mut stage = self::stage(120, 30);
    stage.press("d");
    shows(&stage.screen(), &["<W>why pending"]);
    stage.press("W");
    shows(&stage.screen(), &["why pending · Pod shop/waiting", "asking the scheduler …"]);
}

#[test]
fn every_node_and_filter_with_scores_and_what_would_make_it_fit_con_9() {
    for (width, height) in [(80, 24), (140, 40)] {
        let mut stage = stage(width, height);
        let jobs = stage.press("W");
        assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "the scheduler is asked");
        answer(&mut stage, three_nodes());
        shows(
            &stage.screen(),
            &[
                "✖ none of 3 nodes accepts it · tried 12s ago · waits for 12s",
                "To make it fit, smallest change first:",
                "▸ node-2 uncordon the node",
                "node-1 free 1500m cpu",
                "NODE cordon taints resources SCORE REASON",
                // Each of the first two has one failure: 100·3 + 9 before 100·3 + 5.
                "node-2 ✖ ✔ ✔ 309 node(s) were unschedulable",
                "node-1 ✔ ✔ ✖ 305 Insufficient cpu",
                "node-3 ✔ ✖ ✖ 7 node(s) had untolerated taint",
                "─ node-2 ─",
                "✖ NodeUnschedulable node(s) were unschedulable",
                "✔ TaintToleration, NodeResourcesFit",
                "it would score 309: TaintToleration 100×3 + ImageLocality 9×1",
                "<space>open <d>describe",
            ],
        );
        // The cursor stays on a node, regardless of the order after the next attempt.
        stage.press("G");
        shows(&stage.screen(), &["─ node-3 ─", "✖ TaintToleration", "✖ NodeResourcesFit Insufficient cpu"]);
        stage.press("/ \"taint\" enter");
        let screen = stage.screen();
        assert!(!screen.contains("Insufficient cpu …") && !screen.contains("309"), "{screen}");
        stage.press("esc g enter");
        shows(&stage.screen(), &["▸ node-2 ◌ Ready,SchedulingDisabled"]);
    }
}

#[test]
fn a_verdict_says_that_nodes_have_changed_since_con_9() {
    use super::test_console::node;
    use k8s_openapi::api::core::v1::Node;
    let nodes = |cordoned: bool| {
        let list = [node("node-1", "zone-a", "True", cordoned), node("node-2", "zone-b", "True", true)];
        vec![Delta::of::<Node>(vec![Change::Reset(objects(list))])]
    };
    let two = || {
        verdict(json!({"attemptedAt": ago(12), "message": "",
            "nodes": [refused("node-1", &[CPU], [100, 5]), refused("node-2", &[CORDON], [100, 9])]}))
    };
    for (width, height) in [(80, 24), (40, 12)] {
        let mut stage = stage(width, height);
        stage.feed(nodes(false));
        stage.press("W");
        answer(&mut stage, two());
        assert!(!stage.screen().contains("stale"), "{}", stage.screen());
        // A cordon triggers no attempt: the verdict stays as it was.
        stage.feed(nodes(true));
        shows(&stage.screen(), &["⚠ stale: node-1 was cordoned since"]);
        // So it does where the screen opens after that.
        answer(&mut stage, two());
        shows(&stage.screen(), &["⚠ stale: node-1 was cordoned since"]);
        stage.feed(nodes(false));
        assert!(!stage.screen().contains("stale"), "{}", stage.screen());
    }
}

#[test]
fn thousands_of_nodes_are_grouped_by_reason_and_open_con_9() {
    let mut stage = stage(100, 30);
    stage.press("W");
    let nodes: Vec<Value> = (0..5000)
        .map(|n| refused(&format!("n{n:04}"), if n < 4990 { &[CPU] } else { &[TAINT, CPU] }, [100, n % 3]))
        .collect();
    answer(
        &mut stage,
        verdict(
            json!({"attemptedAt": ago(1), "message": "", "filters": ["TaintToleration", "NodeResourcesFit"],
            "hints": [{"node": "n0000", "changes": ["request at most 1 cpu"], "alike": 4989}],
            "scoredBy": [{"plugin": "TaintToleration", "weight": 3}, {"plugin": "ImageLocality", "weight": 1}],
            "nodes": nodes}),
        ),
    );
    shows(
        &stage.screen(),
        &[
            "✖ none of 5 000 nodes accepts it",
            "▸ n0000 +4989 request at most 1 cpu",
            "▸ 4 990 nodes ✔ ✖ 300–302 Insufficient cpu",
            "▸ 10 nodes ✖ ✖ 300–302 node(s) had untolerated taint {gpu: yes}, Insufficient…",
            "the best of them, n0002, would score 302",
        ],
    );
    stage.press("enter j");
    shows(&stage.screen(), &["▾ 4 990 nodes", "n0002 ✔ ✖ 302", "n0005 ✔ ✖ 302", "─ n0002 ─"]);
    stage.press("G");
    shows(&stage.screen(), &["n4989", "▸ 10 nodes", "─ 10 nodes ─"]);
    // The row under the cursor stays there when a new verdict arrives.
    let jobs = stage.press("g");
    assert!(jobs.is_empty());
    stage.press("enter");
    shows(&stage.screen(), &["▸ 4 990 nodes", "▸ 10 nodes"]);
    stage.press("/ \"n4995\" enter");
    shows(&stage.screen(), &["▾ 10 nodes", "n4995"]);
}

#[test]
fn another_attempt_is_seen_at_once_con_9() {
    let mut stage = stage(100, 30);
    stage.press("W");
    answer(&mut stage, three_nodes());
    let asks = |jobs: &[Job]| jobs.iter().filter(|job| matches!(job, Job::Start(_))).count();
    let mut failed =
        event(9, "Warning", "Pod/waiting", "FailedScheduling", "0/3 nodes are available: …", 1, 2);
    failed["involvedObject"]["namespace"] = json!("shop");
    let delta =
        |event: Value| Message::Feed(Delta::of::<Event>(vec![Change::Applied(objects([event]).remove(0))]));
    assert_eq!(asks(&stage.send(delta(failed))), 1);
    let other = event(10, "Warning", "Pod/other", "FailedScheduling", "0/3 nodes are available: …", 1, 2);
    assert_eq!(asks(&stage.send(delta(other))), 0, "another pod's attempt");
    // The pod was bound: the last verdict stays readable.
    stage.feed(applied(pod("shop", "waiting", None, Some("node-2"), "Pending", 12)));
    answer(&mut stage, VerdictResponse::Untried);
    shows(&stage.screen(), &["✔ scheduled to node-2", "node-2 ✖ ✔ ✔"]);
}

#[test]
fn a_nominated_node_and_scheduling_gates_are_shown_con_9() {
    let mut stage = stage(100, 30);
    stage.press("W");
    let mut nominated = pod("shop", "waiting", None, None, "Pending", 12);
    nominated["status"]["nominatedNodeName"] = json!("node-2");
    stage.feed(applied(nominated));
    answer(&mut stage, three_nodes());
    shows(&stage.screen(), &["◐ nominated to node-2: pods of lower priority are leaving it"]);
    let mut gated = pod("shop", "waiting", None, None, "Pending", 12);
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    stage.feed(applied(gated));
    shows(&stage.screen(), &["◌ not tried while it has gates: example.com/wait · waits for 12s"]);
}

#[test]
fn another_cluster_tells_what_its_event_says_and_the_console_says_so_con_14() {
    let mut stage = stage(80, 24);
    let mut failed = event(
        9,
        "Warning",
        "Pod/waiting",
        "FailedScheduling",
        "0/40 nodes are available: 10 node(s) had untolerated taint {gpu: yes}, 30 Insufficient cpu. preemption: \
         0/40 nodes are available: 40 Preemption is not helpful for scheduling.",
        90,
        7,
    );
    failed["involvedObject"]["namespace"] = json!("shop");
    stage.feed(vec![Delta::of::<Event>(vec![Change::Applied(objects([failed]).remove(0))])]);
    stage.press("W");
    answer(&mut stage, VerdictResponse::NotServed);
    shows(
        &stage.screen(),
        &[
            "◐ no node has accepted it · waits for 12s",
            "30 █████████··· Insufficient cpu",
            "10 ███········· node(s) had untolerated taint {gpu: yes}",
            "preemption: 0/40 nodes are available",
            "from its FailedScheduling event, 90s ago, ×7",
            "This cluster's scheduler does not name the nodes",
        ],
    );
    answer(&mut stage, VerdictResponse::Failed("etcdserver: request timed out".into()));
    shows(&stage.screen(), &["✖ etcdserver: request timed out"]);
}
