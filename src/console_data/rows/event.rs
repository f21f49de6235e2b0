//! Events as rows.

use compact_str::{CompactString, format_compact};
use k8s_openapi::api::core::v1::Event;

use super::column_cells::RowColumn;
use super::{Cell, Column, Row};
use crate::store::StoredObject;
pub use crate::store::event::{count, last_seen};
use console_toolkit::health::Health;
use console_toolkit::text::clean;

/// The width reserved for MESSAGE beside NAMESPACE, LAST SEEN, REASON and OBJECT in a terminal of 80 columns.
const MESSAGE_WIDTH: u8 = 23;

/// The source of the cells of an event, or of a group of events.
pub(crate) struct EventParts<'a> {
    event: StoredObject<'a, Event>,
    count: i64,
    /// Number of other messages in the group.
    others: usize,
}

/// Returns kubectl's columns LAST SEEN, REASON, OBJECT, MESSAGE, and COUNT. A warning is marked in its reason; TYPE is
/// shown in wide mode. REASON and MESSAGE stay in a narrow terminal: together they say what happened.
pub(crate) fn columns<'a>() -> Vec<RowColumn<EventParts<'a>>> {
    vec![
        Column::text("LAST SEEN").short("SEEN").weight(7).cell(|of| Cell::Age(of.event.summary.last_seen)),
        Column::text("TYPE").wide().weight(2).cell(|of| {
            let seen = &of.event.summary;
            let kind = clean(seen.type_.as_deref().unwrap_or("Normal")).into();
            if seen.is_warning() { Cell::Warning(kind) } else { Cell::Dim(kind) }
        }),
        Column::text("REASON").weight(9).usual(17).cell(|of| {
            let seen = &of.event.summary;
            let reason = clean(&seen.reason).into();
            if seen.is_warning() { Cell::Warning(reason) } else { Cell::Text(reason) }
        }),
        Column::text("OBJECT").weight(8).cell(|of| {
            let seen = &of.event.summary;
            Cell::Text(object_of(seen.about_kind.as_deref(), seen.about_name.as_deref()))
        }),
        Column::number("COUNT").weight(3).cell(|of| Cell::Number(of.count)),
        Column::text("MESSAGE").weight(10).at_least(MESSAGE_WIDTH).cell(|of| {
            let message = of.event.summary.message.trim_end().replace('\n', " ");
            let message = clean(&message);
            match of.others {
                0 => Cell::Text(message.into()),
                1 => Cell::Text(format_compact!("{message} (and 1 other)")),
                others => Cell::Text(format_compact!("{message} (and {others} others)")),
            }
        }),
    ]
}

/// Returns the resourceVersion as a number, which orders events of the same second; 0 if it is not a number.
pub fn revision(event: &Event) -> u64 {
    event.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Returns whether the event is a warning.
pub fn is_warning(event: &Event) -> bool {
    event.type_.as_deref() == Some("Warning")
}

/// Returns `pod/web-1`, as kubectl prints it.
pub fn object(event: &Event) -> String {
    let about = &event.involved_object;
    object_of(about.kind.as_deref(), about.name.as_deref()).into()
}

fn object_of(kind: Option<&str>, name: Option<&str>) -> CompactString {
    let kind = kind.unwrap_or_default().to_lowercase();
    clean(&format!("{kind}/{}", name.unwrap_or_default())).into()
}

/// Returns the row of an event.
pub fn row(event: StoredObject<'_, Event>) -> Row {
    group_row(event, i64::from(event.summary.count), 0)
}

/// Returns the row of a group of events with its newest event, the sum of the counts and the number of other messages.
pub fn group_row(event: StoredObject<'_, Event>, count: i64, others: usize) -> Row {
    let health = event.summary.is_warning().then_some(Health::Pending);
    let row = Row::of_entry(event, health, &columns(), &EventParts { event, count, others });
    // The revision orders events of the same second.
    Row { newness: event.revision, ..row }
}
