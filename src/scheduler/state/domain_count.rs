//! DomainCounts: the number of pods of a group in each domain, updated pod by pod.
//!
//! Topology spread and pod affinity need the same counts for every pod of a workload. Counting in every cycle costs
//! in proportion to the cluster; a domain count costs in proportion to the changes.
//!
//! Architecture Invariant: a domain count is a cache. It may be dropped at any time, and one built from scratch is
//! equal.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::state::domain_terms::{DomainCountKey, Namespaces};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::topology::{Domain, TopologyId};

/// The pods and nodes of one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    pods: i64,
    nodes: u32,
}

/// The counts of one [`DomainCountKey`].
#[derive(Debug)]
pub(crate) struct DomainCount {
    key: Arc<DomainCountKey>,
    topology: TopologyId,
    domains: Vec<Count>,
    /// The number of domains for each number of pods: the emptiest domains are at the front.
    levels: BTreeMap<i64, usize>,
    total: i64,
    used: u64,
}

/// The counts after simulated additions and removals.
#[derive(Clone, Debug)]
pub(crate) struct HypotheticalCount<'t> {
    domain_count: &'t DomainCount,
    /// The few domains with a simulated change, each with the change of its number.
    changed: Vec<(Domain, i64)>,
}

impl DomainCount {
    fn new(key: Arc<DomainCountKey>, topology: TopologyId) -> Self {
        Self { key, topology, domains: Vec::new(), levels: BTreeMap::new(), total: 0, used: 0 }
    }

    /// Returns the topology of its domains.
    pub(crate) fn topology(&self) -> TopologyId {
        self.topology
    }

    pub(crate) fn key(&self) -> &DomainCountKey {
        &self.key
    }

    /// Returns the number of matching pods in a domain.
    pub(crate) fn pods_in(&self, domain: Domain) -> i64 {
        self.domains.get(domain).map_or(0, |count| count.pods)
    }

    /// Returns the total number of matching pods.
    #[cfg(test)]
    pub(crate) fn total(&self) -> i64 {
        self.total
    }

    /// Returns the number of domains with a counted node.
    pub(crate) fn domain_count(&self) -> i64 {
        self.levels.values().sum::<usize>() as i64
    }

    /// Starts simulating additions and removals.
    pub(crate) fn suppose(&self) -> HypotheticalCount<'_> {
        HypotheticalCount { domain_count: self, changed: Vec::new() }
    }

    fn change(&mut self, domain: Domain, nodes: i64, pods: i64) {
        if self.domains.len() <= domain {
            self.domains.resize(domain + 1, Count::default());
        }
        let before = self.domains[domain];
        let after =
            Count { pods: before.pods + pods, nodes: (i64::from(before.nodes) + nodes).max(0) as u32 };
        if before.nodes > 0
            && let Some(domains) = self.levels.get_mut(&before.pods)
        {
            *domains -= 1;
            if *domains == 0 {
                self.levels.remove(&before.pods);
            }
        }
        if after.nodes > 0 {
            *self.levels.entry(after.pods).or_default() += 1;
        }
        self.domains[domain] = after;
        self.total += pods;
    }

    /// Returns the domain in which a node counts.
    fn domain_of(&self, node: &NodeInfo) -> Option<Domain> {
        node.domains.get(self.topology).filter(|_| self.key.nodes.contains(&node.node, &node.taints))
    }

    fn pods_on(&self, node: &NodeInfo, namespaces: &Namespaces) -> i64 {
        node.pods.iter().filter(|pod| self.key.pods.matches(&pod.pod, namespaces)).count() as i64
    }

    fn node_counts(&mut self, node: &NodeInfo, namespaces: &Namespaces, sign: i64) {
        if let Some(domain) = self.domain_of(node) {
            let pods = self.pods_on(node, namespaces);
            self.change(domain, sign, sign * pods);
        }
    }
}

impl HypotheticalCount<'_> {
    /// Simulates the addition (1) or removal (-1) of a pod on a node.
    pub(crate) fn suppose(&mut self, pod: &PodInfo, node: &NodeInfo, namespaces: &Namespaces, sign: i64) {
        let Some(domain) = self.domain_count.domain_of(node) else { return };
        if !self.domain_count.key.pods.matches(&pod.pod, namespaces) {
            return;
        }
        bump(&mut self.changed, domain, sign);
    }

    /// Returns the underlying domain count.
    pub(crate) fn domain_count(&self) -> &DomainCount {
        self.domain_count
    }

    /// Returns the number of matching pods in a domain.
    pub(crate) fn pods_in(&self, domain: Domain) -> i64 {
        let more = self.changed.iter().find(|(d, _)| *d == domain).map_or(0, |(_, more)| *more);
        self.domain_count.pods_in(domain) + more
    }

    /// Returns the total number of matching pods.
    pub(crate) fn total(&self) -> i64 {
        self.domain_count.total + self.changed.iter().map(|(_, more)| more).sum::<i64>()
    }

    /// Returns the number of pods in the emptiest domain; 0 if there is no domain.
    pub(crate) fn fewest(&self) -> i64 {
        let changed: Vec<i64> = self.changed.iter().map(|(domain, _)| self.pods_in(*domain)).collect();
        let untouched = self.domain_count.levels.iter().find_map(|(level, domains)| {
            let touched =
                self.changed.iter().filter(|(d, _)| self.domain_count.pods_in(*d) == *level).count();
            (*domains > touched).then_some(*level)
        });
        changed.into_iter().chain(untouched).min().unwrap_or(0)
    }
}

/// Adds `sign` to the change of a domain; removes the entry if the change becomes 0.
pub(crate) fn bump(changed: &mut Vec<(Domain, i64)>, domain: Domain, sign: i64) {
    if let Some(position) = changed.iter().position(|(d, _)| *d == domain) {
        changed[position].1 += sign;
        if changed[position].1 == 0 {
            changed.swap_remove(position);
        }
    } else {
        changed.push((domain, sign));
    }
}

/// The maximum number of retained domain counts; the least recently used are dropped.
const MAX_DOMAIN_COUNTS: usize = 1024;
/// The maximum number of domains in all domain counts together.
const MAX_DOMAINS: usize = 4_000_000;

/// The domain counts in use.
#[derive(Debug, Default)]
pub(crate) struct DomainCounts {
    slots: Vec<Option<DomainCount>>,
    free: Vec<usize>,
    by_key: HashMap<Arc<DomainCountKey>, usize>,
    /// Domain counts with this label on all their pods.
    by_label: HashMap<(String, String), Vec<usize>>,
    /// Domain counts without a common label.
    unlabelled: Vec<usize>,
    tick: u64,
}

impl DomainCounts {
    /// Returns the counts of a key, if they exist.
    pub(crate) fn get(&self, key: &DomainCountKey) -> Option<&DomainCount> {
        self.slots.get(*self.by_key.get(key)?)?.as_ref()
    }

    /// Notes the use of a domain count; returns false if it must be [created](Self::insert) first.
    pub(crate) fn touch(&mut self, key: &DomainCountKey) -> bool {
        let Some(slot) = self.by_key.get(key) else { return false };
        self.tick += 1;
        if let Some(domain_count) = &mut self.slots[*slot] {
            domain_count.used = self.tick;
        }
        true
    }

    /// Creates the counts of a new key.
    pub(crate) fn insert(
        &mut self,
        key: &Arc<DomainCountKey>,
        topology: TopologyId,
        nodes: &[NodeInfo],
        namespaces: &Namespaces,
    ) {
        self.tick += 1;
        let mut domain_count = DomainCount::new(key.clone(), topology);
        domain_count.used = self.tick;
        for node in nodes {
            domain_count.node_counts(node, namespaces, 1);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.by_key.insert(key.clone(), slot);
        self.indexed(key).push(slot);
        self.slots[slot] = Some(domain_count);
    }

    fn indexed(&mut self, key: &DomainCountKey) -> &mut Vec<usize> {
        match key.pods.common_label() {
            Some((label, value)) => self.by_label.entry((label.into(), value.into())).or_default(),
            None => &mut self.unlabelled,
        }
    }

    /// Notes the addition (1) or removal (-1) of a pod on a node.
    pub(crate) fn pod_counts(&mut self, pod: &PodInfo, node: &NodeInfo, namespaces: &Namespaces, sign: i64) {
        if self.by_key.is_empty() {
            return;
        }
        let Self { slots, by_label, unlabelled, .. } = self;
        let labels = pod.pod.metadata.labels.iter().flatten();
        let labelled = labels.filter_map(|(k, v)| by_label.get(&(k.clone(), v.clone()))).flatten();
        for slot in labelled.chain(unlabelled.iter()) {
            let Some(domain_count) = slots[*slot].as_mut() else { continue };
            if let Some(domain) = domain_count.domain_of(node)
                && domain_count.key.pods.matches(&pod.pod, namespaces)
            {
                domain_count.change(domain, 0, sign);
            }
        }
    }

    /// Notes the addition (1) or removal (-1) of a node with its pods.
    pub(crate) fn node_counts(&mut self, node: &NodeInfo, namespaces: &Namespaces, sign: i64) {
        for domain_count in self.slots.iter_mut().flatten() {
            domain_count.node_counts(node, namespaces, sign);
        }
    }

    /// Drops the domain counts that `stale` selects; returns their topologies.
    pub(crate) fn drop_where(&mut self, mut stale: impl FnMut(&DomainCount) -> bool) -> Vec<TopologyId> {
        let mut topologies = Vec::new();
        for slot in 0..self.slots.len() {
            if self.slots[slot].as_ref().is_some_and(&mut stale)
                && let Some(domain_count) = self.slots[slot].take()
            {
                self.by_key.remove(&domain_count.key);
                let same_label = self.indexed(&domain_count.key);
                same_label.retain(|other| *other != slot);
                if same_label.is_empty()
                    && let Some((label, value)) = domain_count.key.pods.common_label()
                {
                    self.by_label.remove(&(label.into(), value.into()));
                }
                self.free.push(slot);
                topologies.push(domain_count.topology);
            }
        }
        topologies
    }

    /// Returns the number of uses so far.
    pub(crate) fn tick(&self) -> u64 {
        self.tick
    }

    /// Drops the least recently used domain counts beyond the limits, but none used after this tick; returns their
    /// topologies.
    pub(crate) fn shrink(&mut self, tick: u64) -> Vec<TopologyId> {
        let domains =
            || self.slots.iter().flatten().map(|domain_count| domain_count.domains.len()).sum::<usize>();
        if self.by_key.len() <= MAX_DOMAIN_COUNTS && (self.by_key.len() < 64 || domains() <= MAX_DOMAINS) {
            return Vec::new();
        }
        let mut used: Vec<u64> = self.slots.iter().flatten().map(|domain_count| domain_count.used).collect();
        used.sort_unstable();
        let since = used[used.len() / 2].min(tick + 1);
        self.drop_where(|domain_count| domain_count.used < since)
    }
}
