//! One scheduling cycle: a pure function of pod, snapshot and profile.
//!
//! Nodes are searched zone by zone in turn, each cycle starting where the last one stopped, until enough feasible
//! ones are found; those are scored and one of the best is chosen.

use std::collections::BTreeMap;

use crate::explain::verdict_table::{Row, ScoreColumn, TableBuilder, VerdictTable};
use crate::fit_error::{NO_NODES, node_reasons, rejected_before};
use crate::framework::Filters;
use crate::framework::{
    MAX_SCORE, NodeScore, PluginId, PluginSet, Point, PostFilter, PostFilterInput, Preemption,
};
use crate::profile::Profile;
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;

/// Clusters with fewer nodes are searched completely; in larger ones the search continues until this many nodes fit.
const FEWEST_FITTING: usize = 100;
/// The least share of a large cluster's nodes that must fit before the search ends, in percent.
const LEAST_PERCENTAGE: usize = 5;

/// The result of a cycle.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// Place the pod on this node.
    Place {
        node: NodeName,
        /// The number of nodes evaluated.
        evaluated: usize,
        /// The number of feasible nodes among them.
        feasible: usize,
    },
    /// No node fits.
    Unfit(Box<FitError>),
}

/// The reason why no node fits.
#[derive(Clone, Debug)]
pub(crate) struct FitError {
    /// The message for the event and the condition.
    pub(crate) message: String,
    /// The plugins with decisive refusals; empty if there is no node.
    pub(crate) rejected_by: PluginSet,
    /// The result of every filter for every node.
    pub(crate) verdicts: VerdictTable,
    /// The effect on the pod's nomination.
    pub(crate) nomination: NominatingInfo,
}

/// The effect of an attempt without a node on the pod's nomination.
#[derive(Clone, Debug)]
pub(crate) enum NominatingInfo {
    /// The nomination stays.
    Unchanged,
    /// The nomination is cleared.
    None,
    /// Evicting these pods makes room.
    Preempted(Preemption),
}

/// The state that one cycle passes to the next: the starting position, and memory to reuse.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    start: usize,
    rng_state: u64,
    feasible: Vec<usize>,
    scores: Vec<i64>,
    totals: Vec<i64>,
}

impl Search {
    /// Creates a search that uses this seed to choose among nodes with equal scores.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { rng_state: seed, ..Self::default() }
    }

    /// Returns the index in `totals` of one of the nodes with the highest score, chosen at random.
    fn choose(&mut self) -> usize {
        let best = self.totals.iter().copied().max().unwrap_or(0);
        let ties = self.totals.iter().filter(|total| **total == best).count().max(1);
        let tie_break = (self.tie_break() % ties as u64) as usize;
        self.totals.iter().enumerate().filter(|(_, t)| **t == best).nth(tie_break).map_or(0, |(i, _)| i)
    }

    /// Returns a pseudo-random number (splitmix64).
    fn tie_break(&mut self) -> u64 {
        self.rng_state = self.rng_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.rng_state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Returns the number of feasible nodes to find in a cluster of this size: Kubernetes' `percentageOfNodesToScore`.
pub(crate) fn enough_nodes(nodes: usize, percentage: Option<u32>) -> usize {
    if nodes < FEWEST_FITTING {
        return nodes;
    }
    let percentage = match percentage.filter(|p| *p > 0) {
        Some(percentage) => percentage.min(100) as usize,
        None => 50usize.saturating_sub(nodes / 125).max(LEAST_PERCENTAGE),
    };
    (nodes * percentage / 100).max(FEWEST_FITTING)
}

/// Finds a node for the pod. The snapshot must be [prepared](Snapshot::prepare) for it.
pub(crate) fn schedule(
    pod: &PodInfo,
    snapshot: &Snapshot,
    profile: &Profile,
    search: &mut Search,
) -> Decision {
    let mut filters = Filters::new(pod, snapshot, profile.at(Point::Filter));
    let evaluated = find_feasible(pod, &mut filters, snapshot, profile, search);
    if search.feasible.is_empty() {
        let tie_break = search.tie_break();
        return Decision::Unfit(Box::new(rejection(pod, snapshot, profile, &mut filters, tie_break)));
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

/// Fills `search.feasible` and returns the number of nodes evaluated.
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
    // The nominated node is evaluated first.
    let nominated = snapshot.nominated().node_of(pod.uid()).and_then(|node| snapshot.position(node));
    let named = filters.only().map(|(_, positions)| positions.clone());
    let nominated = nominated.filter(|position| named.as_ref().is_none_or(|named| named.contains(position)));
    if let Some(position) = nominated.filter(|position| filters.accept(*position)) {
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

/// Adds the scores of all nodes, as if every node were feasible.
fn add_scores(pod: &PodInfo, snapshot: &Snapshot, profile: &Profile, builder: &mut TableBuilder) {
    let all: Vec<usize> = (0..snapshot.nodes().len()).collect();
    for (plugin, weight) in profile.scores() {
        let Some(scorer) = plugin.pre_score(pod, snapshot, &all) else { continue };
        let mut scores: Vec<i64> = snapshot.nodes().iter().map(|node| scorer.score(node)).collect();
        scorer.normalize(&mut scores);
        let within = |score: &i64| u8::try_from((*score).clamp(0, MAX_SCORE)).unwrap_or(0);
        builder.score(ScoreColumn {
            plugin: plugin.id(),
            weight,
            scores: scores.iter().map(within).collect(),
        });
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

/// For a pod that fits on no node: runs every filter on every node and records the results.
fn rejection<'a>(
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
    profile: &Profile,
    filters: &mut Filters<'a>,
    tie_break: u64,
) -> FitError {
    let mut builder = verdicts(snapshot, filters);
    let count = snapshot.nodes().len();
    if count == 0 {
        let (rejected_by, verdicts) = (PluginSet::default(), builder.finish());
        return FitError {
            message: NO_NODES.into(),
            rejected_by,
            verdicts,
            nomination: NominatingInfo::Unchanged,
        };
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
    let mut unfit = PostFilterInput { pod, snapshot, refusals: &refusals, filters, tie_break };
    let (post_filter_message, room) =
        match profile.at(Point::PostFilter).find_map(|plugin| plugin.post_filter(&mut unfit)) {
            None => (None, NominatingInfo::Unchanged),
            Some(PostFilter::Ineligible(text)) => (Some(text), NominatingInfo::Unchanged),
            Some(PostFilter::Hopeless(text)) => (Some(text), NominatingInfo::None),
            Some(PostFilter::Preempt(preemption)) => (None, NominatingInfo::Preempted(preemption)),
        };
    if let Some(text) = post_filter_message {
        message.push(' ');
        message.push_str(&text);
    }
    // Scores show which node is worth changing. They are not needed if evictions make room.
    if !matches!(room, NominatingInfo::Preempted(_)) {
        add_scores(pod, snapshot, profile, &mut builder);
    }
    FitError { message, rejected_by, verdicts: builder.finish(), nomination: room }
}

/// Returns the decisive refusal of a node: of the plugin that restricted the nodes, or else the first.
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
mod tests;
