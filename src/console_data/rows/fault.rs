//! Faults and node fences as rows.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};

use super::column_cells::{RowColumn, age, name};
use super::{Cell, Column, Row};
use console_toolkit::health::Health;
use console_toolkit::text::clean;
use extension::fault::{ACTIVE, Fault, FaultPeer};
use extension::node_fence::{FENCED, FencePhase, NodeFence};
use object::conditions;

/// Returns the columns: the type, the remaining time, and the affected objects.
pub(crate) fn fault_columns() -> Vec<RowColumn<Fault>> {
    vec![
        Column::text("NAME").weight(9).cell(|fault| name(&fault.metadata)),
        Column::text("TYPE").weight(8).cell(|fault| Cell::server_text(&fault.spec.type_)),
        Column::text("STATUS").weight(9).usual(10).cell(|fault| {
            let (word, health) = fault_state(fault);
            Cell::Status(word.into(), health)
        }),
        Column::text("LEFT").weight(8).usual(12).cell(remaining),
        Column::text("MEETS")
            .weight(5)
            .cell(|fault| Cell::or_none(fault.status.as_ref().and_then(|status| status.meets.as_deref()))),
        Column::text("FROM").weight(3).cell(|fault| side(fault.spec.from.as_ref())),
        Column::text("TO").weight(3).cell(|fault| side(fault.spec.to.as_ref())),
        Column::text("AGE").weight(8).cell(|fault| age(&fault.metadata)),
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

fn fault_state(fault: &Fault) -> (Cow<'_, str>, Health) {
    let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
    match conditions::get(conditions, ACTIVE) {
        _ if fault.metadata.deletion_timestamp.is_some() => ("Healing".into(), Health::Terminating),
        _ if fault.has_ended() => ("Ended".into(), Health::Succeeded),
        _ if is_active(fault) => ("Active".into(), Health::Failed),
        Some(condition) => (clean(&condition.reason), Health::Pending),
        None => ("Waiting".into(), Health::Pending),
    }
}

fn remaining(fault: &Fault) -> Cell {
    match ends_at(fault) {
        _ if fault.has_ended() => Cell::Dim("ended".into()),
        Some(at) => Cell::Until(at),
        None => match &fault.spec.duration {
            Some(duration) => Cell::Dim(clean(duration).into()),
            None => Cell::Dim("until healed".into()),
        },
    }
}

fn side(side: Option<&FaultPeer>) -> Cell {
    match side {
        Some(peer) => Cell::server_text(&peer.to_string()),
        None => Cell::Dim("<none>".into()),
    }
}

pub(crate) fn fault_row(fault: &Fault) -> Option<Row> {
    Row::of(fault, Some(fault_state(fault).1), &fault_columns())
}

/// Returns the columns: the progress of a fence, and its last message.
pub(crate) fn fence_columns() -> Vec<RowColumn<NodeFence>> {
    vec![
        Column::text("NAME").weight(9).cell(|fence| name(&fence.metadata)),
        Column::text("STATUS").weight(9).usual(12).cell(|fence| {
            let (word, health) = fence_state(fence);
            Cell::Status(word.into(), health)
        }),
        Column::text("REASON").weight(4).cell(|fence| Cell::or_none(fence.spec.reason.as_deref())),
        Column::text("MESSAGE").weight(7).cell(|fence| {
            let all = fence.status.as_ref().and_then(|status| status.conditions.as_ref());
            let message = conditions::get(all, FENCED).map(|fenced| fenced.message.replace('\n', " "));
            Cell::or_none(message.as_deref())
        }),
        Column::text("AGE").weight(8).cell(|fence| age(&fence.metadata)),
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
    Row::of(fence, Some(fence_state(fence).1), &fence_columns())
}
