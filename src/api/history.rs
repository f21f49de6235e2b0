//! Lists of the past: the state at a revision within the watch history, and the changes since.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::{Api, ApiError};
use base::sort::SliceOrder;
use object::{Key, Kind, Object, Revision};
use store::{Change, Snapshot, Visibility, WatchExpired};

/// The number of seconds with writes that are remembered: more than watch history covers.
const MAX_SECONDS: usize = 20_000;

/// The limit on the bytes of objects in one history; a single larger object is still included.
const MAX_BYTES: usize = 16 << 20;

/// The times of revisions, to the second.
#[derive(Default)]
pub(super) struct RevisionTimes {
    /// The first revision observed in each second, in order of revisions.
    times: Mutex<VecDeque<(Revision, Timestamp)>>,
}

impl RevisionTimes {
    /// Records that a revision was written now.
    pub(super) fn record(&self, revision: Revision, now: Timestamp) {
        let mut times = self.times.lock();
        // Concurrent writes may arrive here in any order.
        let at = times.partition_point(|(first, _)| *first < revision);
        let second_of = |(_, noted): &(Revision, Timestamp)| noted.as_second();
        let before = at.checked_sub(1).and_then(|at| times.get(at)).map(second_of);
        let after = times.get(at).map(second_of);
        let second = now.as_second();
        if before == Some(second) {
            return;
        }
        match after {
            Some(after) if after == second => times[at].0 = revision,
            // Seconds stay in order; the clock may have been set.
            Some(after) if after < second || before.is_some_and(|before| before > second) => {}
            _ => times.insert(at, (revision, now)),
        }
        if times.len() > MAX_SECONDS {
            times.pop_front();
        }
    }

    /// Returns the last revision that was written up to a moment; `None` if that is no longer known. The
    /// order of writes within one second is not recorded: all revisions of the moment's second count.
    fn until(&self, moment: Timestamp) -> Option<Revision> {
        let times = self.times.lock();
        let after = times.partition_point(|(_, noted)| noted.as_second() <= moment.as_second());
        match times.get(after) {
            _ if after == 0 => None,
            Some((first, _)) => Some(Revision(first.0.saturating_sub(1))),
            None => Some(Revision(u64::MAX)),
        }
    }

    /// Returns the time of a revision, to the second; `None` if it is no longer known.
    fn of(&self, revision: Revision) -> Option<Timestamp> {
        let times = self.times.lock();
        let after = times.partition_point(|(first, _)| *first <= revision);
        after.checked_sub(1).and_then(|at| times.get(at)).map(|(_, moment)| *moment)
    }
}

/// The part of a history to return.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// Only changes after this revision; if there are too many, the oldest of them. `None`: the newest
    /// changes.
    pub after: Option<Revision>,
    /// Only changes up to this revision.
    pub until: Option<Revision>,
    /// The maximum number of changes.
    pub max_changes: usize,
    /// The maximum bytes of objects, though a single larger one is included; `None` for changes without
    /// objects.
    pub max_bytes: Option<usize>,
}

impl Span {
    /// Spans the `most` newest changes with their objects, up to [`MAX_BYTES`] of them.
    pub fn newest(most: usize) -> Self {
        Self { max_changes: most, max_bytes: Some(MAX_BYTES), ..Self::default() }
    }
}

/// The changes of a kind's objects.
#[derive(Debug)]
pub struct History {
    /// The store's revision at which the history ends.
    pub revision: Revision,
    /// The history covers every change after this revision.
    pub after: Revision,
    /// The time of `after`; `None` if unknown.
    pub begins: Option<Timestamp>,
    /// The returned changes with their times, oldest first.
    pub changes: VecDeque<(Change, Option<Timestamp>)>,
    /// The number of older changes of the span that were left out.
    pub older: usize,
    /// The number of newer changes of the span that were left out.
    pub newer: usize,
}

impl Api {
    /// Returns the last revision that was written up to a moment; `None` if that is no longer known. The
    /// times of revisions are known for longer than watch history lasts.
    pub fn revision_at(&self, moment: Timestamp) -> Option<Revision> {
        self.inner.revision_times.until(moment).map(|revision| revision.min(self.revision()))
    }

    /// Returns the changes of a kind's objects, or of those that `is_selected` accepts, as far back as watch history
    /// reaches.
    pub fn history(&self, kind: Kind, is_selected: impl Fn(&Object) -> bool, span: Span) -> History {
        let revision = self.revision();
        let mut after = Revision(0);
        loop {
            let all = match self.changes_between(kind, after, revision) {
                Ok(all) => all,
                Err(expired) => {
                    // History may have been compacted meanwhile.
                    after = expired.oldest().max(Revision(after.0 + 1));
                    continue;
                }
            };
            let spanned = |change: &Change| {
                span.after.is_none_or(|after| change.revision > after)
                    && span.until.is_none_or(|until| change.revision <= until)
            };
            let mut changes: VecDeque<_> =
                all.into_iter().filter(|change| spanned(change) && is_selected(&change.object)).collect();
            let mut bytes = 0;
            let fits = |change: &&Change| {
                bytes += change.object.size();
                span.max_bytes.is_none_or(|most| bytes <= most || bytes == change.object.size())
            };
            let (mut older, mut newer) = (0, 0);
            if span.after.is_some() {
                let oldest = changes.iter().take(span.max_changes).take_while(fits).count();
                newer = changes.len() - oldest;
                changes.truncate(oldest);
            } else {
                let newest = changes.iter().rev().take(span.max_changes).take_while(fits).count();
                older = changes.len() - newest;
                changes.drain(..older);
            }
            let begins = self.inner.revision_times.of(after);
            let timed = |change: Change| {
                let moment = self.inner.revision_times.of(change.revision);
                (change, moment)
            };
            let changes = changes.into_iter().map(timed).collect();
            return History { revision, after, begins, changes, older, newer };
        }
    }

    /// Returns all objects of a kind, or of one namespace, consistent at `revision`; fails if history no longer reaches
    /// it.
    pub fn list_at(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        revision: Revision,
    ) -> Result<Snapshot, ApiError> {
        let now = self.list(kind, namespace);
        if revision >= now.revision {
            return Ok(now);
        }
        let changes = self.changes_between(kind, revision, now.revision).map_err(|_| {
            ApiError::Expired(format!("The resourceVersion for the provided list is too old: {revision}"))
        })?;
        let here = |object: &Object| namespace.is_none_or(|n| n == object.namespace());
        // Each object that changed since, as it was at the revision: before its first change.
        let mut earlier: BTreeMap<Key, Option<Arc<Object>>> = BTreeMap::new();
        for change in changes.into_iter().filter(|change| here(&change.object)) {
            earlier.entry(change.object.key()).or_insert(change.previous);
        }
        let mut objects = now.objects;
        objects.retain(|object| !earlier.contains_key(&object.key()));
        objects.extend(earlier.into_values().flatten());
        objects.order_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
        Ok(Snapshot { revision, objects })
    }

    /// Returns every change after one revision and up to another, oldest first.
    fn changes_between(
        &self,
        kind: Kind,
        after: Revision,
        until: Revision,
    ) -> Result<Vec<Change>, WatchExpired> {
        let mut watcher = self.watch(kind, after, Visibility::Applied);
        let mut all = Vec::new();
        loop {
            let batch = watcher.take()?;
            let last = batch.last().map(|change| change.revision);
            all.extend(batch.into_iter().filter(|change| change.revision <= until));
            if last.is_none_or(|last| last >= until) {
                return Ok(all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;
    use crate::DeleteOptions;
    use crate::test_api::api;

    /// SAFE-10: a history of large objects is cut before it fills the memory; the newest change is always
    /// included.
    #[tokio::test(start_paused = true)]
    async fn a_history_holds_so_many_bytes_and_no_more_safe_8_safe_10() {
        let api = api(&["a"]);
        for n in 0..20 {
            let map = json!({"metadata": {"namespace": "a", "name": format!("m{n}")}, "data": {"k": "x".repeat(1_000_000)}});
            api.create_as::<ConfigMap>(serde_json::from_value(map).unwrap()).unwrap();
        }
        let history = api.history(Kind::ConfigMap, |_| true, Span::newest(500));
        assert_eq!((history.changes.len(), history.older), (16, 4));
        assert_eq!(history.changes[15].0.object.name(), "m19");
        let limited = api.history(Kind::ConfigMap, |object| object.name() == "m3", Span::newest(500));
        assert_eq!((limited.changes.len(), limited.older), (1, 0));
        // Without objects nothing is cut; with `after`, the newer changes are cut.
        let all = Span { max_bytes: None, ..Span::newest(500) };
        assert_eq!(api.history(Kind::ConfigMap, |_| true, all).changes.len(), 20);
        let from = history.changes[1].0.revision;
        let on = Span { after: Some(from), ..Span::newest(3) };
        let on = api.history(Kind::ConfigMap, |_| true, on);
        let names: Vec<&str> = on.changes.iter().map(|(change, _)| change.object.name()).collect();
        assert_eq!((names, on.older, on.newer), (vec!["m6", "m7", "m8"], 0, 11));
        let until = Span { until: Some(from), ..Span::newest(2) };
        let until = api.history(Kind::ConfigMap, |_| true, until);
        let names: Vec<&str> = until.changes.iter().map(|(change, _)| change.object.name()).collect();
        assert_eq!((names, until.older, until.newer), (vec!["m4", "m5"], 4, 0));
    }

    #[test]
    fn a_moment_is_the_last_revision_of_its_second_safe_8() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let moments = RevisionTimes::default();
        for (revision, second) in [(3, 100), (4, 100), (5, 102), (9, 110)] {
            moments.record(Revision(revision), at(second));
        }
        for (second, expected) in [
            (99, None),
            (100, Some(Revision(4))),
            (101, Some(Revision(4))),
            (102, Some(Revision(8))),
            (109, Some(Revision(8))),
            (110, Some(Revision(u64::MAX))),
        ] {
            assert_eq!(moments.until(at(second)), expected, "{second}");
        }
    }

    #[test]
    fn a_revision_has_its_own_time_though_a_later_one_is_recorded_first_safe_8() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        for order in [[4, 5, 6, 7], [7, 6, 5, 4], [5, 4, 7, 6]] {
            let times = RevisionTimes::default();
            times.record(Revision(1), at(100));
            // Revisions 4 and 5 are written in one second, and 6 and 7 in the next.
            for revision in order {
                times.record(Revision(revision), at(if revision < 6 { 200 } else { 201 }));
            }
            let found = [1, 3, 4, 5, 6, 7].map(|revision| times.of(Revision(revision)).unwrap().as_second());
            assert_eq!(found, [100, 100, 200, 200, 201, 201], "{order:?}");
            assert_eq!(times.until(at(150)), Some(Revision(3)), "{order:?}");
            assert_eq!(times.until(at(200)), Some(Revision(5)), "{order:?}");
        }
    }

    /// Every revision but the newest was answered 410.
    #[tokio::test(start_paused = true)]
    async fn a_list_of_the_past_is_the_state_of_then_until_history_ends_api_2() {
        let api = api(&["a", "b"]);
        let map = |namespace: &str, name: &str| -> ConfigMap {
            let manifest: Value = json!({"metadata": {"namespace": namespace, "name": name}});
            serde_json::from_value(manifest).unwrap()
        };
        let shown = |namespace: Option<&str>, revision: Revision| -> Result<Vec<String>, ApiError> {
            let list = api.list_at(Kind::ConfigMap, namespace, revision)?;
            let one = |o: &Arc<Object>| format!("{}@{}", o.key(), o.revision());
            Ok(list.objects.iter().map(one).collect())
        };
        let mut then = Vec::new();
        let mut look = || {
            let revision = api.revision();
            let now = api.list(Kind::ConfigMap, None).objects;
            then.push((
                revision,
                now.iter().map(|o| format!("{}@{}", o.key(), o.revision())).collect::<Vec<_>>(),
            ));
        };
        look();
        for name in ["x", "y", "z"] {
            api.create_as(map("a", name)).unwrap();
            api.create_as(map("b", name)).unwrap();
            look();
        }
        for turn in 0..700 {
            api.modify::<ConfigMap>(&Key::new("a", "x"), |m| {
                m.data = Some(BTreeMap::from([("turn".into(), format!("{turn}"))]));
                Ok(())
            })
            .unwrap();
        }
        look();
        api.delete(Kind::ConfigMap, &Key::new("a", "y"), &DeleteOptions::default()).unwrap();
        look();
        api.create_as(map("a", "y")).unwrap();
        look();
        for (revision, expected) in &then {
            assert_eq!(&shown(None, *revision).unwrap(), expected, "at {revision}");
            let in_b: Vec<_> = expected.iter().filter(|o| o.starts_with("b/")).cloned().collect();
            assert_eq!(shown(Some("b"), *revision).unwrap(), in_b, "at {revision}");
        }
        api.compact(then[2].0);
        assert!(matches!(shown(None, then[1].0), Err(ApiError::Expired(_))));
        assert_eq!(shown(None, then[3].0).unwrap(), then[3].1);
    }
}
