//! PodTopologySpread: spreads pods evenly over zones, nodes or any other domains.
//!
//! The rules are those of the page "Pod Topology Spread Constraints": the skew is the number of matching pods in a
//! domain, including the pod itself if it matches, minus that of the emptiest domain. A node that lacks the label of
//! any constraint is neither a domain nor a target.

use crate::framework::{
    ChangeType, ClusterChange, MAX_SCORE, NodeCheck, NodeScore, Plugin, PluginId, PreFilter,
};
use crate::reason::{Reason, Refusal};
use crate::state::domain_count::{DomainCount, HypotheticalCount};
use crate::state::domain_terms::Namespaces;
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use crate::state::spread::Spread;

pub(super) struct PodTopologySpread;

struct Check<'a> {
    required: Vec<(&'a Spread, HypotheticalCount<'a>)>,
    /// The number of pods in the emptiest domain, for each constraint.
    fewest: Vec<i64>,
    namespaces: &'a Namespaces,
}

impl<'a> Check<'a> {
    fn new(pod: &'a PodInfo, snapshot: &'a Snapshot) -> Self {
        let counts = snapshot.counts();
        let required = pod.spread.iter().filter(|spread| spread.required);
        let required =
            required.map(|spread| (spread, counts.domain_count(&spread.domain_count).suppose())).collect();
        let mut check = Self { required, fewest: Vec::new(), namespaces: counts.namespaces() };
        check.find_fewest();
        check
    }

    fn find_fewest(&mut self) {
        let fewest = self.required.iter().map(|(spread, counts)| {
            let enough = counts.domain_count().domain_count() >= spread.min_domains;
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
            let Some(domain) = node.domains.get(counts.domain_count().topology()) else {
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

/// A preferred constraint with the number of pods in each domain.
struct SoftConstraint<'a> {
    spread: &'a Spread,
    counts: &'a DomainCount,
    /// Larger if there are more domains, so that constraints count equally.
    weight: f64,
}

struct Score<'a>(Vec<SoftConstraint<'a>>);

/// The raw score of a node that lacks one of the keys; normalization makes it the worst score.
const INVALID: i64 = -1;

impl<'a> Score<'a> {
    fn new(pod: &'a PodInfo, snapshot: &'a Snapshot, feasible: &[usize]) -> Self {
        let nodes = snapshot.nodes();
        let wishes = pod.spread.iter().filter(|spread| !spread.required);
        Self(
            wishes
                .map(|spread| SoftConstraint::new(spread, snapshot, feasible.iter().map(|p| &nodes[*p])))
                .collect(),
        )
    }
}

impl<'a> SoftConstraint<'a> {
    fn new<'n>(
        spread: &'a Spread,
        snapshot: &'a Snapshot,
        feasible: impl Iterator<Item = &'n NodeInfo>,
    ) -> Self {
        let counts = snapshot.counts().domain_count(&spread.domain_count);
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
    /// Returns the sum of `count · weight + (maxSkew − 1)` over the constraints. Less is better; normalization reverses
    /// this.
    fn score(&self, node: &NodeInfo) -> i64 {
        let mut sum = 0.0;
        for SoftConstraint { spread, counts, weight } in &self.0 {
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

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, snapshot: &Snapshot) -> bool {
        let mut required = pod.spread.iter().filter(|spread| spread.required);
        match change {
            ClusterChange::PodPlaced(other) | ClusterChange::PodRemoved(_, other) => {
                required.any(|spread| spread.selects(&other.pod, snapshot.counts().namespaces()))
            }
            // An added or removed domain may change which domain is the emptiest.
            ClusterChange::NodeAdded(node) | ClusterChange::NodeRemoved(node) => {
                required.all(|spread| node.label(&spread.topology_key).is_some())
            }
            ClusterChange::NodeUpdated(_, difference) => difference.labels || difference.taints,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
