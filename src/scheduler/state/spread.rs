//! A pod's topology spread constraints, read once.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};

use crate::state::domain_terms::{
    DomainCountKey, NamespaceSet, Namespaces, NodeGroup, PodGroup, PodTerm, SharedGroup,
};
use crate::state::topology::BY_NODE;
use object::SharedObject;
use object::node_selector::RequiredNodes;
use object::selector::{Operator, Requirement, Selector};
use object::well_known::label::HOSTNAME;

/// One constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// The node label with the domains as values.
    pub(crate) topology_key: String,
    /// The most pods a domain may have above the emptiest one.
    pub(crate) max_skew: i64,
    /// If there are fewer domains than this, the emptiest one counts as having no pod.
    pub(crate) min_domains: i64,
    /// `DoNotSchedule` rather than `ScheduleAnyway`.
    pub(crate) required: bool,
    /// True if the pod itself matches.
    pub(crate) counts_itself: bool,
    /// The labels that a node needs to be a target or a domain.
    pub(crate) keys: Arc<[String]>,
    /// The key of the matching pods' count.
    pub(crate) domain_count: Arc<DomainCountKey>,
}

impl Spread {
    /// Returns the constraints of a pod.
    pub(crate) fn of(pod: &Pod) -> Vec<Self> {
        let spec = pod.spec.as_ref();
        let constraints = spec.and_then(|s| s.topology_spread_constraints.as_deref()).unwrap_or_default();
        let selectors: Vec<Selector> = constraints.iter().map(|c| selector_of(c, pod)).collect();
        Self::read(constraints, &selectors, pod, MissingKeys::Exclude)
    }

    /// Returns the cluster-level constraints of a pod that has none of its own, with the selector of its owners.
    pub(crate) fn by_default(
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
        let (mut required_nodes, mut preferred_nodes) =
            (EligibleNodes::new(keys(true)), EligibleNodes::new(keys(false)));
        let read = |(constraint, selector): (&TopologySpreadConstraint, &Selector)| {
            let is_required = required(constraint);
            let nodes = if is_required { &mut required_nodes } else { &mut preferred_nodes };
            Self::new(constraint, selector, pod, is_required, nodes)
        };
        constraints.iter().zip(selectors).map(read).collect()
    }

    fn new(
        constraint: &TopologySpreadConstraint,
        selector: &Selector,
        pod: &Pod,
        required: bool,
        included: &mut EligibleNodes,
    ) -> Self {
        let namespaces = NamespaceSet::only(pod.metadata.namespace.as_deref().unwrap_or_default());
        let counted = PodTerm { namespaces, selector: selector.clone() };
        let pods = SharedGroup::new(PodGroup { terms: vec![counted], terminating: false });
        // A preference with the topology `kubernetes.io/hostname` counts each node as a domain of its own, regardless
        // of its labels.
        let by_node = !required && constraint.topology_key == HOSTNAME;
        let topology = if by_node { BY_NODE } else { &constraint.topology_key };
        let nodes =
            if by_node { SharedGroup::new(NodeGroup::default()) } else { included.nodes(constraint, pod) };
        Self {
            topology_key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            required,
            counts_itself: selector.matches(pod.metadata.labels.as_ref()),
            keys: included.keys.clone(),
            domain_count: Arc::new(DomainCountKey::new(pods, topology, nodes)),
        }
    }

    /// Returns true if the constraint selects another pod, even if that pod is terminating.
    pub(crate) fn selects(&self, other: &SharedObject<Pod>, namespaces: &Namespaces) -> bool {
        self.domain_count.pods.terms.iter().all(|term| term.matches(other, namespaces))
    }
}

/// The treatment of nodes that lack a label of a preferred constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingKeys {
    /// These nodes are no domains, and get the worst score.
    Exclude,
    /// Each constraint counts only on nodes with its label: for the constraints built into Kubernetes.
    Ignore,
}

/// The nodes that count for the constraints of a pod, shared because a pod may have thousands of constraints.
struct EligibleNodes {
    keys: Arc<[String]>,
    /// The keys say if the pod's affinity applies, and if its tolerations apply.
    nodes: HashMap<(bool, bool), SharedGroup<NodeGroup>>,
}

impl EligibleNodes {
    fn new(keys: Vec<String>) -> Self {
        Self { keys: keys.into(), nodes: HashMap::new() }
    }

    fn nodes(&mut self, constraint: &TopologySpreadConstraint, pod: &Pod) -> SharedGroup<NodeGroup> {
        let honors = |policy: &Option<String>, default| policy.as_deref().map_or(default, |p| p == "Honor");
        let affinity = honors(&constraint.node_affinity_policy, true);
        let taints = honors(&constraint.node_taints_policy, false);
        let spec = pod.spec.as_ref();
        let required = || spec.map(RequiredNodes::of).unwrap_or_default();
        let tolerations = || spec.and_then(|s| s.tolerations.clone()).unwrap_or_default();
        let keys = &self.keys;
        let made = || {
            SharedGroup::new(NodeGroup {
                keys: keys.clone(),
                required: if affinity { required() } else { RequiredNodes::default() },
                tolerations: taints.then(tolerations),
            })
        };
        self.nodes.entry((affinity, taints)).or_insert_with(made).clone()
    }
}

/// Returns the constraint's selector with the pod's own values of `matchLabelKeys`.
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
