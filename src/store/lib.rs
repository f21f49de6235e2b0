//! Revisioned state with watch history and durability.
//!
//! Memory is the read path: every write is applied there under one short lock, which gives it the next [`Revision`],
//! and handed in that order to the disk thread, which commits in groups (one fsync for many writes). A watcher
//! follows either the memory (control loops) or only durable writes (effects that leave the process).
//!
//! Everything a client has seen must survive a crash, so HTTP waits before it responds, for reads too: it calls
//! [`Store::durable`] with the newest revision in the response. Reading at the durable revision instead would need
//! old versions beside the new ones; waiting costs nothing while no write is under way, and a group's sync at most.
//! Writes that no client has seen may be lost, and their revisions are then assigned again.
//!
//! A state that has lost acknowledged writes is not opened unless the loss is accepted (`open`).
//!
//! Architecture Invariant: the store knows nothing of Kubernetes' rules; it holds versions and their order.

pub mod archive;
mod checkpoint;
mod database;
mod disk;
pub mod faults;
mod inspect;
mod open;
mod original_files;
mod reserved_space;
mod ring;
mod simulated;
mod state;
#[cfg(test)]
mod test_objects;
mod watch;

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;

use base::sort::SliceOrder;
use base::step_observer;
use disk::Disk;
use faults::Faults;
pub use inspect::Inspection;
use object::{Key, Kind, Object, Revision};
pub use open::LossPolicy;
pub use simulated::SimulatedDisk;
use state::State;
pub use watch::{Change, ChangeKind, Visibility, WatchExpired, Watcher};

/// The reason why a write was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// An object with this key exists.
    #[error("already exists")]
    Exists,
    /// No object has this key.
    #[error("not found")]
    Absent,
    /// The object was changed: it is at this revision, not at the one that the writer expected.
    #[error("the object has been modified: it is at revision {0}")]
    Conflict(Revision),
    /// The disk refuses writes; none is accepted until it works again.
    #[error("the data directory cannot be written: {0}")]
    Disk(String),
}

/// The state could not be opened, or a write could not be made durable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The database on disk failed.
    #[error("the data directory cannot be written: {0}")]
    Disk(String),
    /// The outcome is open: the write is applied, and will be durable if the disk works again.
    #[error(
        "the data directory cannot be written: {0}; the change is pending and will be written when the disk works again"
    )]
    Undecided(String),
    /// The database has lost data; the message states the extent of the loss and how the user can continue.
    #[error("{0}")]
    Damaged(String),
}

/// The objects of one kind at one revision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The revision of the whole state.
    pub revision: Revision,
    /// The objects, ordered by key.
    pub objects: Vec<Arc<Object>>,
}

/// One of several writes that are made together.
#[derive(Clone, Debug, PartialEq)]
pub enum Rewrite {
    /// Store the object, whether or not one with its key exists.
    Set(Box<Object>),
    /// Remove the object, if it exists.
    Remove(Kind, Key),
}

/// A cheap handle to the state.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    // A reader-writer lock: reads are lookups and Arc clones, writes one map insertion. Never await or encode while
    // holding it.
    state: RwLock<State>,
    signals: watch::Signals,
    disk: Option<Disk>,
    faults: Faults,
}

impl Store {
    /// Creates a state that lives in memory only.
    pub fn ephemeral() -> Self {
        Self::in_memory(State::default())
    }

    fn in_memory(state: State) -> Self {
        let (state, signals) = (RwLock::new(state), watch::Signals::default());
        Self { inner: Arc::new(Inner { state, signals, disk: None, faults: Faults::default() }) }
    }

    /// Opens the state in `directory`, or creates it; fails if some of it is lost.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_with(directory, LossPolicy::Refused)
    }

    /// Opens the state in `directory`, even with losses if `loss` accepts them.
    pub fn open_with(directory: &Path, loss: LossPolicy) -> Result<Self, StoreError> {
        let signals = watch::Signals::default();
        let faults = Faults::default();
        let opened = open::open(directory, loss)?;
        let (disk, state) = Disk::start(opened, directory, signals.clone(), faults.disk().clone());
        let (state, disk) = (RwLock::new(state), Some(disk));
        Ok(Self { inner: Arc::new(Inner { state, signals, disk, faults }) })
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> Revision {
        self.inner.state.read().revision()
    }

    /// Returns the object with this key.
    pub fn get(&self, kind: Kind, key: &Key) -> Option<Arc<Object>> {
        self.inner.state.read().get(kind, key)
    }

    /// Lists all objects of a kind, or those of one namespace.
    pub fn list(&self, kind: Kind, namespace: Option<&str>) -> Snapshot {
        self.inner.state.read().list(kind, namespace)
    }

    /// Lists the objects of all kinds at one revision.
    pub fn whole(&self) -> Snapshot {
        self.inner.state.read().whole()
    }

    /// Returns the number of objects of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.inner.state.read().count(kind)
    }

    /// Returns the approximate size of the objects of these kinds as JSON, in bytes.
    pub fn bytes(&self, kinds: impl IntoIterator<Item = Kind>) -> usize {
        let state = self.inner.state.read();
        kinds.into_iter().map(|kind| state.bytes(kind)).sum()
    }

    /// Returns the approximate size of all objects as JSON, in bytes.
    pub fn all_bytes(&self) -> usize {
        self.inner.state.read().all_bytes()
    }

    /// Stores a new object.
    pub fn create(&self, object: Object) -> Result<Arc<Object>, WriteError> {
        self.admit()?;
        let (bytes, object) = sized(object);
        self.write(object.kind(), |state| state.create(object, bytes))
    }

    /// Stores a new version of the object that is at revision `expected` now.
    pub fn replace(&self, object: Object, expected: Revision) -> Result<Arc<Object>, WriteError> {
        if is_on_its_way_out(&object) { self.admit_deletion() } else { self.admit() }?;
        let (bytes, object) = sized(object);
        self.write(object.kind(), |state| state.replace(object, bytes, expected))
    }

    /// Removes the object if its revision is `expected`; returns its last version at the revision of the removal.
    pub fn remove(&self, kind: Kind, key: &Key, expected: Revision) -> Result<Arc<Object>, WriteError> {
        self.admit_deletion()?;
        self.write(kind, |state| state.remove(kind, key, expected))
    }

    /// Removes the object if its revision is `expected`, with `last` as its last version. This is one write: a crash
    /// between an update and a removal would leave a version that no client would remove.
    pub fn remove_as(&self, last: Object, expected: Revision) -> Result<Arc<Object>, WriteError> {
        self.admit_deletion()?;
        let last = last.packed();
        self.write(last.kind(), |state| state.remove_as(last, expected))
    }

    /// Makes the writes that `plan` returns for the whole state, as one transaction: no other write comes between them,
    /// a read of the state sees all of them or none, and a crash leaves all of them or none. Returns the changes in
    /// order.
    ///
    /// All other writers and readers wait meanwhile: use it only for changes to a cluster as a whole.
    pub fn rewrite(&self, plan: impl FnOnce(Snapshot) -> Vec<Rewrite>) -> Result<Vec<Change>, WriteError> {
        self.admit()?;
        let disk = self.inner.disk.as_ref();
        let changes: Vec<Change> = {
            let mut state = self.inner.state.write();
            let planned = plan(state.whole());
            let changes = planned.into_iter().filter_map(|write| match write {
                Rewrite::Set(object) => {
                    let bytes = object.size();
                    Some(state.set(object.packed(), bytes))
                }
                Rewrite::Remove(kind, key) => {
                    let there = state.get(kind, &key)?;
                    state.remove(kind, &key, there.revision()).ok()
                }
            });
            let changes: Vec<Change> = changes.collect();
            if let Some(disk) = disk.filter(|_| !changes.is_empty()) {
                disk.submit(changes.clone());
            }
            changes
        };
        let mut kinds: Vec<Kind> = changes.iter().map(|change| change.object.kind()).collect();
        kinds.order();
        kinds.dedup();
        for kind in kinds {
            self.inner.signals.written(kind, disk.is_none());
        }
        Ok(changes)
    }

    /// Refuses writes if the disk or a fault does.
    fn admit(&self) -> Result<(), WriteError> {
        if let Some(reason) = self.inner.disk.as_ref().and_then(Disk::refusal) {
            return Err(WriteError::Disk(reason));
        }
        self.inner.faults.admit().map_err(WriteError::Disk)
    }

    /// Refuses deletions if the disk or a fault does. A full disk accepts deletions longer than other writes.
    fn admit_deletion(&self) -> Result<(), WriteError> {
        if let Some(reason) = self.inner.disk.as_ref().and_then(Disk::deletion_refusal) {
            return Err(WriteError::Disk(reason));
        }
        self.inner.faults.admit().map_err(WriteError::Disk)
    }

    fn write(
        &self,
        kind: Kind,
        apply: impl FnOnce(&mut State) -> Result<Change, WriteError>,
    ) -> Result<Arc<Object>, WriteError> {
        step_observer::record_step(format_args!("write of {kind}"));
        let disk = self.inner.disk.as_ref();
        let object = {
            let mut state = self.inner.state.write();
            let change = apply(&mut state)?;
            let object = change.object.clone();
            // Under the lock, so that the disk receives writes in the order of their revisions.
            match disk {
                Some(disk) => disk.submit(vec![change]),
                None => object.release_json(),
            }
            object
        };
        self.inner.signals.written(kind, disk.is_none());
        Ok(object)
    }

    /// Returns the deliberate faults of this store.
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// Returns the reason why writes are refused now; `None` if they are accepted.
    pub fn refuses_writes(&self) -> Option<String> {
        self.inner.disk.as_ref().and_then(Disk::refusal).or_else(|| self.inner.faults.refusal())
    }

    /// Returns true if writes survive the process.
    pub fn has_disk(&self) -> bool {
        self.inner.disk.is_some()
    }

    /// Waits until everything up to `revision` is durable.
    pub async fn durable(&self, revision: Revision) -> Result<(), StoreError> {
        match &self.inner.disk {
            Some(disk) => disk.durable(revision).await,
            None => Ok(()),
        }
    }

    /// Watches the changes of a kind after `after`.
    pub fn watch(&self, kind: Kind, after: Revision, visibility: Visibility) -> Watcher {
        Watcher::new(self.clone(), kind, after, visibility)
    }

    /// Drops watch history up to `revision`, as compaction does; watchers behind it get [`WatchExpired`].
    pub fn compact(&self, revision: Revision) {
        self.inner.state.write().compact(revision);
    }

    /// Waits until the disk thread has written everything, then ends it.
    pub fn close(&self) {
        if let Some(disk) = &self.inner.disk {
            disk.close();
        }
    }

    /// Limits control loops that watch this kind to the present revision; `None` lifts the limit. This is a fault
    /// (FAULT-1): caches lag meanwhile, and must list again if the history drops the changes that they have not seen.
    pub fn hold_views(&self, kind: Option<Kind>) {
        let revision = self.revision();
        let released = self.inner.faults.hold_views(kind.map(|kind| (kind, revision)));
        if let Some(kind) = released {
            self.inner.signals.written(kind, false);
        }
    }

    fn visible(&self, kind: Kind, visibility: Visibility) -> Revision {
        match (&self.inner.disk, visibility) {
            (Some(disk), Visibility::Durable) => disk.state().durable,
            _ => self.inner.faults.view_limit(kind).unwrap_or(Revision(u64::MAX)),
        }
    }
}

/// Returns the size of an object, and the object as it is stored. It is encoded once for its size and its record: its JSON
/// stays until the disk has written it.
fn sized(object: Object) -> (usize, Object) {
    object.hold_json();
    (object.size(), object.packed())
}

/// Returns whether this version leads to the removal of data, so that even a full disk accepts it. Every version of a
/// volume counts: one whose claim was deleted has no deletion timestamp yet, and is deleted only after its status has
/// changed.
fn is_on_its_way_out(object: &Object) -> bool {
    object.meta().deletion_timestamp.is_some() || object.kind() == Kind::PersistentVolume
}
