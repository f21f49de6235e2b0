//! Storage for the rows of a table: each has a slot that is stable while the row exists, so that lists of rows are
//! lists of small numbers.

use std::hash::{BuildHasher, RandomState};
use std::ops::Index;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use slab::Slab;

use crate::rows::{Row, RowKey};

/// A row's position in memory. Another row may get it after this one is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// The rows, by slot and by key.
#[derive(Debug, Default)]
pub(super) struct Slots {
    rows: Slab<Row>,
    by_key: HashTable<Slot>,
    hasher: RandomState,
}

impl Slots {
    /// Creates an empty set with capacity for this many rows.
    pub(super) fn with_capacity(rows: usize) -> Self {
        let by_key = HashTable::with_capacity(rows);
        Self { rows: Slab::with_capacity(rows), by_key, hasher: RandomState::new() }
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Iterates over all rows, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Row)> {
        self.rows.iter().map(|(index, row)| (Slot::of(index), row))
    }

    pub(super) fn find(&self, key: &RowKey) -> Option<Slot> {
        self.by_key.find(self.hasher.hash_one(key), |slot| self[*slot].has(key)).copied()
    }

    /// Inserts or replaces a row; also returns the previous one.
    pub(super) fn insert(&mut self, row: Row) -> (Slot, Option<Row>) {
        let key = row.key();
        let Self { rows, by_key, hasher } = self;
        let is_it = |slot: &Slot| rows[slot.index()].has(&key);
        let hash = |slot: &Slot| hasher.hash_one(rows[slot.index()].key());
        match by_key.entry(hasher.hash_one(&key), is_it, hash) {
            Entry::Occupied(there) => {
                let slot = *there.get();
                (slot, Some(std::mem::replace(&mut rows[slot.index()], row)))
            }
            Entry::Vacant(free) => {
                let slot = Slot::of(rows.insert(row));
                free.insert(slot);
                (slot, None)
            }
        }
    }

    /// Removes a row.
    pub(super) fn take(&mut self, key: &RowKey) -> Option<Row> {
        let Self { rows, by_key, hasher } = self;
        let is_it = |slot: &Slot| rows[slot.index()].has(key);
        let (slot, _) = by_key.find_entry(hasher.hash_one(key), is_it).ok()?.remove();
        Some(rows.remove(slot.index()))
    }
}

impl Index<Slot> for Slots {
    type Output = Row;

    fn index(&self, slot: Slot) -> &Row {
        &self.rows[slot.index()]
    }
}

impl Slot {
    fn of(index: usize) -> Self {
        Self(u32::try_from(index).expect("the number of rows fits in 32 bits"))
    }

    fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{ClusterId, Uid};

    fn row(cluster: Option<u16>, uid: &str, name: &str) -> Row {
        Row {
            cluster: cluster.map(ClusterId::joined),
            uid: Uid::from(uid),
            namespace: None,
            name: name.to_owned(),
            cells: Vec::new(),
            health: None,
            labels: std::sync::Arc::default(),
            newness: 0,
            workload: None,
        }
    }

    #[test]
    fn a_row_keeps_its_slot_until_it_is_taken_con_1() {
        let mut slots = Slots::default();
        let many: Vec<Slot> = (0..1000).map(|n| slots.insert(row(None, &n.to_string(), "old")).0).collect();
        // The same uid in another cluster is a different row.
        let (other, before) = slots.insert(row(Some(1), "7", "copy"));
        assert!(before.is_none() && !many.contains(&other));
        let (same, before) = slots.insert(row(None, "7", "new"));
        assert_eq!((same, before.map(|row| row.name)), (many[7], Some("old".to_owned())));
        let key = RowKey::from(Uid::from("7"));
        assert_eq!((slots.find(&key), slots[same].name.as_str(), slots.len()), (Some(same), "new", 1001));
        assert_eq!(slots.take(&key).map(|row| row.name).as_deref(), Some("new"));
        assert!(slots.take(&key).is_none() && slots.find(&key).is_none());
        assert_eq!(slots.find(&RowKey { cluster: Some(ClusterId::joined(1)), ..key }), Some(other));
        assert!(slots.iter().all(|(slot, row)| slots.find(&row.key()) == Some(slot)));
    }
}
