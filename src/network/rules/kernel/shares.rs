//! Elements that several owners want in one set: for each key, the first one is in force.

use std::collections::BTreeMap;

use fabric::nft::{Element, Key};

use crate::rules::piece::Moves;

/// The elements of a set with their owners.
pub(super) struct Shares<Owner> {
    /// By key: the elements that owners want there, each with these owners. The first one is in the kernel.
    pub(super) wanted: BTreeMap<Key, Vec<(Element, Vec<Owner>)>>,
}

impl<Owner> Default for Shares<Owner> {
    fn default() -> Self {
        Self { wanted: BTreeMap::new() }
    }
}

impl<Owner: Clone + Eq> Shares<Owner> {
    fn first(&self, key: &Key) -> Option<Element> {
        self.wanted.get(key)?.first().map(|(element, _)| element.clone())
    }

    pub(super) fn add(&mut self, element: &Element, owner: &Owner, moves: &mut Moves) {
        let before = self.first(&element.key);
        let wanted = self.wanted.entry(element.key.clone()).or_default();
        match wanted.iter_mut().find(|(known, _)| known == element) {
            Some((_, owners)) => owners.push(owner.clone()),
            None => wanted.push((element.clone(), vec![owner.clone()])),
        }
        moves.between(before, self.first(&element.key));
    }

    pub(super) fn remove(&mut self, element: &Element, owner: &Owner, moves: &mut Moves) {
        let before = self.first(&element.key);
        if let Some(wanted) = self.wanted.get_mut(&element.key) {
            for (_, owners) in wanted.iter_mut().filter(|(known, _)| known == element) {
                owners.retain(|known| known != owner);
            }
            wanted.retain(|(_, owners)| !owners.is_empty());
            if wanted.is_empty() {
                self.wanted.remove(&element.key);
            }
        }
        moves.between(before, self.first(&element.key));
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Element> {
        self.wanted.values().filter_map(|wanted| wanted.first().map(|(element, _)| element))
    }
}
