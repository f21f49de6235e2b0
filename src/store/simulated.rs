//! A simulated disk (FAULT-3): synced writes survive the store, unsynced ones may be lost.
//!
//! It replaces the disk thread and the database: a task commits in groups as the thread does, a sync takes virtual
//! time, and [`SimulatedDisk::crash`] can end the store during a sync. The database then has all of a group or nothing
//! of it, because the real one drops the torn end of its journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use tokio::sync::{Notify, mpsc, watch};

use super::database::{Records, decode, record_key};
use super::disk::{Disk, DiskRequest, DiskState, gather};
use super::faults::Faults;
use super::state::State;
use super::watch::Signals;
use super::{Change, ChangeKind, Inner, Store, StoreError};
use base::mistakes::Mistake;
use base::random;
use object::Revision;

/// The longest sync of a healthy disk.
const SLOWEST_SYNC: Duration = Duration::from_millis(20);
/// The number of revisions that the deliberate mistake `ReuseRevision` goes back when a disk is opened.
const REVISIONS_REUSED: u64 = 5;

/// The disk of a simulated machine; cheap to clone.
#[derive(Clone, Default)]
pub struct SimulatedDisk(Arc<SharedDisk>);

#[derive(Default)]
struct SharedDisk {
    medium: Mutex<SimulatedState>,
    changed: Notify,
}

#[derive(Default)]
struct SimulatedState {
    records: BTreeMap<String, Vec<u8>>,
    revision: Revision,
    /// The group being synced.
    in_flight: Vec<Record>,
    /// The previous values of the records in the last synced group.
    undo: Vec<Record>,
    stalled: bool,
    /// The number of the store that may write to this disk; stores with lower numbers have crashed.
    generation: u64,
}

/// A record to write: its revision, key and value; `None` removes the record.
type Record = (Revision, String, Option<Vec<u8>>);

impl SimulatedState {
    /// Returns all records as they are now.
    fn records(&self) -> Records {
        let records: Vec<_> =
            self.records.iter().map(|(key, value)| Ok((key.clone().into_bytes(), value.clone()))).collect();
        Records(Box::new(records.into_iter()))
    }

    fn write(&mut self, records: Vec<Record>) {
        self.undo.clear();
        for (revision, key, value) in records {
            let before = match value {
                Some(value) => self.records.insert(key.clone(), value),
                None => self.records.remove(&key),
            };
            self.undo.push((self.revision, key, before));
            self.revision = revision;
        }
    }
}

impl SimulatedDisk {
    /// Creates an empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a store on the disk's contents. Must be called within a runtime, in which the writing task runs.
    pub fn open(&self) -> Result<Store, StoreError> {
        let mut medium = self.0.medium.lock();
        let damaged = |reason: String| StoreError::Damaged(reason);
        let mut objects = Vec::with_capacity(medium.records.len());
        for (key, value) in &medium.records {
            objects.push((decode(key.as_bytes(), value).map_err(damaged)?, value.len()));
        }
        let mut revision = medium.revision;
        if Mistake::ReuseRevision.is_enabled() {
            revision = Revision(revision.0.saturating_sub(REVISIONS_REUSED));
        }
        medium.generation += 1;
        let (signals, faults) = (Signals::default(), Faults::default());
        let (queue, orders) = mpsc::unbounded_channel();
        let (publish, state) = watch::channel(DiskState { durable: revision, ..DiskState::default() });
        let writer = Writer {
            disk: self.0.clone(),
            generation: medium.generation,
            orders,
            publish,
            signals: signals.clone(),
        };
        base::task::start(writer.run());
        let disk = Some(Disk::simulated(queue, state, faults.disk().clone()));
        let state = parking_lot::RwLock::new(State::restore(revision, objects));
        Ok(Store { inner: Arc::new(Inner { state, signals, disk, faults }) })
    }

    /// Simulates a power failure: unsynced writes are lost, and the open store can no longer write.
    /// `keeps_what_is_under_way` says whether the group being synced has reached the disk, although it was not
    /// acknowledged.
    pub fn crash(&self, keeps_what_is_under_way: bool) {
        let mut medium = self.0.medium.lock();
        medium.generation += 1;
        medium.stalled = false;
        let in_flight = std::mem::take(&mut medium.in_flight);
        if keeps_what_is_under_way {
            medium.write(in_flight);
        }
        if Mistake::LoseSyncedWrite.is_enabled() {
            for (revision, key, before) in std::mem::take(&mut medium.undo).into_iter().rev() {
                match before {
                    Some(before) => medium.records.insert(key, before),
                    None => medium.records.remove(&key),
                };
                medium.revision = revision;
            }
        }
        drop(medium);
        self.0.changed.notify_waiters();
    }

    /// Stalls all syncs, or lets them finish.
    pub fn stall(&self, stalled: bool) {
        self.0.medium.lock().stalled = stalled;
        self.0.changed.notify_waiters();
    }
}

/// The task in place of the disk thread.
struct Writer {
    disk: Arc<SharedDisk>,
    generation: u64,
    orders: mpsc::UnboundedReceiver<DiskRequest>,
    publish: watch::Sender<DiskState>,
    signals: Signals,
}

impl Writer {
    async fn run(mut self) {
        let mut next = None;
        loop {
            let order = match next.take() {
                Some(order) => Some(order),
                None => self.orders.recv().await,
            };
            let group = match order {
                None => return,
                Some(DiskRequest::Read(answer)) => {
                    drop(answer.send(self.disk.medium.lock().records()));
                    continue;
                }
                Some(DiskRequest::Write(first)) => {
                    let (group, then) = gather(first, || self.orders.try_recv().ok());
                    next = then;
                    group
                }
            };
            if Mistake::AcknowledgeBeforeSync.is_enabled() {
                self.acknowledge(&group);
            }
            if !self.sync(&group).await {
                return;
            }
            self.acknowledge(&group);
        }
    }

    /// Syncs a group; returns false if the machine has crashed meanwhile.
    async fn sync(&self, group: &[Change]) -> bool {
        {
            let mut medium = self.disk.medium.lock();
            if medium.generation != self.generation {
                return false;
            }
            medium.in_flight = group.iter().map(record).collect();
        }
        let slowest = u64::try_from(SLOWEST_SYNC.as_micros()).unwrap_or(u64::MAX);
        tokio::time::sleep(Duration::from_micros(random::rng().random_range(200..=slowest))).await;
        loop {
            let changed = self.disk.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut medium = self.disk.medium.lock();
                if medium.generation != self.generation {
                    return false;
                }
                if !medium.stalled {
                    let records = std::mem::take(&mut medium.in_flight);
                    medium.write(records);
                    return true;
                }
            }
            changed.await;
        }
    }

    fn acknowledge(&self, group: &[Change]) {
        let Some(last) = group.last().map(|change| change.revision) else { return };
        for change in group {
            change.object.release_json();
        }
        self.publish.send_modify(|state| state.durable = last);
        self.signals.mark_group_durable(group);
    }
}

fn record(change: &Change) -> Record {
    let key = record_key(change.object.kind(), &change.object.key());
    let value = (change.kind != ChangeKind::Deleted).then(|| {
        let mut text = Vec::new();
        change.object.write_json(&mut text);
        text
    });
    (change.revision, key, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rewrite;
    use crate::disk::GROUP;
    use crate::test_objects::config_map;
    use object::{Key, Kind};

    /// FAULT-3, SAFE-2: acknowledged writes survive a crash; of the rest a whole group or nothing does.
    #[tokio::test(start_paused = true)]
    async fn a_crash_takes_what_was_not_synced_fault_3() {
        for keeps in [false, true] {
            let disk = SimulatedDisk::new();
            let store = disk.open().unwrap();
            let retained = store.create(config_map("kept")).unwrap();
            store.durable(retained.revision()).await.unwrap();
            disk.stall(true);
            let first = store.create(config_map("under-way")).unwrap();
            let waited = tokio::time::timeout(Duration::from_mins(1), store.durable(first.revision())).await;
            assert!(waited.is_err(), "a disk that stalls acknowledges nothing");
            store.create(config_map("queued")).unwrap();
            disk.crash(keeps);
            store.create(config_map("after")).unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;

            let again = disk.open().unwrap();
            let there = |name: &str| again.get(Kind::ConfigMap, &Key::new("", name)).is_some();
            assert!(there("kept"));
            assert_eq!(there("under-way"), keeps);
            assert!(!there("queued") && !there("after"));
            assert_eq!(again.revision(), Revision(if keeps { 2 } else { 1 }));
            assert!(store.durable(Revision(99)).await.is_err(), "the store that crashed says so");
        }
    }

    /// SAFE-8: writes made together survive a crash together or not at all.
    #[tokio::test(start_paused = true)]
    async fn a_crash_never_parts_what_was_written_together_safe_8() {
        for keeps in [false, true] {
            let disk = SimulatedDisk::new();
            let store = disk.open().unwrap();
            for name in ["kept", "gone"] {
                store.create(config_map(name)).unwrap();
            }
            store.durable(Revision(2)).await.unwrap();
            disk.stall(true);
            let changes = store
                .rewrite(|now| {
                    assert_eq!((now.revision, now.objects.len()), (Revision(2), 2));
                    let made = (0..2 * GROUP).map(|n| config_map(&n.to_string()));
                    let mut writes: Vec<Rewrite> = made.map(|map| Rewrite::Set(Box::new(map))).collect();
                    writes.push(Rewrite::Set(Box::new(config_map("kept"))));
                    let remove = |name| Rewrite::Remove(Kind::ConfigMap, Key::new("", name));
                    writes.extend([remove("gone"), remove("never-was")]);
                    writes
                })
                .unwrap();
            assert_eq!(changes.len(), 2 * GROUP + 2);
            let kinds: Vec<ChangeKind> = changes[2 * GROUP..].iter().map(|change| change.kind).collect();
            assert_eq!(kinds, [ChangeKind::Modified, ChangeKind::Deleted]);
            tokio::time::sleep(Duration::from_secs(1)).await;
            disk.crash(keeps);
            let again = disk.open().unwrap();
            let objects = if keeps { 2 * GROUP + 1 } else { 2 };
            let revision = if keeps { 2 * GROUP + 4 } else { 2 };
            assert_eq!(
                (again.count(Kind::ConfigMap), again.revision()),
                (objects, Revision(revision as u64))
            );
        }
    }

    /// FAULT-1: held watchers see nothing new, and then everything.
    #[tokio::test(start_paused = true)]
    async fn a_view_that_is_held_back_catches_up_fault_1() {
        let store = SimulatedDisk::new().open().unwrap();
        let mut watcher = store.watch(Kind::ConfigMap, Revision(0), crate::Visibility::Applied);
        store.create(config_map("a")).unwrap();
        store.hold_views(Some(Kind::ConfigMap));
        store.create(config_map("b")).unwrap();
        assert_eq!(watcher.next().await.unwrap().len(), 1);
        let waiting = tokio::spawn(async move { watcher.next().await.map(|changes| changes.len()) });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        store.hold_views(None);
        assert_eq!(waiting.await.unwrap().unwrap(), 1);
    }
}
