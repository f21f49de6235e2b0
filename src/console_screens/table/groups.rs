//! Events in groups: the events of one object with the same reason form one row, with the newest message and the sum of
//! the counts.
//!
//! A group's row represents its newest event, so that all commands on events work on it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;

use super::Table;
use console_data::context::Context;
use console_data::resource::Uid;
use console_data::rows::{Row, RowKey, event};
use console_data::store::{StoredObject, Stores};

/// The key of a group: namespace, kind and name of the object, type and reason.
type GroupKey = [Arc<str>; 5];

/// The groups and their events.
#[derive(Debug, Default)]
pub(super) struct Groups {
    of: HashMap<Uid, GroupKey>,
    members: HashMap<GroupKey, BTreeSet<Uid>>,
    /// The event that represents each group.
    representatives: HashMap<GroupKey, Uid>,
}

fn key_of(event: StoredObject<'_, Event>) -> GroupKey {
    let seen = &event.summary;
    let text = |text: &Option<Arc<str>>| text.clone().unwrap_or_default();
    let (namespace, kind, name) = (&seen.about_namespace, &seen.about_kind, &seen.about_name);
    [text(namespace), text(kind), text(name), text(&seen.type_), seen.reason.clone()]
}

impl Groups {
    /// Groups all events, and returns their rows.
    pub(super) fn rebuild(&mut self, stores: &Stores) -> Vec<Row> {
        *self = Self::default();
        for event in stores.events().entries() {
            self.put(event);
        }
        let keys: Vec<GroupKey> = self.members.keys().cloned().collect();
        keys.into_iter().filter_map(|key| self.row(stores, &key)).collect()
    }

    fn put(&mut self, event: StoredObject<'_, Event>) -> GroupKey {
        let key = key_of(event);
        self.members.entry(key.clone()).or_default().insert(event.uid.clone());
        self.of.insert(event.uid.clone(), key.clone());
        key
    }

    /// Returns the current row of a group.
    fn row(&mut self, stores: &Stores, key: &GroupKey) -> Option<Row> {
        let members = self.members.get(key)?;
        let events: Vec<StoredObject<'_, Event>> =
            members.iter().filter_map(|uid| stores.events().entry(uid)).collect();
        let newest = events.iter().max_by_key(|event| (event.summary.last_seen, event.revision))?;
        let count = events.iter().map(|event| i64::from(event.summary.count)).sum();
        let messages: HashSet<&str> = events.iter().map(|event| &*event.summary.message).collect();
        let row = event::group_row(*newest, count, messages.len().saturating_sub(1));
        self.representatives.insert(key.clone(), row.uid.clone());
        Some(row)
    }

    /// Applies changes of events. Returns, for each changed group, the event that represented it and its current row.
    fn change(&mut self, stores: &Stores, uids: &[Uid]) -> Vec<(Option<Uid>, Option<Row>)> {
        let mut changed: BTreeSet<GroupKey> = BTreeSet::new();
        for uid in uids {
            if let Some(old) = self.of.remove(uid) {
                if let Some(members) = self.members.get_mut(&old) {
                    members.remove(uid);
                }
                changed.insert(old);
            }
            if let Some(event) = stores.events().entry(uid) {
                changed.insert(self.put(event));
            }
        }
        let mut rows = Vec::new();
        for key in changed {
            let before = self.representatives.remove(&key);
            let row = self.row(stores, &key);
            if row.is_none() {
                self.members.remove(&key);
            }
            rows.push((before, row));
        }
        rows
    }
}

impl Table {
    /// Switches between single events and groups.
    pub(super) fn toggle_groups(&mut self, cx: &Context<'_>) {
        self.groups = if self.groups.is_some() { None } else { Some(Groups::default()) };
        self.rebuild(cx);
    }

    /// Returns whether events are shown in groups.
    pub(super) fn is_grouped(&self) -> bool {
        self.groups.is_some()
    }

    /// Applies changes of events to the groups; the cursor and the marks stay on their groups.
    pub(super) fn change_groups(&mut self, cx: &Context<'_>, uids: &[Uid]) {
        let Some(groups) = &mut self.groups else { return };
        let changes = groups.change(cx.stores, uids);
        for (before, row) in changes {
            let row = row.filter(|row| self.belongs(cx, row)).map(|row| self.lay_out_row(cx, row));
            let now = row.as_ref().map(Row::key);
            if let Some(before) = before.map(RowKey::from).filter(|before| Some(before) != now.as_ref()) {
                let (chosen, marked) = (self.cursor.as_ref() == Some(&before), self.marks.contains(&before));
                self.upsert_or_remove(cx, &before, None);
                if let Some(now) = &now {
                    if chosen {
                        self.cursor = Some(now.clone());
                    }
                    if marked {
                        self.marks.insert(now.clone());
                    }
                }
            }
            if let Some(now) = &now {
                self.upsert_or_remove(cx, now, row);
            }
        }
        self.keep_cursor();
    }
}
