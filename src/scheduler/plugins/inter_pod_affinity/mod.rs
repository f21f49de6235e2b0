//! InterPodAffinity: affinity and anti-affinity between pods, within the domains of a topology.
//!
//! The plugin checks both directions: the pod's terms about existing pods, and the existing pods' terms about the pod.

use crate::framework::{
    ChangeType, ClusterChange, MAX_SCORE, NodeCheck, NodeScore, Plugin, PluginId, PreFilter,
};
use crate::reason::{Reason, Refusal};
use crate::state::domain_count::{DomainCount, HypotheticalCount, bump};
use crate::state::domain_terms::Namespaces;
use crate::state::existing_terms::ExistingTermCounts;
use crate::state::node_info::NodeInfo;
use crate::state::pod_affinity::TermKind;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;

pub(crate) struct InterPodAffinity {
    /// The score of an existing pod's required term that matches the pod (`hardPodAffinityWeight`).
    pub(crate) hard_weight: i64,
    /// Only the pod's own preferences count.
    pub(crate) ignore_preferred_of_existing: bool,
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        Self { hard_weight: 1, ignore_preferred_of_existing: false }
    }
}

/// The existing pods with one term of anti-affinity against the pod, counted by domain, including simulated additions
/// and removals.
struct AntiAffinityCounts<'a> {
    counted: &'a ExistingTermCounts,
    changed: Vec<(usize, i64)>,
}

impl AntiAffinityCounts<'_> {
    fn suppose(&mut self, other: &PodInfo, node: &NodeInfo, sign: i64) {
        let term = &self.counted.term;
        if let Some(domain) = node.domains.get(self.counted.topology)
            && other.existing_terms.iter().any(|existing| existing == term)
        {
            bump(&mut self.changed, domain, sign);
        }
    }

    fn pods_on(&self, node: &NodeInfo) -> i64 {
        let Some(domain) = node.domains.get(self.counted.topology) else { return 0 };
        let supposed = self.changed.iter().filter(|(d, _)| *d == domain).map(|(_, sign)| sign).sum::<i64>();
        self.counted.pods_in(domain) + supposed
    }
}

struct Check<'a> {
    required: Vec<HypotheticalCount<'a>>,
    forbidden: Vec<HypotheticalCount<'a>>,
    shunning: Vec<AntiAffinityCounts<'a>>,
    /// The pod matches its own required terms: if no pod matches yet, it may be the first.
    may_be_first: bool,
    namespaces: &'a Namespaces,
}

impl<'a> Check<'a> {
    fn new(pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Self> {
        let counts = snapshot.counts();
        let namespaces = counts.namespaces();
        let shuns = |counted: &&ExistingTermCounts| {
            counted.term.kind == TermKind::KeepOut && counted.term.pods.matches(&pod.pod, namespaces)
        };
        let shunning: Vec<AntiAffinityCounts<'a>> = counts
            .existing_terms()
            .iter()
            .filter(shuns)
            .map(|counted| AntiAffinityCounts { counted, changed: Vec::new() })
            .collect();
        let affinity = &pod.affinity;
        if shunning.is_empty() && !affinity.is_required() {
            return None;
        }
        let suppose = |key| counts.domain_count(key).suppose();
        Some(Self {
            required: affinity.required.iter().map(|key| suppose(key)).collect(),
            forbidden: affinity.forbidden.iter().map(|key| suppose(key)).collect(),
            shunning,
            may_be_first: affinity.required_terms.iter().all(|term| term.matches(&pod.pod, namespaces)),
            namespaces,
        })
    }

    fn finds_required(&self, node: &NodeInfo) -> bool {
        let mut all_there = true;
        for counts in &self.required {
            let Some(domain) = node.domains.get(counts.domain_count().topology()) else { return false };
            all_there &= counts.pods_in(domain) > 0;
        }
        all_there || (self.may_be_first && self.required.iter().all(|counts| counts.total() == 0))
    }

    fn finds_forbidden(&self, node: &NodeInfo) -> bool {
        self.forbidden.iter().any(|counts| {
            node.domains
                .get(counts.domain_count().topology())
                .is_some_and(|domain| counts.pods_in(domain) > 0)
        })
    }

    fn suppose(&mut self, other: &PodInfo, node: &NodeInfo, sign: i64) {
        for counts in self.required.iter_mut().chain(&mut self.forbidden) {
            counts.suppose(other, node, self.namespaces, sign);
        }
        for shunning in &mut self.shunning {
            shunning.suppose(other, node, sign);
        }
    }
}

impl NodeCheck for Check<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if !self.finds_required(node) {
            return Err(Refusal::unresolvable(Reason::PodAffinity));
        }
        if self.finds_forbidden(node) {
            return Err(Refusal::resolvable(Reason::PodAntiAffinity));
        }
        if self.shunning.iter().any(|shunning| shunning.pods_on(node) > 0) {
            return Err(Refusal::resolvable(Reason::ExistingAntiAffinity));
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

struct Score<'a> {
    preferred: Vec<(i64, &'a DomainCount)>,
    wishing: Vec<(i64, &'a ExistingTermCounts)>,
}

impl NodeScore for Score<'_> {
    /// Returns the sum of the weights of the preferences that apply in the node's domains: the pod's own about existing
    /// pods, and those of existing pods about the pod.
    fn score(&self, node: &NodeInfo) -> i64 {
        let preferred = self.preferred.iter().filter_map(|(weight, counts)| {
            Some(weight * counts.pods_in(node.domains.get(counts.topology())?))
        });
        let wishing = self.wishing.iter().filter_map(|(weight, counted)| {
            Some(weight * counted.pods_in(node.domains.get(counted.topology)?))
        });
        preferred.chain(wishing).sum()
    }

    fn normalize(&self, scores: &mut [i64]) {
        let (least, most) = (scores.iter().min().copied(), scores.iter().max().copied());
        let (Some(least), Some(most)) = (least, most) else { return };
        for score in scores {
            *score = if most > least {
                (MAX_SCORE as f64 * ((*score - least) as f64 / (most - least) as f64)) as i64
            } else {
                0
            };
        }
    }
}

impl Plugin for InterPodAffinity {
    fn id(&self) -> PluginId {
        PluginId::InterPodAffinity
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        match Check::new(pod, snapshot) {
            Some(check) => PreFilter::Check(Box::new(check)),
            None => PreFilter::Skip,
        }
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        _: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        let counts = snapshot.counts();
        let preferred: Vec<_> =
            pod.affinity.preferred.iter().map(|(weight, key)| (*weight, counts.domain_count(key))).collect();
        if preferred.is_empty() && (self.ignore_preferred_of_existing || counts.existing_terms().is_empty()) {
            return None;
        }
        let weigh = |counted: &'a ExistingTermCounts| {
            let weight = match counted.term.kind {
                TermKind::KeepOut => return None,
                TermKind::Requires => self.hard_weight,
                TermKind::Welcome(_) if self.ignore_preferred_of_existing => return None,
                TermKind::Welcome(weight) => weight,
            };
            let welcome = weight != 0 && counted.term.pods.matches(&pod.pod, counts.namespaces());
            welcome.then_some((weight, counted))
        };
        let wishing: Vec<_> = counts.existing_terms().iter().filter_map(weigh).collect();
        if preferred.is_empty() && wishing.is_empty() {
            return None;
        }
        Some(Box::new(Score { preferred, wishing }))
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        use ChangeType::{NamespaceChanged, NodeAdded, NodeUpdated, PodPlaced, PodRemoved};
        &[NodeAdded, NodeUpdated, PodPlaced, PodRemoved, NamespaceChanged]
    }

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, snapshot: &Snapshot) -> bool {
        let namespaces = snapshot.counts().namespaces();
        let affinity = &pod.affinity;
        match change {
            ClusterChange::PodPlaced(other) => {
                let terms = &affinity.required_terms;
                !terms.is_empty() && terms.iter().all(|term| term.matches(&other.pod, namespaces))
            }
            ClusterChange::PodRemoved(_, other) => {
                let shunned = affinity.forbidden.iter().any(|key| key.pods.matches(&other.pod, namespaces));
                // The last pod matching the required terms may have been removed: then the pod may be the first.
                let required = !affinity.required.is_empty()
                    && affinity.required_terms.iter().all(|term| term.matches(&other.pod, namespaces));
                shunned
                    || required
                    || other.existing_terms.iter().any(|existing| existing.pods.matches(&pod.pod, namespaces))
            }
            ClusterChange::NodeAdded(_) | ClusterChange::NamespaceChanged => true,
            ClusterChange::NodeUpdated(_, difference) => difference.labels,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
