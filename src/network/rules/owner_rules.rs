//! One owner's rules in the kernel's tables, and the steps from one version of them to another.

use std::collections::{BTreeMap, BTreeSet};

use base::sort::CollectMap;
use fabric::nft::{BaseChain, Batch, Element, Family, Rule, Set, Table};

/// One owner's rules in the tables of both families: of a service, a pod, or the base rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnerRules {
    pub(crate) halves: BTreeMap<Family, FamilyRules>,
}

impl OwnerRules {
    /// Returns the rules of a family, adding an empty set of rules if necessary.
    pub(crate) fn half(&mut self, family: Family) -> &mut FamilyRules {
        self.halves.entry(family).or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let is_empty =
            |half: &FamilyRules| half.chains.is_empty() && half.sets.is_empty() && half.elements.is_empty();
        self.halves.values().all(is_empty)
    }
}

/// One owner's rules in one table. Chains and sets are the owner's own; elements may go into other owners' sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FamilyRules {
    /// Chains by name.
    pub(crate) chains: BTreeMap<String, Chain>,
    /// Sets by name, without their elements.
    pub(crate) sets: BTreeMap<String, Set>,
    /// Elements by the set that they go into, the owner's own or another's.
    pub(crate) elements: BTreeMap<String, BTreeSet<Element>>,
}

/// A chain of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The hook and priority, if the kernel itself calls the chain.
    pub(crate) base: Option<BaseChain>,
    pub(crate) rules: Vec<Rule>,
}

impl FamilyRules {
    pub(crate) fn chain(&mut self, name: impl Into<String>, rules: Vec<Rule>) {
        self.chains.insert(name.into(), Chain { base: None, rules });
    }

    /// Adds a base chain, which the kernel calls at a hook.
    pub(crate) fn base_chain(&mut self, name: &str, base: BaseChain, rules: Vec<Rule>) {
        self.chains.insert(name.to_owned(), Chain { base: Some(base), rules });
    }

    pub(crate) fn set(&mut self, set: Set) {
        self.sets.insert(set.name.clone(), set);
    }

    /// Adds an element to a set.
    pub(crate) fn element(&mut self, set: &str, element: Element) {
        self.elements.entry(set.to_owned()).or_default().insert(element);
    }
}

/// A change of an owner's rules.
#[derive(Clone, Debug)]
pub(crate) enum RulesUpdate {
    /// Replaces them; empty rules remove them.
    Whole(OwnerRules),
    /// Adds and removes elements.
    Change(Delta),
}

impl From<OwnerRules> for RulesUpdate {
    fn from(piece: OwnerRules) -> Self {
        Self::Whole(piece)
    }
}

/// Elements to add and remove, by family and set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delta {
    pub(super) sets: BTreeMap<(Family, String), ElementMoves>,
}

/// Elements to add and remove in one set.
#[derive(Clone, Debug, Default)]
pub(crate) struct ElementMoves {
    pub(super) out: BTreeSet<Element>,
    pub(super) into: BTreeSet<Element>,
}

impl Delta {
    /// Returns the changes of one set.
    pub(crate) fn of(&mut self, family: Family, set: &str) -> &mut ElementMoves {
        self.sets.entry((family, set.to_owned())).or_default()
    }

    /// Applies the changes to an owner's rules (`piece`).
    pub(super) fn apply(&self, piece: &mut OwnerRules) {
        for ((family, set), moves) in &self.sets {
            let elements = piece.half(*family).elements.entry(set.clone()).or_default();
            for element in &moves.out {
                elements.remove(element);
            }
            elements.extend(moves.into.iter().cloned());
        }
    }

    /// Returns the changes that revert these.
    #[must_use]
    pub(super) fn inverse(self) -> Self {
        let inverse = |(set, ElementMoves { out, into })| (set, ElementMoves { out: into, into: out });
        Self { sets: self.sets.into_iter().map(inverse).collect_map() }
    }
}

impl ElementMoves {
    /// Adds an element, or cancels its removal.
    pub(crate) fn insert(&mut self, element: Element) {
        if !self.out.remove(&element) {
            self.into.insert(element);
        }
    }

    /// Removes an element, or cancels its addition.
    pub(crate) fn take(&mut self, element: Element) {
        // An element that an earlier change added is not in the kernel yet.
        if !self.into.remove(&element) {
            self.out.insert(element);
        }
    }

    /// Replaces one element of a key by another.
    pub(super) fn between(&mut self, before: Option<Element>, now: Option<Element>) {
        if before == now {
            return;
        }
        if let Some(before) = before {
            self.take(before);
        }
        if let Some(now) = now {
            self.insert(now);
        }
    }
}

/// Steps from one version of an owner's rules to another, in the order in which they are safe.
#[derive(Default)]
pub(super) struct BatchSteps {
    /// Adds what no rule refers to yet; may be split over several transactions.
    pub(super) prepare: Batch,
    /// Changes what is in force, in one transaction.
    pub(super) switch: Batch,
    /// Removes what no rule refers to any more; may be split over several transactions.
    pub(super) end: Batch,
}

impl BatchSteps {
    /// Returns the size of all steps in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.prepare.bytes() + self.switch.bytes() + self.end.bytes()
    }

    /// Returns all steps as one batch.
    pub(super) fn whole(self) -> Batch {
        let mut all = self.prepare;
        all.append(self.switch);
        all.append(self.end);
        all
    }

    /// Adds the steps between two versions of an owner's rules, except for elements of sets that exist already.
    pub(super) fn between(&mut self, table: &Table, before: &FamilyRules, now: &FamilyRules) {
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
        let removed = |with_base| {
            let removed = before.chains.iter().filter(|(name, _)| !now.chains.contains_key(*name));
            removed.filter(move |(_, chain)| chain.base.is_some() == with_base).map(|(name, _)| name)
        };
        // A base chain is in force until it is deleted.
        for name in removed(true) {
            switch.flush_chain(table, name);
            switch.delete_chain(table, name);
        }
        // Flush all before deleting any: one deleted chain may jump to another.
        removed(false).for_each(|name| end.flush_chain(table, name));
        removed(false).for_each(|name| end.delete_chain(table, name));
        for name in before.sets.keys().filter(|name| !now.sets.contains_key(*name)) {
            end.delete_set(table, name);
        }
    }
}
