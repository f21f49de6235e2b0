//! All counts by domain: matching pods for spread and affinity, and the terms of existing pods.
//!
//! The [`Snapshot`](crate::state::snapshot::Snapshot) updates the counts after each change, and plugins read them.

use crate::state::domain_count::{DomainCount, DomainCounts};
use crate::state::domain_terms::{DomainCountKey, Namespaces};
use crate::state::existing_terms::ExistingTerms;
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::topology::{NodeDomains, Topologies, TopologyId};
use object::selector::Labels;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    topologies: Topologies,
    terms: DomainCounts,
    existing_terms: ExistingTerms,
    namespaces: Namespaces,
}

impl Counts {
    /// Returns the counts of a key of a pod for which the snapshot was
    /// [prepared](crate::state::snapshot::Snapshot::prepare).
    pub(crate) fn domain_count(&self, key: &DomainCountKey) -> &DomainCount {
        self.terms.get(key).expect("the snapshot is prepared for a pod before its cycle")
    }

    /// Returns the terms of existing pods.
    pub(crate) fn existing_terms(&self) -> &ExistingTerms {
        &self.existing_terms
    }

    /// Returns the labels of every namespace.
    pub(crate) fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Makes sure that the counts a pod needs exist.
    pub(crate) fn prepare(&mut self, pod: &PodInfo, nodes: &mut [NodeInfo]) {
        let (mut grown, before) = (false, self.terms.tick());
        for key in pod.domain_counts() {
            if !self.terms.touch(key) {
                grown = true;
                let topology = self.acquire(&key.topology, nodes);
                self.terms.insert(key, topology, nodes, &self.namespaces);
            }
        }
        if grown {
            // A pod may need more counts than are retained; the counts that it needs stay during its cycle.
            let dropped = self.terms.shrink(before);
            self.release(dropped);
        }
    }

    fn acquire(&mut self, key: &str, nodes: &mut [NodeInfo]) -> TopologyId {
        let (id, is_new) = self.topologies.acquire(key);
        if is_new {
            for node in nodes {
                assign_domain(&mut self.topologies, id, node);
            }
        }
        id
    }

    fn release(&mut self, topologies: Vec<TopologyId>) {
        for id in topologies {
            self.topologies.release(id);
        }
    }

    /// Counts a pod that was added to the node at this position.
    pub(crate) fn pod_added(&mut self, pod: &PodInfo, position: usize, nodes: &mut [NodeInfo]) {
        self.terms.pod_counts(pod, &nodes[position], &self.namespaces, 1);
        self.add_pod_terms(pod, position, nodes);
    }

    /// Notes the removal of a pod from a node.
    pub(crate) fn pod_removed(&mut self, pod: &PodInfo, node: &NodeInfo) {
        self.terms.pod_counts(pod, node, &self.namespaces, -1);
        self.remove_pod_terms(pod, node);
    }

    /// Notes the addition of the node at this position, with its pods.
    pub(crate) fn node_added(&mut self, position: usize, nodes: &mut [NodeInfo]) {
        for id in self.topologies.in_use() {
            assign_domain(&mut self.topologies, id, &mut nodes[position]);
        }
        self.terms.node_counts(&nodes[position], &self.namespaces, 1);
        for pod in nodes[position].pods.clone() {
            self.add_pod_terms(&pod, position, nodes);
        }
    }

    fn add_pod_terms(&mut self, pod: &PodInfo, position: usize, nodes: &mut [NodeInfo]) {
        for term in &pod.existing_terms {
            let topology =
                match self.topologies.id(&term.topology).filter(|_| self.existing_terms.knows(term)) {
                    Some(topology) => topology,
                    None => self.acquire(&term.topology, nodes),
                };
            self.existing_terms.add(term, topology, &nodes[position].domains);
        }
    }

    fn remove_pod_terms(&mut self, pod: &PodInfo, node: &NodeInfo) {
        for term in &pod.existing_terms {
            if let Some(unused) = self.existing_terms.remove(term, &node.domains) {
                self.topologies.release(unused);
            }
        }
    }

    /// Notes the removal of a node with its pods.
    pub(crate) fn node_removed(&mut self, node: &NodeInfo) {
        self.terms.node_counts(node, &self.namespaces, -1);
        for pod in &node.pods {
            self.remove_pod_terms(pod, node);
        }
    }

    /// Sets a namespace's labels, or removes it; returns true if counts may change.
    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) -> bool {
        let before = match &labels {
            Some(labels) => self.namespaces.insert(name.into(), labels.clone()),
            None => self.namespaces.remove(name),
        };
        if before.unwrap_or_default() == labels.unwrap_or_default() {
            return false;
        }
        let dropped = self.terms.drop_where(|domain_count| domain_count.key().pods.selects_namespaces());
        self.release(dropped);
        true
    }

    /// Rebuilds the counts if many of their domains no longer have a node.
    pub(crate) fn compact(&mut self, nodes: &mut [NodeInfo]) {
        if self.topologies.widest() <= nodes.len() * 4 + 1024 {
            return;
        }
        let namespaces = std::mem::take(&mut self.namespaces);
        *self = Self { namespaces, ..Self::default() };
        for node in &mut *nodes {
            node.domains = NodeDomains::default();
        }
        for position in 0..nodes.len() {
            self.node_added(position, nodes);
        }
    }
}

fn assign_domain(topologies: &mut Topologies, id: TopologyId, node: &mut NodeInfo) {
    let NodeInfo { domains, name, node, .. } = node;
    let labels = node.metadata.labels.as_ref();
    topologies.assign(id, domains, name, |key| labels.and_then(|l| l.get(key)).map(String::as_str));
}
