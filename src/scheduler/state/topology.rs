//! Domains as small numbers, so that counts by domain are vectors and not maps of texts.
//!
//! A topology is a node label (or the node itself); its domains are the label's values. Only topologies that a count or
//! term uses are stored.

use std::collections::HashMap;

/// The topology in which every node is a domain of its own, regardless of its labels.
pub(crate) const BY_NODE: &str = "";

/// A domain of a topology.
pub(crate) type Domain = usize;

/// A topology in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TopologyId(usize);

/// The domains of one node, by topology.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeDomains(Vec<u32>);

const NONE: u32 = u32::MAX;

impl NodeDomains {
    /// Returns the node's domain; `None` if it lacks the label.
    pub(crate) fn get(&self, topology: TopologyId) -> Option<Domain> {
        self.0.get(topology.0).copied().filter(|domain| *domain != NONE).map(|domain| domain as usize)
    }

    fn set(&mut self, topology: TopologyId, domain: Option<u32>) {
        if self.0.len() <= topology.0 {
            self.0.resize(topology.0 + 1, NONE);
        }
        self.0[topology.0] = domain.unwrap_or(NONE);
    }
}

#[derive(Debug, Default)]
struct Slot {
    key: String,
    domains: HashMap<String, u32>,
    users: usize,
}

/// The topologies in use.
#[derive(Debug, Default)]
pub(crate) struct Topologies {
    slots: Vec<Slot>,
    by_key: HashMap<String, TopologyId>,
    free: Vec<TopologyId>,
}

impl Topologies {
    /// Returns the topology of this label, if it is in use.
    pub(crate) fn id(&self, key: &str) -> Option<TopologyId> {
        self.by_key.get(key).copied()
    }

    /// Adds a user of the topology. Returns true if the topology was not in use before: every node must then be
    /// [assigned](Self::assign) in it.
    pub(crate) fn acquire(&mut self, key: &str) -> (TopologyId, bool) {
        if let Some(id) = self.id(key) {
            self.slots[id.0].users += 1;
            return (id, false);
        }
        let slot = Slot { key: key.into(), domains: HashMap::new(), users: 1 };
        let id = if let Some(id) = self.free.pop() {
            self.slots[id.0] = slot;
            id
        } else {
            self.slots.push(slot);
            TopologyId(self.slots.len() - 1)
        };
        self.by_key.insert(key.into(), id);
        (id, true)
    }

    /// Removes a user of the topology.
    pub(crate) fn release(&mut self, id: TopologyId) {
        let slot = &mut self.slots[id.0];
        slot.users -= 1;
        if slot.users == 0 {
            self.by_key.remove(&slot.key);
            *slot = Slot::default();
            self.free.push(id);
        }
    }

    /// Sets the domain of the topology for a node with this name and these labels.
    pub(crate) fn assign<'l>(
        &mut self,
        id: TopologyId,
        domains: &mut NodeDomains,
        name: &'l str,
        label: impl Fn(&str) -> Option<&'l str>,
    ) {
        let slot = &mut self.slots[id.0];
        let value = if slot.key == BY_NODE { Some(name) } else { label(&slot.key) };
        let domain = value.map(|value| {
            let next = slot.domains.len() as u32;
            if let Some(known) = slot.domains.get(value) {
                return *known;
            }
            slot.domains.insert(value.into(), next);
            next
        });
        domains.set(id, domain);
    }

    pub(crate) fn in_use(&self) -> Vec<TopologyId> {
        self.by_key.values().copied().collect()
    }

    /// Returns the most domains that a topology has ever had; it exceeds the number of nodes after nodes have been
    /// replaced.
    pub(crate) fn widest(&self) -> usize {
        self.slots.iter().map(|slot| slot.domains.len()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_lives_while_it_is_used_and_its_number_is_reused() {
        let mut topologies = Topologies::default();
        let (zone, new) = topologies.acquire("zone");
        assert!(new && !topologies.acquire("zone").1);
        let (node, _) = topologies.acquire(BY_NODE);
        let mut domains: Vec<NodeDomains> = vec![NodeDomains::default(); 3];
        for (n, (name, value)) in [("a", Some("x")), ("b", Some("x")), ("c", None)].into_iter().enumerate() {
            topologies.assign(zone, &mut domains[n], name, |_| value);
            topologies.assign(node, &mut domains[n], name, |_| None);
        }
        let in_zone: Vec<_> = domains.iter().map(|d| d.get(zone)).collect();
        assert_eq!(in_zone, [Some(0), Some(0), None]);
        assert_eq!(domains.iter().map(|d| d.get(node)).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
        topologies.release(zone);
        assert!(topologies.id("zone").is_some(), "one of two users is left");
        topologies.release(zone);
        assert_eq!(topologies.id("zone"), None);
        assert_eq!(topologies.acquire("rack"), (zone, true));
    }
}
