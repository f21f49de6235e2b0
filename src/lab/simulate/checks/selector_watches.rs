//! Watches with selectors over HTTP (API-4): a client lists pods by a selector, in pages, and then watches them. It
//! must receive exactly the selection's changes in the whole history, and all pages must have the same revision.
//!
//! The whole history comes from the watcher of all pods. This file determines a selection's pods by its own code
//! instead of the server's selectors, so that a mistake in the server's is found.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api as Client, ResourceExt};
use parking_lot::Mutex;
use rand::RngExt;

use super::Checks;
use crate::simulate::plan::NAMESPACES;
use crate::simulate::world::{ControlPlane, World};
use api::{Change, ChangeKind};
use base::random;
use object::pod::{Phase, phase};
use object::{Key, Object, Revision};

/// The number of pods in a page.
const PAGE: u32 = 2;
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval after which a reader connects again.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// A selection of pods: the selectors that a client sends, and an equivalent predicate in Rust.
struct Selector {
    labels: Option<&'static str>,
    fields: Option<&'static str>,
    namespace: Option<&'static str>,
    selects: fn(&Pod) -> bool,
}

const SELECTORS: [Selector; 3] = [
    Selector {
        labels: Some("app in (web-0,db)"),
        fields: None,
        namespace: Some(NAMESPACES[0]),
        selects: |pod| {
            let app = pod.labels().get("app").map(String::as_str);
            pod.namespace().as_deref() == Some(NAMESPACES[0]) && matches!(app, Some("web-0" | "db"))
        },
    },
    Selector {
        labels: None,
        fields: Some("spec.nodeName=node-1,status.phase=Running"),
        namespace: None,
        selects: |pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            node == Some("node-1") && phase(pod) == Phase::Running
        },
    },
    Selector {
        labels: Some("app!=db"),
        fields: Some("status.phase!=Running"),
        namespace: None,
        selects: |pod| {
            let app = pod.labels().get("app").map(String::as_str);
            app != Some("db") && phase(pod) != Phase::Running
        },
    },
];

/// The type of a watch event for a selection: a pod enters the selection, changes in it, or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEventType {
    Added,
    Modified,
    Deleted,
}

type Events = BTreeMap<Revision, (WatchEventType, Key)>;

/// The checker's state for all selections.
#[derive(Default)]
pub(crate) struct Selections(Mutex<State>);

#[derive(Default)]
struct State {
    /// The events that a watcher of each selection must receive.
    due: [Events; SELECTORS.len()],
    /// The ranges of revisions that the watcher of all pods skipped by listing again, so that their single changes are
    /// unknown.
    skipped: Vec<RangeInclusive<Revision>>,
    readers: [Reader; SELECTORS.len()],
}

/// A client that watches a selection.
#[derive(Default)]
struct Reader {
    revisions: BTreeMap<Key, Revision>,
    /// The revision up to which the client has received everything; `None` before its first list.
    upto: Option<Revision>,
    /// The spans of revisions (from, to) in which the client received single changes, with these changes.
    spans: Vec<(Revision, Revision, Events)>,
}

impl Selections {
    /// Records that the watcher of all pods lists again at `upto` after it received changes up to `from`.
    pub(crate) fn record_gap(&self, from: Revision, upto: Revision) {
        self.0.lock().skipped.push(from.next()..=upto);
    }

    /// Records that the watcher of all pods received a change.
    pub(crate) fn changed(&self, change: &Change) {
        let mut state = self.0.lock();
        for (selector, due) in SELECTORS.iter().zip(&mut state.due) {
            let selects = |object: &Arc<Object>| object.get::<Pod>().is_some_and(selector.selects);
            let now = change.kind != ChangeKind::Deleted && selects(&change.object);
            let event_type = match (change.previous.as_ref().is_some_and(selects), now) {
                (false, false) => continue,
                (false, true) => WatchEventType::Added,
                (true, true) => WatchEventType::Modified,
                (true, false) => WatchEventType::Deleted,
            };
            due.insert(change.revision, (event_type, change.object.key()));
        }
    }

    /// Records that a reader received a whole list. Returns the violation, if any.
    fn listed(&self, which: usize, revision: Revision, pods: &[Pod]) -> Option<String> {
        let mut state = self.0.lock();
        let reader = &mut state.readers[which];
        let before = reader.upto.replace(revision);
        reader.spans.push((revision, revision, BTreeMap::new()));
        reader.revisions = pods.iter().map(|pod| (Key::of(&pod.metadata), revision_of(pod))).collect();
        if before.is_some_and(|before| revision < before) {
            return Some(format!(
                "a list over HTTP is at revision {revision}, after {before:?} was delivered"
            ));
        }
        if reader.revisions.len() < pods.len() {
            return Some(format!("the pages of a list at revision {revision} contain a pod twice"));
        }
        let wrong = pods.iter().find(|pod| !(SELECTORS[which].selects)(pod));
        wrong.map(|pod| format!("{} is listed, but not selected", Key::of(&pod.metadata)))
    }

    /// Records that a reader received an event. Returns the violation, if any.
    fn record_event(&self, which: usize, event_type: WatchEventType, pod: &Pod) -> Option<String> {
        let mut state = self.0.lock();
        let reader = &mut state.readers[which];
        let (key, revision) = (Key::of(&pod.metadata), revision_of(pod));
        let about = format!("{event_type:?} of {key} at revision {revision} over HTTP");
        let last = reader.upto.replace(revision).unwrap_or_default();
        if revision <= last {
            return Some(format!("{about}: {last} was already delivered"));
        }
        if let Some((_, upto, all)) = reader.spans.last_mut() {
            *upto = revision;
            all.insert(revision, (event_type, key.clone()));
        }
        let before = match event_type {
            WatchEventType::Deleted => reader.revisions.remove(&key),
            _ => reader.revisions.insert(key, revision),
        };
        if before.is_none() != (event_type == WatchEventType::Added) {
            return Some(format!("{about}: the last revision was {before:?}"));
        }
        let is_in = event_type == WatchEventType::Deleted || (SELECTORS[which].selects)(pod);
        (!is_in).then(|| format!("{about}: the pod is not selected"))
    }

    /// Records that a reader received a bookmark, which means that it has received everything up to this revision.
    fn bookmarked(&self, which: usize, revision: Revision) {
        let mut state = self.0.lock();
        let reader = &mut state.readers[which];
        reader.upto = reader.upto.max(Some(revision));
        if let Some((_, upto, _)) = reader.spans.last_mut() {
            *upto = revision.max(*upto);
        }
    }

    /// Compares, at the end, the events that readers received with those that were due, and the pods that they know
    /// with `pods`. Returns each violation.
    pub(crate) fn wrong(&self, pods: &[Arc<Object>]) -> Vec<String> {
        let state = self.0.lock();
        let mut wrong = Vec::new();
        let is_known = |revision: &Revision| !state.skipped.iter().any(|range| range.contains(revision));
        for (which, reader) in state.readers.iter().enumerate() {
            for (after, upto, delivered) in &reader.spans {
                let due =
                    state.due[which].range(after.next()..).take_while(|(revision, _)| *revision <= upto);
                let due: BTreeMap<_, _> = due.filter(|(revision, _)| is_known(revision)).collect();
                let delivered: BTreeMap<_, _> =
                    delivered.iter().filter(|(revision, _)| is_known(revision)).collect();
                let all: BTreeSet<_> = due.keys().chain(delivered.keys()).copied().collect();
                let differs = all.into_iter().find(|revision| due.get(revision) != delivered.get(revision));
                if let Some(revision) = differs {
                    let (due, delivered) = (due.get(revision), delivered.get(revision));
                    let label = name(which);
                    wrong.push(format!(
                        "{label} at revision {revision}: delivered {delivered:?}, expected {due:?}"
                    ));
                }
            }
            let selects = |pod: &&Arc<Object>| pod.get::<Pod>().is_some_and(SELECTORS[which].selects);
            let there: BTreeMap<_, _> =
                pods.iter().filter(selects).map(|pod| (pod.key(), pod.revision())).collect();
            if there != reader.revisions {
                let held = &reader.revisions;
                wrong
                    .push(format!("a reader of {} has {held:?}, but the cluster has {there:?}", name(which)));
            }
        }
        wrong
    }

    fn resume(&self, which: usize) -> Option<Revision> {
        self.0.lock().readers[which].upto
    }
}

fn name(which: usize) -> String {
    let Selector { labels, fields, .. } = &SELECTORS[which];
    [*labels, *fields].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

fn revision_of(pod: &Pod) -> Revision {
    pod.resource_version().and_then(|version| version.parse().ok()).map(Revision).unwrap_or_default()
}

/// Reads each selection for ever, from each control plane in turn.
pub(crate) async fn read_selected(world: Arc<World>, checks: Arc<Checks>) {
    let all = (0..SELECTORS.len()).map(|which| read(&world, &checks, which));
    futures::future::join_all(all).await;
}

async fn read(world: &World, checks: &Checks, which: usize) {
    let mut changes = world.changes();
    let mut relists = true;
    loop {
        changes.borrow_and_update();
        if let Some(plane) = world.plane() {
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                again = follow(world, checks, &plane, which, relists) => relists = again,
            }
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

/// Lists if necessary, then watches until the watch ends. Returns true if the next call must begin with a list.
async fn follow(world: &World, checks: &Checks, plane: &ControlPlane, which: usize, relists: bool) -> bool {
    let report = |wrong: Option<String>| {
        if let Some(wrong) = wrong {
            world.trace.violation("watch guarantees", wrong);
        }
    };
    let Selector { labels, fields, namespace, .. } = &SELECTORS[which];
    let client = plane.client.clone();
    let pods: Client<Pod> =
        namespace.map_or_else(|| Client::all(client.clone()), |n| Client::namespaced(client.clone(), n));
    if relists || checks.selections.resume(which).is_none() {
        match tokio::time::timeout(LIST_TIMEOUT, list(&pods, *labels, *fields)).await {
            Ok(Ok(Ok((revision, listed)))) => report(checks.selections.listed(which, revision, &listed)),
            Ok(Ok(Err(torn))) => report(Some(torn)),
            _ => return true,
        }
    }
    let Some(from) = checks.selections.resume(which) else { return true };
    // The timeout is short, so that the watch is often resumed.
    let mut params = WatchParams::default().timeout(random::rng().random_range(2..60));
    params.label_selector = labels.map(str::to_owned);
    params.field_selector = fields.map(str::to_owned);
    let Ok(watch) = pods.watch(&params, &from.to_string()).await else { return false };
    let mut watch = std::pin::pin!(watch);
    // An error means that the connection is closed; the events received before it remain valid.
    while let Ok(Some(event)) = watch.try_next().await {
        match event {
            WatchEvent::Added(pod) => {
                report(checks.selections.record_event(which, WatchEventType::Added, &pod));
            }
            WatchEvent::Modified(pod) => {
                report(checks.selections.record_event(which, WatchEventType::Modified, &pod));
            }
            WatchEvent::Deleted(pod) => {
                report(checks.selections.record_event(which, WatchEventType::Deleted, &pod));
            }
            WatchEvent::Bookmark(bookmark) => {
                let revision = bookmark.metadata.resource_version.parse().map_or(Revision(0), Revision);
                checks.selections.bookmarked(which, revision);
            }
            // The history since the watch's revision no longer exists.
            WatchEvent::Error(_) => return true,
        }
    }
    false
}

/// Returns a whole list, read in pages, and its revision; or a description of the page that has another revision than
/// the first.
async fn list(
    pods: &Client<Pod>,
    labels: Option<&str>,
    fields: Option<&str>,
) -> kube::Result<Result<(Revision, Vec<Pod>), String>> {
    let mut params = ListParams::default().limit(PAGE);
    params.label_selector = labels.map(str::to_owned);
    params.field_selector = fields.map(str::to_owned);
    let (mut all, mut first) = (Vec::new(), None);
    loop {
        let page = pods.list(&params).await?;
        let revision = page.metadata.resource_version.unwrap_or_default();
        let of_first = first.get_or_insert_with(|| revision.clone());
        if *of_first != revision {
            return Ok(Err(format!("a page is at revision {revision}, but the first is at {of_first}")));
        }
        all.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|next| !next.is_empty());
        if params.continue_token.is_none() {
            return Ok(Ok((revision.parse().map_or(Revision(0), Revision), all)));
        }
        // The pause lets others write between two pages.
        tokio::time::sleep(Duration::from_millis(random::rng().random_range(0..200))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(revision: u64, phase: &str) -> Arc<Object> {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "namespace": "open", "resourceVersion": revision.to_string()},
            "spec": {"nodeName": "node-1", "containers": []}, "status": {"phase": phase}}))
        .unwrap();
        Arc::new(Object::new(pod))
    }

    fn change(kind: ChangeKind, object: &Arc<Object>, previous: Option<&Arc<Object>>) -> Change {
        Change::new(object.revision(), kind, object.clone(), previous.cloned())
    }

    /// FAULT-3, API-4: the pod begins to run on the node, and then finishes.
    #[test]
    fn a_selector_watch_that_misses_a_departure_is_reported_fault_3() {
        const ON_NODE: usize = 1;
        let (begins, runs, over) = (pod(1, "Pending"), pod(2, "Running"), pod(3, "Succeeded"));
        let as_pod = |object: &Arc<Object>| object.get::<Pod>().unwrap().clone();
        let selections = || {
            let selections = Selections::default();
            assert_eq!(selections.listed(ON_NODE, Revision(1), &[]), None);
            selections.changed(&change(ChangeKind::Added, &begins, None));
            selections.changed(&change(ChangeKind::Modified, &runs, Some(&begins)));
            selections.changed(&change(ChangeKind::Modified, &over, Some(&runs)));
            assert_eq!(selections.record_event(ON_NODE, WatchEventType::Added, &as_pod(&runs)), None);
            selections
        };
        let of_node = |selections: &Selections| {
            let wrong = selections.wrong(std::slice::from_ref(&over));
            wrong.iter().filter(|wrong| wrong.contains("node-1")).count()
        };
        let whole = selections();
        assert_eq!(whole.record_event(ON_NODE, WatchEventType::Deleted, &as_pod(&over)), None);
        assert_eq!(of_node(&whole), 0);
        let departed = selections();
        assert!(
            departed.record_event(ON_NODE, WatchEventType::Modified, &as_pod(&over)).is_some(),
            "not selected any more"
        );
        assert_eq!(of_node(&departed), 2, "the watch has believed the wrong event");
        let left_out = selections();
        left_out.bookmarked(ON_NODE, Revision(9));
        assert_eq!(of_node(&left_out), 2, "the departure was never sent");
        assert!(selections().record_event(ON_NODE, WatchEventType::Added, &as_pod(&runs)).is_some(), "twice");
        assert!(selections().listed(ON_NODE, Revision(1), &[]).is_some(), "history went back");
    }
}
