//! The sets that policies refer to, and the pods in them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::Index;
use crate::inputs::{NamedPort, numbers_of};
use crate::peers::{Definition, Member, Namespaces, SetId};
use object::Key;

/// A set that policies refer to.
pub(super) struct Set {
    pub(super) definition: Definition,
    /// Number of references from policies.
    users: usize,
    /// The selected pods, including those without members.
    pods: HashSet<Arc<Key>>,
    /// Number of additional pods with the same member: two pods may briefly have the same address, and either may be
    /// removed first.
    more: BTreeMap<Member, usize>,
}

/// A pod that is in sets.
pub(super) struct SetMember {
    ips: Vec<IpAddr>,
    ports: Vec<NamedPort>,
    sets: BTreeSet<SetId>,
}

impl SetMember {
    /// Returns the members that the pod adds to a set.
    fn members(&self, definition: &Definition) -> BTreeSet<Member> {
        let numbers = |protocol, name: &str| numbers_of(&self.ports, protocol, name).collect();
        definition.members(&self.ips, numbers).collect()
    }
}

impl Index {
    /// Adds a pod to the sets that it belongs to, and removes it from others.
    pub(super) fn update_pod(&mut self, key: &Key) {
        let before = self.placed.remove_entry(key);
        let now = self.world.pods.get(key).filter(|pod| !pod.of_host).and_then(|pod| {
            let groups = self.groups_of(&key.namespace);
            let groups = groups.iter().filter_map(|namespaces| self.groups.get(namespaces));
            let sets: BTreeSet<SetId> =
                groups.flat_map(|group| group.matching(&pod.labels).cloned()).collect();
            let (ips, ports) = (pod.ips.clone(), pod.ports.clone());
            (!sets.is_empty()).then_some(SetMember { ips, ports, sets })
        });
        let (key, before) = match before {
            Some((key, before)) => (key, Some(before)),
            None => (Arc::new(key.clone()), None),
        };
        let ids = before.iter().chain(&now).flat_map(|placed| &placed.sets);
        let ids: BTreeSet<SetId> = ids.cloned().collect();
        let is_same = match (&before, &now) {
            (Some(before), Some(now)) => (&before.ips, &before.ports) == (&now.ips, &now.ports),
            _ => false,
        };
        for id in ids {
            let (was, is) = (
                before.as_ref().filter(|placed| placed.sets.contains(&id)),
                now.as_ref().filter(|placed| placed.sets.contains(&id)),
            );
            if !(is_same && was.is_some() && is.is_some()) {
                self.update_member(&key, &id, was, is);
            }
        }
        if let Some(now) = now {
            self.placed.insert(key, now);
        }
    }

    /// Replaces the members that a pod adds to a set; `None` means that it is not in the set.
    fn update_member(&mut self, key: &Arc<Key>, id: &SetId, was: Option<&SetMember>, is: Option<&SetMember>) {
        let Some(set) = self.sets.get_mut(id) else { return };
        let members = |placed: Option<&SetMember>| placed.map(|placed| placed.members(&set.definition));
        let (was, now) = (members(was).unwrap_or_default(), members(is).unwrap_or_default());
        if is.is_some() {
            set.pods.insert(key.clone());
        } else {
            set.pods.remove(key);
        }
        let held = self.model.sets.entry(id.clone()).or_default();
        let changes = &mut self.staged.changes;
        for member in now.difference(&was) {
            if held.insert(*member) {
                changes.change_set(id, |change| change.add(*member));
            } else {
                *set.more.entry(*member).or_default() += 1;
            }
        }
        for member in was.difference(&now) {
            match set.more.get_mut(member) {
                Some(more) if *more > 1 => *more -= 1,
                Some(_) => drop(set.more.remove(member)),
                None => {
                    held.remove(member);
                    changes.change_set(id, |change| change.remove(*member));
                }
            }
        }
    }

    /// Adds a policy's reference to a set, and creates the set if it is the first one.
    pub(super) fn acquire(&mut self, definition: Definition) {
        let id = definition.id.clone();
        if let Some(set) = self.sets.get_mut(&id) {
            set.users += 1;
            return;
        }
        let group = self.groups.entry(definition.namespaces.clone()).or_default();
        if let (Namespaces::Selected(selector), true) = (&definition.namespaces, group.is_empty()) {
            self.namespace_selectors.insert(selector, selector);
        }
        group.insert(&definition.pods, &id);
        let namespaces: Vec<&str> = match &definition.namespaces {
            Namespaces::Named(name) => vec![name.as_str()],
            all => self.pods.namespaces().filter(|name| self.world.includes_namespace(all, name)).collect(),
        };
        let candidates = namespaces.into_iter().flat_map(|name| self.pods.candidates(name, &definition.pods));
        let is_in = |key: &&Key| {
            let pod = self.world.pods.get(key);
            pod.is_some_and(|pod| self.world.selects(&definition, key, pod))
        };
        let pods: Vec<Key> = candidates.filter(is_in).cloned().collect();
        let set = Set { definition, users: 1, pods: HashSet::new(), more: BTreeMap::new() };
        self.sets.insert(id.clone(), set);
        self.model.sets.insert(id.clone(), BTreeSet::new());
        self.staged.changes.add_set(id.clone(), BTreeSet::new());
        for key in pods {
            let Some(pod) = self.world.pods.get(&key) else { continue };
            let (key, mut placed) = self.placed.remove_entry(&key).unwrap_or_else(|| {
                let (ips, ports) = (pod.ips.clone(), pod.ports.clone());
                (Arc::new(key), SetMember { ips, ports, sets: BTreeSet::new() })
            });
            placed.sets.insert(id.clone());
            self.update_member(&key, &id, None, Some(&placed));
            self.placed.insert(key, placed);
        }
    }

    /// Removes a policy's reference to a set, and removes the set if it was the last one.
    pub(super) fn release(&mut self, id: &SetId) {
        let Some(set) = self.sets.get_mut(id) else { return };
        set.users -= 1;
        if set.users > 0 {
            return;
        }
        let Some(set) = self.sets.remove(id) else { return };
        let namespaces = &set.definition.namespaces;
        if let Some(group) = self.groups.get_mut(namespaces) {
            group.remove(&set.definition.pods, id);
            if group.is_empty() {
                self.groups.remove(namespaces);
                if let Namespaces::Selected(selector) = namespaces {
                    self.namespace_selectors.remove(selector, selector);
                }
            }
        }
        for pod in &set.pods {
            if let Some(placed) = self.placed.get_mut(pod) {
                placed.sets.remove(id);
                if placed.sets.is_empty() {
                    self.placed.remove(pod);
                }
            }
        }
        self.model.sets.remove(id);
        self.staged.changes.remove_set(id.clone());
    }
}
