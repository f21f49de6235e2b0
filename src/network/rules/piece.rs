//! What one owner wants in the kernel's tables, and how to come from one such wish to another.

use std::collections::{BTreeMap, BTreeSet};

use fabric::nft::{Base, Batch, Element, Family, Rule, Set, Table};

/// What somebody wants in the tables of both families: a service, a pod, or what is there from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// By family.
    pub(crate) halves: BTreeMap<Family, Half>,
}

impl Piece {
    /// What it wants of a family.
    pub(crate) fn half(&mut self, family: Family) -> &mut Half {
        self.halves.entry(family).or_default()
    }
}

/// What somebody wants in one table. Names are the owner's own, but for the sets that elements go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Half {
    /// Chains by name.
    pub(crate) chains: BTreeMap<String, Chain>,
    /// Sets by name, but for elements that they are made with.
    pub(crate) sets: BTreeMap<String, Set>,
    /// Elements by the set that they go into, the owner's or another's.
    pub(crate) elements: BTreeMap<String, BTreeSet<Element>>,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// When it is asked by itself.
    pub(crate) base: Option<Base>,
    /// Its rules in their order.
    pub(crate) rules: Vec<Rule>,
}

impl Half {
    /// Adds a chain.
    pub(crate) fn chain(&mut self, name: impl Into<String>, rules: Vec<Rule>) {
        self.chains.insert(name.into(), Chain { base: None, rules });
    }

    /// Adds a chain that is asked by itself.
    pub(crate) fn base_chain(&mut self, name: &str, base: Base, rules: Vec<Rule>) {
        self.chains.insert(name.to_owned(), Chain { base: Some(base), rules });
    }

    /// Adds a set.
    pub(crate) fn set(&mut self, set: Set) {
        self.sets.insert(set.name.clone(), set);
    }

    /// Adds an element.
    pub(crate) fn element(&mut self, set: &str, element: Element) {
        self.elements.entry(set.to_owned()).or_default().insert(element);
    }
}

impl Piece {
    /// Whether nothing is wanted.
    pub(crate) fn is_empty(&self) -> bool {
        let is_empty =
            |half: &Half| half.chains.is_empty() && half.sets.is_empty() && half.elements.is_empty();
        self.halves.values().all(is_empty)
    }
}

/// What an owner wants from now on.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// This; an empty piece: nothing.
    Whole(Piece),
    /// What it wanted before, with other elements.
    Change(Delta),
}

impl From<Piece> for Wish {
    fn from(piece: Piece) -> Self {
        Self::Whole(piece)
    }
}

/// Elements that come and go, by family and set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delta {
    pub(super) sets: BTreeMap<(Family, String), Moves>,
}

/// Elements to take out and to put in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    pub(super) out: BTreeSet<Element>,
    pub(super) into: BTreeSet<Element>,
}

impl Delta {
    /// Of a set.
    pub(crate) fn of(&mut self, family: Family, set: &str) -> &mut Moves {
        self.sets.entry((family, set.to_owned())).or_default()
    }

    /// Does them to a piece.
    pub(super) fn apply(&self, piece: &mut Piece) {
        for ((family, set), moves) in &self.sets {
            let elements = piece.half(*family).elements.entry(set.clone()).or_default();
            for element in &moves.out {
                elements.remove(element);
            }
            elements.extend(moves.into.iter().cloned());
        }
    }

    /// Back again.
    #[must_use]
    pub(super) fn inverse(self) -> Self {
        let inverse = |(set, Moves { out, into })| (set, Moves { out: into, into: out });
        Self { sets: self.sets.into_iter().map(inverse).collect() }
    }
}

impl Moves {
    /// One comes in.
    pub(crate) fn put(&mut self, element: Element) {
        if !self.out.remove(&element) {
            self.into.insert(element);
        }
    }

    /// One goes out.
    pub(crate) fn take(&mut self, element: Element) {
        // What another step has just put in is not in the kernel yet.
        if !self.into.remove(&element) {
            self.out.insert(element);
        }
    }

    /// Between two elements of one key.
    pub(super) fn between(&mut self, before: Option<Element>, now: Option<Element>) {
        if before == now {
            return;
        }
        if let Some(before) = before {
            self.take(before);
        }
        if let Some(now) = now {
            self.put(now);
        }
    }
}

/// Changes that bring a table from what was wanted to what is wanted, in the order in which they are right.
#[derive(Default)]
pub(super) struct Steps {
    /// What nothing leads to yet: in as many transactions as it takes.
    pub(super) prepare: Batch,
    /// What is in force with it, at once.
    pub(super) switch: Batch,
    /// What nothing leads to any more: again in as many as it takes.
    pub(super) end: Batch,
}

impl Steps {
    /// Bytes that the kernel gets.
    pub(super) fn bytes(&self) -> usize {
        self.prepare.bytes() + self.switch.bytes() + self.end.bytes()
    }

    /// All of them as one batch.
    pub(super) fn whole(self) -> Batch {
        let mut all = self.prepare;
        all.append(self.switch);
        all.append(self.end);
        all
    }

    /// What is to be changed between two wishes of one owner, but for elements of sets that are there.
    pub(super) fn between(&mut self, table: &Table, before: &Half, now: &Half) {
        let Self { prepare, switch, end } = self;
        for (name, set) in now.sets.iter().filter(|(name, _)| !before.sets.contains_key(*name)) {
            prepare.add_set(table, set);
            if let Some(elements) = now.elements.get(name) {
                prepare.add_elements(table, set, elements);
            }
        }
        let is_new = |name: &String| !before.chains.contains_key(name);
        for (name, chain) in now.chains.iter().filter(|(name, _)| is_new(name)) {
            let into = if chain.base.is_none() { &mut *prepare } else { &mut *switch };
            into.add_chain(table, name, chain.base);
        }
        for (name, chain) in &now.chains {
            let is_new = is_new(name);
            let is_inert = is_new && chain.base.is_none();
            let was = before.chains.get(name);
            if was.is_some_and(|was| was.rules == chain.rules) {
                continue;
            }
            let into = if is_inert { &mut *prepare } else { &mut *switch };
            if !is_new {
                into.flush_chain(table, name);
            }
            for rule in &chain.rules {
                into.add_rule(table, name, rule);
            }
        }
        let gone = |with_base| {
            let gone = before.chains.iter().filter(|(name, _)| !now.chains.contains_key(*name));
            gone.filter(move |(_, chain)| chain.base.is_some() == with_base).map(|(name, _)| name)
        };
        // What is asked by itself is in force until it is gone.
        for name in gone(true) {
            switch.flush_chain(table, name);
            switch.delete_chain(table, name);
        }
        // One that goes may lead to another that goes.
        gone(false).for_each(|name| end.flush_chain(table, name));
        gone(false).for_each(|name| end.delete_chain(table, name));
        for name in before.sets.keys().filter(|name| !now.sets.contains_key(*name)) {
            end.delete_set(table, name);
        }
    }
}
