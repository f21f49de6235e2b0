//! What of an event lies open: all that tables and groups of many events need.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::interner::Interner;
use super::packed::Summarized;

/// The summary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EventSummary {
    /// When it was last seen.
    pub(crate) last_seen: Option<Timestamp>,
    /// How often it was seen.
    pub(crate) count: i32,
    /// Its type; none is the API's own default.
    pub(crate) type_: Option<Arc<str>>,
    /// Why.
    pub(crate) reason: Arc<str>,
    /// What is said.
    pub(crate) message: Arc<str>,
    /// The kind of the object it is about.
    pub(crate) about_kind: Option<Arc<str>>,
    /// Its namespace.
    pub(crate) about_namespace: Option<Arc<str>>,
    /// Its name.
    pub(crate) about_name: Option<Arc<str>>,
    /// Its uid.
    pub(crate) about_uid: Option<Arc<str>>,
}

impl EventSummary {
    /// Whether it is a warning.
    pub(crate) fn is_warning(&self) -> bool {
        self.type_.as_deref() == Some("Warning")
    }
}

impl Summarized for Event {
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

/// When an event was last seen.
pub(crate) fn last_seen(event: &Event) -> Option<Timestamp> {
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    series
        .or(event.last_timestamp.as_ref().map(|time| time.0))
        .or(event.event_time.as_ref().map(|time| time.0))
        .or(event.first_timestamp.as_ref().map(|time| time.0))
        .or(event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// How often it was seen.
pub(crate) fn count(event: &Event) -> i32 {
    event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1)
}
