//! Durability: one thread that commits writes in groups to an embedded database.
//!
//! The thread takes all writes that have queued up during a sync and makes them durable with one fsync. When the disk
//! refuses (full, read-only, removed), new writes are refused before they change anything, and the writes under way
//! get the reserved space ([`ReservedSpace`]). If that does not suffice, their writers receive an error that leaves the
//! outcome open, and the thread retries the same group until the disk takes it. A full disk still accepts deletions
//! while the space reserved for them lasts, because users free space by deleting.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use super::checkpoint::{Checkpoint, CheckpointFile};
use super::database::{Database, DatabaseError, OpenError, Records};
use super::faults::{DiskFault, DiskFaults};
use super::open::OpenedState;
use super::reserved_space::ReservedSpace;
use super::state::State;
use super::watch::Signals;
use super::{Change, StoreError};
use object::Revision;

/// Maximum number of writes in a group; a batch whose writes must not be separated may exceed it.
pub(super) const GROUP: usize = 4096;
/// The pause before a group the disk refused is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// The progress of the disk.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskState {
    /// Everything up to this revision is durable.
    pub(super) durable: Revision,
    /// The reason why writes are refused now.
    pub(super) refusing: Option<String>,
    /// The disk is full but has reserved space for deletions.
    pub(super) takes_deletions: bool,
    /// The disk refuses writes that were already applied, so their outcome is open.
    pub(super) stuck: bool,
}

/// Writes that become durable together or not at all: one, or all of [`Store::rewrite`](super::Store::rewrite).
pub(super) type WriteBatch = Vec<Change>;

/// A request to the disk thread.
pub(super) enum DiskRequest {
    /// Make these writes durable.
    Write(WriteBatch),
    /// Send all records once every earlier write is durable.
    Read(oneshot::Sender<Records>),
}

/// The channel to the thread or task that serves requests.
enum Queue {
    /// The disk thread.
    Thread(mpsc::Sender<DiskRequest>),
    /// The task of a simulated disk.
    Simulated(UnboundedSender<DiskRequest>),
}

/// The disk thread's handle.
pub(super) struct Disk {
    // `None` once closed.
    queue: Mutex<Option<Queue>>,
    state: watch::Receiver<DiskState>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    faults: DiskFaults,
}

impl Disk {
    /// Starts the thread for an opened database; returns the state it holds.
    pub(super) fn start(
        open: OpenedState,
        directory: &Path,
        signals: Signals,
        faults: DiskFaults,
    ) -> (Self, State) {
        let (queue, orders) = mpsc::channel();
        let OpenedState { database, state: content, record, checkpoint } = open;
        let durable = checkpoint.revision;
        let (publish, state) = watch::channel(DiskState { durable, ..DiskState::default() });
        let directory = directory.to_path_buf();
        let writers = faults.clone();
        let thread = std::thread::Builder::new()
            .name("podium-disk".into())
            .spawn(move || {
                let deletions = ReservedSpace::for_deletions(&directory);
                let reserve = ReservedSpace::beside(&directory);
                let opened = Some(database);
                Writer {
                    opened,
                    directory,
                    orders,
                    publish,
                    signals,
                    reserve,
                    deletions,
                    is_full: false,
                    record,
                    checkpoint,
                    faults: writers,
                }
                .run();
            })
            .expect("a thread can be started while the store opens");
        let queue = Mutex::new(Some(Queue::Thread(queue)));
        let disk = Self { queue, state, thread: Mutex::new(Some(thread)), faults };
        (disk, content)
    }

    /// Creates a disk served by a task, which publishes its progress through `state`.
    pub(super) fn simulated(
        queue: UnboundedSender<DiskRequest>,
        state: watch::Receiver<DiskState>,
        faults: DiskFaults,
    ) -> Self {
        let queue = Mutex::new(Some(Queue::Simulated(queue)));
        Self { queue, state, thread: Mutex::default(), faults }
    }

    /// Hands over the next writes. Callers hold the state's lock, so that writes arrive in the order of revisions.
    pub(super) fn submit(&self, together: WriteBatch) {
        self.order(DiskRequest::Write(together));
    }

    /// Requests all records, to be read once every write handed over is durable. Callers hold the state's lock, as
    /// for `submit`.
    pub(super) fn read(&self) -> oneshot::Receiver<Records> {
        let (answer, records) = oneshot::channel();
        self.order(DiskRequest::Read(answer));
        records
    }

    fn order(&self, order: DiskRequest) {
        // Sending fails only if the thread has panicked; then nothing more becomes durable, and `durable` returns an
        // error.
        match self.queue.lock().as_ref() {
            Some(Queue::Thread(queue)) => drop(queue.send(order)),
            Some(Queue::Simulated(queue)) => drop(queue.send(order)),
            None => {}
        }
    }

    /// Returns true if a task on the caller's thread serves this disk.
    pub(super) fn is_simulated(&self) -> bool {
        matches!(self.queue.lock().as_ref(), Some(Queue::Simulated(_)))
    }

    /// Returns the reason why writes are refused now.
    pub(super) fn refusal(&self) -> Option<String> {
        self.state.borrow().refusing.clone()
    }

    /// Returns the reason why deletions are refused now.
    pub(super) fn deletion_refusal(&self) -> Option<String> {
        let state = self.state.borrow();
        state.refusing.clone().filter(|_| state.stuck || !state.takes_deletions)
    }

    pub(super) fn state(&self) -> DiskState {
        self.state.borrow().clone()
    }

    /// Waits until everything up to `revision` is durable; fails as soon as the disk refuses applied writes, so that
    /// their outcome is open.
    pub(super) async fn durable(&self, revision: Revision) -> Result<(), StoreError> {
        let mut state = self.state.clone();
        let reached = state.wait_for(|s| s.durable >= revision || s.stuck).await;
        match reached {
            Ok(s) if s.durable >= revision => Ok(()),
            Ok(s) => Err(StoreError::Undecided(s.refusing.clone().unwrap_or_default())),
            Err(_) => Err(StoreError::Disk("the disk thread has ended".into())),
        }
    }

    /// Makes the queued writes durable and ends the thread. It waits for the disk; a deliberate fault is lifted first,
    /// because a disk that hangs on purpose would block it for ever.
    pub(super) fn close(&self) {
        self.faults.set(DiskFault::None);
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

/// The state of the disk thread.
struct Writer {
    /// `None` after a failure: the database must be reopened.
    opened: Option<Database>,
    directory: PathBuf,
    orders: mpsc::Receiver<DiskRequest>,
    publish: watch::Sender<DiskState>,
    signals: Signals,
    reserve: ReservedSpace,
    deletions: ReservedSpace,
    /// The last commit failed because the disk is full.
    is_full: bool,
    record: CheckpointFile,
    /// The checkpoint of the durable state.
    checkpoint: Checkpoint,
    faults: DiskFaults,
}

impl Writer {
    /// Runs until the store is closed.
    fn run(mut self) {
        let mut next = self.next();
        while let Some(order) = next.take() {
            match order {
                DiskRequest::Write(first) => {
                    let (group, then) = gather(first, || self.orders.try_recv().ok());
                    if !self.write(group) {
                        return;
                    }
                    next = then;
                }
                DiskRequest::Read(answer) => {
                    // While the database must be reopened, the request fails: `answer` is dropped.
                    if let Some(database) = &self.opened {
                        drop(answer.send(database.records()));
                    }
                }
            }
            next = next.or_else(|| self.next());
        }
    }

    /// Retries until a group is durable; returns false if the store is closed meanwhile.
    fn write(&mut self, mut group: WriteBatch) -> bool {
        while let Err(error) = self.try_commit(&group) {
            // Refuse new writes first, so that none takes the space released for this group.
            self.refuse(error);
            if self.reserve.release() || self.deletions.release() {
                continue;
            }
            self.publish.send_if_modified(|state| !std::mem::replace(&mut state.stuck, true));
            match self.orders.recv_timeout(RETRY) {
                // This batch was applied before the refusal was published, so it joins the refused group.
                Ok(DiskRequest::Write(more)) => group.extend(more),
                // While the disk refuses writes, requests to read it are dropped.
                Ok(DiskRequest::Read(_)) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                // A closing store does not wait for a disk that may never come back.
                Err(mpsc::RecvTimeoutError::Disconnected) => return false,
            }
        }
        self.committed(&group);
        if self.publish.borrow().refusing.is_some() {
            self.hold_for_deletions();
        }
        true
    }

    /// Reserves space for deletions on a disk that refuses writes; returns false if the disk has no space.
    fn hold_for_deletions(&mut self) -> bool {
        let is_held = self.deletions.take();
        let takes = is_held && self.is_full;
        self.publish.send_if_modified(|state| std::mem::replace(&mut state.takes_deletions, takes) != takes);
        is_held
    }

    /// Waits for the next request; meanwhile checks whether a full disk has space again.
    fn next(&mut self) -> Option<DiskRequest> {
        while self.publish.borrow().refusing.is_some() {
            match self.orders.recv_timeout(RETRY) {
                Ok(order) => return Some(order),
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                // Reserve the space for deletions first: otherwise the reserve for writes would take it.
                Err(mpsc::RecvTimeoutError::Timeout)
                    if self.hold_for_deletions() && self.deletions.is_whole() && self.reserve.take() =>
                {
                    tracing::info!("the data directory has free space again; writes resume");
                    self.publish.send_modify(|state| {
                        (state.refusing, state.takes_deletions) = (None, false);
                    });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
        self.orders.recv().ok()
    }

    fn refuse(&mut self, refused: DatabaseError) {
        let DatabaseError { reason, is_full } = refused;
        self.is_full = is_full;
        if self.publish.borrow().refusing.as_deref() == Some(&reason) {
            return;
        }
        if is_full {
            tracing::error!(
                "the data directory is full ({reason}); reads and deletions continue, other writes are refused until \
                 space is free"
            );
        } else {
            tracing::error!("cannot write the data directory; retrying: {reason}");
        }
        // Publish the refusal and this flag together: a deletion that is accepted during the retries joins the
        // refused group.
        let takes_deletions = is_full && self.deletions.is_reserved();
        self.publish
            .send_modify(|state| (state.refusing, state.takes_deletions) = (Some(reason), takes_deletions));
    }

    fn committed(&mut self, group: &[Change]) {
        let Some(last) = group.last().map(|change| change.revision) else { return };
        for change in group {
            self.checkpoint.take(change);
            change.object.release_json();
        }
        self.record.write(&self.checkpoint);
        self.publish.send_modify(|state| (state.durable, state.stuck) = (last, false));
        self.signals.mark_group_durable(group);
    }

    /// Commits a group. A panic of the database counts as a refusal; the next attempt reopens the database.
    fn try_commit(&mut self, group: &[Change]) -> Result<(), DatabaseError> {
        // Reserved space would not help against a deliberate fault.
        self.faults.pass().map_err(DatabaseError::other)?;
        let committed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.commit(group)));
        committed.unwrap_or_else(|panic| Err(DatabaseError::other(base::panics::panic_text(panic.as_ref()))))
    }

    fn commit(&mut self, group: &[Change]) -> Result<(), DatabaseError> {
        if self.faults.forgets() {
            return Ok(());
        }
        // After a failed sync the database refuses all further writes: reopen it.
        let current = match self.opened.take() {
            Some(current) => current,
            None => Database::open(&self.directory).map_err(OpenError::refused)?,
        };
        current.commit(group)?;
        self.opened = Some(current);
        Ok(())
    }
}

/// Adds the queued writes to a group; returns the group and the first request that is not a write, if one follows.
pub(super) fn gather(
    mut group: WriteBatch,
    mut next: impl FnMut() -> Option<DiskRequest>,
) -> (WriteBatch, Option<DiskRequest>) {
    while group.len() < GROUP {
        match next() {
            Some(DiskRequest::Write(more)) => group.extend(more),
            other => return (group, other),
        }
    }
    (group, None)
}

#[cfg(test)]
mod tests {
    use crate::test_objects::config_map;
    use crate::{Store, Visibility};
    use object::{Key, Kind, Revision};

    #[tokio::test]
    async fn a_reopened_store_holds_every_durable_write_safe_2() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let retained = store.create(config_map("kept")).unwrap();
        let deleted = store.create(config_map("gone")).unwrap();
        let removed = store.remove(Kind::ConfigMap, &deleted.key(), deleted.revision()).unwrap();
        store.durable(removed.revision()).await.unwrap();
        drop(store);

        let store = Store::open(directory.path()).unwrap();
        assert_eq!(store.revision(), removed.revision(), "revisions go on where they were");
        assert_eq!(store.get(Kind::ConfigMap, &retained.key()).as_deref(), Some(&*retained));
        assert!(store.get(Kind::ConfigMap, &deleted.key()).is_none());
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
