//! The recent changes of one kind, for watchers that lag: bounded in number and in bytes, so that neither many writes
//! nor huge objects nor many kinds fill the memory.

use std::collections::VecDeque;

use super::{Change, WatchExpired};
use object::Revision;

/// The limits of the history. An object that only its successor's `previous` still holds is not counted, so memory
/// use is at most twice `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The most changes per kind.
    pub(super) changes: usize,
    /// Bytes of the changed objects of one kind as JSON; the newest change is retained regardless of its size.
    pub(super) bytes: usize,
    /// Approximate bytes of memory for the changes of all kinds together; the newest change of each kind is retained.
    pub(super) memory: usize,
}

/// Approximate bytes a change takes in memory besides its object's text: names, maps and pointers to them.
const CHANGE_BYTES: usize = 1500;
/// The ratio of an object's memory to its text: it is held as fields, and its text again for watchers.
const TEXT_FACTOR: usize = 3;

impl Default for Bounds {
    fn default() -> Self {
        Self { changes: 16_384, bytes: 64 * 1024 * 1024, memory: 96 * 1024 * 1024 }
    }
}

/// The history of one kind.
#[derive(Default)]
pub(super) struct Ring {
    bounds: Bounds,
    /// Ascending revisions, all above `compacted`, each with its object's size in bytes.
    changes: VecDeque<(Change, usize)>,
    /// Invariant: the sum of the sizes in `changes`.
    bytes: usize,
    compacted: Revision,
}

impl Ring {
    /// Creates an empty history that starts after `compacted`.
    pub(super) fn new(bounds: Bounds, compacted: Revision) -> Self {
        Self { bounds, compacted, ..Self::default() }
    }

    /// Adds the newest change, with its object's size in bytes, and drops the oldest ones beyond the limits.
    pub(super) fn push(&mut self, change: Change, bytes: usize) {
        self.changes.push_back((change, bytes));
        self.bytes += bytes;
        while self.changes.len() > self.bounds.changes
            || (self.bytes > self.bounds.bytes && self.changes.len() > 1)
        {
            self.forget_oldest();
        }
    }

    /// Drops the oldest change.
    pub(super) fn forget_oldest(&mut self) {
        let Some((dropped, bytes)) = self.changes.pop_front() else { return };
        self.bytes -= bytes;
        self.compacted = dropped.revision;
    }

    /// Returns the revision of the oldest change, if it may be dropped in favour of other kinds.
    pub(super) fn oldest_droppable(&self) -> Option<Revision> {
        self.changes.front().filter(|_| self.changes.len() > 1).map(|(change, _)| change.revision)
    }

    /// Returns the approximate memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes * TEXT_FACTOR + self.changes.len() * CHANGE_BYTES
    }

    /// Returns the changes after `after` and up to `until`, oldest first, at most `limit`.
    pub(super) fn between(
        &self,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, WatchExpired> {
        if after < self.compacted {
            return Err(WatchExpired { requested: after, oldest: self.compacted });
        }
        let start = self.changes.partition_point(|(change, _)| change.revision <= after);
        let changes = self.changes.range(start..).map(|(change, _)| change);
        Ok(changes.take_while(|c| c.revision <= until).take(limit).cloned().collect())
    }

    /// Drops everything up to `revision`.
    pub(super) fn compact(&mut self, revision: Revision) {
        let drop = self.changes.partition_point(|(change, _)| change.revision <= revision);
        self.bytes -= self.changes.drain(..drop).map(|(_, bytes)| bytes).sum::<usize>();
        self.changes.shrink_to_fit();
        self.compacted = self.compacted.max(revision);
    }

    /// Returns the bytes of the objects it holds.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
