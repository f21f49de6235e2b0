//! Pods grouped by the policies that select them: pods selected by the same policies share their isolation.
//!
//! A changed policy gets a new version, so that a class never changes: pods move to another class.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use crate::inputs::NamedPort;
use crate::model::{Isolation, Isolations};
use crate::port_range::Protocol;
use crate::ranges::KnownRanges;
use crate::rule::{Direction, Policy};
use object::Key;

/// A version of a policy; later versions have higher numbers.
pub(super) type Version = u64;

/// A set of policies that select the same pods. It can be large and many pods refer to it, so its hash is computed only
/// once.
#[derive(Clone)]
pub(super) struct Class(Arc<Policies>);

struct Policies {
    hash: u64,
    /// In order.
    versions: Vec<Version>,
}

impl Class {
    fn new(mut versions: Vec<Version>) -> Self {
        versions.sort_unstable();
        let mut hasher = DefaultHasher::new();
        versions.hash(&mut hasher);
        Self(Arc::new(Policies { hash: hasher.finish(), versions }))
    }

    /// Returns the class without policies.
    pub(super) fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Returns the policies' versions, in order.
    pub(super) fn versions(&self) -> &[Version] {
        &self.0.versions
    }

    /// Returns its address in memory, which identifies it among the classes that exist at the same time.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl PartialEq for Class {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.hash == other.0.hash && self.0.versions == other.0.versions)
    }
}

impl Eq for Class {}

impl Hash for Class {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// The classes of all pods.
#[derive(Default)]
pub(super) struct Classes {
    versions: HashMap<Key, Version>,
    policies: HashMap<Version, Key>,
    last: Version,
    by_class: HashMap<Class, ClassInfo>,
    pods: HashMap<Key, PodEntry>,
    /// Isolations by hash: equal isolations are stored once, even if they are from different policies.
    interned: HashMap<u64, Vec<Weak<Isolation>>>,
    /// Number of entries in `interned` that may be unused by now.
    stale_count: usize,
    /// Port ranges that isolations refer to.
    ranges: KnownRanges,
}

/// The data of a class.
#[derive(Default)]
struct ClassInfo {
    /// The port names in its policies' rules, on which a pod's isolation depends.
    names: BTreeSet<(Protocol, String)>,
    /// Isolations by the pods' ports with these names, each with the number of pods that use it.
    isolations: HashMap<Arc<[NamedPort]>, (Isolations, usize)>,
}

/// The class and the relevant ports of a pod.
struct PodEntry {
    class: Class,
    named: Arc<[NamedPort]>,
}

impl Classes {
    /// Returns the current version of a policy, if the policy exists.
    pub(super) fn version(&self, policy: &Key) -> Option<Version> {
        self.versions.get(policy).copied()
    }

    /// Gives a new version to a policy that was changed or created.
    pub(super) fn renew(&mut self, policy: &Key) {
        self.forget(policy);
        self.last += 1;
        self.versions.insert(policy.clone(), self.last);
        self.policies.insert(self.last, policy.clone());
    }

    /// Removes a policy.
    pub(super) fn forget(&mut self, policy: &Key) {
        if let Some(before) = self.versions.remove(policy) {
            self.policies.remove(&before);
        }
    }

    /// Returns the class of the policies with these versions.
    pub(super) fn class(&self, versions: Vec<Version>) -> Class {
        let class = Class::new(versions);
        self.by_class.get_key_value(&class).map_or_else(|| class.clone(), |(known, _)| known.clone())
    }

    /// Returns a pod's class; `None` if no policy selects the pod.
    pub(super) fn of(&self, pod: &Key) -> Option<&Class> {
        self.pods.get(pod).map(|place| &place.class)
    }

    /// Moves a pod with these ports into a class and returns its isolation; `find` looks up policies.
    pub(super) fn enter<'a>(
        &mut self,
        pod: &Key,
        (class, named): (&Class, &[NamedPort]),
        find: impl Fn(&Key) -> Option<&'a Policy>,
    ) -> Isolations {
        if !self.by_class.contains_key(class) {
            let policies = self.policies_of(class, &find);
            let names = policies.iter().filter_map(|policy| policy.rules(Direction::Ingress)).flatten();
            let names =
                names.flat_map(|rule| rule.named().map(|(protocol, name)| (protocol, name.to_owned())));
            let known = ClassInfo { names: names.collect(), isolations: HashMap::new() };
            self.by_class.insert(class.clone(), known);
        }
        let known = self.by_class.entry(class.clone()).or_default();
        let is_meant = |port: &&NamedPort| {
            !known.names.is_empty() && known.names.contains(&(port.protocol, port.name.clone()))
        };
        let named: Vec<NamedPort> = named.iter().filter(is_meant).cloned().collect();
        if let Some(place) = self.pods.get(pod)
            && place.class == *class
            && *place.named == *named
            && let Some((isolations, _)) = known.isolations.get(&place.named)
        {
            return isolations.clone();
        }
        let same = known.isolations.get_key_value(named.as_slice());
        let (named, isolations) = if let Some((named, (isolations, _))) = same {
            (named.clone(), isolations.clone())
        } else {
            let policies = self.policies_of(class, &find);
            let isolations = Isolations::of(&policies, &named, &mut self.ranges);
            let isolations = Isolations {
                ingress: isolations.ingress.map(|isolation| self.intern(isolation)),
                egress: isolations.egress.map(|isolation| self.intern(isolation)),
            };
            (named.into(), isolations)
        };
        // Enter before leaving, so that an isolation which both need is not removed.
        let known = self.by_class.entry(class.clone()).or_default();
        known.isolations.entry(named.clone()).or_insert_with(|| (isolations.clone(), 0)).1 += 1;
        let place = PodEntry { class: class.clone(), named };
        let before = match self.pods.get_mut(pod) {
            Some(known) => Some(std::mem::replace(known, place)),
            None => self.pods.insert(pod.clone(), place),
        };
        if let Some(before) = before {
            self.release(&before);
        }
        isolations
    }

    /// Removes a pod from its class.
    pub(super) fn leave(&mut self, pod: &Key) {
        if let Some(before) = self.pods.remove(pod) {
            self.release(&before);
        }
    }

    fn policies_of<'a>(&self, class: &Class, find: impl Fn(&Key) -> Option<&'a Policy>) -> Vec<&'a Policy> {
        class.versions().iter().filter_map(|version| find(self.policies.get(version)?)).collect()
    }

    fn release(&mut self, place: &PodEntry) {
        let Some(of_class) = self.by_class.get_mut(&place.class) else { return };
        if let Some((_, pods)) = of_class.isolations.get_mut(&place.named) {
            *pods -= 1;
            if *pods == 0 {
                of_class.isolations.remove(&place.named);
                self.stale_count += 1;
            }
        }
        if of_class.isolations.is_empty() {
            self.by_class.remove(&place.class);
        }
        if self.stale_count > self.interned.len() {
            self.stale_count = 0;
            self.interned.retain(|_, same| {
                same.retain(|one| one.strong_count() > 0);
                !same.is_empty()
            });
        }
    }

    fn intern(&mut self, isolation: Arc<Isolation>) -> Arc<Isolation> {
        let mut hasher = DefaultHasher::new();
        isolation.hash(&mut hasher);
        let same = self.interned.entry(hasher.finish()).or_default();
        if let Some(known) = same.iter().filter_map(Weak::upgrade).find(|known| **known == *isolation) {
            return known;
        }
        same.push(Arc::downgrade(&isolation));
        isolation
    }

    /// Returns whether there are no policies and no pods.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.versions.is_empty()
            && self.policies.is_empty()
            && self.by_class.is_empty()
            && self.pods.is_empty()
    }
}
