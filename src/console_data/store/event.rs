//! The unpacked part of an event: the fields for tables and groups of many events.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::interner::Interner;
use super::packed_object::PackedKind;

/// The part of an event that tables and screens read, unpacked.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSummary {
    /// The time at which the event was last seen.
    pub last_seen: Option<Timestamp>,
    /// The number of times that the event was seen.
    pub count: i32,
    /// The event's type; `None` for the API's default.
    pub type_: Option<Arc<str>>,
    /// The reason.
    pub reason: Arc<str>,
    /// The message.
    pub message: Arc<str>,
    /// The kind of the involved object.
    pub about_kind: Option<Arc<str>>,
    /// The namespace of the involved object.
    pub about_namespace: Option<Arc<str>>,
    /// The name of the involved object.
    pub about_name: Option<Arc<str>>,
    /// The uid of the involved object.
    pub about_uid: Option<Arc<str>>,
}

impl EventSummary {
    /// Returns whether the event is a warning.
    pub fn is_warning(&self) -> bool {
        self.type_.as_deref() == Some("Warning")
    }
}

impl PackedKind for Event {
    type Summary = EventSummary;

    fn summarize(&self, interner: &mut Interner) -> EventSummary {
        let about = &self.involved_object;
        let mut text = |text: &Option<String>| text.as_deref().map(|text| interner.text(text));
        EventSummary {
            last_seen: last_seen(self),
            count: count(self),
            type_: text(&self.type_),
            about_kind: text(&about.kind),
            about_namespace: text(&about.namespace),
            about_name: text(&about.name),
            about_uid: text(&about.uid),
            reason: text(&self.reason).unwrap_or_default(),
            message: text(&self.message).unwrap_or_default(),
        }
    }
}

/// Returns the time at which an event was last seen.
pub fn last_seen(event: &Event) -> Option<Timestamp> {
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    series
        .or(event.last_timestamp.as_ref().map(|time| time.0))
        .or(event.event_time.as_ref().map(|time| time.0))
        .or(event.first_timestamp.as_ref().map(|time| time.0))
        .or(event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// Returns the number of times an event was seen.
pub fn count(event: &Event) -> i32 {
    event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1)
}
