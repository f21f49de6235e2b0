//! The state in memory: the newest version of every object and a ring of recent changes, without locks,
//! threads or disk.

use std::sync::Arc;

use super::ring::{Bounds, Ring};
use super::{Change, ChangeKind, Snapshot, WatchExpired, WriteError};
use object::{Key, KeyMap, Kind, Object, Revision};

/// An object and its approximate size as JSON in bytes.
struct StoredEntry {
    object: Arc<Object>,
    bytes: usize,
}

struct KindState {
    objects: KeyMap<StoredEntry>,
    /// Invariant: the sum of the objects' bytes.
    bytes: usize,
    ring: Ring,
}

impl KindState {
    /// Creates the empty state of a kind whose history starts after `compacted`.
    fn new(bounds: Bounds, compacted: Revision) -> Self {
        Self { objects: KeyMap::default(), bytes: 0, ring: Ring::new(bounds, compacted) }
    }
}

pub(super) struct State {
    revision: Revision,
    /// The kinds by their number, up to the highest number with a write; kinds are added at run time.
    kinds: Vec<KindState>,
    bounds: Bounds,
    /// The history of a kind without changes starts after this revision.
    compacted: Revision,
    /// Invariant: the sum of the kinds' bytes.
    bytes: usize,
    /// Invariant: the sum of the rings' memory.
    history_memory: usize,
}

impl Default for State {
    fn default() -> Self {
        Self::new(Revision(0), Bounds::default())
    }
}

impl State {
    /// Creates an empty state without history before `revision`.
    pub(super) fn new(revision: Revision, bounds: Bounds) -> Self {
        Self { revision, kinds: Vec::new(), bounds, compacted: revision, bytes: 0, history_memory: 0 }
    }

    /// Creates a state from objects read from disk, with the sizes of their records, without history.
    pub(super) fn restore(revision: Revision, objects: impl IntoIterator<Item = (Object, usize)>) -> Self {
        let mut state = Self::new(revision, Bounds::default());
        for (object, bytes) in objects {
            state.keep(StoredEntry { bytes, object: Arc::new(object) });
        }
        state
    }

    fn of(&self, kind: Kind) -> Option<&KindState> {
        self.kinds.get(kind.index())
    }

    fn of_mut(&mut self, kind: Kind) -> &mut KindState {
        let (bounds, compacted) = (self.bounds, self.compacted);
        if self.kinds.len() <= kind.index() {
            self.kinds.resize_with(kind.index() + 1, || KindState::new(bounds, compacted));
        }
        &mut self.kinds[kind.index()]
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn get(&self, kind: Kind, key: &Key) -> Option<Arc<Object>> {
        self.of(kind)?.objects.get(key).map(|stored| stored.object.clone())
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.of(kind).map_or(0, |of_kind| of_kind.objects.len())
    }

    /// Returns the approximate size of the objects of a kind as JSON, in bytes.
    pub(super) fn bytes(&self, kind: Kind) -> usize {
        self.of(kind).map_or(0, |of_kind| of_kind.bytes)
    }

    /// Returns the approximate size of all objects as JSON, in bytes.
    pub(super) fn all_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn list(&self, kind: Kind, namespace: Option<&str>) -> Snapshot {
        let objects = match (self.of(kind).map(|of_kind| &of_kind.objects), namespace) {
            (None, _) => Vec::new(),
            (Some(all), None) => all.values().map(|stored| stored.object.clone()).collect(),
            (Some(all), Some(namespace)) => {
                all.in_namespace(namespace).map(|stored| stored.object.clone()).collect()
            }
        };
        Snapshot { revision: self.revision, objects }
    }

    /// Lists all objects, kind by kind.
    pub(super) fn whole(&self) -> Snapshot {
        let all = self.kinds.iter().flat_map(|of_kind| of_kind.objects.values());
        Snapshot { revision: self.revision, objects: all.map(|stored| stored.object.clone()).collect() }
    }

    /// Stores an object of this size, whether or not one with its key exists.
    pub(super) fn set(&mut self, object: Object, bytes: usize) -> Change {
        let previous = self.get(object.kind(), &object.key());
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.put(object, bytes, kind, previous)
    }

    /// Stores a new object of this size.
    pub(super) fn create(&mut self, object: Object, bytes: usize) -> Result<Change, WriteError> {
        if self.of(object.kind()).is_some_and(|of_kind| of_kind.objects.contains(&object.key())) {
            return Err(WriteError::Exists);
        }
        Ok(self.put(object, bytes, ChangeKind::Added, None))
    }

    /// Replaces the object, which must be at revision `expected`, by a new version of this size.
    pub(super) fn replace(
        &mut self,
        object: Object,
        bytes: usize,
        expected: Revision,
    ) -> Result<Change, WriteError> {
        let previous = self.expect(object.kind(), &object.key(), expected)?;
        Ok(self.put(object, bytes, ChangeKind::Modified, Some(previous)))
    }

    pub(super) fn remove(&mut self, kind: Kind, key: &Key, expected: Revision) -> Result<Change, WriteError> {
        let last = Object::clone(&*self.expect(kind, key, expected)?);
        self.remove_as(last, expected)
    }

    /// Removes the object, which must be at revision `expected`; `last` is its last version.
    pub(super) fn remove_as(&mut self, last: Object, expected: Revision) -> Result<Change, WriteError> {
        let (kind, key) = (last.kind(), last.key());
        let previous = self.expect(kind, &key, expected)?;
        let of_kind = self.of_mut(kind);
        let bytes = of_kind.objects.remove(&key).map_or(0, |stored| stored.bytes);
        of_kind.bytes -= bytes;
        self.bytes -= bytes;
        let last = self.stamp(last);
        Ok(self.record(ChangeKind::Deleted, last, bytes, Some(previous)))
    }

    fn expect(&self, kind: Kind, key: &Key, expected: Revision) -> Result<Arc<Object>, WriteError> {
        let current = self.get(kind, key).ok_or(WriteError::Absent)?;
        if current.revision() == expected {
            Ok(current)
        } else {
            Err(WriteError::Conflict(current.revision()))
        }
    }

    fn put(
        &mut self,
        object: Object,
        bytes: usize,
        kind: ChangeKind,
        previous: Option<Arc<Object>>,
    ) -> Change {
        let object = self.stamp(object);
        self.keep(StoredEntry { object: object.clone(), bytes });
        self.record(kind, object, bytes, previous)
    }

    fn keep(&mut self, stored: StoredEntry) {
        let added = stored.bytes;
        let of_kind = self.of_mut(stored.object.kind());
        let replaced = of_kind.objects.insert(stored.object.key(), stored).map_or(0, |stored| stored.bytes);
        of_kind.bytes = of_kind.bytes + added - replaced;
        self.bytes = self.bytes + added - replaced;
    }

    /// Gives the object the next revision.
    fn stamp(&mut self, mut object: Object) -> Arc<Object> {
        self.revision = self.revision.next();
        object.set_revision(self.revision);
        Arc::new(object)
    }

    fn record(
        &mut self,
        kind: ChangeKind,
        object: Arc<Object>,
        bytes: usize,
        previous: Option<Arc<Object>>,
    ) -> Change {
        let change = Change::new(self.revision, kind, object, previous);
        let of_kind = change.object.kind().index();
        self.of_mut(change.object.kind());
        self.change_ring(of_kind, |ring| ring.push(change.clone(), bytes));
        while self.history_memory > self.bounds.memory {
            let oldest = |kind: &usize| self.kinds[*kind].ring.oldest_droppable();
            let Some(kind) = (0..self.kinds.len()).filter(|kind| oldest(kind).is_some()).min_by_key(oldest)
            else {
                break;
            };
            self.change_ring(kind, Ring::forget_oldest);
        }
        change
    }

    fn change_ring(&mut self, kind: usize, change: impl FnOnce(&mut Ring)) {
        let ring = &mut self.kinds[kind].ring;
        self.history_memory -= ring.memory();
        change(ring);
        self.history_memory += ring.memory();
    }

    /// Returns the changes of a kind after `after` and up to `until`, oldest first, at most `limit`.
    pub(super) fn changes(
        &self,
        kind: Kind,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, WatchExpired> {
        match self.of(kind) {
            Some(of_kind) => of_kind.ring.between(after, until, limit),
            None => Ring::new(self.bounds, self.compacted).between(after, until, limit),
        }
    }

    pub(super) fn compact(&mut self, revision: Revision) {
        self.compacted = self.compacted.max(revision);
        for kind in 0..self.kinds.len() {
            self.change_ring(kind, |ring| ring.compact(revision));
        }
    }

    /// Returns the approximate memory use of the history of all kinds, in bytes.
    #[cfg(test)]
    pub(super) fn history_memory(&self) -> usize {
        self.history_memory
    }

    /// Returns the bytes of a kind's objects in the history.
    #[cfg(test)]
    pub(super) fn history_bytes(&self, kind: Kind) -> usize {
        self.of(kind).map_or(0, |of_kind| of_kind.ring.bytes())
    }
}
