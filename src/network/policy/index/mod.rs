//! The model, kept by single changes: each costs what it concerns, not what there is.
//!
//! A pod finds the policies that isolate it, and the sets that it is in, by its namespace and its labels; a policy and a
//! set find their pods the same way. Labels of a namespace concern the sets that select namespaces alone.

mod pods;
mod selectors;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::changes::Changes;
use super::model::{Isolations, Model};
use super::peers::{Definition, Member, Namespaces, SetId};
use super::rule::Policy;
use super::world::{NamedPort, World};
use object::Key;
use object::selector::Selector;
use pods::Pods;
use selectors::Selectors;

/// A world with its model.
///
/// Invariant: `model` is what [`compile`](super::compile) makes of `world`.
#[derive(Default)]
pub struct Index {
    world: World,
    model: Model,
    pods: Pods,
    /// The policies of each namespace, by the pods they select.
    policies: HashMap<String, Selectors<Key>>,
    sets: HashMap<SetId, Set>,
    /// The sets, by the namespaces that they look into and the pods that they select.
    groups: HashMap<Namespaces, Selectors<SetId>>,
    /// The selectors of namespaces among `groups`, by the namespaces they select.
    namespace_selectors: Selectors<Selector>,
    /// The sets that each pod is in.
    memberships: HashMap<Key, BTreeSet<SetId>>,
}

/// What is known within one change, while no policy moves: by where the policies are and the pod's named ports. Many pods
/// share both, and one policy may concern thousands.
type Known = HashMap<(Vec<usize>, Vec<NamedPort>), Isolations>;

struct Set {
    definition: Definition,
    /// How often policies name it.
    users: usize,
    /// What each pod that is selected brings, be it nothing.
    brought: HashMap<Key, BTreeSet<Member>>,
    /// How many pods bring it: of two that have one address for a moment, either may go first.
    counts: BTreeMap<Member, usize>,
}

impl Index {
    /// What is judged by.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// What all is now.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// A pod is like this from now on, or gone.
    pub fn set_pod(&mut self, key: &Key, pod: Option<&Pod>) -> Changes {
        let mut changes = Changes::default();
        let before = self.world.replace_pod(key, pod);
        let now = self.world.pods.get(key);
        if before.as_ref() == now {
            return changes;
        }
        let labels_before = before.as_ref().filter(|pod| !pod.of_host).map(|pod| &pod.labels);
        let labels_now = now.filter(|pod| !pod.of_host).map(|pod| &pod.labels);
        if labels_before != labels_now {
            if let Some(labels) = labels_before {
                self.pods.remove(key, labels);
            }
            if let Some(labels) = labels_now {
                self.pods.insert(key, labels);
            }
        }
        self.isolate(key, &mut Known::new(), &mut changes);
        self.place(key, &mut changes);
        changes
    }

    /// A namespace is like this from now on, or gone.
    pub fn set_namespace(&mut self, name: &str, namespace: Option<&Namespace>) -> Changes {
        let mut changes = Changes::default();
        let before = self.selectors_of(name);
        self.world.set_namespace(name, namespace);
        let now = self.selectors_of(name);
        let lost = before.iter().filter(|one| !now.contains(one));
        let gained = now.iter().filter(|one| !before.contains(one));
        let groups = lost.chain(gained).map(|selector| Namespaces::Selected(selector.clone()));
        let groups = groups.filter_map(|namespaces| self.groups.get(&namespaces));
        let concerned: BTreeSet<Key> = groups
            .flat_map(Selectors::owners)
            .filter_map(|id| self.sets.get(id))
            .flat_map(|set| self.pods.candidates(name, &set.definition.pods))
            .cloned()
            .collect();
        for pod in concerned {
            self.place(&pod, &mut changes);
        }
        changes
    }

    /// A policy is like this from now on, or gone.
    pub fn set_policy(&mut self, key: &Key, policy: Option<&NetworkPolicy>) -> Changes {
        let mut changes = Changes::default();
        let before = self.world.replace_policy(key, policy);
        let now = self.world.policies.get(key).cloned();
        if before == now {
            return changes;
        }
        let own = self.policies.entry(key.namespace.clone()).or_default();
        if let Some(before) = &before {
            own.remove(&before.pods, key);
        }
        if let Some(now) = &now {
            own.insert(&now.pods, key);
        }
        if own.is_empty() {
            self.policies.remove(&key.namespace);
        }
        // First what comes: a set that both name stays as it is.
        for definition in now.iter().flat_map(Policy::sets) {
            self.acquire(definition, &mut changes);
        }
        for definition in before.iter().flat_map(Policy::sets) {
            self.release(&definition.id, &mut changes);
        }
        let selectors = before.iter().chain(&now).map(|policy| &policy.pods);
        let concerned: BTreeSet<Key> =
            selectors.flat_map(|pods| self.pods.candidates(&key.namespace, pods)).cloned().collect();
        let mut known = Known::new();
        for pod in concerned {
            self.isolate(&pod, &mut known, &mut changes);
        }
        changes
    }

    /// Whether nothing is kept of what is gone.
    #[cfg(test)]
    pub(super) fn is_vacant(&self) -> bool {
        let counts = [self.policies.len(), self.sets.len(), self.groups.len(), self.memberships.len()];
        counts == [0; 4] && self.namespace_selectors.is_empty() && self.pods.namespaces().next().is_none()
    }

    /// How many selectors a change of a pod is compared with.
    #[cfg(test)]
    pub(super) fn selectors_asked(&self, key: &Key) -> usize {
        let Some(pod) = self.world.pods.get(key) else { return 0 };
        let own = self.policies.get(&key.namespace);
        let groups = self.groups_of(&key.namespace);
        let groups = groups.iter().filter_map(|namespaces| self.groups.get(namespaces));
        let of_sets: usize = groups.map(|group| group.candidates(&pod.labels).count()).sum();
        of_sets + own.map_or(0, |own| own.candidates(&pod.labels).count())
    }

    /// Looks again at what policies make of a pod.
    fn isolate(&mut self, key: &Key, known: &mut Known, changes: &mut Changes) {
        let now = self.world.pods.get(key).filter(|pod| !pod.of_host).and_then(|pod| {
            let names = self.policies.get(&key.namespace)?.matching(&pod.labels);
            let policies: Vec<&Policy> = names.filter_map(|name| self.world.policies.get(name)).collect();
            let mut same: Vec<usize> =
                policies.iter().map(|policy| std::ptr::from_ref(*policy).addr()).collect();
            same.sort_unstable();
            let isolations = known.entry((same, pod.ports.clone()));
            isolations.or_insert_with(|| Isolations::of(&policies, pod)).clone().isolate(pod)
        });
        if self.model.pods.get(key) == now.as_ref() {
            return;
        }
        match &now {
            Some(now) => drop(self.model.pods.insert(key.clone(), now.clone())),
            None => drop(self.model.pods.remove(key)),
        }
        changes.pods.insert(key.clone(), now);
    }

    /// Puts a pod into the sets that it belongs to, and takes it out of others.
    fn place(&mut self, key: &Key, changes: &mut Changes) {
        let mut now: BTreeSet<SetId> = BTreeSet::new();
        if let Some(pod) = self.world.pods.get(key).filter(|pod| !pod.of_host) {
            let groups = self.groups_of(&key.namespace);
            for group in groups.iter().filter_map(|namespaces| self.groups.get(namespaces)) {
                now.extend(group.matching(&pod.labels).cloned());
            }
        }
        let before = self.memberships.remove(key).unwrap_or_default();
        for id in before.union(&now) {
            let members = now.contains(id).then(|| self.brought_by(key, id));
            self.bring(key, id, members, changes);
        }
        if !now.is_empty() {
            self.memberships.insert(key.clone(), now);
        }
    }

    /// What a pod that is selected brings into a set.
    fn brought_by(&self, key: &Key, id: &SetId) -> BTreeSet<Member> {
        match (self.world.pods.get(key), self.sets.get(id)) {
            (Some(pod), Some(set)) => {
                set.definition.members(&pod.ips, |protocol, name| pod.numbers(protocol, name)).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// A pod brings these into a set from now on; none: it is not in there.
    fn bring(&mut self, key: &Key, id: &SetId, members: Option<BTreeSet<Member>>, changes: &mut Changes) {
        let Some(set) = self.sets.get_mut(id) else { return };
        let before = set.brought.remove(key).unwrap_or_default();
        let now: BTreeSet<Member> = members.iter().flatten().copied().collect();
        let held = self.model.sets.entry(id.clone()).or_default();
        for member in now.difference(&before) {
            let count = set.counts.entry(*member).or_default();
            *count += 1;
            if *count == 1 {
                held.insert(*member);
                changes.change_set(id, |change| change.add(*member));
            }
        }
        for member in before.difference(&now) {
            let count = set.counts.entry(*member).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                set.counts.remove(member);
                held.remove(member);
                changes.change_set(id, |change| change.remove(*member));
            }
        }
        if let Some(members) = members {
            set.brought.insert(key.clone(), members);
        }
    }

    /// A policy names a set.
    fn acquire(&mut self, definition: Definition, changes: &mut Changes) {
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
            all => self.pods.namespaces().filter(|name| self.world.looks_into(all, name)).collect(),
        };
        let candidates = namespaces.into_iter().flat_map(|name| self.pods.candidates(name, &definition.pods));
        let is_in = |key: &&Key| {
            let pod = self.world.pods.get(key);
            pod.is_some_and(|pod| self.world.selects(&definition, key, pod))
        };
        let pods: Vec<Key> = candidates.filter(is_in).cloned().collect();
        let set = Set { definition, users: 1, brought: HashMap::new(), counts: BTreeMap::new() };
        self.sets.insert(id.clone(), set);
        self.model.sets.insert(id.clone(), BTreeSet::new());
        changes.set_made(id.clone(), BTreeSet::new());
        for pod in pods {
            let members = self.brought_by(&pod, &id);
            self.bring(&pod, &id, Some(members), changes);
            self.memberships.entry(pod).or_default().insert(id.clone());
        }
    }

    /// A policy does not name a set any more.
    fn release(&mut self, id: &SetId, changes: &mut Changes) {
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
        for pod in set.brought.keys() {
            if let Some(sets) = self.memberships.get_mut(pod) {
                sets.remove(id);
                if sets.is_empty() {
                    self.memberships.remove(pod);
                }
            }
        }
        self.model.sets.remove(id);
        changes.set_gone(id.clone());
    }

    /// How the sets that look into a namespace may say so.
    fn groups_of(&self, namespace: &str) -> Vec<Namespaces> {
        let selected = self.selectors_of(namespace).into_iter().map(Namespaces::Selected);
        [Namespaces::Named(namespace.to_owned()), Namespaces::All].into_iter().chain(selected).collect()
    }

    /// The selectors among the sets' that select a namespace.
    fn selectors_of(&self, namespace: &str) -> Vec<Selector> {
        let labels = self.world.namespaces.get(namespace).into_iter();
        labels.flat_map(|labels| self.namespace_selectors.matching(labels)).cloned().collect()
    }
}
