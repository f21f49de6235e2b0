//! The timeline of an owner tree: its events, changes of its objects, actions from this console, and faults (CON-19).
//!
//! ```text
//! ╭ Timeline · Deployment default/web ── 7 objects · 42 entries · following ────────────╮
//! │ ▸ 12:03:05   3s ● state  pod/web-5f6b8-x   Running 1/1                               │
//! │   12:03:01   7s · event  pod/web-5f6b8-x   Scheduled: Successfully assigned …        │
//! │   12:03:00   8s ✔ you    deployment/web    scale Deployment default/web 3 → 10       │
//! │   12:02:58  10s ⚠ fault  cut               Partition began: node-1 ↔ node-2          │
//! ╰──────────────────────────────────────────────────────────────────────────────────────╯
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | [`family`] | the members of the tree; it grows and never shrinks, so that deleted objects stay listed |
//! | [`states`] | summarizes a change of an object |
//! | [`entry`] | one line, from any source |
//! | [`view`] | draws |
//!
//! Changes before the timeline was opened come from `podium.dev`'s history, if the server has it; later ones come from
//! the watches. The number of entries is bounded by [`MAX_ENTRIES`]; dropped entries are counted.

pub mod entry;
mod family;
mod states;
mod view;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::object_commands;
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::kind_view::{self, Pods};
use console_data::message::ScreenMessage;
use console_data::past::{self, HistoryEvent, HistoryScope};
use console_data::point_in_time::TimeSelector;
use console_data::resource::{Kind, ObjectRef, ResourceKey, Uid};
use console_data::store::TouchedObjects;
use console_operations::command_availability;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Filter;
use console_toolkit::widget::cursor::Window;
use entry::{Entry, EntryKey, of_event, of_fault, of_journal};
use extension::fault::Fault;
use family::Family;
use states::{ObjectSummary, StateChange, changes_between};

/// Maximum number of retained entries of each source, and of displayed entries.
const MAX_ENTRIES: usize = 2_000;
/// Maximum number of changes requested for each kind.
const MAX_CHANGES: usize = 300;

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum TimelineData {
    /// The history of the tree's objects and of other objects in the namespace.
    Past(TimelineHistory),
    /// The server does not provide the history, with the reason.
    NoPast(String),
}

/// The changes before the timeline was opened.
#[derive(Debug, Default)]
pub struct TimelineHistory {
    /// The changes by kind, owners first; those of a kind are sorted oldest first.
    pub changes: Vec<(Kind, Vec<HistoryEvent>)>,
    /// The time from which on the history is complete, if it is known.
    pub since: Option<Timestamp>,
}

/// The state of the request for earlier changes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HistoryLoad {
    /// In progress.
    Asking,
    /// Received; complete since this time.
    Loaded(Option<Timestamp>),
    /// Not available, with the reason.
    Unknown(String),
}

/// The screen that shows a timeline.
#[derive(Debug)]
pub struct Timeline {
    target: ObjectRef,
    family: Family,
    /// The last known state of each object.
    briefs: HashMap<Uid, ObjectSummary>,
    /// Changes of objects, in the order of their arrival.
    changes: Vec<Entry>,
    /// Revisions of objects that already have an entry.
    recorded: HashSet<(Uid, u64)>,
    events: HashMap<Uid, Entry>,
    faults: HashMap<EntryKey, Entry>,
    before: HistoryLoad,
    /// Number of dropped entries.
    dropped: usize,
    serial: u64,
    newest_first: bool,
    cursor: Option<EntryKey>,
    window: Window,
    filter: Filter,
    /// The sorted entries, and the number of journal entries they include; cached until something changes.
    cache: RefCell<Option<(usize, Vec<Entry>)>>,
}

impl Timeline {
    /// Creates the timeline of the tree that contains this object.
    pub(crate) fn new(target: ObjectRef) -> Self {
        Self {
            family: Family::of(&target),
            target,
            briefs: HashMap::new(),
            changes: Vec::new(),
            recorded: HashSet::new(),
            events: HashMap::new(),
            faults: HashMap::new(),
            before: HistoryLoad::Asking,
            dropped: 0,
            serial: 0,
            newest_first: true,
            cursor: None,
            window: Window::default(),
            filter: Filter::default(),
            cache: RefCell::new(None),
        }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    fn open(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        self.family.grow(cx);
        self.observe_all(cx);
        if let Some(why) = past::refused(cx.catalogue) {
            self.before = HistoryLoad::Unknown(why);
            return Vec::new();
        }
        let lists = self.lists(cx);
        vec![Effect::task("past", move |out| async move {
            let mut all = TimelineHistory::default();
            for scope in lists {
                match past::changes_with_objects(&out.client(), &scope, MAX_CHANGES).await {
                    Ok((events, since)) => {
                        all.changes.push((scope.kind, events));
                        all.since = all.since.max(since);
                    }
                    Err(why) => return out.data(TimelineData::NoPast(why)).await,
                }
            }
            out.data(TimelineData::Past(all)).await;
        })]
    }

    /// Returns the lists whose history is requested, owners first: the tree's root, and all objects of the kinds below
    /// it in its namespace.
    fn lists(&self, cx: &Context<'_>) -> Vec<HistoryScope> {
        let root = self.family.root();
        let mut kinds: Vec<Kind> = Vec::new();
        let mut add = |kind: Kind| {
            if kind.resource != root.kind.resource && !kinds.contains(&kind) {
                kinds.push(kind);
            }
        };
        for member in self.family.members().filter(|member| !member.kind.is::<Pod>()) {
            add(member.kind.clone());
        }
        if root.kind.is::<Deployment>() {
            add(cx.catalogue.kind::<ReplicaSet>());
        }
        let owns = kind_view::of(&root.kind.resource).pods == Pods::Owned;
        if owns || self.family.members().any(|member| member.kind.is::<Pod>()) {
            add(cx.catalogue.kind::<Pod>());
        }
        let namespace = root.namespace.clone();
        let below = kinds.into_iter().map(|kind| {
            let namespace = namespace.clone().filter(|_| kind.namespaced);
            HistoryScope { kind, namespace, name: None }
        });
        std::iter::once(HistoryScope::from(root)).chain(below).collect()
    }

    /// Records the current state of all members, and the events and faults.
    fn observe_all(&mut self, cx: &Context<'_>) {
        let members: Vec<ObjectRef> = self.family.members().cloned().collect();
        for member in members {
            if let Some(uid) = &member.uid {
                self.observe(cx, &member.kind, uid);
            }
        }
        let events: Vec<Uid> = cx.stores.events().entries().map(|event| event.uid.clone()).collect();
        self.observe_events(cx, &events);
        self.observe_faults(cx);
    }

    /// Records the current state of an object of the tree.
    fn observe(&mut self, cx: &Context<'_>, kind: &Kind, uid: &Uid) {
        let object = cx.stores.object(&kind.resource, uid);
        let Some(object) = object else {
            if self.briefs.remove(uid).is_some()
                && let Some(member) = self.family.member(uid).cloned()
            {
                self.add(cx.now, 0, member, StateChange::deleted());
            }
            return;
        };
        let value = object.to_json();
        let brief = ObjectSummary::of(kind, &value);
        let revision = revision_of(value["metadata"]["resourceVersion"].as_str());
        let Some(member) = self.family.member(uid).cloned() else { return };
        // The first known state is the start, not a change.
        let Some(before) = self.briefs.insert(uid.clone(), brief.clone()) else { return };
        if self.record_if_new(uid, revision) {
            for what in changes_between(&before, &brief) {
                self.add(cx.now, revision, member.clone(), what);
            }
        }
    }

    /// Returns whether a revision of an object has no entry yet, and marks it as recorded. The server's history ends,
    /// and the watches start, when the timeline is opened: only around that time both report a change.
    fn record_if_new(&mut self, uid: &Uid, revision: u64) -> bool {
        if self.recorded.len() > 4 * MAX_ENTRIES {
            self.recorded.clear();
        }
        self.recorded.insert((uid.clone(), revision))
    }

    fn observe_events(&mut self, cx: &Context<'_>, uids: &[Uid]) {
        for uid in uids {
            let event = cx.stores.events().entry(uid);
            if let Some(event) = event.filter(|event| self.family.concerns(&event.summary)) {
                self.events.insert(uid.clone(), of_event(cx, uid, event.whole()));
            }
        }
        if self.events.len() > MAX_ENTRIES {
            let mut ages: Vec<(Timestamp, Uid)> =
                self.events.iter().map(|(uid, entry)| (entry.time, uid.clone())).collect();
            ages.order();
            for (_, uid) in ages.into_iter().take(self.events.len() - MAX_ENTRIES) {
                self.events.remove(&uid);
                self.dropped += 1;
            }
        }
    }

    fn observe_faults(&mut self, cx: &Context<'_>) {
        for (uid, fault) in cx.stores.faults().iter() {
            for entry in of_fault(uid, fault) {
                if self.faults.len() < MAX_ENTRIES {
                    self.faults.insert(entry.key.clone(), entry);
                }
            }
        }
        // A fault that was deleted before its end.
        let healed: Vec<Entry> = self
            .faults
            .values()
            .filter_map(|entry| match &entry.key {
                EntryKey::Fault(uid, false)
                    if cx.stores.faults().get(uid).is_none()
                        && !self.faults.contains_key(&EntryKey::Fault(uid.clone(), true)) =>
                {
                    Some(entry.healed(cx.now))
                }
                _ => None,
            })
            .collect();
        self.faults.extend(healed.into_iter().map(|entry| (entry.key.clone(), entry)));
    }

    fn add(&mut self, time: Timestamp, revision: u64, object: ObjectRef, change: StateChange) {
        self.serial += 1;
        self.changes.push(Entry::of_change(self.serial, time, revision, object, change));
        if self.changes.len() > MAX_ENTRIES {
            // The oldest entries are dropped; entries of the history may be older although they arrived later.
            self.changes.order_by_key(|entry| (entry.time, entry.revision));
            let over = self.changes.len() - MAX_ENTRIES + MAX_ENTRIES / 8;
            self.changes.drain(..over);
            self.dropped += over;
        }
    }

    /// Adds the changes of the server's history.
    fn take_history(&mut self, cx: &Context<'_>, TimelineHistory { changes, since }: TimelineHistory) {
        self.before = HistoryLoad::Loaded(since);
        let mut briefs: HashMap<Uid, ObjectSummary> = HashMap::new();
        for (kind, changes) in changes {
            for event in changes {
                let Some(member) = self.family.adopt(&kind, &event.object) else { continue };
                let Some(uid) = member.uid.clone() else { continue };
                let (revision, time) = (event.moment.revision, event.moment.time);
                let brief = ObjectSummary::of(&kind, &event.object);
                let before = briefs.insert(uid.clone(), brief.clone());
                // Changes already reported by the watches are skipped.
                let is_new = self.record_if_new(&uid, revision);
                let Some(time) = time.filter(|_| is_new) else { continue };
                let state_changes: Vec<StateChange> = match (event.kind.as_str(), before) {
                    ("ADDED", _) => vec![StateChange::created(&brief)],
                    ("DELETED", _) => vec![StateChange::deleted()],
                    (_, Some(before)) => changes_between(&before, &brief),
                    // The previous state is unknown, so that the change cannot be described.
                    (_, None) => Vec::new(),
                };
                for what in state_changes {
                    self.add(time, revision, member.clone(), what);
                }
            }
        }
        // Deleted objects have events, too.
        let events: Vec<Uid> = cx.stores.events().entries().map(|event| event.uid.clone()).collect();
        self.observe_events(cx, &events);
    }

    fn changed(&mut self, cx: &Context<'_>, resource: &ResourceKey, touched: &TouchedObjects) {
        if *resource == ResourceKey::of::<Fault>() {
            return self.observe_faults(cx);
        }
        let TouchedObjects::Some(uids) = touched else {
            self.family.grow(cx);
            return self.observe_all(cx);
        };
        if *resource == ResourceKey::of::<Event>() {
            return self.observe_events(cx, uids);
        }
        let kind = cx.catalogue.kinds().iter().find(|kind| kind.resource == *resource).cloned();
        let Some(kind) = kind else { return };
        for uid in uids {
            let object = cx.stores.object(resource, uid);
            if let Some(object) = object.filter(|_| self.family.member(uid).is_none()) {
                let Some(member) = self.family.adopt_identity(&kind, &object.identity()) else {
                    continue;
                };
                let value = object.to_json();
                let brief = ObjectSummary::of(&kind, &value);
                let revision = revision_of(value["metadata"]["resourceVersion"].as_str());
                if self.record_if_new(uid, revision) {
                    self.add(cx.now, revision, member, StateChange::created(&brief));
                }
                self.briefs.insert(uid.clone(), brief);
            } else if self.family.member(uid).is_some() {
                self.observe(cx, &kind, uid);
            }
        }
    }

    /// Returns all entries that match the filter, in display order.
    fn lines<T>(&self, cx: &Context<'_>, read: impl FnOnce(&[Entry]) -> T) -> T {
        let journal = cx.journal.entries();
        let mut made = self.cache.borrow_mut();
        if made.as_ref().is_none_or(|(count, _)| *count != journal.len()) {
            let own = journal.iter().filter(|entry| self.family.is_of(entry.target()));
            let mut all: Vec<Entry> = self.changes.clone();
            all.extend(self.events.values().cloned());
            all.extend(self.faults.values().cloned());
            all.extend(own.map(of_journal));
            if !self.filter.is_empty() {
                all.retain(|entry| self.filter.matches(&entry.text()));
            }
            all.order_by(Entry::order);
            let over = all.len().saturating_sub(MAX_ENTRIES);
            all.drain(..over);
            if self.newest_first {
                all.reverse();
            }
            *made = Some((journal.len(), all));
        }
        read(made.as_ref().map_or(&[][..], |(_, all)| all.as_slice()))
    }

    /// Returns the index of the cursor; without a selected entry it stays on the newest.
    fn at(&self, lines: &[Entry]) -> usize {
        let newest = if self.newest_first { 0 } else { lines.len().saturating_sub(1) };
        let chosen = self.cursor.as_ref().and_then(|key| lines.iter().position(|line| line.key == *key));
        chosen.unwrap_or(newest)
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let (at, count, entry) = self.lines(cx, |lines| {
            let at = self.at(lines);
            (at, lines.len(), lines.get(at).cloned())
        });
        if let Some(to) = self.window.step(command, at, count) {
            let newest = if self.newest_first { 0 } else { count.saturating_sub(1) };
            // On the newest entry the cursor follows new entries.
            self.cursor = if to == newest {
                None
            } else {
                self.lines(cx, |lines| lines.get(to).map(|entry| entry.key.clone()))
            };
            return Vec::new();
        }
        match command {
            Command::SortColumn => {
                self.newest_first = !self.newest_first;
                self.cache.take();
                Vec::new()
            }
            Command::Copy => {
                let text =
                    self.lines(cx, |lines| lines.iter().map(Entry::text).collect::<Vec<_>>().join("\n"));
                vec![Effect::Copy(text)]
            }
            Command::Refresh => {
                self.before = HistoryLoad::Asking;
                self.open(cx)
            }
            Command::Enter => object_commands::on(cx, Command::GoToObject, entry.map(|entry| entry.object)),
            Command::Yaml if let Some(entry) = entry => {
                if let Some(why) = past::refused(cx.catalogue) {
                    return vec![Effect::info(why)];
                }
                let when = match entry.revision {
                    0 => TimeSelector::Time(entry.time),
                    revision => TimeSelector::revision(revision),
                };
                object_commands::at(cx, command, entry.object, when)
            }
            _ => object_commands::on(cx, command, entry.map(|entry| entry.object)),
        }
    }
}

fn revision_of(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl View for Timeline {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · timeline", self.target.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Timeline, KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => {
                self.cache.take();
                return self.open(cx);
            }
            ScreenMessage::Shown => {
                self.cache.take();
                self.family.grow(cx);
                self.observe_all(cx);
            }
            ScreenMessage::Changed(resource, touched) => {
                self.cache.take();
                let root = self.family.root().uid.clone();
                self.changed(cx, &resource, &touched);
                if self.family.root().uid != root && past::refused(cx.catalogue).is_none() {
                    // The owners were found only now, because the lists had not arrived when the timeline was opened.
                    return self.open(cx);
                }
            }
            ScreenMessage::Data(data) => {
                self.cache.take();
                match data.take() {
                    Some(TimelineData::Past(all)) => self.take_history(cx, all),
                    Some(TimelineData::NoPast(why)) => self.before = HistoryLoad::Unknown(why),
                    None => {}
                }
            }
            ScreenMessage::Command(command) => return self.command(cx, command),
            _ => {}
        }
        Vec::new()
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        match self.selected(cx) {
            Some(object) => command_availability::refuses(cx.catalogue, &object.kind, command),
            None => object_commands::refuses_without_row(command),
        }
    }

    fn selected(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        self.lines(cx, |lines| lines.get(self.at(lines)).map(|entry| entry.object.clone()))
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }

    fn query(&self) -> Option<&str> {
        Some(self.filter.text())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Filter::new(text)?;
        self.cache.take();
        Ok(())
    }
}
