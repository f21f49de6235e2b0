//! Durability: one thread that commits writes in groups to an embedded database.
//!
//! The thread takes everything that has queued up while it was syncing and makes it durable with one
//! fsync. When the disk refuses (full, read-only, gone), new writes are refused before anything is changed, and
//! those that are under way get the room held back for them ([`Reserve`]). When not even that helps, their writers
//! are told that the outcome is not known, and the same group is tried again until the disk takes it.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::reserve::Reserve;
use super::state::State;
use super::watch::Signals;
use super::{Change, ChangeKind, StoreError};
use crate::object::{Key, Kind, Object, Revision};

/// Writes made durable together at most.
const GROUP: usize = 4096;
/// How long to wait before a group that the disk refused is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Writes the database keeps in memory before it sorts them into a file: little, since everything that is
/// read is in memory already, and not too little, since each file costs the writers a pause.
const MEMTABLE: u64 = 16 * 1024 * 1024;
/// What the database caches of its files: they are read at the start only.
const CACHE: u64 = 1024 * 1024;
/// Where the revision of the last durable write is kept.
const REVISION_KEY: &str = "revision";

/// An open database.
pub(super) struct Opened {
    database: Database,
    objects: Keyspace,
    meta: Keyspace,
}

/// How far the disk is.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskState {
    /// Everything up to here is durable.
    pub(super) durable: Revision,
    /// Why no write is accepted now.
    pub(super) refusing: Option<String>,
    /// Writes are under way that the disk does not take: nobody knows what becomes of them.
    pub(super) stuck: bool,
}

/// The disk thread's handle.
pub(super) struct Disk {
    // None once closed.
    queue: Mutex<Option<mpsc::Sender<Change>>>,
    state: watch::Receiver<DiskState>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

fn failed(error: &fjall::Error) -> StoreError {
    StoreError::Disk(told(error))
}

/// The operating system's own words where it is the one that refuses.
fn told(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

fn open_database(directory: &Path) -> Result<Opened, StoreError> {
    let database = Database::builder(directory).cache_size(CACHE).open().map_err(|e| failed(&e))?;
    let keyspace = |name| {
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE);
        database.keyspace(name, options).map_err(|e| failed(&e))
    };
    let (objects, meta) = (keyspace("objects")?, keyspace("meta")?);
    Ok(Opened { database, objects, meta })
}

/// Opens the database in `directory` and reads the state it holds.
pub(super) fn open(directory: &Path) -> Result<(Opened, State), StoreError> {
    let opened = open_database(directory).or_else(|error| {
        // On a full disk it may be the room held back that is missing.
        if Reserve::beside(directory).give_up() { open_database(directory) } else { Err(error) }
    })?;
    let mut revision = match opened.meta.get(REVISION_KEY).map_err(|e| failed(&e))? {
        None => Revision(0),
        Some(bytes) => {
            let bytes: [u8; 8] = bytes.as_ref().try_into().map_err(|_| StoreError::Unreadable {
                key: REVISION_KEY.into(),
                reason: format!("{} bytes where 8 are expected", bytes.len()),
            })?;
            Revision(u64::from_be_bytes(bytes))
        }
    };
    let mut objects = Vec::new();
    for record in opened.objects.iter() {
        let (key, value) = record.into_inner().map_err(|e| failed(&e))?;
        let object = decode(&value).map_err(|reason| StoreError::Unreadable {
            key: String::from_utf8_lossy(&key).into_owned(),
            reason,
        })?;
        revision = revision.max(object.revision());
        objects.push((object, value.len()));
    }
    Ok((opened, State::restore(revision, objects)))
}

fn decode(value: &[u8]) -> Result<Object, String> {
    let value = serde_json::from_slice(value).map_err(|e| e.to_string())?;
    Object::from_any_value(value).map_err(|e| e.to_string())
}

/// `pods.v1\0namespace\0name`: NUL sorts below everything that names may hold.
fn record_key(kind: Kind, key: &Key) -> String {
    let info = kind.info();
    format!("{}.{}\0{}\0{}", info.qualified_plural(), info.version, key.namespace, key.name)
}

impl Disk {
    /// Starts the thread; everything up to `durable` is on disk already.
    pub(super) fn start(opened: Opened, directory: &Path, durable: Revision, signals: Signals) -> Self {
        let (queue, writes) = mpsc::channel();
        let (publish, state) = watch::channel(DiskState { durable, ..DiskState::default() });
        let directory = directory.to_path_buf();
        let thread = std::thread::Builder::new()
            .name("podium-disk".into())
            .spawn(move || {
                let reserve = Reserve::beside(&directory);
                Writer { opened: Some(opened), directory, writes, publish, signals, reserve }.run();
            })
            .expect("a thread can be started while the store opens");
        Self { queue: Mutex::new(Some(queue)), state, thread: Mutex::new(Some(thread)) }
    }

    /// Hands over the next write. Called under the state's lock, in the order of revisions.
    pub(super) fn submit(&self, change: Change) {
        if let Some(queue) = self.queue.lock().as_ref() {
            // Fails only when the thread panicked; then nothing becomes durable and `durable` says so.
            let _ = queue.send(change);
        }
    }

    /// Why writes are refused now.
    pub(super) fn refusal(&self) -> Option<String> {
        self.state.borrow().refusing.clone()
    }

    pub(super) fn state(&self) -> DiskState {
        self.state.borrow().clone()
    }

    /// Waits until everything up to `revision` is durable, or nobody can say when.
    pub(super) async fn durable(&self, revision: Revision) -> Result<(), StoreError> {
        let mut state = self.state.clone();
        let reached = state.wait_for(|s| s.durable >= revision || s.stuck).await;
        match reached {
            Ok(s) if s.durable >= revision => Ok(()),
            Ok(s) => Err(StoreError::Undecided(s.refusing.clone().unwrap_or_default())),
            Err(_) => Err(StoreError::Disk("the disk thread has ended".into())),
        }
    }

    /// Writes what is queued and ends the thread.
    pub(super) fn close(&self) {
        self.queue.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close();
    }
}

/// The disk thread's own.
struct Writer {
    /// None after a failure: the database has to be opened anew.
    opened: Option<Opened>,
    directory: PathBuf,
    writes: mpsc::Receiver<Change>,
    publish: watch::Sender<DiskState>,
    signals: Signals,
    reserve: Reserve,
}

impl Writer {
    /// Until the store is closed.
    fn run(mut self) {
        while let Some(first) = self.next() {
            let mut group = vec![first];
            while group.len() < GROUP
                && let Ok(next) = self.writes.try_recv()
            {
                group.push(next);
            }
            while let Err(error) = self.try_commit(&group) {
                // First, so that no more come while these are given their room.
                self.refuse(error);
                if self.reserve.give_up() {
                    continue;
                }
                self.publish.send_if_modified(|state| !std::mem::replace(&mut state.stuck, true));
                match self.writes.recv_timeout(RETRY) {
                    // Applied before the refusal was known: it belongs to the same group.
                    Ok(change) => group.push(change),
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    // A closing store does not wait for a disk that may never come back.
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
            }
            self.committed(&group);
        }
    }

    /// The next write; meanwhile a disk that was full is looked after.
    fn next(&mut self) -> Option<Change> {
        while self.publish.borrow().refusing.is_some() {
            match self.writes.recv_timeout(RETRY) {
                Ok(change) => return Some(change),
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(mpsc::RecvTimeoutError::Timeout) if self.reserve.take() => {
                    tracing::info!("the data directory has room again: writes go on");
                    self.publish.send_modify(|state| state.refusing = None);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
        self.writes.recv().ok()
    }

    fn refuse(&self, error: String) {
        if self.publish.borrow().refusing.as_deref() != Some(&error) {
            tracing::error!("the data directory refuses writes, trying again: {error}");
            self.publish.send_modify(|state| state.refusing = Some(error));
        }
    }

    fn committed(&self, group: &[Change]) {
        let Some(last) = group.last().map(|change| change.revision) else { return };
        self.publish.send_modify(|state| (state.durable, state.stuck) = (last, false));
        let mut kinds: Vec<Kind> = group.iter().map(|change| change.object.kind()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            self.signals.made_durable(kind);
        }
    }

    /// Commits; a database that panics has refused, and is opened anew for the next try.
    fn try_commit(&mut self, group: &[Change]) -> Result<(), String> {
        let committed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.commit(group)));
        committed.unwrap_or_else(|panic| Err(crate::base::task::panic_text(panic.as_ref())))
    }

    /// Writes a group and syncs it; the same group again after a failure is harmless.
    fn commit(&mut self, group: &[Change]) -> Result<(), String> {
        // After a failed sync the database refuses all further writes: open it anew.
        let current = match self.opened.take() {
            Some(current) => current,
            None => open_database(&self.directory).map_err(|e| e.to_string())?,
        };
        let mut batch = current.database.batch().durability(Some(PersistMode::SyncData));
        let mut text = Vec::new();
        for change in group {
            let key = record_key(change.object.kind(), &change.object.key());
            if change.kind == ChangeKind::Deleted {
                batch.remove(&current.objects, key);
            } else {
                text.clear();
                change.object.write_json(&mut text);
                batch.insert(&current.objects, key, text.as_slice());
            }
        }
        if let Some(last) = group.last() {
            batch.insert(&current.meta, REVISION_KEY, last.revision.0.to_be_bytes());
        }
        batch.commit().map_err(|e| told(&e))?;
        self.opened = Some(current);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use crate::object::{Key, Kind, Object, Revision};
    use crate::store::{Store, Visibility};

    fn config_map(name: &str) -> Object {
        let mut object = Object::new(ConfigMap::default());
        object.meta_mut().name = Some(name.into());
        object
    }

    #[tokio::test]
    async fn a_reopened_store_holds_every_durable_write_safe_2() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let kept = store.create(config_map("kept")).unwrap();
        let gone = store.create(config_map("gone")).unwrap();
        let removed = store.remove(Kind::ConfigMap, &gone.key(), gone.revision()).unwrap();
        store.durable(removed.revision()).await.unwrap();
        drop(store);

        let store = Store::open(directory.path()).unwrap();
        assert_eq!(store.revision(), removed.revision(), "revisions go on where they were");
        assert_eq!(store.get(Kind::ConfigMap, &kept.key()).as_deref(), Some(&*kept));
        assert!(store.get(Kind::ConfigMap, &gone.key()).is_none());
        let mut watcher = store.watch(Kind::ConfigMap, Revision(1), Visibility::Applied);
        assert!(watcher.take().is_err(), "history from before the restart is gone");
    }

    #[tokio::test]
    async fn a_durable_watcher_sees_every_write_after_its_sync() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let mut watcher = store.watch(Kind::ConfigMap, Revision(0), Visibility::Durable);
        for n in 0..100 {
            store.create(config_map(&n.to_string())).unwrap();
        }
        let mut seen = 0;
        while seen < 100 {
            let changes = watcher.next().await.unwrap();
            let last = changes.last().unwrap().revision;
            assert!(store.inner.disk.as_ref().unwrap().state().durable >= last);
            seen += changes.len();
        }
        assert!(store.get(Kind::ConfigMap, &Key::new("", "99")).is_some());
    }
}
