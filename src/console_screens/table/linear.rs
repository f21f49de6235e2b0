//! A table as linear mode reads it, row by row.

use super::Table;
use console_data::context::Context;
use console_data::links::UnavailableReason;
use console_data::list::{Line, List, ListCell};
use console_data::rows::cell::ColumnVisibility;
use console_data::rows::{Cell, Column, Row};
use console_data::scope::Scope;
use console_data::sort_memory::Direction;
use console_toolkit::text::{clean, grouped};

/// Returns the current content of the table.
pub(super) fn list(table: &Table, cx: &Context<'_>) -> List {
    let several = table.kind.namespaced && *cx.scope == Scope::All;
    let filter = table.index.filter();
    // An incomplete table is not read: all later rows would count as changes.
    let is_whole = (table.loaded || table.displayed_time().is_some()) && !table.index.is_filtering();
    let shown = table.index.visible_rows().filter(|_| is_whole);
    List {
        query: format!(
            "{} {} {:?} {:?} {} {}",
            table.query,
            filter.faults,
            table.only,
            cx.scope,
            table.is_grouped(),
            table.clusters_label(cx)
        ),
        empty: if table.index.is_empty() || !is_whole { empty(table, cx) } else { String::new() },
        order: order(table, cx),
        rows: shown.map(|row| line(table, row, several, cx)).collect(),
        total: if is_whole { table.index.total() } else { 0 },
        cursor: table.cursor_row(),
        marked: table.marks.len(),
        chosen: None,
    }
}

fn line(table: &Table, row: &Row, several: bool, cx: &Context<'_>) -> Line {
    let namespace = row.namespace.as_deref().filter(|_| several);
    let name = match namespace {
        Some(namespace) => format!("{} of {}", clean(&row.name), clean(namespace)),
        None => clean(&row.name).into_owned(),
    };
    let cells = table.columns.iter().zip(&row.cells).filter(|(column, _)| table.shows(cx, column));
    // The name, and the namespace if there are several, are read first.
    let is_read_first =
        |column: &Column| column.name == "NAME" || column.visibility == ColumnVisibility::Several;
    let phrases = cells.filter(|(column, _)| !is_read_first(column)).map(|(column, cell)| {
        let timed = matches!(cell, Cell::Age(_) | Cell::Until(_) | Cell::Used { .. });
        // Servers format ages themselves.
        let restless = timed || column.usage || matches!(&*column.name, "AGE" | "LAST SEEN" | "FIRST SEEN");
        // The number of restarts is worth reading; their age is not.
        let text = match cell {
            Cell::Restarts(..) => cell.plain(),
            // A missing measurement or a share of zero is not worth reading.
            Cell::Dim(_) if column.usage => "".into(),
            Cell::Used { text, load, .. } => cx.thresholds.level(*load).marked(text, true).into(),
            cell => cell.show(cx),
        };
        ListCell { column: column.name.to_lowercase(), text: text.into_owned(), is_volatile: restless }
    });
    let phrases = phrases.collect();
    Line { key: row.key(), name, marked: table.marks.contains(&row.key()), cells: phrases }
}

/// Returns the sort order, and the kinds without rows.
fn order(table: &Table, cx: &Context<'_>) -> String {
    let sort = table.index.sort();
    let column = sort.column.and_then(|column| table.columns.get(column));
    let column = column.map_or_else(|| "name".to_owned(), |column| column.name.to_lowercase());
    let end = match sort.direction {
        Direction::Up => "ascending",
        Direction::Down => "descending",
    };
    let lacking = table.lacking(cx);
    let lacking = if lacking.is_empty() { lacking } else { format!("; {lacking}") };
    format!("by {column}, {end}{lacking}")
}

/// Returns the text for an empty table.
fn empty(table: &Table, cx: &Context<'_>) -> String {
    if table.over().is_some() && table.index.total() == 0 {
        let states = table.states(cx);
        let states = states.iter().map(|state| format!("{} {}", state.name, state.label));
        return states.collect::<Vec<_>>().join(", ");
    }
    match cx.links.refused(&table.kind.resource).filter(|_| table.displayed_time().is_none()) {
        Some(refusal @ UnavailableReason::NotAllowed(why)) => format!("{}: {}", refusal.label(), clean(why)),
        Some(refusal @ UnavailableReason::Absent) => refusal.label().to_owned(),
        None if !table.loaded => "loading".to_owned(),
        None if table.index.is_filtering() => "filtering".to_owned(),
        None if table.index.total() > 0 => {
            format!("none of {} match", grouped(table.index.total() as u64))
        }
        None => format!("no {}", table.kind.resource.plural),
    }
}
