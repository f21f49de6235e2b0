//! Events as rows.

use compact_str::CompactString;
use k8s_openapi::api::core::v1::Event;

use super::{Cell, Column, Row};
use crate::store::StoredObject;
pub use crate::store::event::{count, last_seen};
use console_toolkit::health::Health;
use console_toolkit::text::clean;

/// Index of the column COUNT.
pub const COUNT: usize = 4;
/// Index of the column MESSAGE.
pub const MESSAGE: usize = 5;

/// The width reserved for MESSAGE beside NAMESPACE, LAST SEEN, REASON and OBJECT in a terminal of 80 columns.
const MESSAGE_WIDTH: u8 = 23;

/// Returns kubectl's columns LAST SEEN, REASON, OBJECT, MESSAGE, and COUNT. A warning is marked in its reason; TYPE is
/// shown in wide mode. REASON and MESSAGE stay in a narrow terminal: together they say what happened.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::text("LAST SEEN").short("SEEN").weight(7),
        Column::text("TYPE").wide().weight(2),
        Column::text("REASON").weight(9).usual(17),
        Column::text("OBJECT").weight(8),
        Column::number("COUNT").weight(3),
        Column::text("MESSAGE").weight(10).at_least(MESSAGE_WIDTH),
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
    let seen = &event.summary;
    let warning = seen.is_warning();
    let kind = clean(seen.type_.as_deref().unwrap_or("Normal")).into();
    let reason = clean(&seen.reason).into();
    let message = seen.message.trim_end().replace('\n', " ");
    let cells = vec![
        Cell::Age(seen.last_seen),
        if warning { Cell::Warning(kind) } else { Cell::Dim(kind) },
        if warning { Cell::Warning(reason) } else { Cell::Text(reason) },
        Cell::Text(object_of(seen.about_kind.as_deref(), seen.about_name.as_deref())),
        Cell::Number(i64::from(seen.count)),
        Cell::server_text(&message),
    ];
    let row = Row::of_entry(event, warning.then_some(Health::Pending), cells);
    // The revision orders events of the same second.
    Row { newness: event.revision, ..row }
}
