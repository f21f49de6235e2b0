//! Faults and node fences as rows.

use jiff::{SignedDuration, Timestamp};

use super::{Cell, Column, Row};
use console_toolkit::health::Health;
use console_toolkit::text::clean;
use extension::fault::{ACTIVE, Fault};
use extension::node_fence::{FENCED, FencePhase, NodeFence};
use object::conditions;

/// Returns the columns: the type, the remaining time, and the affected objects.
pub(crate) fn fault_columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::text("TYPE").weight(8),
        Column::text("STATUS").weight(9).usual(10),
        Column::text("LEFT").weight(8).usual(12),
        Column::text("MEETS").weight(5),
        Column::text("FROM").weight(3),
        Column::text("TO").weight(3),
        Column::text("AGE").weight(8),
    ]
}

/// Returns whether a fault is in force.
pub fn is_active(fault: &Fault) -> bool {
    let Some(status) = &fault.status else { return false };
    status.ended_at.is_none() && conditions::is_true(status.conditions.as_ref(), ACTIVE)
}

/// Returns the time when a fault ends by itself; `None` if it must be deleted.
pub fn ends_at(fault: &Fault) -> Option<Timestamp> {
    let started = fault.status.as_ref()?.started_at.as_ref()?.0;
    let lasts = SignedDuration::try_from(fault.duration()?).ok()?;
    started.checked_add(lasts).ok()
}

pub(crate) fn fault_row(fault: &Fault) -> Option<Row> {
    let status = fault.status.as_ref();
    let active = conditions::get(status.and_then(|status| status.conditions.as_ref()), ACTIVE);
    let (word, health) = match active {
        _ if fault.metadata.deletion_timestamp.is_some() => ("Healing".to_owned(), Health::Terminating),
        _ if fault.has_ended() => ("Ended".to_owned(), Health::Succeeded),
        _ if is_active(fault) => ("Active".to_owned(), Health::Failed),
        Some(condition) => (clean(&condition.reason).into_owned(), Health::Pending),
        None => ("Waiting".to_owned(), Health::Pending),
    };
    let left = match ends_at(fault) {
        _ if fault.has_ended() => Cell::Dim("ended".into()),
        Some(at) => Cell::Until(at),
        None => match &fault.spec.duration {
            Some(duration) => Cell::Dim(clean(duration).into()),
            None => Cell::Dim("until healed".into()),
        },
    };
    let side = |side: Option<&extension::fault::FaultPeer>| match side {
        Some(peer) => Cell::server_text(&peer.to_string()),
        None => Cell::Dim("<none>".into()),
    };
    let cells = vec![
        Cell::server_text(fault.metadata.name.as_deref().unwrap_or_default()),
        Cell::server_text(&fault.spec.type_),
        Cell::Status(word.into(), health),
        left,
        Cell::or_none(status.and_then(|status| status.meets.as_deref())),
        side(fault.spec.from.as_ref()),
        side(fault.spec.to.as_ref()),
        Cell::Age(fault.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(fault, Some(health), cells)
}

/// Returns the columns: the progress of a fence, and its last message.
pub(crate) fn fence_columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::text("STATUS").weight(9).usual(12),
        Column::text("REASON").weight(4),
        Column::text("MESSAGE").weight(7),
        Column::text("AGE").weight(8),
    ]
}

/// Returns the progress of a fence in one word.
pub(crate) fn fence_state(fence: &NodeFence) -> (&'static str, Health) {
    match fence.phase() {
        _ if fence.metadata.deletion_timestamp.is_some() => ("Returning", Health::Pending),
        FencePhase::Pending => ("Pending", Health::Pending),
        FencePhase::Killing => ("Killing", Health::Terminating),
        FencePhase::Fenced => ("Fenced", Health::Failed),
    }
}

pub(crate) fn fence_row(fence: &NodeFence) -> Option<Row> {
    let (word, health) = fence_state(fence);
    let all = fence.status.as_ref().and_then(|status| status.conditions.as_ref());
    let message = conditions::get(all, FENCED).map(|fenced| fenced.message.replace('\n', " "));
    let cells = vec![
        Cell::server_text(fence.metadata.name.as_deref().unwrap_or_default()),
        Cell::Status(word.into(), health),
        Cell::or_none(fence.spec.reason.as_deref()),
        Cell::or_none(message.as_deref()),
        Cell::Age(fence.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(fence, Some(health), cells)
}
