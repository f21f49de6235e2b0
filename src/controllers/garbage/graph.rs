//! The ownership graph over all kinds: follows changes and returns the objects that each change requires to sync.
//!
//! Knows nothing of the API; an owner that the graph does not know may still exist.

use std::collections::{HashMap, HashSet};

use api::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use base::sort::SliceOrder;
use object::finalizers::has_finalizer;
use object::owner::is_terminating;
use object::{Key, Kind, Object, Uid};

/// An object's kind and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectRef {
    pub(super) kind: Kind,
    pub(super) key: Key,
}

/// One object.
#[derive(Clone, Debug)]
struct Node {
    reference: ObjectRef,
    owners: Vec<(Uid, bool)>,
    is_terminating: bool,
    /// It waits for the deletion of its dependents.
    foreground: bool,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<Uid, Node>,
    /// The dependents of each owner, also of owners that the graph does not know.
    dependents: HashMap<Uid, HashSet<Uid>>,
}

impl Graph {
    /// Follows a new or changed object; returns the objects to sync.
    pub(super) fn upsert(&mut self, object: &Object) -> Vec<Uid> {
        let meta = object.meta();
        let uid = object.uid().to_string();
        let has = |finalizer: &str| has_finalizer(meta, finalizer);
        let owners: Vec<(Uid, bool)> = meta
            .owner_references
            .iter()
            .flatten()
            .map(|r| (r.uid.clone(), r.block_owner_deletion == Some(true)))
            .collect();
        let node = Node {
            reference: ObjectRef { kind: object.kind(), key: object.key() },
            is_terminating: is_terminating(meta),
            foreground: is_terminating(meta) && has(FOREGROUND_FINALIZER),
            owners: owners.clone(),
        };
        let orphaning = node.is_terminating && has(ORPHAN_FINALIZER);
        let foreground = node.foreground;
        let before = self.nodes.insert(uid.clone(), node);
        let before_owners = before.as_ref().map(|b| b.owners.clone()).unwrap_or_default();
        let mut affected = Vec::new();
        for (owner, _) in &before_owners {
            if !owners.iter().any(|(o, _)| o == owner) {
                self.unlink(owner, &uid);
                // An owner that waits for its dependents may have lost the last one.
                affected.push(owner.clone());
            }
        }
        for (owner, blocks) in &owners {
            self.dependents.entry(owner.clone()).or_default().insert(uid.clone());
            let is_solid = self.nodes.get(owner).is_some_and(|o| {
                let reference = &o.reference.key.namespace;
                !o.foreground && (reference.is_empty() || reference == object.namespace())
            });
            if before.is_none() && !is_solid {
                affected.push(uid.clone());
            }
            if before_owners.iter().any(|(o, b)| o == owner && b != blocks) {
                affected.push(owner.clone());
            }
        }
        if before.is_some() && before_owners != owners {
            affected.push(uid.clone());
        }
        if foreground {
            if !before.is_some_and(|b| b.foreground) {
                affected.extend(self.dependents_of(&uid));
            }
            affected.push(uid);
        } else if orphaning {
            affected.push(uid);
        }
        affected.retain(|u| self.nodes.contains_key(u));
        affected
    }

    /// Follows an object's removal; returns the objects to sync.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<Uid> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut affected = self.dependents_of(uid);
        for (owner, _) in &node.owners {
            self.unlink(owner, uid);
            if self.nodes.get(owner).is_some_and(|o| o.foreground) {
                affected.push(owner.clone());
            }
        }
        affected
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    /// Returns an object's kind and key; `None` if it is deleted.
    pub(super) fn reference(&self, uid: &str) -> Option<ObjectRef> {
        self.nodes.get(uid).map(|node| node.reference.clone())
    }

    /// Returns true if a terminating object waits for its dependents.
    pub(super) fn is_foreground(&self, uid: &str) -> bool {
        self.nodes.get(uid).is_some_and(|node| node.foreground)
    }

    /// Returns the objects with this one as an owner.
    pub(super) fn dependents_of(&self, uid: &str) -> Vec<Uid> {
        let mut dependents: Vec<Uid> = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        dependents.order();
        dependents
    }

    /// Returns kind and key of at most `most` dependents of an object.
    pub(super) fn some_dependents_of(&self, uid: &str, most: usize) -> Vec<ObjectRef> {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents.filter_map(|dependent| self.reference(dependent)).take(most).collect()
    }

    /// Returns true if an object has dependents.
    pub(super) fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    /// Returns the dependents that an owner must outlive, in no order. An object that owns itself does not wait for
    /// itself.
    pub(super) fn blocking_dependents_of(&self, uid: &str) -> impl Iterator<Item = &Uid> {
        self.dependents.get(uid).into_iter().flatten().filter(move |dependent| {
            let node = self.nodes.get(*dependent).filter(|_| *dependent != uid);
            node.is_some_and(|n| n.owners.iter().any(|(owner, blocks)| owner == uid && *blocks))
        })
    }

    /// Returns true if an object's dependents, for which it waits, wait for the object in turn, directly or indirectly.
    pub(super) fn waits_for_itself(&self, uid: &str) -> bool {
        // An object without owners is no dependent: no deletion waits for it.
        if self.nodes.get(uid).is_none_or(|node| node.owners.is_empty()) {
            return false;
        }
        let (mut seen, mut next) = (HashSet::new(), vec![uid]);
        while let Some(owner) = next.pop() {
            for dependent in self.blocking_dependents_of(owner) {
                if dependent == uid {
                    return true;
                }
                if self.is_foreground(dependent) && seen.insert(dependent.as_str()) {
                    next.push(dependent);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, owners: &[(&str, bool)], finalizer: Option<&str>) -> Object {
        let owners: Vec<_> = owners
            .iter()
            .map(|(uid, blocks)| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid,
                "blockOwnerDeletion": blocks})
            })
            .collect();
        let going = finalizer.map(|_| "2026-11-21T00:00:00Z");
        let value = json!({"metadata": {"name": name, "namespace": "n", "uid": name, "ownerReferences": owners,
            "deletionTimestamp": going, "finalizers": finalizer.map(|f| vec![f])}});
        Object::from_value(Kind::ConfigMap, value).unwrap()
    }

    #[test]
    fn a_change_calls_for_looking_at_those_it_concerns_gc_1() {
        let mut graph = Graph::default();
        assert!(graph.upsert(&object("owner", &[], None)).is_empty());
        assert!(graph.upsert(&object("a", &[("owner", true)], None)).is_empty(), "its owner is there");
        assert!(graph.upsert(&object("b", &[("owner", false)], None)).is_empty());
        assert_eq!(
            graph.upsert(&object("lost", &[("missing", true)], None)),
            ["lost"],
            "its owner is unknown"
        );

        let waiting = graph.upsert(&object("owner", &[], Some(FOREGROUND_FINALIZER)));
        assert_eq!(waiting, ["a", "b", "owner"], "all dependents, then the owner");
        assert_eq!(graph.blocking_dependents_of("owner").collect::<Vec<_>>(), ["a"]);
        assert_eq!(
            graph.upsert(&object("late", &[("owner", true)], None)),
            ["late"],
            "a late comer goes too"
        );
        assert_eq!(graph.remove("late"), ["owner"]);
        assert_eq!(graph.remove("a"), ["owner"], "one less to wait for");
        assert_eq!(graph.blocking_dependents_of("owner").count(), 0);
        assert_eq!(graph.remove("owner"), ["b"], "the remaining dependent has lost its owner");
        assert!(graph.reference("owner").is_none());
    }

    #[test]
    fn circles_of_objects_that_wait_for_one_another_are_found_gc_1() {
        let mut graph = Graph::default();
        for (name, owner) in [("a", "c"), ("b", "a"), ("c", "b")] {
            graph.upsert(&object(name, &[(owner, true)], Some(FOREGROUND_FINALIZER)));
        }
        graph.upsert(&object("below", &[("c", true)], Some(FOREGROUND_FINALIZER)));
        graph.upsert(&object("itself", &[("itself", true)], Some(FOREGROUND_FINALIZER)));
        for (name, expected) in [("a", true), ("b", true), ("c", true), ("below", false), ("itself", false)] {
            assert_eq!(graph.waits_for_itself(name), expected, "{name}");
        }
        assert_eq!(graph.blocking_dependents_of("itself").count(), 0);
        graph.upsert(&object("b", &[("a", false)], Some(FOREGROUND_FINALIZER)));
        assert!(!graph.waits_for_itself("a"), "a reference that does not block breaks the cycle");
    }

    #[test]
    fn losing_a_reference_frees_the_owner_gc_1() {
        let mut graph = Graph::default();
        graph.upsert(&object("owner", &[], Some(FOREGROUND_FINALIZER)));
        graph.upsert(&object("a", &[("owner", true)], None));
        assert_eq!(graph.upsert(&object("a", &[], None)), ["owner", "a"]);
        graph.upsert(&object("b", &[("owner", true)], None));
        assert_eq!(
            graph.upsert(&object("b", &[("owner", false)], None)),
            ["owner", "b"],
            "it no longer blocks"
        );
        assert_eq!(graph.upsert(&object("orphaning", &[], Some(ORPHAN_FINALIZER))), ["orphaning"]);
    }
}
