//! The retained versions of an object, and the difference between any two.
//!
//! Invariant: at most [`MAX_VERSIONS`] versions and [`MAX_BYTES`] of text are retained; dropped versions are counted.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;

use serde_json::Value;

use base::sort::SliceOrder;
use console_data::changes::merge::{Change, changes, plain};
use console_data::past::{HistoryEvent, Versions};
use console_data::point_in_time::PointInTime;
use console_toolkit::difference::{LineChange, difference};
use console_toolkit::text::{clean, fit_middle};
use console_toolkit::yaml_text;

/// Maximum number of retained versions.
const MAX_VERSIONS: usize = 500;
/// Maximum total size of retained versions in bytes; a single version may be larger.
const MAX_BYTES: usize = 16 << 20;
/// Maximum width of a value in a summary, in columns.
const VALUE: usize = 24;

#[derive(Debug)]
pub(super) struct Version {
    /// The time and revision of the change.
    pub(super) moment: PointInTime,
    /// True if this change deleted the object.
    pub(super) deleted: bool,
    /// The change: `created`, `changed`, `deleted`.
    pub(super) change: &'static str,
    /// The difference from the previous version, in one line.
    pub(super) summary: String,
    /// True if only the system wrote: status, counters, its own annotations.
    pub(super) is_status: bool,
    /// The object as JSON.
    object: String,
}

/// Two versions by revision, and the lines of their difference.
type CachedDiff = (Option<u64>, u64, Vec<(LineChange, String)>);

/// All retained versions, newest first.
#[derive(Debug)]
pub(super) struct VersionList {
    versions: VecDeque<Version>,
    bytes: usize,
    /// Number of older versions that are not retained.
    pub(super) older: usize,
    /// True for a Secret: its values must not appear in a list.
    hides_values: bool,
    /// The last computed difference, cached because it is drawn repeatedly.
    cached_diff: RefCell<Option<CachedDiff>>,
}

impl VersionList {
    pub(super) fn new(hides_values: bool) -> Self {
        Self { versions: VecDeque::new(), bytes: 0, older: 0, hides_values, cached_diff: RefCell::new(None) }
    }

    /// Adds versions, oldest first; known ones are skipped.
    pub(super) fn take(&mut self, versions: Versions) {
        if self.versions.is_empty() {
            self.older = versions.older;
        }
        for event in versions.items {
            if self.newest().is_none_or(|newest| event.moment.revision > newest) {
                self.insert(event);
            }
        }
        while self.versions.len() > MAX_VERSIONS || (self.bytes > MAX_BYTES && self.versions.len() > 1) {
            let Some(gone) = self.versions.pop_back() else { break };
            self.bytes -= gone.object.len();
            self.older += 1;
        }
    }

    fn insert(&mut self, event: HistoryEvent) {
        let before = self.versions.front();
        let (what, deleted) = match event.kind.as_str() {
            "ADDED" => ("created", false),
            "DELETED" => ("deleted", true),
            _ => ("changed", false),
        };
        let now = bare(event.object);
        let (summary, is_status) = match before {
            Some(before) if what == "changed" => {
                let before: Value =
                    serde_json::from_str(&before.object).expect("a version is stored as JSON");
                let changes = changes(&before, &now);
                (summary(&changes, self.hides_values), changes.iter().all(is_of_the_system))
            }
            _ => (String::new(), false),
        };
        let object = now.to_string();
        self.bytes += object.len();
        self.versions.push_front(Version {
            moment: event.moment,
            deleted,
            change: what,
            summary,
            is_status,
            object,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.versions.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// Returns the version at an index, counted from the newest.
    pub(super) fn at(&self, place: usize) -> Option<&Version> {
        self.versions.get(place)
    }

    /// Returns all versions, newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter()
    }

    /// Returns the index of a revision.
    pub(super) fn position_of(&self, revision: u64) -> Option<usize> {
        self.versions.iter().position(|version| version.moment.revision == revision)
    }

    /// Returns the newest revision.
    pub(super) fn newest(&self) -> Option<u64> {
        self.versions.front().map(|version| version.moment.revision)
    }

    /// Returns the difference between two versions, with three lines of context.
    pub(super) fn difference<T>(
        &self,
        (from, to): (Option<usize>, usize),
        read: impl FnOnce(&[(LineChange, String)]) -> T,
    ) -> T {
        let Some(newer) = self.at(to) else { return read(&[]) };
        let older = from.and_then(|from| self.at(from));
        let (old, new) = (older.map(|older| older.moment.revision), newer.moment.revision);
        let mut made = self.cached_diff.borrow_mut();
        let known = made.as_ref().is_some_and(|(from, to, _)| (*from, *to) == (old, new));
        if !known {
            *made = Some((old, new, lines(older, newer)));
        }
        read(made.as_ref().map_or(&[][..], |(_, _, lines)| lines.as_slice()))
    }

    /// Returns the difference as text.
    pub(super) fn text(&self, pair: (Option<usize>, usize)) -> String {
        let line = |(sign, line): &(LineChange, String)| format!("{} {line}\n", sign.mark());
        self.difference(pair, |lines| lines.iter().map(line).collect())
    }
}

fn lines(older: Option<&Version>, newer: &Version) -> Vec<(LineChange, String)> {
    let text = |version: &Version| {
        // A deleted object has no content.
        if version.deleted {
            return String::new();
        }
        let object: Value = serde_json::from_str(&version.object).expect("a version is stored as JSON");
        yaml_text::write(&object)
    };
    let (from, to) = (older.map(text).unwrap_or_default(), text(newer));
    difference(&from, &to)
}

/// Removes the fields that differ in each version without meaning.
fn bare(mut object: Value) -> Value {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion"] {
            meta.remove(field);
        }
    }
    object
}

/// Returns whether a change is of a field that only the control plane writes, and not of the desired state.
fn is_of_the_system(change: &Change) -> bool {
    let path = change.path.as_str();
    path.starts_with("status") || path == "metadata.generation" || path.contains("deployment.kubernetes.io/")
}

/// Returns the most important changes in one line, those of the spec first, and the number of others.
fn summary(changes: &[Change], hides_values: bool) -> String {
    let mut order: Vec<&Change> = changes.iter().collect();
    let weight = |change: &&Change| match change.path.as_str() {
        path if path.starts_with("spec") || path.starts_with("data") => 0,
        "metadata.generation" | "status.observedGeneration" => 3,
        path if path.contains("ransitionTime")
            || path.contains("UpdateTime")
            || path.contains("heartbeat") =>
        {
            4
        }
        path if path.starts_with("status") => 1,
        _ => 2,
    };
    order.order_by_key(weight);
    let Some(first) = order.first() else { return "only its revision".to_owned() };
    let value = |value: Option<&Value>| {
        value
            .map_or_else(|| "unset".to_owned(), |value| fit_middle(&clean(&plain(value)), VALUE).into_owned())
    };
    let mut text = if hides_values {
        first.path.clone()
    } else {
        format!("{} {} → {}", first.path, value(first.from.as_ref()), value(first.to.as_ref()))
    };
    if order.len() > 1 {
        let _ = write!(text, "  +{}", order.len() - 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(revision: u64, kind: &str, object: Value) -> HistoryEvent {
        HistoryEvent { kind: kind.to_owned(), moment: PointInTime::new(revision, None), object }
    }

    #[test]
    fn any_two_versions_are_compared_correctly_con_12() {
        let object = |replicas: i32, revision: &str| {
            json!({"metadata": {"name": "web", "resourceVersion": revision, "managedFields": [1]},
                "spec": {"image": "a", "replicas": replicas}})
        };
        let mut list = VersionList::new(false);
        list.take(Versions {
            items: vec![
                event(3, "ADDED", object(1, "3")),
                event(5, "MODIFIED", object(2, "5")),
                event(9, "MODIFIED", object(4, "9")),
                event(12, "DELETED", object(4, "12")),
            ],
            older: 7,
        });
        // Known versions are skipped.
        list.take(Versions { items: vec![event(9, "MODIFIED", object(4, "9"))], older: 99 });
        let listed: Vec<_> = list.iter().map(|v| (v.moment.revision, v.change, v.summary.as_str())).collect();
        assert_eq!(
            listed,
            [
                (12, "deleted", ""),
                (9, "changed", "spec.replicas 2 → 4"),
                (5, "changed", "spec.replicas 1 → 2"),
                (3, "created", "")
            ]
        );
        assert_eq!(list.older, 7);
        let changed = |text: String| {
            text.lines().filter(|line| !line.starts_with(' ')).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(changed(list.text((Some(2), 1))), ["-   replicas: 2", "+   replicas: 4"]);
        assert_eq!(changed(list.text((Some(3), 1))), ["-   replicas: 1", "+   replicas: 4"]);
        assert!(changed(list.text((Some(1), 0))).iter().all(|line| line.starts_with('-')), "it is gone");
        assert!(changed(list.text((None, 3))).iter().all(|line| line.starts_with('+')), "it is new");
    }

    #[test]
    fn changes_by_the_system_are_distinguished_from_those_by_users_con_12() {
        let object = |replicas: i32, ready: i32, revision: &str| {
            json!({"metadata": {"name": "web", "generation": replicas,
                "annotations": {"deployment.kubernetes.io/revision": revision}},
                "spec": {"replicas": replicas}, "status": {"readyReplicas": ready}})
        };
        let mut list = VersionList::new(false);
        let items = vec![
            event(1, "ADDED", object(1, 0, "1")),
            event(2, "MODIFIED", object(1, 1, "1")),
            event(3, "MODIFIED", object(2, 1, "1")),
            event(4, "MODIFIED", object(2, 1, "2")),
            event(5, "MODIFIED", object(3, 2, "2")),
        ];
        list.take(Versions { items, older: 0 });
        let described: Vec<_> = list.iter().map(|v| (v.moment.revision, v.is_status)).collect();
        assert_eq!(described, [(5, false), (4, true), (3, false), (2, true), (1, false)]);
    }

    #[test]
    fn retained_versions_are_bounded_and_dropped_ones_counted_con_12() {
        let mut list = VersionList::new(false);
        let big = "x".repeat(1 << 20);
        for revision in 1..40 {
            let object = json!({"data": {"k": format!("{big}{revision}")}});
            list.take(Versions { items: vec![event(revision, "MODIFIED", object)], older: 0 });
        }
        assert!(list.bytes <= MAX_BYTES && list.bytes > MAX_BYTES - (2 << 20), "{}", list.bytes);
        assert_eq!(list.older + list.len(), 39);
        assert!(list.at(0).unwrap().summary.len() < 200);
        let mut list = VersionList::new(true);
        for (revision, secret) in [(1, "b2xk"), (2, "bmV3")] {
            let object = json!({"data": {"password": secret}});
            list.take(Versions { items: vec![event(revision, "MODIFIED", object)], older: 0 });
        }
        assert_eq!(list.at(0).unwrap().summary, "data.password");
    }
}
