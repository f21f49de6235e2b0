//! Watches: a cursor over the ring of changes, woken by writes.
//!
//! A watcher has no queue of its own, so a slow one costs nothing and delays no other: it falls behind until its next
//! change has left the ring, and then gets [`WatchExpired`].

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tokio::sync::watch;

use super::Store;
use base::mistakes::Mistake;
use object::{Kind, Object, Revision};

/// The most changes returned at once.
const BATCH: usize = 512;

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object has a new version.
    Modified,
    /// The object was deleted; the change carries its last version.
    Deleted,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision: the position in the order of all writes.
    pub revision: Revision,
    /// The type of the change.
    pub kind: ChangeKind,
    /// The version written; for a deletion the last version, at the deletion's revision.
    pub object: Arc<Object>,
    /// The version before; `None` for a new object.
    pub previous: Option<Arc<Object>>,
    /// The result of [`Self::former`], shared by all copies of the change.
    former: Arc<OnceLock<Arc<Object>>>,
}

impl Change {
    /// Creates the change of an object at a revision.
    pub fn new(
        revision: Revision,
        kind: ChangeKind,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
    ) -> Self {
        Self { revision, kind, object, previous, former: Arc::default() }
    }

    /// Returns the version before, at the revision of the change, for watchers whose selection the object has left.
    pub fn former(&self) -> Option<Arc<Object>> {
        let previous = self.previous.as_ref()?;
        let former = self.former.get_or_init(|| {
            let mut former = Object::clone(previous);
            former.set_revision(self.revision);
            Arc::new(former)
        });
        Some(former.clone())
    }

    /// Replaces the version before by one of the same revision, such as one in another version of the API.
    pub fn set_previous(&mut self, previous: Arc<Object>) {
        if !self.previous.as_ref().is_some_and(|known| Arc::ptr_eq(known, &previous)) {
            self.previous = Some(previous);
            self.former = Arc::default();
        }
    }
}

/// The requested history has been dropped: list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct WatchExpired {
    /// The requested revision.
    pub(crate) requested: Revision,
    /// The oldest revision from which a watch can start.
    pub(crate) oldest: Revision,
}

impl WatchExpired {
    /// Returns the oldest revision from which a watch can start.
    pub fn oldest(&self) -> Revision {
        self.oldest
    }
}

/// The changes a watcher may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All applied changes: for control loops, which act through the store again.
    Applied,
    /// Only durable changes: for effects that leave the process.
    Durable,
}

/// Wakes watchers of a kind.
#[derive(Clone, Default)]
pub(super) struct Signals {
    applied: Signal,
    durable: Signal,
}

/// A sender for each watched kind, indexed by kind number.
#[derive(Clone, Default)]
struct Signal(Arc<RwLock<Vec<watch::Sender<()>>>>);

impl Signal {
    fn send(&self, kind: Kind) {
        if let Some(sender) = self.0.read().get(kind.index()) {
            sender.send_replace(());
        }
    }

    fn subscribe(&self, kind: Kind) -> watch::Receiver<()> {
        if let Some(sender) = self.0.read().get(kind.index()) {
            return sender.subscribe();
        }
        let mut senders = self.0.write();
        if senders.len() <= kind.index() {
            senders.resize_with(kind.index() + 1, || watch::Sender::new(()));
        }
        senders[kind.index()].subscribe()
    }
}

impl Signals {
    /// Reports an applied change of this kind; `and_durable` reports it as durable too, for a store without a disk.
    pub(super) fn written(&self, kind: Kind, and_durable: bool) {
        self.applied.send(kind);
        if and_durable {
            self.mark_durable(kind);
        }
    }

    /// Reports that changes of this kind became durable.
    fn mark_durable(&self, kind: Kind) {
        self.durable.send(kind);
    }

    /// Reports that these changes became durable.
    pub(super) fn mark_group_durable(&self, group: &[Change]) {
        let kinds: BTreeSet<Kind> = group.iter().map(|change| change.object.kind()).collect();
        for kind in kinds {
            self.mark_durable(kind);
        }
    }

    fn subscribe(&self, kind: Kind, visibility: Visibility) -> watch::Receiver<()> {
        match visibility {
            Visibility::Applied => self.applied.subscribe(kind),
            Visibility::Durable => self.durable.subscribe(kind),
        }
    }
}

/// A cursor over the changes of one kind.
pub struct Watcher {
    store: Store,
    kind: Kind,
    cursor: Revision,
    visibility: Visibility,
    woken: watch::Receiver<()>,
}

impl Watcher {
    pub(super) fn new(store: Store, kind: Kind, after: Revision, visibility: Visibility) -> Self {
        let woken = store.inner.signals.subscribe(kind, visibility);
        Self { store, kind, cursor: after, visibility, woken }
    }

    /// Returns the changes after the cursor, oldest first, a few hundred at most; empty if there are none.
    pub fn take(&mut self) -> Result<Vec<Change>, WatchExpired> {
        let until = self.store.visible(self.kind, self.visibility);
        let mut changes = self.store.inner.state.read().changes(self.kind, self.cursor, until, BATCH)?;
        if let Some(last) = changes.last() {
            self.cursor = last.revision;
        }
        if Mistake::DropWatchEvent.is_enabled() {
            changes.retain(|change| change.revision.0 % 97 != 0);
        }
        if Mistake::RepeatWatchEvent.is_enabled() {
            changes.extend(changes.last().filter(|last| last.revision.0 % 53 == 0).cloned());
        }
        Ok(changes)
    }

    /// Waits for changes and returns at least one. Safe to cancel.
    pub async fn next(&mut self) -> Result<Vec<Change>, WatchExpired> {
        loop {
            // Mark the signal as seen before looking for changes, so that a write from here on wakes the wait below.
            self.woken.borrow_and_update();
            let changes = self.take()?;
            if !changes.is_empty() {
                return Ok(changes);
            }
            if self.woken.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the revision of a bookmark: every change up to it has been seen.
    ///
    /// Checks the history first, so that a quiet kind's cursor follows the writes of other kinds and does not expire.
    /// `None` while unseen changes remain, or before the requested revision is reached.
    pub fn bookmark(&mut self) -> Option<Revision> {
        let state = self.store.inner.state.read();
        let until = self.store.visible(self.kind, self.visibility).min(state.revision());
        match state.changes(self.kind, self.cursor, until, 1) {
            Ok(changes) if changes.is_empty() && until >= self.cursor => {
                self.cursor = until;
                Some(if Mistake::BookmarkAhead.is_enabled() { until.next() } else { until })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;
    use crate::WriteError;
    use crate::ring::Bounds;
    use crate::state::State;
    use crate::test_objects::config_map;
    use object::Key;

    #[test]
    fn watchers_that_an_object_leaves_share_its_former_state_api_4() {
        let object = |revision: u64| {
            let mut object = config_map("a");
            object.meta_mut().resource_version = Some(revision.to_string());
            Arc::new(object)
        };
        let (before, after) = (object(1), object(2));
        let mut change = Change::new(Revision(2), ChangeKind::Modified, after, Some(before.clone()));
        let former = change.former().unwrap();
        assert_eq!((former.revision(), before.revision()), (Revision(2), Revision(1)));
        assert!(Arc::ptr_eq(&former, &change.clone().former().unwrap()));
        change.set_previous(before);
        assert!(Arc::ptr_eq(&former, &change.former().unwrap()));
    }

    #[derive(Clone, Debug)]
    enum HistoryOp {
        /// Create object n, of this size in bytes.
        Create(u8, usize),
        Replace(u8, usize),
        ReplaceStale(u8),
        Remove(u8),
        /// Watcher n reads the available changes.
        Read(usize),
        /// Watcher n starts over from a list.
        Relist(usize),
        Compact,
    }

    fn step() -> impl Strategy<Value = HistoryOp> {
        prop_oneof![
            3 => (0..4u8, 0..400usize).prop_map(|(n, bytes)| HistoryOp::Create(n, bytes)),
            4 => (0..4u8, 0..400usize).prop_map(|(n, bytes)| HistoryOp::Replace(n, bytes)),
            1 => (0..4u8).prop_map(HistoryOp::ReplaceStale),
            2 => (0..4u8).prop_map(HistoryOp::Remove),
            3 => (0..3usize).prop_map(HistoryOp::Read),
            1 => (0..3usize).prop_map(HistoryOp::Relist),
            1 => Just(HistoryOp::Compact),
        ]
    }

    /// A client that lists, then watches, with its view of the state.
    struct Client {
        watcher: Watcher,
        view: BTreeMap<String, Revision>,
        last: Revision,
    }

    impl Client {
        fn list(store: &Store) -> Self {
            let snapshot = store.list(Kind::ConfigMap, None);
            Self {
                watcher: store.watch(Kind::ConfigMap, snapshot.revision, Visibility::Applied),
                view: snapshot.objects.iter().map(|o| (o.name().to_string(), o.revision())).collect(),
                last: snapshot.revision,
            }
        }

        /// Applies the available changes; returns false if the history is gone.
        fn read(&mut self) -> bool {
            let Ok(changes) = self.watcher.take() else { return false };
            for change in changes {
                assert!(change.revision > self.last, "in order and never twice");
                self.last = change.revision;
                assert_eq!(change.object.revision(), change.revision);
                let name = change.object.name().to_string();
                let before = match change.kind {
                    ChangeKind::Deleted => self.view.remove(&name),
                    _ => self.view.insert(name, change.revision),
                };
                assert_eq!(before, change.previous.as_ref().map(|p| p.revision()), "no gap");
                assert_eq!(before.is_none(), change.kind == ChangeKind::Added);
            }
            true
        }
    }

    proptest! {
        /// API-4: any interleaving of writers and watchers sees one linear history without gap or
        /// duplicate.
        #[test]
        fn every_watcher_sees_the_one_history(steps in prop::collection::vec(step(), 1..200)) {
            // A short history, so that watchers fall out of it for either reason.
            let bounds = Bounds { changes: 12, bytes: 2000, ..Bounds::default() };
            let store = Store::in_memory(State::new(Revision(0), bounds));
            let filled = |n: u8, bytes: usize| {
                let mut object = config_map(&n.to_string());
                let data = [("filling".to_string(), "x".repeat(bytes))].into();
                object.get_mut::<ConfigMap>().expect("it is one").data = Some(data);
                object
            };
            let mut clients: Vec<Client> = (0..3).map(|_| Client::list(&store)).collect();
            let at = |n: u8| store.get(Kind::ConfigMap, &Key::new("", n.to_string())).map(|o| o.revision());
            for step in steps {
                match step {
                    HistoryOp::Create(n, bytes) => {
                        let expected = at(n).is_some();
                        prop_assert_eq!(store.create(filled(n, bytes)).is_err(), expected);
                    }
                    HistoryOp::Replace(n, bytes) => {
                        let current = at(n).unwrap_or_default();
                        let result = store.replace(filled(n, bytes), current);
                        prop_assert_eq!(result.is_ok(), current != Revision(0));
                    }
                    HistoryOp::ReplaceStale(n) => if let Some(current) = at(n) {
                        let result = store.replace(config_map(&n.to_string()), Revision(current.0 - 1));
                        prop_assert_eq!(result.unwrap_err(), WriteError::Conflict(current));
                    },
                    HistoryOp::Remove(n) => if let Some(current) = at(n) {
                        store.remove(Kind::ConfigMap, &Key::new("", n.to_string()), current).unwrap();
                    },
                    HistoryOp::Read(c) => if !clients[c].read() {
                        clients[c] = Client::list(&store);
                    },
                    HistoryOp::Relist(c) => clients[c] = Client::list(&store),
                    HistoryOp::Compact => store.compact(Revision(store.revision().0.saturating_sub(3))),
                }
                prop_assert!(store.inner.state.read().history_bytes(Kind::ConfigMap) <= bounds.bytes);
            }
            let stored: BTreeMap<String, Revision> = store.list(Kind::ConfigMap, None).objects
                .iter().map(|o| (o.name().to_string(), o.revision())).collect();
            for mut client in clients {
                if client.read() {
                    prop_assert_eq!(&client.view, &stored);
                }
            }
        }
    }

    #[tokio::test]
    async fn a_waiting_watcher_is_woken_and_concurrent_writers_share_one_history_api_4() {
        let store = Store::ephemeral();
        let mut watcher = store.watch(Kind::ConfigMap, Revision(0), Visibility::Durable);
        let writers: Vec<_> = (0..4)
            .map(|w| {
                let store = store.clone();
                std::thread::spawn(move || {
                    for n in 0..200 {
                        store.create(config_map(&format!("{w}-{n}"))).unwrap();
                    }
                })
            })
            .collect();
        let mut seen = Vec::new();
        while seen.len() < 800 {
            seen.extend(watcher.next().await.unwrap().into_iter().map(|c| c.revision.0));
        }
        assert_eq!(seen, (1..=800).collect::<Vec<u64>>());
        for writer in writers {
            writer.join().unwrap();
        }
    }

    #[test]
    fn a_slow_watcher_expires_and_a_bookmark_follows_other_kinds_api_4() {
        let store = Store::ephemeral();
        let mut slow = store.watch(Kind::ConfigMap, Revision(0), Visibility::Applied);
        let mut quiet = store.watch(Kind::Secret, Revision(0), Visibility::Applied);
        for n in 0..20_000 {
            store.create(config_map(&n.to_string())).unwrap();
        }
        assert!(slow.take().is_err());
        assert_eq!(quiet.bookmark(), Some(Revision(20_000)));
        store.compact(Revision(20_000));
        assert!(quiet.take().unwrap().is_empty(), "a bookmarked watcher does not expire");
    }

    #[test]
    fn huge_objects_do_not_fill_the_memory_with_history_api_4() {
        let huge = || {
            let mut object = config_map("huge");
            let data = [("filling".to_string(), "x".repeat(1 << 20))].into();
            object.get_mut::<ConfigMap>().unwrap().data = Some(data);
            object
        };
        let store = Store::ephemeral();
        let mut behind = store.watch(Kind::ConfigMap, Revision(0), Visibility::Applied);
        let mut current = store.create(huge()).unwrap().revision();
        for _ in 0..200 {
            current = store.replace(huge(), current).unwrap().revision();
        }
        let held = store.inner.state.read().history_bytes(Kind::ConfigMap);
        assert!((16 << 20..=64 << 20).contains(&held), "{held}");
        assert!(behind.take().is_err(), "dropped history is an error, and is not skipped");
        let mut near = store.watch(Kind::ConfigMap, Revision(current.0 - 10), Visibility::Applied);
        assert_eq!(near.take().unwrap().len(), 10);
        // An object larger than the whole history is still seen.
        let bounds = Bounds { changes: 10, bytes: 1000, ..Bounds::default() };
        let store = Store::in_memory(State::new(Revision(0), bounds));
        let mut watcher = store.watch(Kind::ConfigMap, Revision(0), Visibility::Applied);
        store.create(huge()).unwrap();
        assert_eq!(watcher.take().unwrap().len(), 1);
    }

    /// Many busy kinds share one budget; the oldest changes are dropped first.
    #[test]
    fn the_history_of_all_kinds_together_is_bounded_api_4() {
        let bounds = Bounds { memory: 100_000, ..Bounds::default() };
        let store = Store::in_memory(State::new(Revision(0), bounds));
        let mut behind = store.watch(Kind::Secret, Revision(0), Visibility::Applied);
        let mut secret = Object::new(k8s_openapi::api::core::v1::Secret::default());
        secret.meta_mut().name = Some("quiet".into());
        store.create(secret).unwrap();
        for n in 0..1000 {
            store.create(config_map(&n.to_string())).unwrap();
            assert!(store.inner.state.read().history_memory() <= bounds.memory);
        }
        assert_eq!(behind.take().unwrap().len(), 1, "the newest change of each kind stays");
        let mut slow = store.watch(Kind::ConfigMap, Revision(500), Visibility::Applied);
        assert!(slow.take().is_err());
        store.compact(store.revision());
        assert_eq!(store.inner.state.read().history_memory(), 0);
    }
}
