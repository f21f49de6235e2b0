//! Groups of pods and of nodes: what spread constraints and affinity terms count, and where.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use object::Shared;
use object::node_selector::RequiredNodes;
use object::owner::is_terminating;
use object::selector::{Labels, Operator, Selector};
use object::taint::untolerated;

/// The labels of every namespace, for terms that select namespaces.
pub(crate) type Namespaces = HashMap<String, Labels>;

/// The namespaces a term looks at: those named, and those selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceSet {
    /// By name.
    pub(crate) names: BTreeSet<String>,
    /// By labels.
    pub(crate) selector: Option<Selector>,
}

impl NamespaceSet {
    /// One namespace.
    pub(crate) fn only(name: &str) -> Self {
        Self { names: [name.to_string()].into(), selector: None }
    }

    /// Whether a namespace is one of them. One that is not known (yet) has no labels.
    pub(crate) fn contains(&self, name: &str, namespaces: &Namespaces) -> bool {
        self.names.contains(name)
            || self.selector.as_ref().is_some_and(|selector| selector.matches(namespaces.get(name)))
    }
}

/// Pods of some namespaces with some labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodTerm {
    /// Where.
    pub(crate) namespaces: NamespaceSet,
    /// Which.
    pub(crate) selector: Selector,
}

impl PodTerm {
    /// Whether a pod is one of them.
    pub(crate) fn matches(&self, pod: &Shared<Pod>, namespaces: &Namespaces) -> bool {
        self.selector.matches(pod.metadata.labels.as_ref())
            && self.namespaces.contains(pod.namespace(), namespaces)
    }
}

/// The pods that are counted: those that every term matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodGroup {
    /// At least one.
    pub(crate) terms: Vec<PodTerm>,
    /// Whether pods that are being deleted count as well.
    pub(crate) terminating: bool,
}

impl PodGroup {
    /// Whether a pod counts.
    pub(crate) fn matches(&self, pod: &Shared<Pod>, namespaces: &Namespaces) -> bool {
        (self.terminating || !is_terminating(&pod.metadata))
            && self.terms.iter().all(|term| term.matches(pod, namespaces))
    }

    /// Whether it depends on the labels of namespaces.
    pub(crate) fn selects_namespaces(&self) -> bool {
        self.terms.iter().any(|term| term.namespaces.selector.is_some())
    }

    /// A label and value that all of its pods have, if there is one.
    pub(crate) fn common_label(&self) -> Option<(&str, &str)> {
        self.terms.iter().flat_map(|term| term.selector.requirements()).find_map(|requirement| {
            match &requirement.operator {
                Operator::In(values) if values.len() == 1 => Some((&*requirement.key, &*values[0])),
                _ => None,
            }
        })
    }
}

/// The nodes whose pods are counted, and whose domains are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeGroup {
    /// Labels that a node must have, all of them.
    pub(crate) keys: Arc<[String]>,
    /// What a pod requires of its node.
    pub(crate) required: RequiredNodes,
    /// Taints that these do not tolerate exclude a node; none = taints do not matter.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

impl NodeGroup {
    /// Whether a node with these taints is one of them.
    pub(crate) fn contains(&self, node: &Node, taints: &[Taint]) -> bool {
        let labels = node.metadata.labels.as_ref();
        self.keys.iter().all(|key| labels.is_some_and(|labels| labels.contains_key(key)))
            && (self.required.is_any() || self.required.matches(node))
            && self.tolerations.as_ref().is_none_or(|t| untolerated(taints, Some(t)).is_none())
    }
}

impl Hash for NodeGroup {
    // Tolerations have no hash; equality tells them apart.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.keys, &self.required).hash(state);
    }
}

/// A group that many keys of one pod share: a pod with thousands of terms has it once, and its hash is made once.
#[derive(Debug)]
pub(crate) struct Common<T>(Arc<(u64, T)>);

impl<T: Hash> Common<T> {
    /// Makes its hash.
    pub(crate) fn new(group: T) -> Self {
        let mut hasher = DefaultHasher::new();
        group.hash(&mut hasher);
        Self(Arc::new((hasher.finish(), group)))
    }
}

impl<T> Clone for Common<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Common<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.1
    }
}

impl<T: PartialEq> PartialEq for Common<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: PartialEq> Eq for Common<T> {}

impl<T> Hash for Common<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.0);
    }
}

/// What a domain_count counts: pods, by the domains of a topology, on some nodes.
#[derive(Debug)]
pub(crate) struct DomainCountKey {
    /// The pods.
    pub(crate) pods: Common<PodGroup>,
    /// The node label whose values are the domains, or [`crate::state::topology::BY_NODE`].
    pub(crate) topology: String,
    /// The nodes.
    pub(crate) nodes: Common<NodeGroup>,
    hash: u64,
}

impl DomainCountKey {
    /// A key; its hash is made once, since it is looked up in every cycle.
    pub(crate) fn new(pods: Common<PodGroup>, topology: &str, nodes: Common<NodeGroup>) -> Self {
        let mut hasher = DefaultHasher::new();
        (&pods, topology, &nodes).hash(&mut hasher);
        Self { pods, topology: topology.into(), nodes, hash: hasher.finish() }
    }
}

impl PartialEq for DomainCountKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.topology == other.topology
            && self.pods == other.pods
            && self.nodes == other.nodes
    }
}

impl Eq for DomainCountKey {}

impl Hash for DomainCountKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
