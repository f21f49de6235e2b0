//! The model, maintained incrementally: the cost of a change depends on the pods and policies that it affects, not on
//! the size of the cluster.
//!
//! The policies that isolate a pod, and the sets that it is in, are found by its namespace and labels; the pods of a
//! policy or a set are found in the same way. A namespace's labels affect only sets that select namespaces. Several
//! changes can be staged and committed together, so that each pod is evaluated once.

mod classes;
mod pods;
mod selectors;
mod sets;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::changes::Changes;
use super::inputs::PolicyInputs;
use super::model::Model;
use super::peers::{Namespaces, SetId};
use super::rule::Policy;
use classes::{Class, Classes, Version};
use object::Key;
use object::selector::{Labels, Selector};
use pods::Pods;
use selectors::Selectors;
use sets::{Set, SetMember};

/// If at most this many policies of a namespace change at once, each is matched with the pods; if more change, each pod
/// is matched with all its policies.
const FEW: usize = 64;

/// The inputs of policies (`world`) with the model that they result in.
///
/// Invariant: except for staged changes, `model` equals the result of [`compile`](super::compile) for `world`.
#[derive(Default)]
pub struct Index {
    world: PolicyInputs,
    model: Model,
    pods: Pods,
    /// The policies of each namespace, by the pods they select.
    policies: HashMap<String, Selectors<Key>>,
    /// Pods by the policies that select them.
    classes: Classes,
    sets: HashMap<SetId, Set>,
    /// The sets, by their namespaces and the pods that they select.
    groups: HashMap<Namespaces, Selectors<SetId>>,
    /// The namespace selectors among `groups`, by the namespaces they select.
    namespace_selectors: Selectors<Selector>,
    /// The pods that are in sets.
    placed: HashMap<Arc<Key>, SetMember>,
    staged: StagedChanges,
}

/// Changes that are not committed yet.
#[derive(Default)]
struct StagedChanges {
    /// Changes of the model so far; complete for sets.
    changes: Changes,
    /// Pods to evaluate again.
    pods: BTreeSet<Key>,
    /// Changed policies, with their previous version and selector.
    policies: BTreeMap<Key, Option<(Version, Selector)>>,
}

/// The change of a policy: its version and selector, before and now.
struct PolicyChange {
    before: Option<(Version, Selector)>,
    now: Option<(Version, Selector)>,
}

impl Index {
    /// Returns the input of the model.
    pub fn world(&self) -> &PolicyInputs {
        &self.world
    }

    /// Returns the current model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Sets or removes a pod.
    pub fn set_pod(&mut self, key: &Key, pod: Option<&Pod>) -> Changes {
        self.stage_pod(key, pod);
        self.commit()
    }

    /// Sets or removes a namespace.
    pub fn set_namespace(&mut self, name: &str, namespace: Option<&Namespace>) -> Changes {
        self.stage_namespace(name, namespace);
        self.commit()
    }

    /// Sets or removes a policy.
    pub fn set_policy(&mut self, key: &Key, policy: Option<&NetworkPolicy>) -> Changes {
        self.stage_policy(key, policy);
        self.commit()
    }

    /// Like [`Self::set_pod`], but takes effect with the next [`Self::commit`].
    pub fn stage_pod(&mut self, key: &Key, pod: Option<&Pod>) {
        let before = self.world.replace_pod(key, pod);
        let now = self.world.pods.get(key);
        if before.as_ref() == now {
            return;
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
        self.staged.pods.insert(key.clone());
        self.update_pod(key);
    }

    /// Like [`Self::set_namespace`], but takes effect with the next [`Self::commit`].
    pub fn stage_namespace(&mut self, name: &str, namespace: Option<&Namespace>) {
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
            self.update_pod(&pod);
        }
    }

    /// Like [`Self::set_policy`], but takes effect with the next [`Self::commit`].
    pub fn stage_policy(&mut self, key: &Key, policy: Option<&NetworkPolicy>) {
        let before = self.world.replace_policy(key, policy);
        let now = self.world.policies.get(key).cloned();
        if before == now {
            return;
        }
        let was = before.as_ref().and_then(|before| Some((self.classes.version(key)?, before.pods.clone())));
        self.staged.policies.entry(key.clone()).or_insert(was);
        let own = self.policies.entry(key.namespace.clone()).or_default();
        if let Some(before) = &before {
            own.remove(&before.pods, key);
        }
        match &now {
            Some(now) => {
                own.insert(&now.pods, key);
                self.classes.renew(key);
            }
            None => self.classes.forget(key),
        }
        if own.is_empty() {
            self.policies.remove(&key.namespace);
        }
        // Acquire before releasing: a set that both versions refer to is not removed.
        for definition in now.iter().flat_map(Policy::sets) {
            self.acquire(definition);
        }
        for definition in before.iter().flat_map(Policy::sets) {
            self.release(&definition.id);
        }
    }

    /// Applies staged changes to the model and returns the differences.
    pub fn commit(&mut self) -> Changes {
        let StagedChanges { changes, pods, policies } = mem::take(&mut self.staged);
        self.staged.changes = changes;
        let mut by_namespace: BTreeMap<String, Vec<PolicyChange>> = BTreeMap::new();
        for (key, before) in policies {
            let policy = self.world.policies.get(&key);
            let now = policy.and_then(|policy| Some((self.classes.version(&key)?, policy.pods.clone())));
            by_namespace.entry(key.namespace).or_default().push(PolicyChange { before, now });
        }
        for (namespace, turns) in &by_namespace {
            let all = Selector::everything();
            let both = turns.iter().flat_map(|turn| turn.before.iter().chain(&turn.now));
            // Most changed policies keep their selector.
            let selectors: HashSet<&Selector> = match turns.len() {
                ..=FEW => both.map(|(_, selector)| selector).collect(),
                _ => HashSet::from([&all]),
            };
            let concerned = selectors.into_iter().flat_map(|one| self.pods.candidates(namespace, one));
            let concerned: BTreeSet<Key> = concerned.filter(|pod| !pods.contains(*pod)).cloned().collect();
            if turns.len() <= FEW {
                self.apply_policy_changes(&concerned, turns);
            } else {
                self.classify(&concerned);
            }
        }
        self.classify(&pods);
        mem::take(&mut self.staged.changes)
    }

    /// Returns whether nothing remains of deleted objects.
    #[cfg(test)]
    pub(super) fn is_vacant(&self) -> bool {
        let counts = [self.policies.len(), self.sets.len(), self.groups.len(), self.placed.len()];
        counts == [0; 4]
            && self.namespace_selectors.is_empty()
            && self.classes.is_empty()
            && self.pods.namespaces().next().is_none()
    }

    /// Returns the number of selectors that a changed pod is compared with.
    #[cfg(test)]
    pub(super) fn selectors_compared(&self, key: &Key) -> usize {
        let Some(pod) = self.world.pods.get(key) else { return 0 };
        let own = self.policies.get(&key.namespace);
        let groups = self.groups_of(&key.namespace);
        let groups = groups.iter().filter_map(|namespaces| self.groups.get(namespaces));
        let of_sets: usize = groups.map(|group| group.candidates(&pod.labels).count()).sum();
        of_sets + own.map_or(0, |own| own.candidates(&pod.labels).count())
    }

    /// Applies changed policies of one namespace to pods that have not changed themselves.
    fn apply_policy_changes(&mut self, pods: &BTreeSet<Key>, changes: &[PolicyChange]) {
        let removed: Vec<Version> =
            changes.iter().filter_map(|turn| turn.before.as_ref()).map(|(version, _)| *version).collect();
        // The pods' new classes, by the address of the old class and the bits of the changed policies that select the
        // pod now: many pods share both.
        let mut known: HashMap<(usize, u64), Class> = HashMap::new();
        let none = Class::none();
        for key in pods {
            let Some(pod) = self.world.pods.get(key) else { continue };
            let mut come = 0_u64;
            for (place, turn) in changes.iter().enumerate() {
                let selects = |(_, selector): &(Version, Selector)| selector.matches(Some(&pod.labels));
                come |= u64::from(turn.now.as_ref().is_some_and(selects)) << place;
            }
            let class = self.classes.of(key).unwrap_or(&none);
            let class = known.entry((class.address(), come)).or_insert_with(|| {
                let stay = class.versions().iter().copied().filter(|version| !removed.contains(version));
                let new = changes.iter().enumerate().filter(|(place, _)| come >> place & 1 == 1);
                let new = new.filter_map(|(_, turn)| Some(turn.now.as_ref()?.0));
                self.classes.class(stay.chain(new).collect())
            });
            let class = class.clone();
            self.isolate(key, &class);
        }
    }

    /// Matches pods with all policies of their namespace.
    fn classify(&mut self, pods: &BTreeSet<Key>) {
        let mut known: HashMap<(String, Labels), Class> = HashMap::new();
        for key in pods {
            let pod = self.world.pods.get(key).filter(|pod| !pod.of_host);
            let class = pod.map(|pod| {
                let same = known.entry((key.namespace.clone(), pod.labels.clone()));
                same.or_insert_with(|| {
                    let own = self.policies.get(&key.namespace);
                    let names = own.into_iter().flat_map(|own| own.matching(&pod.labels));
                    self.classes.class(names.filter_map(|name| self.classes.version(name)).collect())
                })
            });
            let class = class.cloned().unwrap_or_else(Class::none);
            self.isolate(key, &class);
        }
    }

    /// Puts a pod into a class and updates its isolation.
    fn isolate(&mut self, key: &Key, class: &Class) {
        let Self { world, classes, .. } = self;
        let pod = world.pods.get(key).filter(|pod| !pod.of_host && !class.versions().is_empty());
        let now = if let Some(pod) = pod {
            classes.enter(key, (class, &pod.ports), |name| world.policies.get(name)).isolate(pod)
        } else {
            classes.leave(key);
            None
        };
        match (self.model.pods.get_mut(key), &now) {
            (None, None) => return,
            (Some(before), Some(now)) if before.shares_all_with(now) => return,
            (Some(before), Some(now)) => before.clone_from(now),
            (None, Some(now)) => drop(self.model.pods.insert(key.clone(), now.clone())),
            (Some(_), None) => drop(self.model.pods.remove(key)),
        }
        self.staged.changes.pods.insert(key.clone(), now);
    }

    /// Returns the keys in `groups` of sets that include a namespace.
    fn groups_of(&self, namespace: &str) -> Vec<Namespaces> {
        let selected = self.selectors_of(namespace).into_iter().map(Namespaces::Selected);
        [Namespaces::Named(namespace.to_owned()), Namespaces::All].into_iter().chain(selected).collect()
    }

    /// Returns the namespace selectors of sets that select a namespace.
    fn selectors_of(&self, namespace: &str) -> Vec<Selector> {
        let labels = self.world.namespaces.get(namespace).into_iter();
        labels.flat_map(|labels| self.namespace_selectors.matching(labels)).cloned().collect()
    }
}
