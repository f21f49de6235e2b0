//! The watch guarantees (API-4): a watcher receives every change of the objects exactly once and in order, and the same
//! history continues after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use api::{Change, ChangeKind, Snapshot};
use object::{Key, Kind, Object, Revision};

/// The state that one watcher has received, kind by kind.
#[derive(Default)]
pub(crate) struct History(Mutex<State>);

#[derive(Default)]
struct State {
    objects: BTreeMap<(Kind, Key), Arc<Object>>,
    /// The newest revision received for any kind. It is durable, so every later control plane has that state.
    newest: Revision,
    /// The newest revision received for each kind, by a change, a list or a bookmark.
    delivered: BTreeMap<Kind, Revision>,
}

impl History {
    /// Returns the newest revision received for any kind.
    pub(crate) fn newest(&self) -> Revision {
        self.0.lock().newest
    }

    /// Returns the newest revision received for a kind.
    pub(crate) fn last_delivered(&self, kind: Kind) -> Revision {
        self.0.lock().delivered.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the objects of a kind, as received.
    pub(crate) fn objects(&self, kind: Kind) -> Vec<Arc<Object>> {
        let state = self.0.lock();
        state.objects.iter().filter(|((of, _), _)| *of == kind).map(|(_, object)| object.clone()).collect()
    }

    /// Records that the watcher received a list. Returns each violation in it.
    pub(crate) fn listed(&self, kind: Kind, list: &Snapshot) -> Vec<String> {
        let mut state = self.0.lock();
        let mut wrong = Vec::new();
        let delivered = state.delivered.get(&kind).copied().unwrap_or_default();
        if list.revision < state.newest {
            wrong.push(format!(
                "a list is at revision {}, after {} was delivered",
                list.revision, state.newest
            ));
        }
        let listed: BTreeMap<Key, Arc<Object>> =
            list.objects.iter().map(|object| (object.key(), object.clone())).collect();
        for ((_, key), known) in state.objects.iter().filter(|((of, _), _)| *of == kind) {
            let nothing_since = list.revision <= delivered;
            match listed.get(key) {
                Some(object) if object.revision() < known.revision() => wrong.push(format!(
                    "{} {key} is listed at revision {}, after {} was delivered",
                    known.kind().info().name,
                    object.revision(),
                    known.revision()
                )),
                None if nothing_since => wrong.push(format!(
                    "{} {key} is not listed, though it was delivered at revision {}",
                    known.kind().info().name,
                    known.revision()
                )),
                _ => {}
            }
        }
        state.objects.retain(|(of, _), _| *of != kind);
        state.objects.extend(listed.into_iter().map(|(key, object)| ((kind, key), object)));
        state.delivered.insert(kind, list.revision);
        state.newest = state.newest.max(list.revision);
        wrong
    }

    /// Records that the watcher received a change. Returns the violation, if any.
    pub(crate) fn changed(&self, change: &Change) -> Option<String> {
        let mut state = self.0.lock();
        let (kind, key, revision) = (change.object.kind(), change.object.key(), change.revision);
        let about = format!("{:?} of {} {key} at revision {revision}", change.kind, kind.info().name);
        let delivered = state.delivered.get(&kind).copied().unwrap_or_default();
        if revision <= delivered {
            return Some(format!("{about}: {delivered} was already delivered"));
        }
        state.delivered.insert(kind, revision);
        state.newest = state.newest.max(revision);
        let before = match change.kind {
            ChangeKind::Deleted => state.objects.remove(&(kind, key)),
            _ => state.objects.insert((kind, key), change.object.clone()),
        };
        let (before, previous) =
            (before.map(|b| b.revision()), change.previous.as_ref().map(|p| p.revision()));
        if before != previous {
            return Some(format!(
                "{about} follows {previous:?}, but {before:?} was delivered last: an event is missing"
            ));
        }
        (before.is_none() != (change.kind == ChangeKind::Added))
            .then(|| format!("{about}: the last revision was {before:?}"))
    }

    /// Records that the watcher received a bookmark, which means that it has received every change of the kind up to
    /// this revision.
    pub(crate) fn bookmarked(&self, kind: Kind, revision: Revision) {
        let mut state = self.0.lock();
        let delivered = state.delivered.entry(kind).or_default();
        *delivered = (*delivered).max(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn version(revision: u64) -> Arc<Object> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".into());
        map.metadata.resource_version = Some(revision.to_string());
        Arc::new(Object::new(map))
    }

    fn change(kind: ChangeKind, revision: u64, previous: Option<u64>) -> Change {
        Change::new(Revision(revision), kind, version(revision), previous.map(version))
    }

    /// FAULT-3, API-4.
    #[test]
    fn a_watch_that_skips_repeats_or_goes_back_is_reported_fault_3() {
        let history_of = || {
            let history = History::default();
            assert_eq!(history.changed(&change(ChangeKind::Added, 3, None)), None);
            assert_eq!(history.changed(&change(ChangeKind::Modified, 5, Some(3))), None);
            history
        };
        assert!(history_of().changed(&change(ChangeKind::Modified, 5, Some(3))).is_some(), "repeated");
        assert!(history_of().changed(&change(ChangeKind::Modified, 9, Some(7))).is_some(), "left out");
        assert!(history_of().changed(&change(ChangeKind::Added, 9, None)).is_some(), "it is there");
        let history = history_of();
        history.bookmarked(Kind::ConfigMap, Revision(9));
        assert!(history.changed(&change(ChangeKind::Deleted, 9, Some(5))).is_some(), "a bookmark ahead");
        let list = |revision, objects| Snapshot { revision: Revision(revision), objects };
        assert_eq!(history_of().listed(Kind::ConfigMap, &list(5, vec![version(5)])), Vec::<String>::new());
        assert_eq!(
            history_of().listed(Kind::ConfigMap, &list(8, Vec::new())),
            Vec::<String>::new(),
            "deleted since"
        );
        assert_eq!(history_of().listed(Kind::ConfigMap, &list(5, Vec::new())).len(), 1, "lost");
        assert_eq!(
            history_of().listed(Kind::ConfigMap, &list(4, vec![version(3)])).len(),
            2,
            "history went back"
        );
    }
}
