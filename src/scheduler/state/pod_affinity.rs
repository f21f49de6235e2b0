//! A pod's affinity and anti-affinity, read once.
//!
//! The terms have two forms: the pod's requirements on existing pods ([`PodAffinity`]), and, once it is placed, those
//! on new pods ([`ExistingTerm`]).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, WeightedPodAffinityTerm};

use crate::state::domain_terms::{DomainCountKey, NamespaceSet, NodeGroup, PodGroup, PodTerm, SharedGroup};
use object::selector::{Operator, Requirement, Selector};

/// A pod's terms about existing pods.
#[derive(Debug, Default)]
pub(crate) struct PodAffinity {
    /// The node's domain must have a pod that matches all required terms, for each of these keys.
    pub(crate) required: Vec<Arc<DomainCountKey>>,
    /// The node's domain must have no matching pod.
    pub(crate) forbidden: Vec<Arc<DomainCountKey>>,
    /// The pod prefers domains with matching pods, or without them if the weight is negative.
    pub(crate) preferred: Vec<(i64, Arc<DomainCountKey>)>,
    /// The terms of `required`: a pod that matches them itself may be the first.
    pub(crate) required_terms: Vec<PodTerm>,
}

/// A placed pod's term about new pods.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExistingTerm {
    /// The pods that match.
    pub(crate) pods: PodTerm,
    /// The node label with the domains as values.
    pub(crate) topology: String,
    /// The effect on matching pods.
    pub(crate) kind: TermKind,
}

/// The effect of an [`ExistingTerm`] on matching pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TermKind {
    /// Matching pods must not enter the domain of the pod with the term.
    KeepOut,
    /// The pod with the term requires matching pods, so they prefer its domain.
    Requires,
    /// Matching pods prefer the domain of the pod with the term with this weight; they avoid it if the weight is
    /// negative.
    Welcome(i64),
}

impl PodAffinity {
    /// Reads a pod's terms.
    pub(crate) fn of(pod: &Pod) -> Self {
        let Some(terms) = Terms::of(pod) else { return Self::default() };
        let required_terms: Vec<PodTerm> = terms.required.iter().map(|term| pod_term(term, pod)).collect();
        let all = SharedGroup::new(PodGroup { terms: required_terms.clone(), terminating: true });
        let any_node = SharedGroup::new(NodeGroup::default());
        let single = |term: &PodAffinityTerm| {
            let group = SharedGroup::new(PodGroup { terms: vec![pod_term(term, pod)], terminating: true });
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

    /// Returns the keys of all counts that these terms need.
    pub(crate) fn domain_counts(&self) -> impl Iterator<Item = &Arc<DomainCountKey>> {
        let preferred = self.preferred.iter().map(|(_, key)| key);
        self.required.iter().chain(&self.forbidden).chain(preferred)
    }

    /// Returns true if a node must meet any of the terms.
    pub(crate) fn is_required(&self) -> bool {
        !self.required.is_empty() || !self.forbidden.is_empty()
    }
}

impl ExistingTerm {
    /// Returns the terms of a pod.
    pub(crate) fn of(pod: &Pod) -> Vec<Arc<Self>> {
        let Some(terms) = Terms::of(pod) else { return Vec::new() };
        let existing = |term: &PodAffinityTerm, demand: TermKind| {
            Arc::new(Self { pods: pod_term(term, pod), topology: term.topology_key.clone(), kind: demand })
        };
        let required = terms.required.iter().map(|term| existing(term, TermKind::Requires));
        let forbidden = terms.forbidden.iter().map(|term| existing(term, TermKind::KeepOut));
        let preferred =
            terms.preferred.iter().map(|(weight, term)| existing(term, TermKind::Welcome(*weight)));
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
        let preferred_terms =
            to.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
        let unwished = against.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
        let weighted = |sign: i64| {
            move |wish: &'p WeightedPodAffinityTerm| (sign * i64::from(wish.weight), &wish.pod_affinity_term)
        };
        let preferred = preferred_terms.into_iter().flatten().map(weighted(1));
        let preferred = preferred.chain(unwished.into_iter().flatten().map(weighted(-1)));
        Some(Self {
            required: required.into_iter().flatten().collect(),
            forbidden: forbidden.into_iter().flatten().collect(),
            preferred: preferred.filter(|(weight, _)| *weight != 0).collect(),
        })
    }
}

/// Returns the pods that a term selects: without namespaces and namespace selector, those in the pod's own namespace.
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
