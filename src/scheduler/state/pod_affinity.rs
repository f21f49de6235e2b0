//! A pod's affinity to other pods and its anti-affinity, read once.
//!
//! Two views of the same terms: what the pod asks of the pods that are there ([`PodAffinity`]), and what it
//! asks, once it is there, of the pods that come ([`ExistingTerm`]).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, WeightedPodAffinityTerm};

use crate::state::domain_terms::{Common, DomainCountKey, NamespaceSet, NodeGroup, PodGroup, PodTerm};
use object::selector::{Operator, Requirement, Selector};

/// What a pod asks of the pods that are there.
#[derive(Debug, Default)]
pub(crate) struct PodAffinity {
    /// Its domain must have a pod that all these terms match, term by term.
    pub(crate) required: Vec<Arc<DomainCountKey>>,
    /// Its domain must have no such pod.
    pub(crate) forbidden: Vec<Arc<DomainCountKey>>,
    /// It would rather be where such pods are; where they are not, when the weight is negative.
    pub(crate) preferred: Vec<(i64, Arc<DomainCountKey>)>,
    /// The terms of `required`: a pod that matches them itself may be the first.
    pub(crate) required_terms: Vec<PodTerm>,
}

/// What a pod that has its node asks of others.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExistingTerm {
    /// The pods it is about.
    pub(crate) pods: PodTerm,
    /// The node label whose values are the domains.
    pub(crate) topology: String,
    /// What about them.
    pub(crate) demand: Demand,
}

/// What a [`ExistingTerm`] term asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Demand {
    /// They must not come into its domain.
    KeepOut,
    /// It requires them; they are welcome.
    Requires,
    /// They are welcome with this weight, unwelcome when it is negative.
    Welcome(i64),
}

impl PodAffinity {
    /// Reads a pod.
    pub(crate) fn of(pod: &Pod) -> Self {
        let Some(terms) = Terms::of(pod) else { return Self::default() };
        let required_terms: Vec<PodTerm> = terms.required.iter().map(|term| pod_term(term, pod)).collect();
        let all = Common::new(PodGroup { terms: required_terms.clone(), terminating: true });
        let any_node = Common::new(NodeGroup::default());
        let single = |term: &PodAffinityTerm| {
            let group = Common::new(PodGroup { terms: vec![pod_term(term, pod)], terminating: true });
            Arc::new(DomainCountKey::new(group, &term.topology_key, any_node.clone()))
        };
        let tally_all = |term: &&PodAffinityTerm| {
            Arc::new(DomainCountKey::new(all.clone(), &term.topology_key, any_node.clone()))
        };
        Self {
            required: terms.required.iter().map(tally_all).collect(),
            forbidden: terms.forbidden.iter().map(|term| single(term)).collect(),
            preferred: terms.preferred.iter().map(|(weight, term)| (*weight, single(term))).collect(),
            required_terms,
        }
    }

    /// Everything it counts.
    pub(crate) fn domain_counts(&self) -> impl Iterator<Item = &Arc<DomainCountKey>> {
        let preferred = self.preferred.iter().map(|(_, key)| key);
        self.required.iter().chain(&self.forbidden).chain(preferred)
    }

    /// Whether a node must meet any of it.
    pub(crate) fn is_required(&self) -> bool {
        !self.required.is_empty() || !self.forbidden.is_empty()
    }
}

impl ExistingTerm {
    /// The terms of a pod.
    pub(crate) fn of(pod: &Pod) -> Vec<Arc<Self>> {
        let Some(terms) = Terms::of(pod) else { return Vec::new() };
        let existing = |term: &PodAffinityTerm, demand: Demand| {
            Arc::new(Self { pods: pod_term(term, pod), topology: term.topology_key.clone(), demand })
        };
        let required = terms.required.iter().map(|term| existing(term, Demand::Requires));
        let forbidden = terms.forbidden.iter().map(|term| existing(term, Demand::KeepOut));
        let preferred = terms.preferred.iter().map(|(weight, term)| existing(term, Demand::Welcome(*weight)));
        required.chain(forbidden).chain(preferred).collect()
    }
}

struct Terms<'p> {
    required: Vec<&'p PodAffinityTerm>,
    forbidden: Vec<&'p PodAffinityTerm>,
    preferred: Vec<(i64, &'p PodAffinityTerm)>,
}

impl<'p> Terms<'p> {
    fn of(pod: &'p Pod) -> Option<Self> {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?;
        let (to, against) = (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref());
        if to.is_none() && against.is_none() {
            return None;
        }
        let required = to.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let forbidden = against.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let wished = to.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
        let unwished = against.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
        let weighted = |sign: i64| {
            move |wish: &'p WeightedPodAffinityTerm| (sign * i64::from(wish.weight), &wish.pod_affinity_term)
        };
        let preferred = wished.into_iter().flatten().map(weighted(1));
        let preferred = preferred.chain(unwished.into_iter().flatten().map(weighted(-1)));
        Some(Self {
            required: required.into_iter().flatten().collect(),
            forbidden: forbidden.into_iter().flatten().collect(),
            preferred: preferred.filter(|(weight, _)| *weight != 0).collect(),
        })
    }
}

/// The pods a term is about: without namespaces and selector of namespaces, those of the pod's own.
fn pod_term(term: &PodAffinityTerm, pod: &Pod) -> PodTerm {
    let mut names: std::collections::BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
    if names.is_empty() && term.namespace_selector.is_none() {
        names.insert(pod.metadata.namespace.clone().unwrap_or_default());
    }
    let namespaces =
        NamespaceSet { names, selector: term.namespace_selector.as_ref().map(Selector::from_field) };
    let own = |key: &String| Some((key.clone(), pod.metadata.labels.as_ref()?.get(key)?.clone()));
    let same = term.match_label_keys.iter().flatten().filter_map(own);
    let other = term.mismatch_label_keys.iter().flatten().filter_map(own);
    let more: Vec<Requirement> = same
        .map(|(key, value)| Requirement { key, operator: Operator::In(vec![value]) })
        .chain(other.map(|(key, value)| Requirement { key, operator: Operator::NotIn(vec![value]) }))
        .collect();
    PodTerm { namespaces, selector: Selector::from_optional(term.label_selector.as_ref()).and(more) }
}
