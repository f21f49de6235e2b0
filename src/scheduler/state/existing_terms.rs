//! What the pods that are there ask of those that come, counted by domain.
//!
//! Pods of a workload carry the same terms: what a cycle looks at are the different terms, few, and not the
//! pods that carry them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::state::pod_affinity::ExistingTerm;
use crate::state::topology::{Domain, NodeDomains, TopologyId};

/// The pods that carry one term, by domain.
#[derive(Debug)]
pub(crate) struct ExistingTermCounts {
    /// The term.
    pub(crate) term: Arc<ExistingTerm>,
    /// Whose domains are counted.
    pub(crate) topology: TopologyId,
    domains: Vec<u32>,
    /// Pods that carry it, those outside of every domain included.
    pods: usize,
}

impl ExistingTermCounts {
    /// How many carry it in a domain.
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

/// Every term that some pod carries.
#[derive(Debug, Default)]
pub(crate) struct ExistingTerms {
    by_term: HashMap<Arc<ExistingTerm>, ExistingTermCounts>,
}

impl ExistingTerms {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ExistingTermCounts> {
        self.by_term.values()
    }

    /// Whether nobody carries any.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_term.is_empty()
    }

    /// Whether the term is known; otherwise its topology must be acquired before [`Self::add`].
    pub(crate) fn knows(&self, term: &ExistingTerm) -> bool {
        self.by_term.contains_key(term)
    }

    /// A pod on a node in these domains carries the term.
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

    /// It does so no more; answers the topology that nobody needs any longer.
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
