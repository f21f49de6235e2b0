//! Topology spread constraints as a pod carries them, read once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};

use super::group::{NamespaceSet, Namespaces, NodeGroup, PodGroup, PodTerm, TallyKey};
use super::pod_info::PodInfo;
use super::topology::BY_NODE;
use crate::object::node_selector::RequiredNodes;
use crate::object::selector::{Operator, Requirement, Selector};

/// The topology of single nodes.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// One constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// How much fuller a domain may be than the emptiest.
    pub max_skew: i64,
    /// With fewer domains than this the emptiest counts as empty.
    pub min_domains: i64,
    /// `DoNotSchedule` rather than `ScheduleAnyway`.
    pub required: bool,
    /// Whether the pod itself is one of those that count.
    pub counts_itself: bool,
    /// The labels without which a node is neither target nor domain.
    pub keys: Vec<String>,
    /// The pods that count, by domain.
    pub tally: Arc<TallyKey>,
}

impl Spread {
    /// The constraints of a pod.
    pub fn of(pod: &Pod) -> Vec<Self> {
        let spec = pod.spec.as_ref();
        let constraints = spec.and_then(|s| s.topology_spread_constraints.as_deref()).unwrap_or_default();
        let selectors: Vec<Selector> = constraints.iter().map(|c| selector_of(c, pod)).collect();
        Self::read(constraints, &selectors, pod, MissingKeys::Exclude)
    }

    /// The cluster's constraints for a pod that has none of its own, with the selector of its owners.
    pub fn by_default(
        constraints: &[TopologySpreadConstraint],
        selector: &Selector,
        pod: &Pod,
        missing: MissingKeys,
    ) -> Vec<Self> {
        Self::read(constraints, &vec![selector.clone(); constraints.len()], pod, missing)
    }

    fn read(
        constraints: &[TopologySpreadConstraint],
        selectors: &[Selector],
        pod: &Pod,
        missing: MissingKeys,
    ) -> Vec<Self> {
        let required = |c: &TopologySpreadConstraint| c.when_unsatisfiable != "ScheduleAnyway";
        let keys = |of_required: bool| {
            let same = constraints.iter().filter(|c| required(c) == of_required);
            let mut keys: Vec<String> = same.map(|c| c.topology_key.clone()).collect();
            keys.sort_unstable();
            keys.dedup();
            if missing == MissingKeys::Ignore && !of_required { Vec::new() } else { keys }
        };
        let (required_keys, wished_keys) = (keys(true), keys(false));
        let read = |(constraint, selector): (&TopologySpreadConstraint, &Selector)| {
            let is_required = required(constraint);
            let keys = if is_required { &required_keys } else { &wished_keys };
            Self::new(constraint, selector, pod, is_required, keys)
        };
        constraints.iter().zip(selectors).map(read).collect()
    }

    fn new(
        constraint: &TopologySpreadConstraint,
        selector: &Selector,
        pod: &Pod,
        required: bool,
        keys: &[String],
    ) -> Self {
        let namespaces = NamespaceSet::only(pod.metadata.namespace.as_deref().unwrap_or_default());
        let counted = PodTerm { namespaces, selector: selector.clone() };
        let pods = PodGroup { terms: vec![counted], terminating: false };
        // Wishes for single nodes count each node by itself, whatever it is labelled.
        let by_node = !required && constraint.topology_key == HOSTNAME;
        let topology = if by_node { BY_NODE } else { &constraint.topology_key };
        let nodes = if by_node { NodeGroup::default() } else { included(constraint, pod, keys) };
        Self {
            topology_key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            required,
            counts_itself: selector.matches(pod.metadata.labels.as_ref()),
            keys: keys.to_vec(),
            tally: Arc::new(TallyKey::new(pods, topology, nodes)),
        }
    }

    /// Whether another pod is one of those that count, its deletion aside.
    pub fn selects(&self, other: &PodInfo, namespaces: &Namespaces) -> bool {
        self.tally.pods.terms.iter().all(|term| term.matches(other, namespaces))
    }
}

/// What becomes of nodes that lack a label which a wish names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingKeys {
    /// They are no domains and the worst targets.
    Exclude,
    /// Each wish counts only where there is the label: for the constraints Kubernetes has built in.
    Ignore,
}

/// The nodes that count for a constraint of a pod.
fn included(constraint: &TopologySpreadConstraint, pod: &Pod, keys: &[String]) -> NodeGroup {
    let honors = |policy: &Option<String>, default| policy.as_deref().map_or(default, |p| p == "Honor");
    let spec = pod.spec.as_ref();
    let required = || spec.map(RequiredNodes::of).unwrap_or_default();
    let tolerations = || spec.and_then(|s| s.tolerations.clone()).unwrap_or_default();
    NodeGroup {
        keys: keys.to_vec(),
        required: if honors(&constraint.node_affinity_policy, true) {
            required()
        } else {
            RequiredNodes::default()
        },
        tolerations: honors(&constraint.node_taints_policy, false).then(tolerations),
    }
}

/// The constraint's selector, and the pod's own values of `matchLabelKeys`.
fn selector_of(constraint: &TopologySpreadConstraint, pod: &Pod) -> Selector {
    let Some(field) = &constraint.label_selector else { return Selector::nothing() };
    let selector = Selector::from_field(field);
    let keys = constraint.match_label_keys.iter().flatten();
    let own: Vec<Requirement> = keys
        .filter_map(|key| {
            let value = pod.metadata.labels.as_ref()?.get(key)?;
            Some(Requirement { key: key.clone(), operator: Operator::In(vec![value.clone()]) })
        })
        .collect();
    selector.and(own)
}
