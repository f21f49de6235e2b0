//! The figures and numbers of the page "Pod Topology Spread Constraints".

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::test_objects::{node, pod_info, with};
use object::well_known::label::HOSTNAME;

/// The page's cluster: zone A has node1 and node2, zone B node3 (and node4); pods `foo: bar` on them.
fn cluster(nodes: &[(&str, &str)], pods: &[&str]) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for (name, zone) in nodes {
        let mut labels = json!({"node": name, "kubernetes.io/hostname": name});
        if !zone.is_empty() {
            labels["zone"] = json!(zone);
        }
        snapshot.set_node(node(json!({"metadata": {"name": name, "labels": labels}})));
    }
    for (n, on) in pods.iter().enumerate() {
        snapshot.add_pod(Arc::new(labelled(&format!("p{n}"), json!({}))), on);
    }
    snapshot.refresh();
    snapshot
}

fn labelled(name: &str, spec: Value) -> PodInfo {
    pod_info(json!({"metadata": {"name": name, "namespace": "default", "uid": name,
        "labels": {"foo": "bar"}}, "spec": with(json!({"containers": []}), spec)}))
}

fn constraint(key: &str, more: Value) -> Value {
    let plain = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"foo": "bar"}}});
    with(plain, more)
}

/// Returns the nodes that take the pod, or the reasons why none does.
fn takers(snapshot: &mut Snapshot, pod: &PodInfo) -> Vec<String> {
    snapshot.prepare(pod);
    let check = Check::new(pod, snapshot);
    let takes = |node: &&NodeInfo| pod.required_nodes.matches(&node.node) && check.check(node).is_ok();
    snapshot.nodes().iter().filter(takes).map(|node| node.name.to_string()).collect()
}

const THREE: &[(&str, &str)] = &[("node1", "A"), ("node2", "A"), ("node3", "B")];
const FOUR: &[(&str, &str)] = &[("node1", "A"), ("node2", "A"), ("node3", "B"), ("node4", "B")];

#[test]
fn the_pictures_of_the_kubernetes_page_sch_5() {
    let with = |constraints: Value| labelled("new", json!({"topologySpreadConstraints": constraints}));
    let zone = || constraint("zone", json!({}));
    let by_node = || constraint("node", json!({}));
    let pods = ["node1", "node2", "node3"];
    // One constraint: [2, 1] may become [2, 2], not [3, 1].
    assert_eq!(takers(&mut cluster(FOUR, &pods), &with(json!([zone()]))), ["node3", "node4"]);
    // maxSkew 2 allows [3, 1] too.
    let relaxed = with(json!([constraint("zone", json!({"maxSkew": 2}))]));
    assert_eq!(takers(&mut cluster(FOUR, &pods), &relaxed), ["node1", "node2", "node3", "node4"]);
    // Two constraints: only zone B, and of its nodes the empty one.
    assert_eq!(takers(&mut cluster(FOUR, &pods), &with(json!([zone(), by_node()]))), ["node4"]);
    // Conflicting: zone B by the first, but node2 by the second.
    let crowded = ["node1", "node1", "node2", "node3", "node3"];
    assert!(takers(&mut cluster(THREE, &crowded), &with(json!([zone(), by_node()]))).is_empty());
    // The pod's affinity excludes zone C, so it is no empty domain either.
    let five = [FOUR, &[("node5", "C")]].concat();
    let not_c = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "NotIn", "values": ["C"]}]}]}}});
    let pod = |policy: &str| {
        labelled(
            "new",
            json!({"affinity": not_c, "topologySpreadConstraints":
            [constraint("zone", json!({"nodeAffinityPolicy": policy}))]}),
        )
    };
    assert_eq!(takers(&mut cluster(&five, &pods), &pod("Honor")), ["node3", "node4"]);
    // If the affinity is ignored, the empty zone C makes the minimum 0: [2, 1, 0] allows none in A or B.
    assert!(takers(&mut cluster(&five, &pods), &pod("Ignore")).is_empty());
    // A node without the key is neither domain nor target.
    let unlabelled = [THREE, &[("bare", "")]].concat();
    assert_eq!(takers(&mut cluster(&unlabelled, &["node1", "bare"]), &with(json!([zone()]))), ["node3"]);
}

#[test]
fn min_domains_selectors_and_other_pods_sch_5() {
    let with =
        |more: Value| labelled("new", json!({"topologySpreadConstraints": [constraint("zone", more)]}));
    let mut even = cluster(THREE, &["node1", "node3"]);
    assert_eq!(takers(&mut even, &with(json!({}))).len(), 3, "[1, 1] takes one anywhere");
    // Two domains of three: the minimum counts as 0, 1 + 1 − 0 > 1.
    assert!(takers(&mut even, &with(json!({"minDomains": 3}))).is_empty());
    assert_eq!(takers(&mut even, &with(json!({"minDomains": 3, "maxSkew": 2}))).len(), 3);
    // A selector that does not match the pod itself: 1 + 0 − 1 fits, and [2, 1] as well.
    let other = with(json!({"labelSelector": {"matchLabels": {"other": "x"}}}));
    assert_eq!(takers(&mut cluster(THREE, &["node1", "node2", "node3"]), &other).len(), 3);
    // matchLabelKeys narrows to the pods with the pod's own value.
    let mut snapshot = cluster(THREE, &["node1", "node2"]);
    assert_eq!(takers(&mut snapshot, &with(json!({}))), ["node3"]);
    let mut revised = (*labelled("new", json!({})).pod).clone();
    revised.metadata.labels.as_mut().unwrap().insert("hash".into(), "2".into());
    revised.spec.as_mut().unwrap().topology_spread_constraints =
        serde_json::from_value(json!([constraint("zone", json!({"matchLabelKeys": ["hash", "absent"]}))]))
            .unwrap();
    let revised = PodInfo::new(object::SharedObject::from_value(revised));
    assert_eq!(takers(&mut snapshot, &revised).len(), 3, "no pod of hash 2 yet");
    // Other namespaces and terminating pods do not count.
    for (name, namespace, deleted) in
        [("other", "elsewhere", None), ("going", "default", Some("2026-11-21T00:00:00Z"))]
    {
        snapshot.add_pod(
            Arc::new(pod_info(json!({"spec": {"containers": []}, "metadata": {"name": name,
            "uid": name, "namespace": namespace, "labels": {"foo": "bar"}, "deletionTimestamp": deleted}}))),
            "node3",
        );
    }
    assert_eq!(takers(&mut snapshot, &with(json!({}))), ["node3"]);
}

#[test]
fn tainted_nodes_are_domains_unless_taints_are_honored_sch_5() {
    let tolerated = json!([{"key": "k", "operator": "Exists"}]);
    for (policy, tolerations, expected) in [
        // Zones [1, 1, 0], the last with a taint: its minimum of 0 keeps pods out of the others.
        (json!(null), json!([]), &["node4"][..]),
        (json!("Ignore"), json!([]), &["node4"]),
        (json!("Honor"), tolerated, &["node4"]),
        // Zones [1, 1]: one more fits anywhere. Another plugin refuses the taint itself.
        (json!("Honor"), json!([]), &["node1", "node2", "node3", "node4"]),
    ] {
        let mut snapshot = cluster(THREE, &["node1", "node3"]);
        snapshot.set_node(node(json!({"metadata": {"name": "node4", "labels": {"zone": "C"}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})));
        snapshot.refresh();
        let pod = labelled(
            "new",
            json!({"tolerations": tolerations,
                "topologySpreadConstraints": [constraint("zone", json!({"nodeTaintsPolicy": policy}))]}),
        );
        assert_eq!(takers(&mut snapshot, &pod), expected, "{policy} {tolerations}");
    }
}

#[test]
fn wishes_are_scored_by_domain_sizes_sch_5() {
    let soft = |key: &str| constraint(key, json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    let scores = |mut snapshot: Snapshot, constraints: Value| {
        let pod = labelled("new", json!({"topologySpreadConstraints": constraints}));
        let feasible: Vec<usize> = (0..snapshot.nodes().len()).collect();
        snapshot.prepare(&pod);
        let score = Score::new(&pod, &snapshot, &feasible);
        let raw: Vec<i64> = snapshot.nodes().iter().map(|node| score.score(node)).collect();
        let mut normalized = raw.clone();
        score.normalize(&mut normalized);
        (raw, normalized)
    };
    // Zones [2, 1], ln(2 + 2) = 1.386: 2.77 → 3 in A, 1.39 → 1 in B; 100·(3 + 1 − s)/3. `bare` lacks the key.
    let snapshot = cluster(&[THREE, &[("bare", "")]].concat(), &["node1", "node2", "node3"]);
    assert_eq!(scores(snapshot, json!([soft("zone")])), (vec![3, 3, 1, -1], vec![33, 33, 100, 0]));
    // By node, of 3 nodes: ln(5) = 1.609: [2, 0, 1] → 3.2, 0, 1.6 → 3, 0, 2; 100·(3 + 0 − s)/3.
    let crowded = || cluster(THREE, &["node1", "node1", "node3"]);
    assert_eq!(scores(crowded(), json!([soft(HOSTNAME)])), (vec![3, 0, 2], vec![0, 100, 33]));
    // Both: node1 2·1.386 + 2·1.609 = 5.99, node2 2.77, node3 1.386 + 1.609 = 3.0 → 6, 3, 3.
    let both = scores(crowded(), json!([soft("zone"), soft(HOSTNAME)]));
    assert_eq!(both, (vec![6, 3, 3], vec![50, 100, 100]));
    // No pods anywhere: all nodes are the best.
    assert_eq!(scores(cluster(THREE, &[]), json!([soft("zone")])).1, [100, 100, 100]);
}

/// SAFE-10: a pod may need more counts than the snapshot retains; the cycle used to panic again and again.
#[test]
fn a_pod_of_thousands_of_constraints_and_terms_is_judged_like_any_other_sch_5() {
    let own: Vec<Value> = (0..3_000).map(|n| constraint(&format!("key{n}"), json!({}))).collect();
    let wishes = own.iter().map(|one| with(one.clone(), json!({"whenUnsatisfiable": "ScheduleAnyway"})));
    let terms: Vec<Value> = (0..3_000).map(|n| json!({"topologyKey": format!("key{n}")})).collect();
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let mut cluster = cluster(FOUR, &["node1"]);
    let wishing: Vec<Value> = wishes.collect();
    let pod = labelled("new", json!({"topologySpreadConstraints": wishing, "affinity": affinity}));
    assert_eq!(takers(&mut cluster, &pod).len(), 4, "wishes keep no node away");
    assert!(pod.domain_counts().all(|key| cluster.counts().domain_count(key).total() == 0));
    let pod = labelled("newer", json!({"topologySpreadConstraints": own}));
    assert!(takers(&mut cluster, &pod).is_empty(), "no node has the labels");
    // Counts needed only by the last pods are dropped again.
    let plain = labelled("plain", json!({"topologySpreadConstraints": [constraint("zone", json!({}))]}));
    assert_eq!(takers(&mut cluster, &plain), ["node3", "node4"]);
}
