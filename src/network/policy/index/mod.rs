//! The model, kept by single changes: each costs what it concerns, not what there is.
//!
//! A pod finds the policies that isolate it, and the sets that it is in, by its namespace and its labels; a policy and a
//! set find their pods the same way. Labels of a namespace concern the sets that select namespaces alone. Many changes at
//! once are staged and settled together: each pod is judged once.

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
use super::model::Model;
use super::peers::{Namespaces, SetId};
use super::rule::Policy;
use super::world::World;
use classes::{Class, Classes, Version};
use object::Key;
use object::selector::{Labels, Selector};
use pods::Pods;
use selectors::Selectors;
use sets::{Placed, Set};

/// As many policies of a namespace that change at once are asked of the pods one by one; of more, each pod asks for all of
/// its policies.
const FEW: usize = 64;

/// A world with its model.
///
/// Invariant: but for what is staged, `model` is what [`compile`](super::compile) makes of `world`.
#[derive(Default)]
pub struct Index {
    world: World,
    model: Model,
    pods: Pods,
    /// The policies of each namespace, by the pods they select.
    policies: HashMap<String, Selectors<Key>>,
    /// Pods by the policies that select them.
    classes: Classes,
    sets: HashMap<SetId, Set>,
    /// The sets, by the namespaces that they look into and the pods that they select.
    groups: HashMap<Namespaces, Selectors<SetId>>,
    /// The selectors of namespaces among `groups`, by the namespaces they select.
    namespace_selectors: Selectors<Selector>,
    /// The pods that are in sets.
    placed: HashMap<Arc<Key>, Placed>,
    staged: Staged,
}

/// What has changed and is not settled yet.
#[derive(Default)]
struct Staged {
    /// What is told of it; of sets already all of it.
    changes: Changes,
    /// Pods to be judged anew.
    pods: BTreeSet<Key>,
    /// Policies that are others now, with what they were.
    policies: BTreeMap<Key, Option<(Version, Selector)>>,
}

/// A policy that is another one now.
struct Turn {
    before: Option<(Version, Selector)>,
    now: Option<(Version, Selector)>,
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
        self.stage_pod(key, pod);
        self.settle()
    }

    /// A namespace is like this from now on, or gone.
    pub fn set_namespace(&mut self, name: &str, namespace: Option<&Namespace>) -> Changes {
        self.stage_namespace(name, namespace);
        self.settle()
    }

    /// A policy is like this from now on, or gone.
    pub fn set_policy(&mut self, key: &Key, policy: Option<&NetworkPolicy>) -> Changes {
        self.stage_policy(key, policy);
        self.settle()
    }

    /// As [`Self::set_pod`], with the next [`Self::settle`].
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
        self.place(key);
    }

    /// As [`Self::set_namespace`], with the next [`Self::settle`].
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
            self.place(&pod);
        }
    }

    /// As [`Self::set_policy`], with the next [`Self::settle`].
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
        // First what comes: a set that both name stays as it is.
        for definition in now.iter().flat_map(Policy::sets) {
            self.acquire(definition);
        }
        for definition in before.iter().flat_map(Policy::sets) {
            self.release(&definition.id);
        }
    }

    /// Takes over what is staged, and tells what has changed by it.
    pub fn settle(&mut self) -> Changes {
        let Staged { changes, pods, policies } = mem::take(&mut self.staged);
        self.staged.changes = changes;
        let mut turns: BTreeMap<String, Vec<Turn>> = BTreeMap::new();
        for (key, before) in policies {
            let policy = self.world.policies.get(&key);
            let now = policy.and_then(|policy| Some((self.classes.version(&key)?, policy.pods.clone())));
            turns.entry(key.namespace).or_default().push(Turn { before, now });
        }
        for (namespace, turns) in &turns {
            let all = Selector::everything();
            let both = turns.iter().flat_map(|turn| turn.before.iter().chain(&turn.now));
            // Most policies select whom they selected before.
            let selectors: HashSet<&Selector> = match turns.len() {
                ..=FEW => both.map(|(_, selector)| selector).collect(),
                _ => HashSet::from([&all]),
            };
            let concerned = selectors.into_iter().flat_map(|one| self.pods.candidates(namespace, one));
            let concerned: BTreeSet<Key> = concerned.filter(|pod| !pods.contains(*pod)).cloned().collect();
            if turns.len() <= FEW {
                self.turn(&concerned, turns);
            } else {
                self.classify(&concerned);
            }
        }
        self.classify(&pods);
        mem::take(&mut self.staged.changes)
    }

    /// Whether nothing is kept of what is gone.
    #[cfg(test)]
    pub(super) fn is_vacant(&self) -> bool {
        let counts = [self.policies.len(), self.sets.len(), self.groups.len(), self.placed.len()];
        counts == [0; 4]
            && self.namespace_selectors.is_empty()
            && self.classes.is_empty()
            && self.pods.namespaces().next().is_none()
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

    /// Looks at what these policies, of one namespace, make of pods that have not changed.
    fn turn(&mut self, pods: &BTreeSet<Key>, turns: &[Turn]) {
        let gone: Vec<Version> =
            turns.iter().filter_map(|turn| turn.before.as_ref()).map(|(version, _)| *version).collect();
        // By where a class is and which policies select a pod of it now: many pods share both.
        let mut known: HashMap<(usize, u64), Class> = HashMap::new();
        let none = Class::none();
        for key in pods {
            let Some(pod) = self.world.pods.get(key) else { continue };
            let mut come = 0_u64;
            for (place, turn) in turns.iter().enumerate() {
                let selects = |(_, selector): &(Version, Selector)| selector.matches(Some(&pod.labels));
                come |= u64::from(turn.now.as_ref().is_some_and(selects)) << place;
            }
            let class = self.classes.of(key).unwrap_or(&none);
            let class = known.entry((class.address(), come)).or_insert_with(|| {
                let stay = class.versions().iter().copied().filter(|version| !gone.contains(version));
                let new = turns.iter().enumerate().filter(|(place, _)| come >> place & 1 == 1);
                let new = new.filter_map(|(_, turn)| Some(turn.now.as_ref()?.0));
                self.classes.class(stay.chain(new).collect())
            });
            let class = class.clone();
            self.isolate(key, &class);
        }
    }

    /// Looks at what all policies make of pods.
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

    /// A pod is selected by the policies of a class.
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
