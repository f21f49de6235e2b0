//! Keeps the kernel's tables in their owners' desired state: by minimal changes, or by a rebuild if the state of the
//! tables is unknown or wrong.
//!
//! If the kernel refuses an owner's rules, that owner keeps its previous rules and no other owner is affected.

mod layout;
mod shared_elements;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

use fabric::FabricError;
use fabric::nft::{Batch, Element, Family, Nft, Set, Table, Value};

use super::base::CHAINED_MAPS;
use super::owner_rules::{BatchSteps, ElementMoves, FamilyRules, OwnerRules, RulesUpdate};
use shared_elements::SharedElements;

/// Prefix of the names of all of Podium's tables; a number follows.
const NAME: &str = "podium-";

/// The tables of both families.
pub(crate) struct Kernel<Owner> {
    nft: Nft,
    families: Vec<Family>,
    /// The number of the current tables; `None` if their state is unknown.
    generation: Option<u64>,
    /// The base rules, with the sets that owners add elements to.
    base: OwnerRules,
    pieces: HashMap<Owner, OwnerRules>,
    /// Rules that the kernel refuses; `pieces` has these owners' previous ones.
    refused: HashMap<Owner, OwnerRules>,
    /// All sets by name.
    sets: HashMap<(Family, String), Set>,
    /// Owners' elements in sets that they do not own themselves.
    shares: BTreeMap<(Family, String), SharedElements<Owner>>,
}

impl<Owner: Clone + Debug + Eq + Hash> Kernel<Owner> {
    /// Creates tables of these families with these base rules; nothing is written before the first change.
    pub(crate) fn new(nft: Nft, families: Vec<Family>, base: OwnerRules) -> Self {
        let of_half = |(family, half): (&Family, &FamilyRules)| {
            let family = *family;
            half.sets.values().map(move |set| ((family, set.name.clone()), set.clone())).collect::<Vec<_>>()
        };
        let sets = base.halves.iter().flat_map(of_half).collect();
        let (pieces, shares) = (HashMap::new(), BTreeMap::new());
        Self { nft, families, generation: None, base, pieces, refused: HashMap::new(), sets, shares }
    }

    /// Changes the rules of owners, each at most once in `changes`. [`Self::retry`] tries refused rules again; an error
    /// means that the kernel refuses whole tables.
    pub(crate) fn apply(&mut self, changes: Vec<(Owner, RulesUpdate)>) -> Result<(), FabricError> {
        let mut known_as_refused = BTreeSet::new();
        let mut wishes = Vec::with_capacity(changes.len());
        for (owner, wish) in changes {
            let refused = self.refused.remove(&owner);
            if refused.is_some() {
                known_as_refused.insert(wishes.len());
            }
            let wish = match (wish, refused) {
                (RulesUpdate::Change(delta), Some(mut piece)) => {
                    delta.apply(&mut piece);
                    RulesUpdate::Whole(piece)
                }
                (wish, _) => wish,
            };
            wishes.push((owner, wish));
        }
        let (steps, undo) = self.change(wishes, self.generation.is_some());
        let mut is_refused = false;
        if let Some(generation) = self.generation {
            match self.execute(steps, true) {
                Ok(()) => return Ok(()),
                Err(ApplyError::TooLarge) => {}
                // Another program has changed the tables, or one of these changes is refused.
                Err(ApplyError::Refused(error)) => {
                    tracing::warn!(%error, generation, "the kernel refused a change of network rules");
                    is_refused = true;
                }
                Err(ApplyError::Torn(error)) => {
                    tracing::warn!(%error, generation, "rewriting the rules of the pod network");
                }
            }
        }
        // A refused transaction changes nothing, so the other owners' rules need no new tables.
        if is_refused && self.exist() {
            let desired = self.revert(undo);
            let is_clean = self.each(desired, true);
            let is_known = self.refused.len() <= known_as_refused.len();
            return if is_clean && (is_known || self.refused.is_empty()) { Ok(()) } else { self.repair() };
        }
        self.generation = None;
        let Err(error) = self.rebuild() else { return Ok(()) };
        tracing::warn!(%error, "writing the rules of the pod network one by one");
        let desired = self.revert(undo);
        self.rebuild_with_each(desired)
    }

    /// Returns whether any owner's rules are refused.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Returns whether this owner's rules are not in force.
    pub(crate) fn refuses(&self, owner: &Owner) -> bool {
        self.generation.is_none() || self.refused.contains_key(owner)
    }

    /// Tries refused rules again.
    pub(crate) fn retry(&mut self) -> Result<(), FabricError> {
        let refused: Vec<(Owner, OwnerRules)> = self.refused.drain().collect();
        if self.generation.is_none() {
            return self.apply(refused.into_iter().map(|(owner, piece)| (owner, piece.into())).collect());
        }
        if self.each(refused, true) { Ok(()) } else { self.rebuild() }
    }

    /// Rebuilds the tables and tries refused rules once more: the refusal may have been caused by what another program
    /// did to the tables.
    fn repair(&mut self) -> Result<(), FabricError> {
        self.rebuild()?;
        let refused = self.refused.drain().collect();
        if self.each(refused, true) { Ok(()) } else { self.rebuild() }
    }

    /// Returns whether the current tables still exist.
    fn exist(&self) -> bool {
        let is_there = |family: &Family| {
            let own = table(*family, self.generation.unwrap_or_default());
            self.nft.tables(*family).is_ok_and(|tables| tables.contains(&own))
        };
        self.families.iter().all(is_there)
    }

    /// Reverts changes that were not executed, and returns their owners' desired rules.
    fn revert(&mut self, mut undo: Vec<(Owner, RulesUpdate)>) -> Vec<(Owner, OwnerRules)> {
        let desired = |(owner, _): &(Owner, RulesUpdate)| {
            (owner.clone(), self.pieces.get(owner).cloned().unwrap_or_default())
        };
        let desired = undo.iter().map(desired).collect();
        undo.reverse();
        self.change(undo, false);
        desired
    }

    /// Writes the previous rules into new tables, then each of these owners' rules separately, and only then puts the
    /// tables in force.
    fn rebuild_with_each(&mut self, mut desired: Vec<(Owner, OwnerRules)>) -> Result<(), FabricError> {
        let staged = self.stage_tables().or_else(|_| {
            // The kernel does not take the previous rules either.
            let later: HashSet<Owner> = desired.iter().map(|(owner, _)| owner.clone()).collect();
            let all: Vec<(Owner, RulesUpdate)> =
                self.pieces.keys().map(|owner| (owner.clone(), OwnerRules::default().into())).collect();
            let (_, had) = self.change(all, false);
            desired.extend(had.into_iter().filter_map(|(owner, wish)| match wish {
                RulesUpdate::Whole(piece) if !later.contains(&owner) => Some((owner, piece)),
                _ => None,
            }));
            self.stage_tables()
        });
        let staged = match staged {
            Ok(laid_out) => laid_out,
            Err(error) => {
                self.refused.extend(desired);
                return Err(error);
            }
        };
        self.generation = Some(staged.generation);
        if self.each(desired, false) { self.swap_in(staged) } else { self.rebuild() }
    }

    /// Applies each owner's rules separately and records the refused ones. Returns false if the tables are wrong
    /// afterwards: some rules were applied in part, or not at all because only a rebuild can apply rules of their size.
    fn each(&mut self, mut desired: Vec<(Owner, OwnerRules)>, in_force: bool) -> bool {
        let mut is_clean = true;
        loop {
            let tried = desired.len();
            let mut refused = Vec::new();
            for (owner, piece) in std::mem::take(&mut desired) {
                if let Some(error) = self.missing(&piece) {
                    refused.push((owner, piece, error));
                    continue;
                }
                let (steps, undo) = self.change(vec![(owner, piece.into())], true);
                let error = match self.execute(steps, in_force) {
                    Ok(()) => continue,
                    Err(ApplyError::TooLarge) => {
                        is_clean = false;
                        continue;
                    }
                    Err(ApplyError::Refused(error)) => error,
                    Err(ApplyError::Torn(error)) => {
                        is_clean = false;
                        error
                    }
                };
                let back = self.revert(undo).into_iter();
                refused.extend(back.map(|(owner, piece)| (owner, piece, error.to_string())));
            }
            // One owner's rules may need, or conflict with, those of an owner later in the list.
            if refused.len() < tried {
                desired.extend(refused.into_iter().map(|(owner, piece, _)| (owner, piece)));
                continue;
            }
            for (owner, piece, error) in refused {
                tracing::warn!(%error, ?owner, "the kernel refused these rules; the old ones stay");
                self.refused.insert(owner, piece);
            }
            return is_clean;
        }
    }

    /// Describes a reference from elements to a number that does not exist. The kernel accepts such elements, but they
    /// would have no effect.
    fn missing(&self, piece: &OwnerRules) -> Option<String> {
        for (family, half) in &piece.halves {
            for (from, to) in CHAINED_MAPS {
                let there = self.shares.get(&(*family, to.to_owned()));
                let elements = half.elements.get(from).into_iter().flatten();
                let mut numbers = elements.filter_map(|element| match &element.value {
                    Some(Value::Key(number)) => Some(number),
                    _ => None,
                });
                if numbers.any(|number| !there.is_some_and(|there| there.desired.contains_key(number))) {
                    return Some(format!("{from} refers to an entry that is not in {to}"));
                }
            }
        }
        None
    }

    /// Adds an element to a timeout set, if the tables exist.
    pub(crate) fn remember(&self, family: Family, set: &str, element: &Element) -> Result<(), FabricError> {
        let (Some(generation), Some(set)) = (self.generation, self.set(family, set)) else { return Ok(()) };
        let mut batch = Batch::new();
        batch.add_elements(&table(family, generation), &set, [element]);
        self.nft.commit(&batch)
    }

    /// Executes steps; if the tables are in force, packets see all of the change at once.
    fn execute(&self, steps: BatchSteps, in_force: bool) -> Result<(), ApplyError> {
        if steps.bytes() <= self.nft.max_bytes() {
            return self.nft.commit(&steps.whole()).map_err(ApplyError::Refused);
        }
        if !in_force {
            return self.nft.commit(&steps.whole()).map_err(ApplyError::Torn);
        }
        if !self.nft.fits_one_transaction(&steps.switch) {
            return Err(ApplyError::TooLarge);
        }
        for batch in [&steps.prepare, &steps.switch, &steps.end] {
            self.nft.commit(batch).map_err(ApplyError::Torn)?;
        }
        Ok(())
    }

    /// Takes changes over. Returns the steps that apply them, if they are to be written, and the changes that revert
    /// them.
    fn change(
        &mut self,
        wishes: Vec<(Owner, RulesUpdate)>,
        writes: bool,
    ) -> (BatchSteps, Vec<(Owner, RulesUpdate)>) {
        let (mut steps, mut undo) = (BatchSteps::default(), Vec::with_capacity(wishes.len()));
        let mut moves: BTreeMap<(Family, String), ElementMoves> = BTreeMap::new();
        let generation = self.generation.unwrap_or_default();
        for (owner, wish) in wishes {
            let back = match wish {
                RulesUpdate::Change(delta) => {
                    delta.apply(self.pieces.entry(owner.clone()).or_default());
                    for (set, own) in &delta.sets {
                        let moves = moves.entry(set.clone()).or_default();
                        own.out.iter().for_each(|element| moves.take(element.clone()));
                        own.into.iter().for_each(|element| moves.insert(element.clone()));
                    }
                    RulesUpdate::Change(delta.inverse())
                }
                RulesUpdate::Whole(now) => {
                    let before = self.pieces.remove(&owner).unwrap_or_default();
                    let none = FamilyRules::default();
                    for family in self.families.clone() {
                        let [was, is] =
                            [&before, &now].map(|piece| piece.halves.get(&family).unwrap_or(&none));
                        if writes {
                            steps.between(&table(family, generation), was, is);
                        }
                        for name in was.sets.keys().filter(|name| !is.sets.contains_key(*name)) {
                            self.sets.remove(&(family, name.clone()));
                        }
                        let made = is.sets.values().map(|set| ((family, set.name.clone()), set.clone()));
                        self.sets.extend(made);
                        self.share(family, &owner, (was, is), &mut moves);
                    }
                    if !now.is_empty() {
                        self.pieces.insert(owner.clone(), now);
                    }
                    RulesUpdate::Whole(before)
                }
            };
            undo.push((owner, back));
        }
        for ((family, name), moves) in moves.iter().filter(|_| writes) {
            if let Some(set) = self.set(*family, name) {
                let table = table(*family, generation);
                steps.switch.delete_elements(&table, &set, &moves.out);
                steps.switch.add_elements(&table, &set, &moves.into);
            }
        }
        for set in moves.keys() {
            if self.shares.get(set).is_some_and(|shares| shares.desired.is_empty()) {
                self.shares.remove(set);
            }
        }
        (steps, undo)
    }

    /// Updates an owner's elements in shared sets. Elements of a set that the owner creates itself are written with it.
    fn share(
        &mut self,
        family: Family,
        owner: &Owner,
        (was, is): (&FamilyRules, &FamilyRules),
        moves: &mut BTreeMap<(Family, String), ElementMoves>,
    ) {
        let none = BTreeSet::new();
        let names: BTreeSet<&String> = was.elements.keys().chain(is.elements.keys()).collect();
        for name in names {
            let place = (family, name.clone());
            let is_own = [was, is].map(|half| half.sets.contains_key(name));
            let (was, is) = (was.elements.get(name).unwrap_or(&none), is.elements.get(name).unwrap_or(&none));
            if is_own == [true, true] {
                let moves = moves.entry(place).or_default();
                was.difference(is).for_each(|element| moves.take(element.clone()));
                is.difference(was).for_each(|element| moves.insert(element.clone()));
                continue;
            }
            if is_own != [false, false] {
                continue;
            }
            let shares = self.shares.entry(place.clone()).or_default();
            let moves = moves.entry(place).or_default();
            // Additions first, so that an element that both versions have is never removed in between.
            for element in is.difference(was) {
                shares.add(element, owner, moves);
            }
            for element in was.difference(is) {
                shares.remove(element, owner, moves);
            }
        }
    }

    /// Returns a set by name, of the base rules or of any owner.
    fn set(&self, family: Family, name: &str) -> Option<Set> {
        self.sets.get(&(family, name.to_owned())).cloned()
    }
}

/// The reason why steps were not executed.
enum ApplyError {
    /// The steps exceed one transaction and would come into force one after the other. Nothing has changed.
    TooLarge,
    /// The kernel refuses the transaction. Nothing has changed.
    Refused(FabricError),
    /// The kernel refuses one of several transactions; others are in force.
    Torn(FabricError),
}

fn table(family: Family, generation: u64) -> Table {
    Table { family, name: format!("{NAME}{generation}") }
}
