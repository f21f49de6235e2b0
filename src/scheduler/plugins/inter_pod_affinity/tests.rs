//! Affinity and anti-affinity between pods, and the resulting scores.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::test_objects::{node, pod_info};

/// Zone A has node1 and node2, zone B node3; `bare` has no zone.
fn cluster() -> Snapshot {
    let mut snapshot = Snapshot::new();
    for (name, zone) in [("node1", "A"), ("node2", "A"), ("node3", "B"), ("bare", "")] {
        let mut labels = json!({"host": name});
        if !zone.is_empty() {
            labels["zone"] = json!(zone);
        }
        snapshot.set_node(node(json!({"metadata": {"name": name, "labels": labels}})));
    }
    snapshot
}

fn pod(name: &str, namespace: &str, app: &str, affinity: impl Into<Value>) -> PodInfo {
    let affinity: Value = affinity.into();
    pod_info(json!({"metadata": {"name": name, "namespace": namespace, "uid": name,
        "labels": {"app": app, "version": "1"}}, "spec": {"containers": [], "affinity": affinity}}))
}

fn term(key: &str, app: &str, more: Value) -> Value {
    let mut term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    if let (Some(term), Value::Object(more)) = (term.as_object_mut(), more) {
        term.extend(more);
    }
    term
}

fn required(kind: &str, terms: Value) -> Value {
    let mut affinity = json!({});
    affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
    affinity
}

/// Returns each node's result: `+` takes the pod, otherwise the first letters of the reason.
fn verdicts(snapshot: &mut Snapshot, pod: &PodInfo) -> Vec<&'static str> {
    snapshot.prepare(pod);
    let check = Check::new(pod, snapshot);
    let verdict = |node: &NodeInfo| match check.as_ref().map_or(Ok(()), |check| check.check(node)) {
        Ok(()) => "+",
        Err(refusal) => match (&refusal.reasons.as_slice()[0], refusal.resolvable) {
            (Reason::PodAffinity, false) => "seeks",
            (Reason::PodAntiAffinity, true) => "shuns",
            (Reason::ExistingAntiAffinity, true) => "shunned",
            other => panic!("{other:?}"),
        },
    };
    snapshot.nodes().iter().map(verdict).collect()
}

#[test]
fn pods_seek_and_shun_within_a_domain_both_ways_sch_3() {
    let mut there = cluster();
    there.add_pod(Arc::new(pod("w", "default", "web", json!({}))), "node1");
    there.add_pod(Arc::new(pod("c", "default", "cache", json!({}))), "node3");
    there.add_pod(Arc::new(pod("b", "default", "db", json!({}))), "bare");
    let hermit = required("podAntiAffinity", json!([term("zone", "guest", json!({}))]));
    there.add_pod(Arc::new(pod("h", "default", "hermit", hermit)), "node3");
    let seeks = |terms: Value| required("podAffinity", terms);
    let shuns = |terms: Value| required("podAntiAffinity", terms);
    for (app, affinity, expect) in [
        ("x", json!({}), ["+", "+", "+", "+"]),
        ("x", seeks(json!([term("zone", "web", json!({}))])), ["+", "+", "seeks", "seeks"]),
        ("x", seeks(json!([term("host", "web", json!({}))])), ["+", "seeks", "seeks", "seeks"]),
        ("x", shuns(json!([term("zone", "web", json!({}))])), ["shuns", "shuns", "+", "+"]),
        ("x", shuns(json!([term("host", "db", json!({}))])), ["+", "+", "+", "shuns"]),
        // A pod outside every zone conflicts with none.
        ("x", shuns(json!([term("zone", "db", json!({}))])), ["+", "+", "+", "+"]),
        // One pod must match all terms.
        ("x", seeks(json!([term("zone", "web", json!({})), term("zone", "cache", json!({}))])), ["seeks"; 4]),
        // The first pod of its own group may go anywhere with the key; the first of another's group may not.
        ("first", seeks(json!([term("zone", "first", json!({}))])), ["+", "+", "+", "seeks"]),
        ("x", seeks(json!([term("zone", "first", json!({}))])), ["seeks"; 4]),
        // The anti-affinity of existing pods.
        ("guest", json!({}), ["+", "+", "shunned", "+"]),
        // Without a selector a term selects no pod.
        ("x", shuns(json!([{"topologyKey": "zone"}])), ["+"; 4]),
        // matchLabelKeys: pods of the same version; mismatchLabelKeys: of another.
        (
            "x",
            shuns(json!([term("zone", "web", json!({"matchLabelKeys": ["version"]}))])),
            ["shuns", "shuns", "+", "+"],
        ),
        ("x", shuns(json!([term("zone", "web", json!({"mismatchLabelKeys": ["version"]}))])), ["+"; 4]),
    ] {
        let pod = pod("new", "default", app, affinity.clone());
        assert_eq!(verdicts(&mut there, &pod), expect, "{app} {affinity}");
    }
    // The hermit is removed with its anti-affinity; a terminating pod still counts.
    there.remove_pod(&"h".to_string());
    assert_eq!(verdicts(&mut there, &pod("new", "default", "guest", json!({}))), ["+"; 4]);
    assert!(there.counts().existing_terms().is_empty());
}

#[test]
fn terms_look_at_their_own_at_named_and_at_selected_namespaces_sch_3() {
    let mut there = cluster();
    there.set_namespace("blue", Some([("team".to_string(), "blue".to_string())].into()));
    there.add_pod(Arc::new(pod("w", "blue", "web", json!({}))), "node1");
    let shuns = |more: Value| {
        pod("new", "default", "x", required("podAntiAffinity", json!([term("host", "web", more)])))
    };
    let selected = || shuns(json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}));
    let is_rejected = |verdicts: Vec<&str>| verdicts[0] == "shuns";
    assert!(!is_rejected(verdicts(&mut there, &shuns(json!({})))), "its own namespace only");
    assert!(is_rejected(verdicts(&mut there, &shuns(json!({"namespaces": ["blue"]})))));
    assert!(is_rejected(verdicts(&mut there, &shuns(json!({"namespaceSelector": {}})))), "every namespace");
    assert!(is_rejected(verdicts(&mut there, &selected())));
    assert!(there.set_namespace("blue", Some([("team".to_string(), "red".to_string())].into())));
    assert!(!is_rejected(verdicts(&mut there, &selected())), "the namespace has other labels now");
}

#[test]
fn wishes_of_both_sides_add_up_sch_4() {
    let wish = |kind: &str, weight: i32, app: &str| {
        let mut affinity = json!({});
        affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"weight": weight, "podAffinityTerm": term("zone", app, json!({}))}]);
        affinity
    };
    let mut there = cluster();
    there.add_pod(Arc::new(pod("w1", "default", "web", json!({}))), "node1");
    there.add_pod(Arc::new(pod("w2", "default", "web", json!({}))), "node2");
    there.add_pod(Arc::new(pod("c", "default", "cache", wish("podAntiAffinity", 7, "new"))), "node3");
    there.add_pod(Arc::new(pod("d", "default", "db", wish("podAffinity", 5, "new"))), "node3");
    let affinity = required("podAffinity", json!([term("zone", "new", json!({}))]));
    there.add_pod(Arc::new(pod("s", "default", "seeker", affinity)), "node1");
    let new = pod("new", "default", "new", wish("podAffinity", 10, "web"));
    there.prepare(&new);
    let plugin = InterPodAffinity::default();
    let score = plugin.pre_score(&new, &there, &[]).unwrap();
    let mut scores: Vec<i64> = there.nodes().iter().map(|node| score.score(node)).collect();
    // Zone A: two webs of 10 and the seeker's 1; zone B: 5 − 7; without a zone nothing.
    assert_eq!(scores, [21, 21, -2, 0]);
    // 100·(s + 2)/23.
    score.normalize(&mut scores);
    assert_eq!(scores, [100, 100, 0, 8]);
    let alone = InterPodAffinity { ignore_preferred_of_existing: true, hard_weight: 0 };
    let score = alone.pre_score(&new, &there, &[]).unwrap();
    assert_eq!(there.nodes().iter().map(|node| score.score(node)).collect::<Vec<_>>(), [20, 20, 0, 0]);
}
