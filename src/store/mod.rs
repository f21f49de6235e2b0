//! Revisioned state with watch history and durability.
//!
//! Memory is the read path: every write is applied there under one short lock, which gives it the next
//! [`Revision`], and handed in that order to the disk thread, which commits in groups (one fsync for many
//! writes). A watcher follows either the memory (control loops) or what is durable (effects that leave the
//! process).
//!
//! Architecture Invariant: the store knows nothing of Kubernetes' rules; it keeps versions and their order.

mod disk;
mod reserve;
mod ring;
mod state;
mod watch;

use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::object::{Key, Kind, Object, Revision};
use disk::Disk;
use state::State;
pub use watch::{Change, ChangeKind, Expired, Visibility, Watcher};

/// A write was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// An object with this key is there already.
    #[error("already exists")]
    Exists,
    /// No object has this key.
    #[error("not found")]
    Absent,
    /// The object is at another revision than the writer saw.
    #[error("the object has been modified: it is at revision {0}")]
    Conflict(Revision),
    /// The disk refuses writes; nothing is accepted until it takes them again.
    #[error("the data directory cannot be written: {0}")]
    Disk(String),
}

/// The state could not be opened, or a write could not be made durable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The database on disk fails.
    #[error("the data directory cannot be written: {0}")]
    Disk(String),
    /// Nobody can say yet whether a write will be durable.
    #[error(
        "the data directory cannot be written: {0}; the change was under way and will be made when that is possible"
    )]
    Undecided(String),
    /// The database holds something that cannot be read.
    #[error("the data directory holds an unreadable record {key}: {reason}")]
    Unreadable {
        /// The record's key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Objects of one kind as they were together at one revision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The revision of the whole state.
    pub revision: Revision,
    /// By key.
    pub objects: Vec<Arc<Object>>,
}

/// A cheap handle to the state.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    // A reader-writer lock: reads are lookups and Arc clones, writes one map insertion; nobody awaits
    // or encodes under it.
    state: RwLock<State>,
    signals: watch::Signals,
    disk: Option<Disk>,
    fuse: Fuse,
}

/// How many more writes are taken, when somebody wants a store that fails.
#[derive(Default)]
struct Fuse(Mutex<Option<u64>>);

impl Fuse {
    /// Whether the next write is taken.
    fn holds(&self) -> bool {
        match &mut *self.0.lock() {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

impl Store {
    /// A state that lives in memory alone.
    pub fn ephemeral() -> Self {
        Self::in_memory(State::default())
    }

    fn in_memory(state: State) -> Self {
        let (state, signals) = (RwLock::new(state), watch::Signals::new());
        Self { inner: Arc::new(Inner { state, signals, disk: None, fuse: Fuse::default() }) }
    }

    /// The state kept in `directory`, made when it is not there.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let (database, state) = disk::open(directory)?;
        let signals = watch::Signals::new();
        let disk = Disk::start(database, directory, state.revision(), signals.clone());
        let (state, disk, fuse) = (RwLock::new(state), Some(disk), Fuse::default());
        Ok(Self { inner: Arc::new(Inner { state, signals, disk, fuse }) })
    }

    /// The revision of the last write.
    pub fn revision(&self) -> Revision {
        self.inner.state.read().revision()
    }

    /// The object with this key.
    pub fn get(&self, kind: Kind, key: &Key) -> Option<Arc<Object>> {
        self.inner.state.read().get(kind, key)
    }

    /// All objects of a kind, or those of one namespace.
    pub fn list(&self, kind: Kind, namespace: Option<&str>) -> Snapshot {
        self.inner.state.read().list(kind, namespace)
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.inner.state.read().count(kind)
    }

    /// Stores a new object.
    pub fn create(&self, object: Object) -> Result<Arc<Object>, WriteError> {
        let bytes = object.size();
        self.write(object.kind(), |state| state.create(object, bytes))
    }

    /// Stores a new version of the object that is at `expected` now.
    pub fn replace(&self, object: Object, expected: Revision) -> Result<Arc<Object>, WriteError> {
        let bytes = object.size();
        self.write(object.kind(), |state| state.replace(object, bytes, expected))
    }

    /// Removes the object that is at `expected` now; returns its last version at the removal's revision.
    pub fn remove(&self, kind: Kind, key: &Key, expected: Revision) -> Result<Arc<Object>, WriteError> {
        self.write(kind, |state| state.remove(kind, key, expected))
    }

    fn write(
        &self,
        kind: Kind,
        apply: impl FnOnce(&mut State) -> Result<Change, WriteError>,
    ) -> Result<Arc<Object>, WriteError> {
        let disk = self.inner.disk.as_ref();
        if let Some(reason) = disk.and_then(Disk::refusal) {
            return Err(WriteError::Disk(reason));
        }
        if !self.inner.fuse.holds() {
            return Err(WriteError::Disk("a fault was asked for".into()));
        }
        let object = {
            let mut state = self.inner.state.write();
            let change = apply(&mut state)?;
            let object = change.object.clone();
            // Under the lock, so that the disk sees writes in the order of their revisions.
            if let Some(disk) = disk {
                disk.submit(change);
            }
            object
        };
        self.inner.signals.written(kind, disk.is_none());
        Ok(object)
    }

    /// A fault on purpose: after so many more writes all are refused, as by a disk that fails; `None` heals.
    pub fn fail_after(&self, writes: Option<u64>) {
        *self.inner.fuse.0.lock() = writes;
    }

    /// Why writes are refused at the moment; none when they are taken.
    pub fn refusal(&self) -> Option<String> {
        self.inner.disk.as_ref().and_then(Disk::refusal)
    }

    /// Waits until everything up to `revision` is durable.
    pub async fn durable(&self, revision: Revision) -> Result<(), StoreError> {
        match &self.inner.disk {
            Some(disk) => disk.durable(revision).await,
            None => Ok(()),
        }
    }

    /// Follows the changes of a kind after `after`.
    pub fn watch(&self, kind: Kind, after: Revision, visibility: Visibility) -> Watcher {
        Watcher::new(self.clone(), kind, after, visibility)
    }

    /// Drops watch history up to `revision`, as compaction does; older watchers get [`Expired`].
    pub fn compact(&self, revision: Revision) {
        self.inner.state.write().compact(revision);
    }

    /// Waits for the disk thread to have written everything, then ends it.
    pub fn close(&self) {
        if let Some(disk) = &self.inner.disk {
            disk.close();
        }
    }

    fn visible(&self, visibility: Visibility) -> Revision {
        match (&self.inner.disk, visibility) {
            (Some(disk), Visibility::Durable) => disk.state().durable,
            _ => Revision(u64::MAX),
        }
    }
}
