//! One line of a timeline, from any source.

use std::cmp::Ordering;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::states::StateChange;
use console_data::action::EntryId;
use console_data::builtin_kinds;
use console_data::context::Context;
use console_data::journal;
use console_data::point_in_time::clock;
use console_data::related::kind_of;
use console_data::resource::{ObjectRef, Uid};
use console_data::rows::event;
use console_toolkit::health::Health;
use console_toolkit::text::clean;
use console_toolkit::theme::Theme;
use extension::fault::Fault;

/// The source of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum EntryKey {
    /// A change of an object, by its serial number in this timeline.
    Change(u64),
    Event(Uid),
    Journal(EntryId),
    /// The start (false) or the end (true) of a fault.
    Fault(Uid, bool),
}

/// A line of the timeline.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: EntryKey,
    pub(super) time: Timestamp,
    /// The revision; 0 if it is unknown.
    pub(super) revision: u64,
    /// The object that the entry concerns.
    pub(super) object: ObjectRef,
    /// The object's health from then on.
    pub(super) health: Health,
    /// True for a warning.
    pub(super) warns: bool,
    pub(super) text: String,
}

impl Entry {
    /// Creates the entry of an object's change.
    pub(super) fn of_change(
        serial: u64,
        time: Timestamp,
        revision: u64,
        object: ObjectRef,
        change: StateChange,
    ) -> Self {
        let StateChange { health, text } = change;
        let key = EntryKey::Change(serial);
        Self { key, time, revision, object, health, warns: false, text: clean(&text).into_owned() }
    }

    /// Creates the entry for the end of a deleted fault.
    pub(super) fn healed(&self, now: Timestamp) -> Self {
        let EntryKey::Fault(uid, _) = &self.key else { return self.clone() };
        let key = EntryKey::Fault(uid.clone(), true);
        Self {
            key,
            time: now,
            health: Health::Succeeded,
            warns: false,
            text: "healed".to_owned(),
            ..self.clone()
        }
    }

    /// Returns the word for its source.
    pub(super) fn source(&self) -> &'static str {
        match self.key {
            EntryKey::Change(_) => "state",
            EntryKey::Event(_) => "event",
            EntryKey::Journal(_) => "you",
            EntryKey::Fault(..) => "fault",
        }
    }

    /// Returns a sign that shows its health without colours.
    pub(super) fn sign(&self, theme: &Theme) -> &'static str {
        match self.key {
            _ if self.warns => "⚠",
            EntryKey::Event(_) => theme.sign("·", ""),
            _ => theme.state_sign(self.health),
        }
    }

    /// Returns `pod/web-1`.
    pub(super) fn about(&self) -> String {
        clean(&format!("{}/{}", self.object.kind.singular, self.object.name)).into_owned()
    }

    /// Returns the entry as one plain line.
    pub(super) fn text(&self) -> String {
        format!("{} {} {} {}", clock(self.time), self.source(), self.about(), self.text)
    }

    /// Orders entries, oldest first. Within a second revisions determine the order; entries without one come last.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let revision = |entry: &Self| if entry.revision == 0 { u64::MAX } else { entry.revision };
        (self.time.as_second(), revision(self))
            .cmp(&(other.time.as_second(), revision(other)))
            .then_with(|| self.time.cmp(&other.time))
            .then_with(|| self.serial().cmp(&other.serial()))
            .then_with(|| self.about().cmp(&other.about()))
    }

    fn serial(&self) -> u64 {
        if let EntryKey::Change(serial) = self.key { serial } else { 0 }
    }
}

/// Returns the entry of an event.
pub(super) fn of_event(cx: &Context<'_>, uid: &Uid, event: &Event) -> Entry {
    let about = &event.involved_object;
    let (kind, version) = (about.kind.as_deref().unwrap_or_default(), about.api_version.as_deref());
    let object = ObjectRef {
        kind: kind_of(cx.catalogue, version.unwrap_or("v1"), kind),
        namespace: about.namespace.clone().filter(|namespace| !namespace.is_empty()),
        name: about.name.clone().unwrap_or_default(),
        uid: about.uid.as_deref().map(Uid::from),
    };
    let count = event::count(event);
    let often = if count > 1 { format!(" ×{count}") } else { String::new() };
    let message = event.message.as_deref().unwrap_or_default().trim_end().replace('\n', " ");
    let text = format!("{}{often}: {message}", event.reason.as_deref().unwrap_or_default());
    Entry {
        key: EntryKey::Event(uid.clone()),
        time: event::last_seen(event).unwrap_or(Timestamp::UNIX_EPOCH),
        revision: event::revision(event),
        object,
        health: Health::Unknown,
        warns: event::is_warning(event),
        text: clean(&text).into_owned(),
    }
}

/// Returns the entry of an action from this console.
pub(super) fn of_journal(entry: &journal::Entry) -> Entry {
    let action = &entry.outcome.action;
    let (health, text) = match &entry.outcome.error {
        None => (Health::Succeeded, action.title.clone()),
        Some(error) => (Health::Failed, format!("{}: {error}", action.title)),
    };
    Entry {
        key: EntryKey::Journal(entry.id),
        time: entry.at,
        revision: 0,
        object: action.target.clone(),
        health,
        warns: false,
        text: clean(&text.replace('\n', " ")).into_owned(),
    }
}

/// Returns the entries of a fault: its start, and its end if it has ended.
pub(super) fn of_fault(uid: &Uid, fault: &Fault) -> Vec<Entry> {
    let status = fault.status.as_ref();
    let object = ObjectRef::of(builtin_kinds::kind::<Fault>(), fault);
    let meets = status.and_then(|status| status.meets.as_deref()).unwrap_or_default();
    let kind = &fault.spec.type_;
    let entry = |time: Timestamp, ended: bool| Entry {
        key: EntryKey::Fault(uid.clone(), ended),
        time,
        revision: 0,
        object: object.clone(),
        health: if ended { Health::Succeeded } else { Health::Failed },
        warns: !ended,
        text: clean(&if ended { format!("{kind} ended") } else { format!("{kind} began: {meets}") })
            .into_owned(),
    };
    let started = status.and_then(|status| status.started_at.as_ref()).map(|time| entry(time.0, false));
    let ended = status.and_then(|status| status.ended_at.as_ref()).map(|time| entry(time.0, true));
    started.into_iter().chain(ended).collect()
}
