//! The core alone: its actions for one pod after another.

use serde_json::json;

use super::*;
use crate::test_cluster::Cluster;
use crate::test_objects::{asking, named_pod, node, sized_node};
use object::SharedObject;

#[test]
fn messages_are_kube_schedulers_sch_9() {
    let tainted = node(json!({"metadata": {"name": "t"},
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}));
    let cordoned = node(json!({"metadata": {"name": "u"}, "spec": {"unschedulable": true}}));
    let nodes = [tainted, cordoned, sized_node("a", "1"), sized_node("b", "1"), sized_node("c", "2")];
    for (nodes, spec, message) in [
        (&nodes[..0], asking("1"), "no nodes available to schedule pods"),
        (
            &nodes[..],
            asking("3"),
            "0/5 nodes are available: 1 node(s) had untolerated taint {k: v}, 1 node(s) were \
             unschedulable, 3 Insufficient cpu. preemption: 0/5 nodes are available: 5 Preemption is \
             not helpful for scheduling.",
        ),
        (
            &nodes[2..],
            json!({"nodeSelector": {"disk": "ssd"}}),
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. preemption: \
             0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        ),
        (
            &nodes[2..],
            json!({"preemptionPolicy": "Never", "nodeSelector": {"disk": "ssd"}}),
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. preemption: \
             not eligible due to preemptionPolicy=Never.",
        ),
        (
            &nodes[2..],
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}}}}),
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: \
             0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        ),
        (
            &nodes[2..],
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["a"]},
                    {"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}}}),
            "0/3 nodes are available: pod affinity terms conflict. preemption: 0/3 nodes are available: \
             3 Preemption is not helpful for scheduling.",
        ),
    ] {
        let mut cluster = Cluster::new(nodes);
        cluster.pod("p", spec);
        assert_eq!(cluster.step(), format!("p: {message}"));
    }
}

#[test]
fn room_is_taken_at_once_and_given_back_when_the_binding_fails_sch_1() {
    let mut cluster = Cluster::new(&[sized_node("a", "1")]);
    cluster.pod("first", asking("1"));
    cluster.pod("second", asking("1"));
    let Some(CoreAction::Bind { attempt, node }) = cluster.core.step(cluster.now) else {
        panic!("first fits")
    };
    assert_eq!((attempt.pod.uid(), &*node), ("first", "a"));
    assert_eq!(
        cluster.step(),
        "second: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
         1 No preemption victims found for incoming pod."
    );
    cluster.core.bind_failed(attempt, cluster.now);
    // The other pod has the resources; its back-off is cut short, because no other pod is due.
    assert_eq!(cluster.step(), "second -> a");
    let bound = || {
        let mut spec = asking("1");
        spec["nodeName"] = json!("a");
        named_pod("second", spec)
    };
    // An older version of the pod arrives late, then the bound version, then its deletion.
    cluster.pod("second", asking("1"));
    cluster.core.pod_changed(bound(), cluster.now);
    assert!(!cluster.core.snapshot().placed("second").unwrap().assumed);
    assert_eq!(cluster.step(), "-", "a binding that failed waits out its back-off");
    assert!(cluster.after(1).step().starts_with("first: 0/1"));
    cluster.core.pod_deleted("second", cluster.now);
    assert_eq!(cluster.step(), "first -> a");
}

#[test]
fn unschedulable_and_gated_pods_cost_nothing_while_nothing_changes_sch_1() {
    let mut cluster = Cluster::new(&[sized_node("a", "2")]);
    for n in 0..200 {
        cluster.pod(&format!("big-{n}"), asking("4"));
    }
    for n in 0..10_000 {
        let gated = named_pod(&format!("gated-{n}"), json!({"schedulingGates": [{"name": "g"}]}));
        assert!(cluster.core.pod_changed(gated, cluster.now).is_some());
    }
    for _ in 0..200 {
        assert!(cluster.step().contains(": 0/1"));
    }
    assert_eq!((cluster.step(), cluster.core.tried()), ("-".into(), 200));
    assert_eq!(cluster.core.next_wake(), None, "no pod has to be tried again");
    // An hour of heartbeats, of pod statuses, and of conditions that the scheduler itself wrote.
    for n in 0..360 {
        cluster.after(10);
        let mut beating = (*sized_node("a", "2")).clone();
        let ready = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-21T00:00:00Z",
            "message": format!("beat {n}")}]);
        beating.status.as_mut().unwrap().conditions = serde_json::from_value(ready).unwrap();
        cluster.core.node_changed(SharedObject::from_value(beating), cluster.now);
        let mut updated = (*named_pod("big-0", asking("4"))).clone();
        updated.status = serde_json::from_value(json!({"message": format!("{n}")})).unwrap();
        cluster.core.pod_changed(SharedObject::from_value(updated), cluster.now);
        assert_eq!((cluster.step(), cluster.core.next_wake()), ("-".into(), None));
    }
    assert_eq!(cluster.core.tried(), 200);
    // A change that no plugin considers helpful: within five minutes each pod is tried once more, except gated ones.
    cluster.core.node_changed(sized_node("b", "1"), cluster.now);
    assert_eq!((cluster.step(), cluster.core.tried()), ("-".into(), 200));
    let due = cluster.core.next_wake().unwrap();
    assert!(due <= cluster.now + Duration::from_mins(5), "{due:?}");
    cluster.now = due;
    while cluster.step() != "-" {}
    assert_eq!((cluster.core.tried(), cluster.core.next_wake()), (400, None));
    assert_eq!(
        cluster.core.waiting(),
        PendingCounts { unschedulable: 200, gated: 10_000, ..PendingCounts::default() }
    );
}

#[test]
fn a_pod_on_a_node_that_is_not_there_is_counted_when_the_node_comes_sch_3() {
    let mut cluster = Cluster::new(&[sized_node("a", "1")]);
    cluster.placed("early", "b", json!({"spec": asking("1500m")}));
    assert_eq!((cluster.step(), cluster.core.snapshot().placed_count()), ("-".into(), 1));
    cluster.pod("p", asking("1"));
    assert_eq!(cluster.step(), "p -> a");
    cluster.core.node_changed(sized_node("b", "2"), cluster.now);
    cluster.pod("q", asking("1"));
    assert!(cluster.step().starts_with("q: 0/2 nodes are available: 2 Insufficient cpu."));
    cluster.core.pod_deleted("early", cluster.now);
    assert_eq!(cluster.after(1).step(), "q -> b");
    // It is deleted while its node is missing.
    cluster.placed("lost", "c", json!({"spec": asking("1")}));
    cluster.core.pod_deleted("lost", cluster.now);
    cluster.core.node_changed(sized_node("c", "1"), cluster.now);
    cluster.pod("r", asking("1"));
    assert!(["r -> b", "r -> c"].contains(&cluster.step().as_str()));
}

#[test]
fn changes_that_cannot_help_wake_no_pod_sch_1() {
    let mut cluster = Cluster::new(&[sized_node("a", "2"), sized_node("b", "1")]);
    cluster.pod("big", asking("4"));
    assert!(cluster.step().starts_with("big: 0/2"));
    cluster.after(60);
    for name in ["x", "y"] {
        cluster.pod(name, asking("500m"));
        assert!(cluster.step().starts_with(&format!("{name} -> ")));
    }
    cluster.core.pod_deleted("x", cluster.now);
    cluster.core.node_deleted("b", cluster.now);
    cluster.core.node_changed(sized_node("c", "3"), cluster.now);
    assert_eq!(cluster.step(), "-", "a node that is too small, room that is too small");
    assert!(cluster.verdicts.lock().get("big").is_some());
    cluster.core.node_changed(sized_node("c", "4"), cluster.now);
    assert_eq!(cluster.step(), "big -> c");
    assert!(cluster.verdicts.lock().get("big").is_none());
}

#[test]
fn gated_foreign_and_terminating_pods_are_left_alone_sch_1() {
    let mut cluster = Cluster::new(&[sized_node("a", "2")]);
    let gated =
        cluster.core.pod_changed(named_pod("p", json!({"schedulingGates": [{"name": "g"}]})), cluster.now);
    assert_eq!(gated.unwrap().message, "Scheduling is blocked due to non-empty scheduling gates");
    cluster.pod("foreign", json!({"schedulerName": "mine"}));
    let mut going = (*named_pod("going", json!({}))).clone();
    cluster.core.pod_changed(SharedObject::from_value(going.clone()), cluster.now);
    going.metadata.deletion_timestamp = Some(base::clock::time(jiff::Timestamp::UNIX_EPOCH));
    cluster.core.pod_changed(SharedObject::from_value(going), cluster.now);
    assert_eq!(cluster.step(), "-");
    cluster.pod("p", json!({}));
    assert_eq!(cluster.step(), "p -> a");
}

#[test]
fn verdicts_name_every_filter_on_every_node_con_9() {
    let cordoned = node(json!({"metadata": {"name": "u"}, "spec": {"unschedulable": true}}));
    let mut cluster = Cluster::new(&[cordoned, sized_node("a", "1")]);
    cluster.pod("p", asking("2"));
    cluster.step();
    let table = cluster.verdicts.lock().get("p").unwrap();
    let mut refusals: Vec<String> = Vec::new();
    for row in table.table.rows() {
        for (plugin, refusal) in row.verdicts() {
            let reasons: Vec<String> = refusal
                .iter()
                .flat_map(|refusal| refusal.reasons.as_slice().iter().map(ToString::to_string))
                .collect();
            refusals.push(format!("{} {}: {}", row.node(), plugin.name(), reasons.join(" and ")));
        }
    }
    assert_eq!(
        refusals,
        [
            "u NodeUnschedulable: node(s) were unschedulable",
            "u TaintToleration: ",
            "u NodeResourcesFit: Too many pods and Insufficient cpu",
            "a NodeUnschedulable: ",
            "a TaintToleration: ",
            "a NodeResourcesFit: Insufficient cpu",
        ]
    );
}
