//! The user's sort orders of the tables of each kind, retained while the console runs.

use std::collections::BTreeMap;

use super::resource::ResourceKey;

/// The direction of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending.
    Up,
    /// Descending.
    Down,
}

/// A sort order. It names the column, because column positions change with the user's views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortOrder {
    /// The column; `None` sorts by name.
    pub column: Option<String>,
    /// The direction.
    pub direction: Direction,
}

/// The sort order of each kind that the user has sorted.
#[derive(Debug, Default)]
pub struct SortMemory(BTreeMap<ResourceKey, SortOrder>);

impl SortMemory {
    /// Stores the sort order of a kind's tables.
    pub fn keep(&mut self, resource: ResourceKey, order: SortOrder) {
        self.0.insert(resource, order);
    }

    /// Returns the order of a kind's tables, if the user has sorted one.
    pub fn of(&self, resource: &ResourceKey) -> Option<&SortOrder> {
        self.0.get(resource)
    }
}
