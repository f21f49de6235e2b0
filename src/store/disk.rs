//! Durability: one thread that commits writes in groups to an embedded database.
//!
//! The thread takes everything that has queued up while it was syncing and makes it durable with one
//! fsync. When the disk refuses (full, read-only, gone), nothing queued is dropped: new writes are refused,
//! waiting writers are told, and the same group is tried again until the disk takes it.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::Mutex;
use tokio::sync::watch;

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
    /// Why the disk refuses writes now.
    pub(super) failure: Option<String>,
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
    let opened = open_database(directory)?;
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
        objects.push(object);
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
        let (publish, state) = watch::channel(DiskState { durable, failure: None });
        let directory = directory.to_path_buf();
        let thread = std::thread::Builder::new()
            .name("podium-disk".into())
            .spawn(move || run(opened, &directory, &writes, &publish, &signals))
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
    pub(super) fn failure(&self) -> Option<String> {
        self.state.borrow().failure.clone()
    }

    pub(super) fn state(&self) -> DiskState {
        self.state.borrow().clone()
    }

    /// Waits until everything up to `revision` is durable, or the disk refuses.
    pub(super) async fn durable(&self, revision: Revision) -> Result<(), StoreError> {
        let mut state = self.state.clone();
        let reached = state.wait_for(|s| s.durable >= revision || s.failure.is_some()).await;
        match reached {
            Ok(s) if s.durable >= revision => Ok(()),
            Ok(s) => Err(StoreError::Disk(s.failure.clone().unwrap_or_default())),
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

fn run(
    opened: Opened,
    directory: &Path,
    writes: &mpsc::Receiver<Change>,
    publish: &watch::Sender<DiskState>,
    signals: &Signals,
) {
    let mut opened = Some(opened);
    while let Ok(first) = writes.recv() {
        let mut group = vec![first];
        while group.len() < GROUP
            && let Ok(next) = writes.try_recv()
        {
            group.push(next);
        }
        while let Err(error) = commit(&mut opened, directory, &group) {
            let told = publish.borrow().failure.as_deref() == Some(&error);
            if !told {
                tracing::error!("the data directory refuses writes, trying again: {error}");
                publish.send_modify(|state| state.failure = Some(error));
            }
            match writes.recv_timeout(RETRY) {
                // Applied before the refusal was known: it belongs to the same group.
                Ok(change) => group.push(change),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                // A closing store does not wait for a disk that may never come back.
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
        let Some(last) = group.last().map(|change| change.revision) else { continue };
        publish.send_modify(|state| *state = DiskState { durable: last, failure: None });
        let mut kinds: Vec<Kind> = group.iter().map(|change| change.object.kind()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            signals.made_durable(kind);
        }
    }
}

/// Writes a group and syncs it; the same group again after a failure is harmless.
fn commit(opened: &mut Option<Opened>, directory: &Path, group: &[Change]) -> Result<(), String> {
    // After a failed sync the database refuses all further writes: open it anew.
    let current = match opened.take() {
        Some(current) => current,
        None => open_database(directory).map_err(|e| e.to_string())?,
    };
    let mut batch = current.database.batch().durability(Some(PersistMode::SyncData));
    for change in group {
        let key = record_key(change.object.kind(), &change.object.key());
        match change.kind {
            ChangeKind::Deleted => batch.remove(&current.objects, key),
            _ => batch.insert(&current.objects, key, change.object.encode().as_ref()),
        }
    }
    if let Some(last) = group.last() {
        batch.insert(&current.meta, REVISION_KEY, last.revision.0.to_be_bytes());
    }
    batch.commit().map_err(|e| told(&e))?;
    *opened = Some(current);
    Ok(())
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
