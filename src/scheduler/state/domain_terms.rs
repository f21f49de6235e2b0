//! Groups of pods and of nodes: the objects that spread constraints and affinity terms count.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use object::SharedObject;
use object::node_selector::RequiredNodes;
use object::owner::is_terminating;
use object::selector::{Labels, Operator, Selector};
use object::taint::untolerated;

/// The labels of every namespace, for terms that select namespaces.
pub(crate) type Namespaces = HashMap<String, Labels>;

/// The namespaces of a term: those that it names, and those that it selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceSet {
    pub(crate) names: BTreeSet<String>,
    /// By labels.
    pub(crate) selector: Option<Selector>,
}

impl NamespaceSet {
    /// Returns a set of one namespace.
    pub(crate) fn only(name: &str) -> Self {
        Self { names: [name.to_string()].into(), selector: None }
    }

    /// Returns true if the set has the namespace. An unknown namespace has no labels.
    pub(crate) fn contains(&self, name: &str, namespaces: &Namespaces) -> bool {
        self.names.contains(name)
            || self.selector.as_ref().is_some_and(|selector| selector.matches(namespaces.get(name)))
    }
}

/// Pods of some namespaces with some labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodTerm {
    pub(crate) namespaces: NamespaceSet,
    /// The labels.
    pub(crate) selector: Selector,
}

impl PodTerm {
    pub(crate) fn matches(&self, pod: &SharedObject<Pod>, namespaces: &Namespaces) -> bool {
        self.selector.matches(pod.metadata.labels.as_ref())
            && self.namespaces.contains(pod.namespace(), namespaces)
    }
}

/// The pods that are counted: those that match every term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodGroup {
    /// At least one.
    pub(crate) terms: Vec<PodTerm>,
    /// True if terminating pods count as well.
    pub(crate) terminating: bool,
}

impl PodGroup {
    /// Returns true if a pod counts.
    pub(crate) fn matches(&self, pod: &SharedObject<Pod>, namespaces: &Namespaces) -> bool {
        (self.terminating || !is_terminating(&pod.metadata))
            && self.terms.iter().all(|term| term.matches(pod, namespaces))
    }

    /// Returns true if the group depends on the labels of namespaces.
    pub(crate) fn selects_namespaces(&self) -> bool {
        self.terms.iter().any(|term| term.namespaces.selector.is_some())
    }

    /// Returns a label and value that all pods of the group must have, if there is one.
    pub(crate) fn common_label(&self) -> Option<(&str, &str)> {
        self.terms.iter().flat_map(|term| term.selector.requirements()).find_map(|requirement| {
            match &requirement.operator {
                Operator::In(values) if values.len() == 1 => Some((&*requirement.key, &*values[0])),
                _ => None,
            }
        })
    }
}

/// The nodes that count, with their pods and domains.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeGroup {
    /// Labels that a node must have.
    pub(crate) keys: Arc<[String]>,
    /// The pod's requirements on its node.
    pub(crate) required: RequiredNodes,
    /// The nodes with taints that these tolerations do not cover are excluded; `None` ignores taints.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

impl NodeGroup {
    /// Returns true if a node with these taints counts.
    pub(crate) fn contains(&self, node: &Node, taints: &[Taint]) -> bool {
        let labels = node.metadata.labels.as_ref();
        self.keys.iter().all(|key| labels.is_some_and(|labels| labels.contains_key(key)))
            && (self.required.is_any() || self.required.matches(node))
            && self.tolerations.as_ref().is_none_or(|t| untolerated(taints, Some(t)).is_none())
    }
}

impl Hash for NodeGroup {
    // Tolerations have no hash; equality distinguishes them.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.keys, &self.required).hash(state);
    }
}

/// A group shared by many keys of one pod: a pod with thousands of terms holds it once, and its hash is computed
/// once.
#[derive(Debug)]
pub(crate) struct SharedGroup<T>(Arc<(u64, T)>);

impl<T: Hash> SharedGroup<T> {
    /// Computes the hash.
    pub(crate) fn new(group: T) -> Self {
        let mut hasher = DefaultHasher::new();
        group.hash(&mut hasher);
        Self(Arc::new((hasher.finish(), group)))
    }
}

impl<T> Clone for SharedGroup<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for SharedGroup<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.1
    }
}

impl<T: PartialEq> PartialEq for SharedGroup<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: PartialEq> Eq for SharedGroup<T> {}

impl<T> Hash for SharedGroup<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.0);
    }
}

/// The key of a [`DomainCount`](crate::state::domain_count::DomainCount): the counted pods, the topology with the
/// domains, and the counted nodes.
#[derive(Debug)]
pub(crate) struct DomainCountKey {
    pub(crate) pods: SharedGroup<PodGroup>,
    /// The node label with the domains as values, or [`crate::state::topology::BY_NODE`].
    pub(crate) topology: String,
    pub(crate) nodes: SharedGroup<NodeGroup>,
    hash: u64,
}

impl DomainCountKey {
    /// Creates a key. Its hash is computed once, because it is looked up in every cycle.
    pub(crate) fn new(pods: SharedGroup<PodGroup>, topology: &str, nodes: SharedGroup<NodeGroup>) -> Self {
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
