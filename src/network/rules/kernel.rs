//! The kernel's tables, kept as their owners want them: by the least changes, or, where what is there is not known or not
//! what it should be, all at once.
//!
//! Whose wish the kernel refuses keeps what it had, and hinders nobody else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
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
    /// Wishes that the kernel refuses; `pieces` has what these owners had before.
    refused: HashMap<Owner, Piece>,
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

impl<Owner: Clone + Debug + Eq + Hash> Kernel<Owner> {
    /// Tables of these families with this from the start; nothing is written before the first change.
    pub(crate) fn new(nft: Nft, families: Vec<Family>, base: Piece) -> Self {
        let of_half = |(family, half): (&Family, &Half)| {
            let family = *family;
            half.sets.values().map(move |set| ((family, set.name.clone()), set.clone())).collect::<Vec<_>>()
        };
        let sets = base.halves.iter().flat_map(of_half).collect();
        let (pieces, shares) = (HashMap::new(), BTreeMap::new());
        Self { nft, families, generation: None, base, pieces, refused: HashMap::new(), sets, shares }
    }

    /// Owners want something else from now on, or nothing. Wishes that the kernel refuses are tried again by
    /// [`Self::retry`]; an error says that it refuses tables altogether.
    pub(crate) fn apply(&mut self, changes: Vec<(Owner, Piece)>) -> Result<(), FabricError> {
        for (owner, _) in &changes {
            self.refused.remove(owner);
        }
        let (wanted, before) = (changes.clone(), self.now(&changes));
        let batch = self.change(changes);
        if let Some(generation) = self.generation {
            match self.nft.commit(&batch) {
                Ok(()) => return Ok(()),
                // Somebody else has been there, or one of these is refused.
                Err(error) => {
                    tracing::warn!(%error, generation, "the rules of the pods' network are written anew");
                }
            }
        }
        self.generation = None;
        let Err(error) = self.rebuild() else { return Ok(()) };
        tracing::warn!(%error, "the rules of the pods' network are written one by one");
        self.change(before);
        self.rebuild_with_each(wanted)
    }

    /// Whether wishes wait that the kernel has refused.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Whether what this one wants is not in force.
    pub(crate) fn refuses(&self, owner: &Owner) -> bool {
        self.generation.is_none() || self.refused.contains_key(owner)
    }

    /// Tries again what was refused.
    pub(crate) fn retry(&mut self) -> Result<(), FabricError> {
        let refused = self.refused.drain().collect();
        if self.generation.is_none() {
            return self.apply(refused);
        }
        if self.each(refused) { Ok(()) } else { self.rebuild() }
    }

    /// What these owners have.
    fn now(&self, of: &[(Owner, Piece)]) -> Vec<(Owner, Piece)> {
        let now = |owner: &Owner| self.pieces.get(owner).cloned().unwrap_or_default();
        of.iter().map(|(owner, _)| (owner.clone(), now(owner))).collect()
    }

    /// Writes what there was, then each of these by itself, and only then puts all of it in force.
    fn rebuild_with_each(&mut self, wanted: Vec<(Owner, Piece)>) -> Result<(), FabricError> {
        let (generation, swap) = match self.lay_out() {
            Ok(laid_out) => laid_out,
            Err(error) => {
                self.refused.extend(wanted);
                return Err(error);
            }
        };
        self.generation = Some(generation);
        if self.each(wanted) { self.put_in_force(generation, &swap) } else { self.rebuild() }
    }

    /// Carries each wish out by itself, and keeps those that are refused; false when parts of such may be there.
    fn each(&mut self, mut wanted: Vec<(Owner, Piece)>) -> bool {
        let mut is_clean = true;
        loop {
            let tried = wanted.len();
            let mut refused = Vec::new();
            for (owner, piece) in std::mem::take(&mut wanted) {
                let wish = vec![(owner, piece)];
                let before = self.now(&wish);
                let batch = self.change(wish.clone());
                if let Err(error) = self.nft.commit(&batch) {
                    self.change(before);
                    is_clean &= self.nft.takes_at_once(&batch);
                    refused.extend(wish.into_iter().map(|(owner, piece)| (owner, piece, error.to_string())));
                }
            }
            // What one wish needs, or may not have any more, may have come with one after it.
            if refused.len() < tried {
                wanted.extend(refused.into_iter().map(|(owner, piece, _)| (owner, piece)));
                continue;
            }
            for (owner, piece, error) in refused {
                tracing::warn!(%error, ?owner, "the kernel refuses these rules; those before them stay");
                self.refused.insert(owner, piece);
            }
            return is_clean;
        }
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
        self.generation = None;
        let (generation, swap) = self.lay_out()?;
        self.put_in_force(generation, &swap)
    }

    /// Has the tables of a generation take the place of all others.
    fn put_in_force(&mut self, generation: u64, swap: &Batch) -> Result<(), FabricError> {
        self.generation = None;
        self.nft.commit(swap).inspect_err(|_| self.remove(generation))?;
        self.generation = Some(generation);
        Ok(())
    }

    /// Removes tables that are not in force: nobody else would before the next ones are.
    fn remove(&self, generation: u64) {
        for family in &self.families {
            let mut batch = Batch::new();
            batch.delete_table(&table(*family, generation));
            if let Err(error) = self.nft.commit(&batch) {
                tracing::debug!(%error, generation, "tables that nobody needs stay for now");
            }
        }
    }

    /// Writes all that is wanted into tables of a new name that nothing asks yet; gives its generation and what puts it in
    /// the place of all others.
    fn lay_out(&self) -> Result<(u64, Batch), FabricError> {
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
        self.nft.commit(&content).inspect_err(|_| self.remove(generation))?;
        Ok((generation, swap))
    }

    /// A set that elements go into, whose ever it is.
    fn set(&self, family: Family, name: &str) -> Option<Set> {
        self.sets.get(&(family, name.to_owned())).cloned()
    }
}

fn table(family: Family, generation: u64) -> Table {
    Table { family, name: format!("{NAME}{generation}") }
}
