//! PodTopologySpread: pods of a kind spread evenly over zones, nodes or any other domains.
//!
//! The rules are those of the page "Pod Topology Spread Constraints": skew is the pods that count in a
//! domain, with the pod itself where it counts, less those of the emptiest domain. A node without all the
//! keys is neither a domain nor a target.

use crate::scheduler::framework::{
    ChangeType, ClusterChange, MAX_SCORE, NodeCheck, NodeScore, Plugin, PluginId, PreFilter,
};
use crate::scheduler::group::Namespaces;
use crate::scheduler::node_info::NodeInfo;
use crate::scheduler::pod_info::PodInfo;
use crate::scheduler::reason::{Reason, Refusal};
use crate::scheduler::snapshot::Snapshot;
use crate::scheduler::spread::Spread;
use crate::scheduler::tally::{Supposed, Tally};

/// See the file's head.
pub(super) struct PodTopologySpread;

struct Check<'a> {
    required: Vec<(&'a Spread, Supposed<'a>)>,
    /// How many pods the emptiest domain has, constraint by constraint.
    fewest: Vec<i64>,
    namespaces: &'a Namespaces,
}

impl<'a> Check<'a> {
    fn new(pod: &'a PodInfo, snapshot: &'a Snapshot) -> Self {
        let counts = snapshot.counts();
        let required = pod.spread.iter().filter(|spread| spread.required);
        let required = required.map(|spread| (spread, counts.tally(&spread.tally).suppose())).collect();
        let mut check = Self { required, fewest: Vec::new(), namespaces: counts.namespaces() };
        check.find_fewest();
        check
    }

    fn find_fewest(&mut self) {
        let fewest = self.required.iter().map(|(spread, counts)| {
            let enough = counts.tally().domain_count() >= spread.min_domains;
            if enough { counts.fewest() } else { 0 }
        });
        self.fewest = fewest.collect();
    }

    fn suppose(&mut self, pod: &PodInfo, node: &NodeInfo, sign: i64) {
        for (_, counts) in &mut self.required {
            counts.suppose(pod, node, self.namespaces, sign);
        }
        self.find_fewest();
    }
}

impl NodeCheck for Check<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        for ((spread, counts), fewest) in self.required.iter().zip(&self.fewest) {
            let Some(domain) = node.domains.get(counts.tally().topology()) else {
                return Err(Refusal::unresolvable(Reason::SpreadLabelMissing));
            };
            if counts.pods_in(domain) + i64::from(spread.counts_itself) - fewest > spread.max_skew {
                return Err(Refusal::resolvable(Reason::Spread));
            }
        }
        Ok(())
    }

    fn added(&mut self, other: &PodInfo, node: &NodeInfo) {
        self.suppose(other, node, 1);
    }

    fn removed(&mut self, other: &PodInfo, node: &NodeInfo) {
        self.suppose(other, node, -1);
    }
}

/// A wished-for constraint with the pods of each domain.
struct Wished<'a> {
    spread: &'a Spread,
    counts: &'a Tally,
    /// Larger where there are more domains, so that constraints count alike.
    weight: f64,
}

struct Score<'a>(Vec<Wished<'a>>);

/// The score of a node that lacks one of the keys, before it becomes the worst.
const INVALID: i64 = -1;

impl<'a> Score<'a> {
    fn new(pod: &'a PodInfo, snapshot: &'a Snapshot, feasible: &[usize]) -> Self {
        let nodes = snapshot.nodes();
        let wishes = pod.spread.iter().filter(|spread| !spread.required);
        Self(
            wishes.map(|spread| Wished::new(spread, snapshot, feasible.iter().map(|p| &nodes[*p]))).collect(),
        )
    }
}

impl<'a> Wished<'a> {
    fn new<'n>(
        spread: &'a Spread,
        snapshot: &'a Snapshot,
        feasible: impl Iterator<Item = &'n NodeInfo>,
    ) -> Self {
        let counts = snapshot.counts().tally(&spread.tally);
        let mut seen: Vec<bool> = Vec::new();
        let mut size = 0;
        for node in feasible.filter(|node| has_keys(node, spread)) {
            let Some(domain) = node.domains.get(counts.topology()) else { continue };
            if seen.len() <= domain {
                seen.resize(domain + 1, false);
            }
            size += usize::from(!std::mem::replace(&mut seen[domain], true));
        }
        Self { spread, counts, weight: (size as f64 + 2.0).ln() }
    }
}

fn has_keys(node: &NodeInfo, spread: &Spread) -> bool {
    spread.keys.iter().all(|key| node.label(key).is_some())
}

impl NodeScore for Score<'_> {
    /// The sum of `count · weight + (maxSkew − 1)`: less is better until it is normalised.
    fn score(&self, node: &NodeInfo) -> i64 {
        let mut sum = 0.0;
        for Wished { spread, counts, weight } in &self.0 {
            if !has_keys(node, spread) {
                return INVALID;
            }
            let Some(domain) = node.domains.get(counts.topology()) else { continue };
            sum += counts.pods_in(domain) as f64 * weight + (spread.max_skew - 1) as f64;
        }
        sum.round() as i64
    }

    fn normalize(&self, scores: &mut [i64]) {
        let valid = || scores.iter().copied().filter(|score| *score != INVALID);
        let (least, most) = (valid().min().unwrap_or(0), valid().max().unwrap_or(0));
        for score in scores {
            *score = match *score {
                INVALID => 0,
                _ if most == 0 => MAX_SCORE,
                s => MAX_SCORE * (most + least - s) / most,
            };
        }
    }
}

impl Plugin for PodTopologySpread {
    fn id(&self) -> PluginId {
        PluginId::PodTopologySpread
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        if pod.spread.iter().any(|spread| spread.required) {
            PreFilter::Check(Box::new(Check::new(pod, snapshot)))
        } else {
            PreFilter::Skip
        }
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        feasible: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        let wishes = pod.spread.iter().any(|spread| !spread.required);
        wishes.then(|| -> Box<dyn NodeScore + 'a> { Box::new(Score::new(pod, snapshot, feasible)) })
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        use ChangeType::{NodeAdded, NodeRemoved, NodeUpdated, PodPlaced, PodRemoved};
        &[NodeAdded, NodeUpdated, NodeRemoved, PodPlaced, PodRemoved]
    }

    fn helped_by(&self, pod: &PodInfo, change: &ClusterChange<'_>, snapshot: &Snapshot) -> bool {
        let mut required = pod.spread.iter().filter(|spread| spread.required);
        match change {
            ClusterChange::PodPlaced(_, other) | ClusterChange::PodRemoved(_, other) => {
                required.any(|spread| spread.selects(other, snapshot.counts().namespaces()))
            }
            // A domain more or less moves the emptiest one.
            ClusterChange::NodeAdded(node) | ClusterChange::NodeRemoved(node) => {
                required.all(|spread| node.label(&spread.topology_key).is_some())
            }
            ClusterChange::NodeUpdated(_, difference) => difference.labels || difference.taints,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::scheduler::spread::HOSTNAME;
    use crate::scheduler::test_objects::{node, pod_info};

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
            snapshot.place(Arc::new(labelled(&format!("p{n}"), json!({}))), on);
        }
        snapshot.refresh();
        snapshot
    }

    fn with(mut value: Value, more: Value) -> Value {
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
        value
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

    /// The nodes that take the pod, or why none does.
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
        // Two constraints: zone B only, and of its nodes the empty one.
        assert_eq!(takers(&mut cluster(FOUR, &pods), &with(json!([zone(), by_node()]))), ["node4"]);
        // Conflicting: zone B by the first, but node2 by the second.
        let crowded = ["node1", "node1", "node2", "node3", "node3"];
        assert!(takers(&mut cluster(THREE, &crowded), &with(json!([zone(), by_node()]))).is_empty());
        // Zone C is excluded by the pod's affinity, so that it is no empty domain either.
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
        // Ignoring the affinity, the empty zone C makes the minimum 0: [2, 1, 0] takes none in A or B.
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
            serde_json::from_value(json!([constraint(
                "zone",
                json!({"matchLabelKeys": ["hash", "absent"]})
            )]))
            .unwrap();
        let revised = PodInfo::new(crate::object::Shared::from_value(revised));
        assert_eq!(takers(&mut snapshot, &revised).len(), 3, "no pod of hash 2 yet");
        // Other namespaces and terminating pods do not count.
        for (name, namespace, deleted) in
            [("other", "elsewhere", None), ("going", "default", Some("2026-11-21T00:00:00Z"))]
        {
            snapshot.place(Arc::new(pod_info(json!({"spec": {"containers": []}, "metadata": {"name": name,
                "uid": name, "namespace": namespace, "labels": {"foo": "bar"}, "deletionTimestamp": deleted}}))), "node3");
        }
        assert_eq!(takers(&mut snapshot, &with(json!({}))), ["node3"]);
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
        // Nothing anywhere: all nodes are the best.
        assert_eq!(scores(cluster(THREE, &[]), json!([soft("zone")])).1, [100, 100, 100]);
    }
}
