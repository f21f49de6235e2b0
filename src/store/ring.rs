//! The recent changes of one kind, for watchers that are behind: bounded in number and in bytes, so that neither
//! many writes nor huge objects nor many kinds fill the memory.

use std::collections::VecDeque;

use super::{Change, Expired};
use object::Revision;

/// How much history is kept. An object that only its successor's `previous` still holds is not counted, so the
/// memory held is at most twice `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Changes.
    pub(super) changes: usize,
    /// Bytes of the changed objects as JSON; the newest change is kept whatever its size.
    pub(super) bytes: usize,
    /// Bytes of memory for the changes of all kinds together, about: the newest of each kind is kept.
    pub(super) memory: usize,
}

/// What a change takes in memory besides its object's text, about: names, maps and what points to them.
const CHANGE_BYTES: usize = 1500;
/// How much more memory an object takes than its text: it is held as fields, and its text again for watchers.
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
    /// Ascending revisions, all above `compacted`, each with its object's size.
    changes: VecDeque<(Change, usize)>,
    /// Invariant: the sum of the sizes in `changes`.
    bytes: usize,
    compacted: Revision,
}

impl Ring {
    /// No history: what happened up to `compacted` is not known.
    pub(super) fn new(bounds: Bounds, compacted: Revision) -> Self {
        Self { bounds, compacted, ..Self::default() }
    }

    /// Adds the newest change, whose object takes so many bytes, and forgets what has no room any more.
    pub(super) fn push(&mut self, change: Change, bytes: usize) {
        self.changes.push_back((change, bytes));
        self.bytes += bytes;
        while self.changes.len() > self.bounds.changes
            || (self.bytes > self.bounds.bytes && self.changes.len() > 1)
        {
            self.forget_oldest();
        }
    }

    /// Forgets the oldest change.
    pub(super) fn forget_oldest(&mut self) {
        let Some((dropped, bytes)) = self.changes.pop_front() else { return };
        self.bytes -= bytes;
        self.compacted = dropped.revision;
    }

    /// The revision of the oldest change, if it may be forgotten for the sake of other kinds.
    pub(super) fn spare(&self) -> Option<Revision> {
        self.changes.front().filter(|_| self.changes.len() > 1).map(|(change, _)| change.revision)
    }

    /// How much memory it takes, about.
    pub(super) fn memory(&self) -> usize {
        self.bytes * TEXT_FACTOR + self.changes.len() * CHANGE_BYTES
    }

    /// Changes after `after` and up to `until`, oldest first, at most `limit`.
    pub(super) fn between(
        &self,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, Expired> {
        if after < self.compacted {
            return Err(Expired { asked: after, oldest: self.compacted });
        }
        let start = self.changes.partition_point(|(change, _)| change.revision <= after);
        let changes = self.changes.range(start..).map(|(change, _)| change);
        Ok(changes.take_while(|c| c.revision <= until).take(limit).cloned().collect())
    }

    /// Forgets everything up to `revision`.
    pub(super) fn compact(&mut self, revision: Revision) {
        let drop = self.changes.partition_point(|(change, _)| change.revision <= revision);
        self.bytes -= self.changes.drain(..drop).map(|(_, bytes)| bytes).sum::<usize>();
        self.changes.shrink_to_fit();
        self.compacted = self.compacted.max(revision);
    }

    /// How many bytes of objects it holds.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
