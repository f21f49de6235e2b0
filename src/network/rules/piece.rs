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

/// Changes that bring a table from what an owner wanted to what it wants, but for elements, which owners share. In the
/// order in which they are right: `begin`, then elements, then `end`.
pub(super) struct Steps {
    pub(super) begin: Batch,
    pub(super) end: Batch,
}

/// What is to be changed between two wishes.
pub(super) fn steps(table: &Table, before: &Half, now: &Half) -> Steps {
    let (mut begin, mut end) = (Batch::new(), Batch::new());
    for (name, set) in &now.sets {
        if !before.sets.contains_key(name) {
            begin.add_set(table, set);
        }
    }
    for (name, chain) in &now.chains {
        if !before.chains.contains_key(name) {
            begin.add_chain(table, name, chain.base);
        }
    }
    for (name, chain) in &now.chains {
        let was = before.chains.get(name);
        if was.is_some_and(|was| was.rules == chain.rules) {
            continue;
        }
        if was.is_some() {
            begin.flush_chain(table, name);
        }
        for rule in &chain.rules {
            begin.add_rule(table, name, rule);
        }
    }
    let gone = || before.chains.keys().filter(|name| !now.chains.contains_key(*name));
    // One that goes may lead to another that goes.
    gone().for_each(|name| end.flush_chain(table, name));
    gone().for_each(|name| end.delete_chain(table, name));
    for name in before.sets.keys().filter(|name| !now.sets.contains_key(*name)) {
        end.delete_set(table, name);
    }
    Steps { begin, end }
}
