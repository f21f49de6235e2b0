//! Events as rows.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::{Cell, Column, Row};
use crate::health::Health;
use crate::text::clean;

/// Where COUNT stands.
pub(crate) const COUNT: usize = 4;
/// Where MESSAGE stands.
pub(crate) const MESSAGE: usize = 5;

/// LAST SEEN, REASON, OBJECT, MESSAGE of kubectl, and COUNT. A warning is marked in its reason; TYPE in words is for wide
/// mode.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::text("LAST SEEN").weight(8),
        Column::text("TYPE").wide().weight(2),
        Column::text("REASON").weight(9).usual(17),
        Column::text("OBJECT").weight(9),
        Column::number("COUNT").weight(3),
        Column::text("MESSAGE").weight(7),
    ]
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

/// Which of two events of one second is the newer: the server's count of changes, where it is a number.
pub(crate) fn revision(event: &Event) -> u64 {
    event.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Whether it is a warning.
pub(crate) fn is_warning(event: &Event) -> bool {
    event.type_.as_deref() == Some("Warning")
}

/// `pod/web-1`, as kubectl prints it.
pub(crate) fn object(event: &Event) -> String {
    let about = &event.involved_object;
    let kind = about.kind.as_deref().unwrap_or_default().to_lowercase();
    clean(&format!("{kind}/{}", about.name.as_deref().unwrap_or_default())).into_owned()
}

/// An event's row.
pub(crate) fn row(event: &Event) -> Option<Row> {
    let warning = is_warning(event);
    let kind = event.type_.as_deref().unwrap_or("Normal");
    let reason = clean(event.reason.as_deref().unwrap_or_default()).into_owned();
    let message = event.message.as_deref().unwrap_or_default().trim_end().replace('\n', " ");
    let cells = vec![
        Cell::Age(last_seen(event)),
        if warning { Cell::Warning(clean(kind).into_owned()) } else { Cell::Dim(clean(kind).into_owned()) },
        if warning { Cell::Warning(reason) } else { Cell::Text(reason) },
        Cell::Text(object(event)),
        Cell::Number(i64::from(count(event))),
        Cell::said(&message),
    ];
    let row = Row::of(event, warning.then_some(Health::Pending), cells)?;
    Some(Row { newness: revision(event), ..row })
}
