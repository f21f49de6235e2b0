//! The events of an object, as the table at the end of a description.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::age_at;
use super::builder::{DocumentBuilder, Tone};
use base::sort::SliceOrder;
use console_data::rows::event::last_seen;

/// Appends the table; oldest event first, in kubectl's order.
pub(crate) fn describe(doc: &mut DocumentBuilder, events: &[&Event], now: Option<Timestamp>) {
    if events.is_empty() {
        return doc.toned(0, "Events", "", Tone::Dim);
    }
    let mut events = events.to_vec();
    // Events of the same second are in order of creation, which their names contain.
    events.order_by_key(|event| (last_seen(event), event.metadata.name.clone()));
    let rows: Vec<(Vec<String>, Tone)> = events
        .iter()
        .map(|event| {
            let kind = event.type_.clone().unwrap_or_default();
            let tone = if kind == "Warning" { Tone::Bad } else { Tone::Plain };
            let source = event.source.as_ref().and_then(|source| source.component.clone());
            let source =
                source.filter(|source| !source.is_empty()).or_else(|| event.reporting_component.clone());
            let message = event.message.clone().unwrap_or_default();
            let row = vec![
                kind,
                event.reason.clone().unwrap_or_default(),
                event_age(event, now),
                source.unwrap_or_default(),
                message.trim().replace('\n', " "),
            ];
            (row, tone)
        })
        .collect();
    doc.head(0, "Events");
    doc.table(2, &["Type", "Reason", "Age", "From", "Message"], &rows);
}

/// Returns `12s`, or `12s (x9 over 3m)` for a repeated event.
fn event_age(event: &Event, now: Option<Timestamp>) -> String {
    let since = |at: Option<Timestamp>| at.map_or_else(|| "<unknown>".to_owned(), |at| age_at(now, at));
    let last = since(last_seen(event));
    let count = event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1);
    let first =
        event.first_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0));
    match (count > 1, now) {
        (true, Some(_)) => format!("{last} (x{count} over {})", since(first)),
        (true, None) => format!("(x{count})"),
        (false, _) => last,
    }
}
