//! Elements that several owners add to one set: for each key, the first one is in force.

use std::collections::BTreeMap;

use fabric::nft::{Element, Key};

use crate::rules::owner_rules::ElementMoves;

/// The elements of a set with their owners.
pub(super) struct SharedElements<Owner> {
    /// By key: the desired elements, each with its owners. The first one is in the kernel.
    pub(super) desired: BTreeMap<Key, Vec<(Element, Vec<Owner>)>>,
}

impl<Owner> Default for SharedElements<Owner> {
    fn default() -> Self {
        Self { desired: BTreeMap::new() }
    }
}

impl<Owner: Clone + Eq> SharedElements<Owner> {
    fn first(&self, key: &Key) -> Option<Element> {
        self.desired.get(key)?.first().map(|(element, _)| element.clone())
    }

    pub(super) fn add(&mut self, element: &Element, owner: &Owner, moves: &mut ElementMoves) {
        let before = self.first(&element.key);
        let desired = self.desired.entry(element.key.clone()).or_default();
        match desired.iter_mut().find(|(known, _)| known == element) {
            Some((_, owners)) => owners.push(owner.clone()),
            None => desired.push((element.clone(), vec![owner.clone()])),
        }
        moves.between(before, self.first(&element.key));
    }

    pub(super) fn remove(&mut self, element: &Element, owner: &Owner, moves: &mut ElementMoves) {
        let before = self.first(&element.key);
        if let Some(desired) = self.desired.get_mut(&element.key) {
            for (_, owners) in desired.iter_mut().filter(|(known, _)| known == element) {
                owners.retain(|known| known != owner);
            }
            desired.retain(|(_, owners)| !owners.is_empty());
            if desired.is_empty() {
                self.desired.remove(&element.key);
            }
        }
        moves.between(before, self.first(&element.key));
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Element> {
        self.desired.values().filter_map(|desired| desired.first().map(|(element, _)| element))
    }
}
