//! What changed of a model, to be done to a copy of it, such as the kernel's.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::model::{IsolatedPod, Model};
use super::peers::{Member, SetId};
use object::Key;

/// From one model to a later one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What pods are now; none: open, and perhaps they were never anything else.
    pub pods: BTreeMap<Key, Option<IsolatedPod>>,
    /// What became of sets. A pod names no set that is gone: make sets first, then change pods, then take sets away.
    pub sets: BTreeMap<SetId, SetChange>,
}

/// What became of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetChange {
    /// It was not there, and has these in it.
    Made(BTreeSet<Member>),
    /// It was there, and has these in it instead of what it had.
    Replaced(BTreeSet<Member>),
    /// It was there, and has others in it; both are not empty at once and have none in common.
    Changed {
        /// Were not in it.
        added: BTreeSet<Member>,
        /// Are not in it any more.
        removed: BTreeSet<Member>,
    },
    /// It was there, and is gone.
    Gone,
}

impl Changes {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.sets.is_empty()
    }

    /// Does them to the model that they begin at.
    pub fn apply(&self, model: &mut Model) {
        for (key, now) in &self.pods {
            match now {
                Some(now) => drop(model.pods.insert(key.clone(), now.clone())),
                None => drop(model.pods.remove(key)),
            }
        }
        for (id, change) in &self.sets {
            match change {
                SetChange::Made(members) | SetChange::Replaced(members) => {
                    model.sets.insert(id.clone(), members.clone());
                }
                SetChange::Gone => drop(model.sets.remove(id)),
                SetChange::Changed { added, removed } => {
                    let members = model.sets.entry(id.clone()).or_default();
                    members.retain(|member| !removed.contains(member));
                    members.extend(added);
                }
            }
        }
    }

    /// A set is there from now on.
    pub(super) fn set_made(&mut self, id: SetId, members: BTreeSet<Member>) {
        let now = match self.sets.get(&id) {
            Some(_) => SetChange::Replaced(members),
            None => SetChange::Made(members),
        };
        self.sets.insert(id, now);
    }

    /// A set is there no longer.
    pub(super) fn set_gone(&mut self, id: SetId) {
        match self.sets.remove(&id) {
            Some(SetChange::Made(_)) => {}
            _ => drop(self.sets.insert(id, SetChange::Gone)),
        }
    }

    /// A set that is there gets or loses members.
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
    /// Something that is not in the set comes into it.
    pub(super) fn add(&mut self, member: Member) {
        match self {
            Self::Made(members) | Self::Replaced(members) => drop(members.insert(member)),
            Self::Changed { added, removed } => {
                if !removed.remove(&member) {
                    added.insert(member);
                }
            }
            Self::Gone => {}
        }
    }

    /// Something that is in the set leaves it.
    pub(super) fn remove(&mut self, member: Member) {
        match self {
            Self::Made(members) | Self::Replaced(members) => drop(members.remove(&member)),
            Self::Changed { added, removed } => {
                if !added.remove(&member) {
                    removed.insert(member);
                }
            }
            Self::Gone => {}
        }
    }
}
