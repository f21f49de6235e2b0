//! The kernel's tables, kept as their owners want them: by the least changes, or, where what is there is not known or not
//! what it should be, all at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use fabric::FabricError;
use fabric::nft::{Batch, Element, Family, Key, Nft, Set, Table};

use super::piece::{Half, Piece, steps};

/// How the names of all our tables begin; a number comes after.
const NAME: &str = "podium-";

/// The tables of both families.
pub(crate) struct Kernel<Owner> {
    nft: Nft,
    families: Vec<Family>,
    /// Of the tables that are there; none when that is not known.
    generation: Option<u64>,
    /// What there is from the start: its sets are those that others' elements go into.
    base: Piece,
    pieces: HashMap<Owner, Piece>,
    /// The sets of all, by name.
    sets: HashMap<(Family, String), Set>,
    shares: BTreeMap<(Family, String), Shares<Owner>>,
}

/// Who wants which elements of a set.
struct Shares<Owner> {
    /// By key: the elements wanted there, each with those who want it. The first one is in the kernel.
    wanted: BTreeMap<Key, Vec<(Element, Vec<Owner>)>>,
}

impl<Owner> Default for Shares<Owner> {
    fn default() -> Self {
        Self { wanted: BTreeMap::new() }
    }
}

/// Elements to take out and to put in.
#[derive(Default)]
struct Moves {
    out: BTreeSet<Element>,
    into: BTreeSet<Element>,
}

impl Moves {
    /// Between two elements of one key.
    fn between(&mut self, before: Option<Element>, now: Option<Element>) {
        if before == now {
            return;
        }
        // What another step has just put in is not in the kernel yet.
        if let Some(before) = before.filter(|before| !self.into.remove(before)) {
            self.out.insert(before);
        }
        if let Some(now) = now.filter(|now| !self.out.remove(now)) {
            self.into.insert(now);
        }
    }
}

impl<Owner: Clone + Eq> Shares<Owner> {
    fn first(&self, key: &Key) -> Option<Element> {
        self.wanted.get(key)?.first().map(|(element, _)| element.clone())
    }

    fn add(&mut self, element: &Element, owner: &Owner, moves: &mut Moves) {
        let before = self.first(&element.key);
        let wanted = self.wanted.entry(element.key.clone()).or_default();
        match wanted.iter_mut().find(|(known, _)| known == element) {
            Some((_, owners)) => owners.push(owner.clone()),
            None => wanted.push((element.clone(), vec![owner.clone()])),
        }
        moves.between(before, self.first(&element.key));
    }

    fn remove(&mut self, element: &Element, owner: &Owner, moves: &mut Moves) {
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

    fn all(&self) -> impl Iterator<Item = &Element> {
        self.wanted.values().filter_map(|wanted| wanted.first().map(|(element, _)| element))
    }
}

impl<Owner: Clone + Eq + Hash> Kernel<Owner> {
    /// Tables of these families with this from the start; nothing is written before the first change.
    pub(crate) fn new(nft: Nft, families: Vec<Family>, base: Piece) -> Self {
        let of_half = |(family, half): (&Family, &Half)| {
            let family = *family;
            half.sets.values().map(move |set| ((family, set.name.clone()), set.clone())).collect::<Vec<_>>()
        };
        let sets = base.halves.iter().flat_map(of_half).collect();
        let (pieces, shares) = (HashMap::new(), BTreeMap::new());
        Self { nft, families, generation: None, base, pieces, sets, shares }
    }

    /// Owners want something else from now on, or nothing. An error says that the kernel refused even the whole; the
    /// wishes are kept, and the next change tries again.
    pub(crate) fn apply(&mut self, changes: Vec<(Owner, Piece)>) -> Result<(), FabricError> {
        let batch = self.change(changes);
        if let Some(generation) = self.generation {
            match self.nft.commit(&batch) {
                Ok(()) => return Ok(()),
                // Somebody else has been there.
                Err(error) => {
                    tracing::warn!(%error, generation, "the rules of the pods' network are written anew");
                }
            }
        }
        self.generation = None;
        self.rebuild()
    }

    /// Puts an element into a set that forgets, where the tables are there.
    pub(crate) fn remember(&self, family: Family, set: &str, element: &Element) -> Result<(), FabricError> {
        let (Some(generation), Some(set)) = (self.generation, self.set(family, set)) else { return Ok(()) };
        let mut batch = Batch::new();
        batch.add_elements(&table(family, generation), &set, [element]);
        self.nft.commit(&batch)
    }

    /// Takes wishes over, and gives what changes by them.
    fn change(&mut self, changes: Vec<(Owner, Piece)>) -> Batch {
        let (mut begin, mut end) = (Batch::new(), Batch::new());
        let mut moves: BTreeMap<(Family, String), Moves> = BTreeMap::new();
        for (owner, now) in changes {
            let before = self.pieces.remove(&owner).unwrap_or_default();
            for family in self.families.clone() {
                let none = Half::default();
                let (was, is) =
                    (before.halves.get(&family).unwrap_or(&none), now.halves.get(&family).unwrap_or(&none));
                let table = table(family, self.generation.unwrap_or_default());
                let steps = steps(&table, was, is);
                begin.append(steps.begin);
                end.append(steps.end);
                for name in was.sets.keys().filter(|name| !is.sets.contains_key(*name)) {
                    self.sets.remove(&(family, name.clone()));
                }
                let made = is.sets.values().map(|set| ((family, set.name.clone()), set.clone()));
                self.sets.extend(made);
                self.share(family, &owner, (was, is), &mut moves);
            }
            if now != Piece::default() {
                self.pieces.insert(owner, now);
            }
        }
        for ((family, name), moves) in moves {
            let (table, Some(set)) =
                (table(family, self.generation.unwrap_or_default()), self.set(family, &name))
            else {
                continue;
            };
            begin.delete_elements(&table, &set, &moves.out);
            begin.add_elements(&table, &set, &moves.into);
        }
        begin.append(end);
        self.shares.retain(|_, shares| !shares.wanted.is_empty());
        begin
    }

    fn share(
        &mut self,
        family: Family,
        owner: &Owner,
        (was, is): (&Half, &Half),
        moves: &mut BTreeMap<(Family, String), Moves>,
    ) {
        let none = BTreeSet::new();
        let names: BTreeSet<&String> = was.elements.keys().chain(is.elements.keys()).collect();
        for name in names {
            let place = (family, name.clone());
            let shares = self.shares.entry(place.clone()).or_default();
            let moves = moves.entry(place).or_default();
            let (was, is) = (was.elements.get(name).unwrap_or(&none), is.elements.get(name).unwrap_or(&none));
            // First what comes: what both want does not go in between.
            for element in is.difference(was) {
                shares.add(element, owner, moves);
            }
            for element in was.difference(is) {
                shares.remove(element, owner, moves);
            }
        }
    }

    /// Writes all that is wanted into tables of a new name, which then take the place of all others at once.
    fn rebuild(&mut self) -> Result<(), FabricError> {
        let mut old = Vec::new();
        for family in &self.families {
            let tables = self.nft.tables(*family)?.into_iter().filter(|table| table.name.starts_with(NAME));
            old.extend(tables);
        }
        let number = |table: &Table| table.name.strip_prefix(NAME)?.parse::<u64>().ok();
        let generation = old.iter().filter_map(number).max().unwrap_or_default() + 1;
        let (mut content, mut swap) = (Batch::new(), Batch::new());
        for family in &self.families {
            let table = table(*family, generation);
            content.add_table(&table);
            let none = Half::default();
            let halves = || [&self.base].into_iter().chain(self.pieces.values());
            let halves = || halves().map(|piece| piece.halves.get(family).unwrap_or(&none));
            for set in halves().flat_map(|half| half.sets.values()) {
                content.add_set(&table, set);
            }
            let chains = || halves().flat_map(|half| &half.chains);
            for (name, _) in chains().filter(|(_, chain)| chain.base.is_none()) {
                content.add_chain(&table, name, None);
            }
            for (name, chain) in chains() {
                let into = if chain.base.is_some() { &mut swap } else { &mut content };
                if chain.base.is_some() {
                    into.add_chain(&table, name, chain.base);
                }
                for rule in &chain.rules {
                    into.add_rule(&table, name, rule);
                }
            }
            for (name, elements) in self.base.halves.get(family).into_iter().flat_map(|half| &half.elements) {
                if let Some(set) = self.set(*family, name) {
                    content.add_elements(&table, &set, elements);
                }
            }
            for ((of, name), shares) in self.shares.iter().filter(|((of, _), _)| of == family) {
                if let Some(set) = self.set(*of, name) {
                    content.add_elements(&table, &set, shares.all());
                }
            }
        }
        for table in &old {
            swap.delete_table(table);
        }
        self.nft.commit(&content)?;
        self.nft.commit(&swap)?;
        self.generation = Some(generation);
        Ok(())
    }

    /// A set that elements go into, whose ever it is.
    fn set(&self, family: Family, name: &str) -> Option<Set> {
        self.sets.get(&(family, name.to_owned())).cloned()
    }
}

fn table(family: Family, generation: u64) -> Table {
    Table { family, name: format!("{NAME}{generation}") }
}
