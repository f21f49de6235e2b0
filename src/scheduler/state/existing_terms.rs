//! The terms of existing pods about new ones, counted by domain.
//!
//! Pods of a workload have the same terms: a cycle visits the distinct terms, which are few, and not the pods.

use std::collections::HashMap;
use std::sync::Arc;

use crate::state::pod_affinity::ExistingTerm;
use crate::state::topology::{Domain, NodeDomains, TopologyId};

/// The number of pods with one term, by domain.
#[derive(Debug)]
pub(crate) struct ExistingTermCounts {
    pub(crate) term: Arc<ExistingTerm>,
    /// The topology of the counted domains.
    pub(crate) topology: TopologyId,
    domains: Vec<u32>,
    /// The number of pods with the term, including those outside every domain.
    pods: usize,
}

impl ExistingTermCounts {
    /// Returns the number of pods with the term in a domain.
    pub(crate) fn pods_in(&self, domain: Domain) -> i64 {
        self.domains.get(domain).copied().map_or(0, i64::from)
    }

    fn change(&mut self, domain: Option<Domain>, sign: i64) {
        let Some(domain) = domain else { return };
        if self.domains.len() <= domain {
            self.domains.resize(domain + 1, 0);
        }
        self.domains[domain] = (i64::from(self.domains[domain]) + sign).max(0) as u32;
    }
}

/// Every term of some existing pod.
#[derive(Debug, Default)]
pub(crate) struct ExistingTerms {
    by_term: HashMap<Arc<ExistingTerm>, ExistingTermCounts>,
}

impl ExistingTerms {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ExistingTermCounts> {
        self.by_term.values()
    }

    /// Returns true if no pod has a term.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_term.is_empty()
    }

    /// Returns true if some pod has the term; otherwise its topology must be acquired before [`Self::add`].
    pub(crate) fn knows(&self, term: &ExistingTerm) -> bool {
        self.by_term.contains_key(term)
    }

    /// Adds a pod with the term on a node in these domains.
    pub(crate) fn add(&mut self, term: &Arc<ExistingTerm>, topology: TopologyId, node: &NodeDomains) {
        let counted = self.by_term.entry(term.clone()).or_insert_with(|| ExistingTermCounts {
            term: term.clone(),
            topology,
            domains: Vec::new(),
            pods: 0,
        });
        counted.pods += 1;
        counted.change(node.get(counted.topology), 1);
    }

    /// Removes a pod with the term from a node in these domains; returns the topology if no pod has the term any more.
    pub(crate) fn remove(&mut self, term: &ExistingTerm, node: &NodeDomains) -> Option<TopologyId> {
        let counted = self.by_term.get_mut(term)?;
        counted.pods -= 1;
        let domain = node.get(counted.topology);
        counted.change(domain, -1);
        let topology = counted.topology;
        (counted.pods == 0).then(|| {
            self.by_term.remove(term);
            topology
        })
    }
}
