//! Changes of a model, to be applied to a copy of it, such as the kernel's.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::model::{IsolatedPod, Model};
use super::peers::{Member, SetId};
use object::Key;

/// The differences between a model and a later one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The current isolation of changed pods; `None` means that the pod is not isolated now, and possibly was not
    /// before.
    pub pods: BTreeMap<Key, Option<IsolatedPod>>,
    /// Changes of sets. No pod refers to a set that is gone: create sets first, then change pods, then remove sets.
    pub sets: BTreeMap<SetId, SetChange>,
}

/// The change of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetChange {
    /// The set is new and has these members.
    Created(BTreeSet<Member>),
    /// The set existed; these members replace its previous ones.
    Replaced(BTreeSet<Member>),
    /// The set existed and its members changed; `added` and `removed` are not both empty and have no member in common.
    Changed {
        /// Members that are new.
        added: BTreeSet<Member>,
        /// Members that were removed.
        removed: BTreeSet<Member>,
    },
    /// The set existed and is removed.
    Removed,
}

impl Changes {
    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.sets.is_empty()
    }

    /// Applies the changes to the model that they start from.
    pub fn apply(&self, model: &mut Model) {
        for (key, now) in &self.pods {
            match now {
                Some(now) => drop(model.pods.insert(key.clone(), now.clone())),
                None => drop(model.pods.remove(key)),
            }
        }
        for (id, change) in &self.sets {
            match change {
                SetChange::Created(members) | SetChange::Replaced(members) => {
                    model.sets.insert(id.clone(), members.clone());
                }
                SetChange::Removed => drop(model.sets.remove(id)),
                SetChange::Changed { added, removed } => {
                    let members = model.sets.entry(id.clone()).or_default();
                    members.retain(|member| !removed.contains(member));
                    members.extend(added);
                }
            }
        }
    }

    /// Records that a set exists from now on.
    pub(super) fn add_set(&mut self, id: SetId, members: BTreeSet<Member>) {
        let now = match self.sets.get(&id) {
            Some(_) => SetChange::Replaced(members),
            None => SetChange::Created(members),
        };
        self.sets.insert(id, now);
    }

    /// Records that a set no longer exists.
    pub(super) fn remove_set(&mut self, id: SetId) {
        match self.sets.remove(&id) {
            Some(SetChange::Created(_)) => {}
            _ => drop(self.sets.insert(id, SetChange::Removed)),
        }
    }

    /// Records a change of an existing set's members.
    pub(super) fn change_set(&mut self, id: &SetId, change: impl FnOnce(&mut SetChange)) {
        let unchanged = || SetChange::Changed { added: BTreeSet::new(), removed: BTreeSet::new() };
        let mut place = match self.sets.entry(id.clone()) {
            Entry::Occupied(place) => place,
            Entry::Vacant(place) => place.insert_entry(unchanged()),
        };
        change(place.get_mut());
        let nothing = |change: &SetChange| matches!(change, SetChange::Changed { added, removed } if added.is_empty() && removed.is_empty());
        if nothing(place.get()) {
            place.remove();
        }
    }
}

impl SetChange {
    /// Adds a member that is not in the set.
    pub(super) fn add(&mut self, member: Member) {
        match self {
            Self::Created(members) | Self::Replaced(members) => drop(members.insert(member)),
            Self::Changed { added, removed } => {
                if !removed.remove(&member) {
                    added.insert(member);
                }
            }
            Self::Removed => {}
        }
    }

    /// Removes a member of the set.
    pub(super) fn remove(&mut self, member: Member) {
        match self {
            Self::Created(members) | Self::Replaced(members) => drop(members.remove(&member)),
            Self::Changed { added, removed } => {
                if !added.remove(&member) {
                    removed.insert(member);
                }
            }
            Self::Removed => {}
        }
    }
}
