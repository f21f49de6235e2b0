//! Everything that is counted by domain, in one place: who counts, who asks of others, and where.
//!
//! The [`Snapshot`](crate::state::snapshot::Snapshot) tells what comes and goes; plugins read.

use crate::state::domain_count::{DomainCount, DomainCounts};
use crate::state::domain_terms::{DomainCountKey, Namespaces};
use crate::state::existing_terms::ExistingTerms;
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::topology::{NodeDomains, Topologies, TopologyId};
use object::selector::Labels;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    topologies: Topologies,
    terms: DomainCounts,
    existing_terms: ExistingTerms,
    namespaces: Namespaces,
}

impl Counts {
    /// The counts for a key of a pod that was [prepared](crate::state::snapshot::Snapshot::prepare).
    pub(crate) fn domain_count(&self, key: &DomainCountKey) -> &DomainCount {
        self.terms.get(key).expect("the snapshot is prepared for a pod before its cycle")
    }

    /// What the pods that are there ask of others.
    pub(crate) fn existing_terms(&self) -> &ExistingTerms {
        &self.existing_terms
    }

    /// The labels of every namespace.
    pub(crate) fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Sees to it that what a pod asks for is counted.
    pub(crate) fn prepare(&mut self, pod: &PodInfo, nodes: &mut [NodeInfo]) {
        let (mut grown, before) = (false, self.terms.turn());
        for key in pod.domain_counts() {
            if !self.terms.touch(key) {
                grown = true;
                let topology = self.acquire(&key.topology, nodes);
                self.terms.insert(key, topology, nodes, &self.namespaces);
            }
        }
        if grown {
            // A pod may ask for more than are kept; what it asks for stays for its own cycle.
            let dropped = self.terms.shrink(before);
            self.release(dropped);
        }
    }

    fn acquire(&mut self, key: &str, nodes: &mut [NodeInfo]) -> TopologyId {
        let (id, is_new) = self.topologies.acquire(key);
        if is_new {
            for node in nodes {
                place(&mut self.topologies, id, node);
            }
        }
        id
    }

    fn release(&mut self, topologies: Vec<TopologyId>) {
        for id in topologies {
            self.topologies.release(id);
        }
    }

    /// A pod came to the node at this position, which has it already.
    pub(crate) fn pod_added(&mut self, pod: &PodInfo, position: usize, nodes: &mut [NodeInfo]) {
        self.terms.pod_counts(pod, &nodes[position], &self.namespaces, 1);
        self.carriers_came(pod, position, nodes);
    }

    /// A pod left a node.
    pub(crate) fn pod_removed(&mut self, pod: &PodInfo, node: &NodeInfo) {
        self.terms.pod_counts(pod, node, &self.namespaces, -1);
        self.carriers_went(pod, node);
    }

    /// The node at this position is there, with its pods.
    pub(crate) fn node_added(&mut self, position: usize, nodes: &mut [NodeInfo]) {
        for id in self.topologies.in_use() {
            place(&mut self.topologies, id, &mut nodes[position]);
        }
        self.terms.node_counts(&nodes[position], &self.namespaces, 1);
        for pod in nodes[position].pods.clone() {
            self.carriers_came(&pod, position, nodes);
        }
    }

    /// What a pod on the node at this position asks of others counts.
    fn carriers_came(&mut self, pod: &PodInfo, position: usize, nodes: &mut [NodeInfo]) {
        for term in &pod.existing_terms {
            let topology =
                match self.topologies.id(&term.topology).filter(|_| self.existing_terms.knows(term)) {
                    Some(topology) => topology,
                    None => self.acquire(&term.topology, nodes),
                };
            self.existing_terms.add(term, topology, &nodes[position].domains);
        }
    }

    /// It counts no more.
    fn carriers_went(&mut self, pod: &PodInfo, node: &NodeInfo) {
        for term in &pod.existing_terms {
            if let Some(unused) = self.existing_terms.remove(term, &node.domains) {
                self.topologies.release(unused);
            }
        }
    }

    /// A node with its pods counts no more.
    pub(crate) fn node_removed(&mut self, node: &NodeInfo) {
        self.terms.node_counts(node, &self.namespaces, -1);
        for pod in &node.pods {
            self.carriers_went(pod, node);
        }
    }

    /// A namespace is new or has other labels, or is gone; true when something may count differently.
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

    /// Forgets numbers of domains that are long gone, when there are many.
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

fn place(topologies: &mut Topologies, id: TopologyId, node: &mut NodeInfo) {
    let NodeInfo { domains, name, node, .. } = node;
    let labels = node.metadata.labels.as_ref();
    topologies.place(id, domains, name, |key| labels.and_then(|l| l.get(key)).map(String::as_str));
}
