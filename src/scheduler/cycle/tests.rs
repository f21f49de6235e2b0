//! Single cycles: the extent of the search, and the choice.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::test_objects::{asking, named_pod, node};

#[test]
fn big_clusters_are_searched_in_part_sch_6() {
    for (nodes, percentage, enough) in [
        (3, None, 3),
        (99, None, 99),
        // 100·50 % = 50, but not less than 100.
        (100, None, 100),
        // 50 − 500/125 = 46 %; 50 − 1000/125 = 42 %; 50 − 5000/125 = 10 %; never less than 5 %.
        (500, None, 230),
        (1000, None, 420),
        (5000, None, 500),
        (10_000, None, 500),
        (1000, Some(70), 700),
        (1000, Some(100), 1000),
        (1000, Some(0), 420),
    ] {
        assert_eq!(enough_nodes(nodes, percentage), enough, "{nodes} {percentage:?}");
    }
}

#[test]
fn each_search_goes_on_where_the_last_stopped_and_zones_take_turns() {
    let mut snapshot = Snapshot::new();
    for n in 0..300 {
        let zone = if n < 200 { "a" } else { "b" };
        snapshot.set_node(node(json!({
            "metadata": {"name": format!("n{n}"), "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}})));
    }
    snapshot.refresh();
    let zones: Vec<&str> = snapshot.order().iter().map(|p| snapshot.nodes()[*p].zone()).collect();
    assert_eq!((&zones[..4], zones[250]), (["a", "b", "a", "b"].as_slice(), "a"));

    let pod = PodInfo::new(named_pod("p", asking("100m")));
    let (profile, mut search) = (Profile::default(), Search::default());
    // 300·(50 − 300/125)/100 = 144 of 300 nodes in each search.
    for start in [144, 288, 132] {
        let decision = schedule(&pod, &snapshot, &profile, &mut search);
        assert!(matches!(decision, Decision::Place { evaluated: 144, feasible: 144, .. }), "{decision:?}");
        assert_eq!(search.start, start);
    }
}

#[test]
fn scores_are_weighted_and_the_choice_follows_from_the_seed_sch_4() {
    let mut snapshot = Snapshot::new();
    for name in ["a", "b", "c"] {
        snapshot.set_node(node(json!({"metadata": {"name": name, "labels": {"name": name}},
            "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "9"}}})));
    }
    snapshot.add_pod(Arc::new(PodInfo::new(named_pod("there", asking("1")))), "a");
    snapshot.refresh();
    let profile = Profile::default();
    let chosen = |spec: serde_json::Value, seed: u64| {
        let pod = PodInfo::new(named_pod("p", spec));
        match schedule(&pod, &snapshot, &profile, &mut Search::seeded(seed)) {
            Decision::Place { node, .. } => node.to_string(),
            Decision::Unfit(rejection) => rejection.message,
        }
    };
    let seen: std::collections::BTreeSet<String> = (0..32).map(|seed| chosen(asking("1"), seed)).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["b", "c"], "equally good, and better than a");
    assert_eq!(chosen(asking("1"), 7), chosen(asking("1"), 7));
    // On a: cpu 0 % and memory (4096 − 400)/4096 = 90 % free, mean 45; balance |1 − 0|/2, so 50; sum 95. On b: cpu 50
    // %, memory 95 %, mean 72; balance |0.5 − 0|/2, so 75; sum 147. The preference for a is worth 2·100 to a and
    // nothing to the others: 95 + 200 beats 147.
    let mut wishing = asking("1");
    wishing["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions":
            [{"key": "name", "operator": "In", "values": ["a"]}]}}]}});
    assert_eq!(chosen(wishing.clone(), 7), "a");
    let mut search = Search::default();
    schedule(&PodInfo::new(named_pod("p", wishing)), &snapshot, &profile, &mut search);
    let totals =
        search.feasible.iter().map(|position| &*snapshot.nodes()[*position].name).zip(&search.totals);
    // No taints to avoid: 3·100 to every node.
    let expect = [("a", 95 + 200 + 300), ("b", 147 + 300), ("c", 147 + 300)];
    assert_eq!(totals.map(|(name, total)| (name, *total)).collect::<Vec<_>>(), expect);
}
