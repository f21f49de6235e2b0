//! What the user sorts the tables of each kind by, kept while the console runs.

use std::collections::BTreeMap;

use super::resource::ResourceKey;

/// Which end comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The least.
    Up,
    /// The greatest.
    Down,
}

/// What rows are sorted by, by the name of the column: the places of columns change with the user's views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortOrder {
    /// The column; none sorts by name.
    pub(crate) column: Option<String>,
    /// From which end.
    pub(crate) direction: Direction,
}

/// The order of each kind that the user has sorted.
#[derive(Debug, Default)]
pub(crate) struct SortMemory(BTreeMap<ResourceKey, SortOrder>);

impl SortMemory {
    /// Keeps the order of a kind's tables.
    pub(crate) fn keep(&mut self, resource: ResourceKey, order: SortOrder) {
        self.0.insert(resource, order);
    }

    /// Returns the order of a kind's tables, if the user has sorted one.
    pub(crate) fn of(&self, resource: &ResourceKey) -> Option<&SortOrder> {
        self.0.get(resource)
    }
}
