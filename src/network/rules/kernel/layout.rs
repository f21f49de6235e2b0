//! Rebuilding: writes complete new tables, which then replace the current ones and take over their session affinity.

use std::fmt::Debug;
use std::hash::Hash;

use fabric::FabricError;
use fabric::nft::{Batch, Table};

use super::{Kernel, NAME, table};
use crate::rules::owner_rules::FamilyRules;

/// Size of a batch at which it is committed, in bytes: a single batch would need as much memory again.
const BATCH_BYTES: usize = 4 << 20;
/// Maximum number of clients whose session affinity is taken over; the others get a new endpoint.
const MAX_AFFINITY_CLIENTS: usize = 262_144;

/// New tables that are not in force yet.
pub(super) struct StagedTables {
    pub(super) generation: u64,
    /// The tables to replace.
    old: Vec<Table>,
    /// The batch that puts the new tables in force and deletes the old ones.
    swap: Batch,
}

impl<Owner: Clone + Debug + Eq + Hash> Kernel<Owner> {
    /// Writes all rules into new tables, which then replace all others in one transaction.
    pub(super) fn rebuild(&mut self) -> Result<(), FabricError> {
        self.generation = None;
        let staged = self.stage_tables()?;
        self.swap_in(staged)
    }

    /// Replaces all other tables by the new ones, including the affinity that the others hold.
    pub(super) fn swap_in(&mut self, staged: StagedTables) -> Result<(), FabricError> {
        self.generation = None;
        let StagedTables { generation, old, swap } = staged;
        let committed = match self.remembered(generation, &old) {
            remembered if remembered.is_empty() => self.nft.commit(&swap),
            mut remembered if remembered.bytes() + swap.bytes() <= self.nft.max_bytes() => {
                remembered.append(swap.clone());
                self.nft.commit(&remembered).or_else(|error| {
                    tracing::warn!(%error, "cannot keep session affinity");
                    self.nft.commit(&swap)
                })
            }
            remembered => {
                if let Err(error) = self.nft.commit(&remembered) {
                    tracing::warn!(%error, "cannot keep session affinity");
                }
                self.nft.commit(&swap)
            }
        };
        committed.inspect_err(|_| self.remove(generation))?;
        self.generation = Some(generation);
        Ok(())
    }

    /// Returns the elements of the current tables' timeout sets, as changes of the new tables.
    fn remembered(&self, generation: u64, old: &[Table]) -> Batch {
        let mut batch = Batch::new();
        let mut remaining = MAX_AFFINITY_CLIENTS;
        for from in old {
            let sets = self.nft.sets(from).unwrap_or_else(|error| {
                tracing::debug!(%error, table = from.name, "cannot keep session affinity");
                Vec::new()
            });
            let sets = sets.iter().filter(|set| set.forgets && set.elements != Some(0));
            for set in sets.filter_map(|set| self.set(from.family, &set.name)) {
                if set.timeout.is_none() || remaining == 0 {
                    continue;
                }
                match self.nft.remembered(from, &set.name) {
                    Ok(mut all) => {
                        all.truncate(remaining);
                        remaining -= all.len();
                        batch.add_remembered(&table(from.family, generation), &set, &all);
                    }
                    Err(error) => {
                        tracing::debug!(%error, set = set.name, "cannot keep session affinity");
                    }
                }
            }
        }
        batch
    }

    /// Removes tables that are not in force; otherwise they would stay until the next rebuild.
    fn remove(&self, generation: u64) {
        for family in &self.families {
            let mut batch = Batch::new();
            batch.delete_table(&table(*family, generation));
            if let Err(error) = self.nft.commit(&batch) {
                tracing::debug!(%error, generation, "cannot delete unused tables");
            }
        }
    }

    /// Writes all rules into new tables that are not in force yet.
    pub(super) fn stage_tables(&self) -> Result<StagedTables, FabricError> {
        let mut old = Vec::new();
        for family in &self.families {
            let tables = self.nft.tables(*family)?.into_iter().filter(|table| table.name.starts_with(NAME));
            old.extend(tables);
        }
        let number = |table: &Table| table.name.strip_prefix(NAME)?.parse::<u64>().ok();
        let generation = old.iter().filter_map(number).max().unwrap_or_default() + 1;
        let mut swap = Batch::new();
        self.fill(generation, &mut swap).inspect_err(|_| self.remove(generation))?;
        for table in &old {
            swap.delete_table(table);
        }
        Ok(StagedTables { generation, old, swap })
    }

    /// Fills the tables of a generation, except for base chains, which go into `swap`.
    fn fill(&self, generation: u64, swap: &mut Batch) -> Result<(), FabricError> {
        let mut content = PendingBatch { kernel: self, batch: Batch::new() };
        for family in &self.families {
            let table = table(*family, generation);
            content.batch.add_table(&table);
            let none = FamilyRules::default();
            let halves = || [&self.base].into_iter().chain(self.pieces.values());
            let halves = || halves().map(|piece| piece.halves.get(family).unwrap_or(&none));
            for set in halves().flat_map(|half| half.sets.values()) {
                content.batch.add_set(&table, set);
                content.commit_some()?;
            }
            let chains = || halves().flat_map(|half| &half.chains);
            for (name, _) in chains().filter(|(_, chain)| chain.base.is_none()) {
                content.batch.add_chain(&table, name, None);
                content.commit_some()?;
            }
            for (name, chain) in chains() {
                let is_base = chain.base.is_some();
                let into = if is_base { &mut *swap } else { &mut content.batch };
                if is_base {
                    into.add_chain(&table, name, chain.base);
                }
                for rule in &chain.rules {
                    into.add_rule(&table, name, rule);
                }
                content.commit_some()?;
            }
            for half in halves() {
                for (name, elements) in &half.elements {
                    if let Some(set) = half.sets.get(name) {
                        content.batch.add_elements(&table, set, elements);
                        content.commit_some()?;
                    }
                }
            }
            for ((of, name), shares) in self.shares.iter().filter(|((of, _), _)| of == family) {
                if let Some(set) = self.set(*of, name) {
                    content.batch.add_elements(&table, &set, shares.all());
                    content.commit_some()?;
                }
            }
        }
        self.nft.commit(&content.batch)
    }
}

/// A batch for tables that are not in force, committed whenever it is large enough.
struct PendingBatch<'a, Owner> {
    kernel: &'a Kernel<Owner>,
    batch: Batch,
}

impl<Owner> PendingBatch<'_, Owner> {
    fn commit_some(&mut self) -> Result<(), FabricError> {
        if self.batch.bytes() < BATCH_BYTES {
            return Ok(());
        }
        self.kernel.nft.commit(&std::mem::take(&mut self.batch))
    }
}
