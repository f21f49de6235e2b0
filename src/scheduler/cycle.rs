//! One scheduling cycle: a pure function of pod, snapshot and profile.
//!
//! Nodes are searched zone by zone in turn, each cycle starting where the last one stopped, until enough
//! that take the pod are found; those are scored and one of the best is chosen.

use std::collections::BTreeMap;

use super::filters::Filters;
use super::framework::{MAX_SCORE, NodeScore, PluginId, PluginSet, Point, PostFilter, Preemption, Unfit};
use super::message::{NO_NODES, node_reasons, rejected_before};
use super::node_info::NodeName;
use super::pod_info::PodInfo;
use super::profile::Profile;
use super::reason::{Reason, Refusal};
use super::snapshot::Snapshot;
use super::verdict::{Row, ScoreColumn, TableBuilder, VerdictTable};

/// Of fewer nodes than this all are searched, and at least so many that fit are looked for.
const FEWEST_FITTING: usize = 100;
/// Not less of a big cluster than this is searched, in percent.
const LEAST_PERCENTAGE: usize = 5;

/// What a cycle found.
#[derive(Clone, Debug)]
pub enum Decision {
    /// The pod goes to this node.
    Place {
        /// The node.
        node: NodeName,
        /// How many nodes were looked at.
        evaluated: usize,
        /// How many of them take the pod.
        feasible: usize,
    },
    /// No node takes the pod.
    Unfit(Box<Rejection>),
}

/// Why no node takes a pod.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// For the event and the condition.
    pub message: String,
    /// The plugins whose refusals decided; none when there is no node.
    pub rejected_by: PluginSet,
    /// What every filter said of every node.
    pub verdicts: VerdictTable,
    /// What became of the room kept for the pod.
    pub room: Room,
}

/// What an attempt that found no node means for the room kept for the pod.
#[derive(Clone, Debug)]
pub enum Room {
    /// What is kept stays so.
    Unchanged,
    /// Nothing is kept any longer.
    None,
    /// Evicting these pods makes room.
    Made(Preemption),
}

/// What one cycle leaves to the next: where to go on, and memory to reuse.
#[derive(Clone, Debug, Default)]
pub struct Search {
    start: usize,
    turn: u64,
    feasible: Vec<usize>,
    scores: Vec<i64>,
    totals: Vec<i64>,
}

impl Search {
    /// A search whose choices among equally good nodes follow from this seed.
    pub fn seeded(seed: u64) -> Self {
        Self { turn: seed, ..Self::default() }
    }

    /// One of the best.
    fn choose(&mut self) -> usize {
        let best = self.totals.iter().copied().max().unwrap_or(0);
        let ties = self.totals.iter().filter(|total| **total == best).count().max(1);
        let lot = (self.lot() % ties as u64) as usize;
        self.totals.iter().enumerate().filter(|(_, t)| **t == best).nth(lot).map_or(0, |(i, _)| i)
    }

    /// A number without pattern (splitmix64).
    fn lot(&mut self) -> u64 {
        self.turn = self.turn.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.turn;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// How many nodes that take the pod are enough, of so many: Kubernetes' `percentageOfNodesToScore`.
pub fn enough_nodes(nodes: usize, percentage: Option<u32>) -> usize {
    if nodes < FEWEST_FITTING {
        return nodes;
    }
    let percentage = match percentage.filter(|p| *p > 0) {
        Some(percentage) => percentage.min(100) as usize,
        None => 50usize.saturating_sub(nodes / 125).max(LEAST_PERCENTAGE),
    };
    (nodes * percentage / 100).max(FEWEST_FITTING)
}

/// Finds a node for the pod, for which the snapshot is [prepared](Snapshot::prepare).
pub fn schedule(pod: &PodInfo, snapshot: &Snapshot, profile: &Profile, search: &mut Search) -> Decision {
    let mut filters = Filters::new(pod, snapshot, profile);
    let evaluated = find_feasible(pod, &mut filters, snapshot, profile, search);
    if search.feasible.is_empty() {
        let lot = search.lot();
        return Decision::Unfit(Box::new(rejection(pod, snapshot, profile, &mut filters, lot)));
    }
    let choice = if search.feasible.len() == 1 {
        0
    } else {
        score(pod, snapshot, profile, search);
        search.choose()
    };
    let node = snapshot.nodes()[search.feasible[choice]].name.clone();
    Decision::Place { node, evaluated, feasible: search.feasible.len() }
}

/// Fills `search.feasible` and returns how many nodes were looked at.
fn find_feasible(
    pod: &PodInfo,
    filters: &mut Filters<'_>,
    snapshot: &Snapshot,
    profile: &Profile,
    search: &mut Search,
) -> usize {
    search.feasible.clear();
    if filters.rejected().is_some() {
        return 0;
    }
    // The room that was made for it is looked at first.
    let kept = snapshot.nominated().node_of(pod.uid()).and_then(|node| snapshot.position(node));
    let named = filters.only().map(|(_, positions)| positions.clone());
    let kept = kept.filter(|position| named.as_ref().is_none_or(|named| named.contains(position)));
    if let Some(position) = kept.filter(|position| filters.accept(*position)) {
        search.feasible.push(position);
        return 1;
    }
    if let Some(positions) = named {
        search.feasible.extend(positions.iter().copied().filter(|position| filters.accept(*position)));
        return positions.len();
    }
    let order = snapshot.order();
    let enough = enough_nodes(order.len(), profile.percentage_of_nodes_to_score);
    let start = search.start % order.len().max(1);
    let mut evaluated = 0;
    for position in order[start..].iter().chain(&order[..start]) {
        if search.feasible.len() == enough {
            break;
        }
        evaluated += 1;
        if filters.accept(*position) {
            search.feasible.push(*position);
        }
    }
    search.start = (start + evaluated) % order.len().max(1);
    evaluated
}

/// Fills `search.totals` with the weighted scores of `search.feasible`.
fn score(pod: &PodInfo, snapshot: &Snapshot, profile: &Profile, search: &mut Search) {
    let nodes = snapshot.nodes();
    search.totals.clear();
    search.totals.resize(search.feasible.len(), 0);
    for (plugin, weight) in profile.scores() {
        let Some(scorer) = plugin.pre_score(pod, snapshot, &search.feasible) else { continue };
        let scorer: &dyn NodeScore = scorer.as_ref();
        search.scores.clear();
        search.scores.extend(search.feasible.iter().map(|position| scorer.score(&nodes[*position])));
        scorer.normalize(&mut search.scores);
        for (total, score) in search.totals.iter_mut().zip(&search.scores) {
            *total += score * weight;
        }
    }
}

/// Adds to the table how these nodes score.
fn add_scores(
    pod: &PodInfo,
    snapshot: &Snapshot,
    profile: &Profile,
    positions: &[usize],
    builder: &mut TableBuilder,
) {
    for (plugin, weight) in profile.scores() {
        let Some(scorer) = plugin.pre_score(pod, snapshot, positions) else { continue };
        let mut scores: Vec<i64> =
            positions.iter().map(|position| scorer.score(&snapshot.nodes()[*position])).collect();
        scorer.normalize(&mut scores);
        let mut column = vec![None; snapshot.nodes().len()];
        for (position, score) in positions.iter().zip(scores) {
            column[*position] = u8::try_from(score.clamp(0, MAX_SCORE)).ok();
        }
        builder.score(ScoreColumn { plugin: plugin.id(), weight, scores: column });
    }
}

fn verdicts(snapshot: &Snapshot, filters: &mut Filters<'_>) -> TableBuilder {
    let rejected = filters.rejected().cloned();
    let mut columns: Vec<PluginId> = filters.plugins().collect();
    let last = columns.len();
    columns.extend(rejected.iter().map(|(id, _)| *id));
    let mut builder = TableBuilder::new(snapshot.names().clone(), columns.clone());
    let only = filters.only().cloned();
    for (position, node) in snapshot.nodes().iter().enumerate() {
        let outside = only.as_ref().filter(|(_, named)| !named.contains(&position)).map(|(by, _)| *by);
        for (column, refusal) in filters.refusals(node).into_iter().enumerate() {
            let unnamed = outside.filter(|by| *by == columns[column]);
            let unnamed = unnamed.map(|by| Refusal::unresolvable(Reason::NotNamedBy(by.name())));
            if let Some(refusal) = unnamed.or(refusal) {
                builder.refuse(position, column, refusal);
            }
        }
        if let Some((_, refusal)) = &rejected {
            builder.refuse(position, last, refusal.clone());
        }
    }
    builder
}

/// Only for pods that fit nowhere: asks every filter again, of every node, and writes down the answers.
fn rejection<'a>(
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
    profile: &Profile,
    filters: &mut Filters<'a>,
    lot: u64,
) -> Rejection {
    let mut builder = verdicts(snapshot, filters);
    let count = snapshot.nodes().len();
    if count == 0 {
        let (rejected_by, verdicts) = (PluginSet::default(), builder.finish());
        return Rejection { message: NO_NODES.into(), rejected_by, verdicts, room: Room::Unchanged };
    }
    let table = builder.table();
    let refusals: Vec<Option<Refusal>> = match filters.rejected() {
        Some((_, refusal)) => vec![Some(refusal.clone()); count],
        None => table.rows().map(|row| decisive(row, filters)).collect(),
    };
    let mut message = match filters.rejected() {
        Some((_, refusal)) => rejected_before(count, &refusal.reasons.as_slice()[0]),
        None => node_reasons(count, &count_reasons(&refusals)),
    };
    let rejected_by = rejected_by(table, filters);
    let mut unfit = Unfit { pod, snapshot, refusals: &refusals, filters, lot };
    let (told, room) = match profile.at(Point::PostFilter).find_map(|plugin| plugin.post_filter(&mut unfit)) {
        None => (None, Room::Unchanged),
        Some(PostFilter::Ineligible(told)) => (Some(told), Room::Unchanged),
        Some(PostFilter::Hopeless(told)) => (Some(told), Room::None),
        Some(PostFilter::Preempt(preemption)) => (None, Room::Made(preemption)),
    };
    if let Some(told) = told {
        message.push(' ');
        message.push_str(&told);
    }
    // Which node would be the best one says what is worth changing. Not when room was made: that is settled.
    if !matches!(room, Room::Made(_)) {
        let all: Vec<usize> = (0..count).collect();
        add_scores(pod, snapshot, profile, &all, &mut builder);
    }
    Rejection { message, rejected_by, verdicts: builder.finish(), room }
}

/// The refusal that decides a node's fate: that of the plugin that named other nodes, or else the first.
fn decisive(row: Row<'_>, filters: &Filters<'_>) -> Option<Refusal> {
    let named_others = filters.only().and_then(|(by, _)| {
        let mut verdicts = row.verdicts().filter(|(plugin, _)| plugin == by);
        verdicts
            .find_map(|(_, refusal)| refusal)
            .filter(|r| matches!(r.reasons.as_slice(), [Reason::NotNamedBy(_)]))
    });
    named_others.or(row.refused().map(|(_, refusal)| refusal)).cloned()
}

fn count_reasons(refusals: &[Option<Refusal>]) -> BTreeMap<Reason, usize> {
    let mut reasons = BTreeMap::new();
    for reason in refusals.iter().flatten().flat_map(|refusal| refusal.reasons.as_slice()) {
        match reasons.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(reasons.insert(reason.clone(), 1)),
        }
    }
    reasons
}

fn rejected_by(table: &VerdictTable, filters: &Filters<'_>) -> PluginSet {
    match (filters.rejected(), filters.only()) {
        (Some((plugin, _)), _) => PluginSet::default().with(*plugin),
        (None, Some((plugin, _))) => table.rejected_by().with(*plugin),
        (None, None) => table.rejected_by(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::test_objects::{asking, named_pod, node};
    use super::*;

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
        // 300·(50 − 300/125)/100 = 144 of 300 nodes a search.
        for start in [144, 288, 132] {
            let decision = schedule(&pod, &snapshot, &profile, &mut search);
            assert!(
                matches!(decision, Decision::Place { evaluated: 144, feasible: 144, .. }),
                "{decision:?}"
            );
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
        snapshot.place(Arc::new(PodInfo::new(named_pod("there", asking("1")))), "a");
        snapshot.refresh();
        let profile = Profile::default();
        let chosen = |spec: serde_json::Value, seed: u64| {
            let pod = PodInfo::new(named_pod("p", spec));
            match schedule(&pod, &snapshot, &profile, &mut Search::seeded(seed)) {
                Decision::Place { node, .. } => node.to_string(),
                Decision::Unfit(rejection) => rejection.message,
            }
        };
        let seen: std::collections::BTreeSet<String> =
            (0..32).map(|seed| chosen(asking("1"), seed)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["b", "c"], "equally good, and better than a");
        assert_eq!(chosen(asking("1"), 7), chosen(asking("1"), 7));
        // On a: cpu 0 % and memory (4096 − 400)/4096 = 90 % free, mean 45; balance |1 − 0|/2, so 50; sum 95.
        // On b: cpu 50 %, memory 95 %, mean 72; balance |0.5 − 0|/2, so 75; sum 147. The wish for a is worth
        // 2·100 to a and nothing to the others: 95 + 200 beats 147.
        let mut wishing = asking("1");
        wishing["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions":
                [{"key": "name", "operator": "In", "values": ["a"]}]}}]}});
        assert_eq!(chosen(wishing.clone(), 7), "a");
        let mut search = Search::default();
        schedule(&PodInfo::new(named_pod("p", wishing)), &snapshot, &profile, &mut search);
        let totals = search.feasible.iter().map(|position| &*snapshot.nodes()[*position].name).zip(&search.totals);
        // No taints to avoid: 3·100 to every node.
        let expect = [("a", 95 + 200 + 300), ("b", 147 + 300), ("c", 147 + 300)];
        assert_eq!(totals.map(|(name, total)| (name, *total)).collect::<Vec<_>>(), expect);
    }
}
