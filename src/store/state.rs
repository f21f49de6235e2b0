//! The state in memory: the newest version of every object and a ring of recent changes, without locks,
//! threads or disk.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::{Change, ChangeKind, Expired, Snapshot, WriteError};
use crate::object::{Key, Kind, Object, Revision};

/// Changes of one kind that watchers may be behind; older ones answer [`Expired`].
const RING_CHANGES: usize = 16_384;

#[derive(Default)]
struct KindState {
    objects: BTreeMap<Key, Arc<Object>>,
    /// Ascending revisions, all above `compacted`.
    ring: VecDeque<Change>,
    compacted: Revision,
}

pub(super) struct State {
    revision: Revision,
    kinds: Vec<KindState>,
}

impl Default for State {
    fn default() -> Self {
        Self { revision: Revision(0), kinds: (0..Kind::COUNT).map(|_| KindState::default()).collect() }
    }
}

impl State {
    /// A state read back from disk: its objects as they were, without history.
    pub(super) fn restore(revision: Revision, objects: impl IntoIterator<Item = Object>) -> Self {
        let mut state = Self { revision, ..Self::default() };
        for object in objects {
            state.kinds[object.kind().index()].objects.insert(object.key(), Arc::new(object));
        }
        for kind in &mut state.kinds {
            kind.compacted = revision;
        }
        state
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn get(&self, kind: Kind, key: &Key) -> Option<Arc<Object>> {
        self.kinds[kind.index()].objects.get(key).cloned()
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.kinds[kind.index()].objects.len()
    }

    pub(super) fn list(&self, kind: Kind, namespace: Option<&str>) -> Snapshot {
        let objects = &self.kinds[kind.index()].objects;
        let objects = match namespace {
            None => objects.values().cloned().collect(),
            Some(namespace) => objects
                .range((Bound::Included(Key::new(namespace, "")), Bound::Unbounded))
                .take_while(|(key, _)| key.namespace == namespace)
                .map(|(_, object)| object.clone())
                .collect(),
        };
        Snapshot { revision: self.revision, objects }
    }

    pub(super) fn create(&mut self, object: Object) -> Result<Change, WriteError> {
        if self.kinds[object.kind().index()].objects.contains_key(&object.key()) {
            return Err(WriteError::Exists);
        }
        Ok(self.put(object, ChangeKind::Added, None))
    }

    pub(super) fn replace(&mut self, object: Object, expected: Revision) -> Result<Change, WriteError> {
        let previous = self.expect(object.kind(), &object.key(), expected)?;
        Ok(self.put(object, ChangeKind::Modified, Some(previous)))
    }

    pub(super) fn remove(&mut self, kind: Kind, key: &Key, expected: Revision) -> Result<Change, WriteError> {
        let previous = self.expect(kind, key, expected)?;
        self.kinds[kind.index()].objects.remove(key);
        let last = self.stamp(Object::clone(&previous));
        Ok(self.record(ChangeKind::Deleted, last, Some(previous)))
    }

    fn expect(&self, kind: Kind, key: &Key, expected: Revision) -> Result<Arc<Object>, WriteError> {
        let current = self.get(kind, key).ok_or(WriteError::Absent)?;
        if current.revision() == expected {
            Ok(current)
        } else {
            Err(WriteError::Conflict(current.revision()))
        }
    }

    fn put(&mut self, object: Object, kind: ChangeKind, previous: Option<Arc<Object>>) -> Change {
        let object = self.stamp(object);
        self.kinds[object.kind().index()].objects.insert(object.key(), object.clone());
        self.record(kind, object, previous)
    }

    /// Gives the object the next revision.
    fn stamp(&mut self, mut object: Object) -> Arc<Object> {
        self.revision = self.revision.next();
        object.meta_mut().resource_version = Some(self.revision.to_string());
        Arc::new(object)
    }

    fn record(&mut self, kind: ChangeKind, object: Arc<Object>, previous: Option<Arc<Object>>) -> Change {
        let change = Change { revision: self.revision, kind, object, previous };
        let slot = &mut self.kinds[change.object.kind().index()];
        slot.ring.push_back(change.clone());
        if slot.ring.len() > RING_CHANGES
            && let Some(dropped) = slot.ring.pop_front()
        {
            slot.compacted = dropped.revision;
        }
        change
    }

    /// Changes of a kind after `after` and up to `until`, oldest first, at most `limit`.
    pub(super) fn changes(
        &self,
        kind: Kind,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, Expired> {
        let slot = &self.kinds[kind.index()];
        if after < slot.compacted {
            return Err(Expired { asked: after, oldest: slot.compacted });
        }
        let start = slot.ring.partition_point(|change| change.revision <= after);
        Ok(slot.ring.range(start..).take_while(|c| c.revision <= until).take(limit).cloned().collect())
    }

    pub(super) fn compact(&mut self, revision: Revision) {
        for slot in &mut self.kinds {
            let drop = slot.ring.partition_point(|change| change.revision <= revision);
            slot.ring.drain(..drop);
            slot.ring.shrink_to_fit();
            slot.compacted = slot.compacted.max(revision);
        }
    }
}
