//! Chooses the visible columns of a table and their widths.
//!
//! Columns must not jump while the user reads. A width therefore follows the widest text so far in the whole list (not
//! only the visible rows), with space for the usual next values of a state, and only grows until the view is reopened.

use k8s_openapi::api::core::v1::Event;
use unicode_width::UnicodeWidthStr;

use super::Table;
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::rows::Row;
use console_data::rows::cell::SPARE;

/// Space between two columns.
pub(super) const GAP: usize = 2;

/// Space for the mark or the cursor before a row.
const LEAD: usize = 2;

/// A column wider than this has an exceptionally long text. Names get more only up to half of the table: one long name
/// must not push the other columns away from all names.
const STRETCHED: usize = 48;

/// Minimum width to which a long column is cut.
const CUT: usize = 24;

/// The minimum width of a long column in the table of events, because all its columns matter.
const CUT_OF_EVENTS: usize = 14;

/// The minimum width to which the last two columns are cut before one of them is dropped.
const CUT_OF_THE_LAST: usize = 10;

/// Maximum number of rows of a table that are measured again for a column that could return.
const REMEASURED: usize = 512;

/// Maximum additional space between two columns.
const AIR: usize = 4;

/// The width of the widest text so far in each column.
#[derive(Debug, Default)]
pub(super) struct Widths {
    namespace: usize,
    columns: Vec<usize>,
}

impl Widths {
    /// Resets the widths for another list.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the widths of these rows.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Self {
        let mut widths = Self::default();
        rows.for_each(|row| widths.learn(row));
        widths
    }

    /// Returns whether the removal of this row may leave a column much wider than necessary, so that it must be
    /// measured again.
    pub(super) fn was_stretched_by(&self, row: &Row) -> bool {
        self.is_reached_by(row, STRETCHED)
    }

    /// Returns whether the removal of this row may leave a column wider than necessary.
    pub(super) fn was_widened_by(&self, row: &Row) -> bool {
        self.is_reached_by(row, 0)
    }

    /// Returns whether this row has the widest text of a column wider than `limit`.
    fn is_reached_by(&self, row: &Row, limit: usize) -> bool {
        let mut cells = self.columns.iter().zip(&row.cells);
        cells.any(|(width, cell)| *width > limit && cell.max_width() == *width)
    }

    /// Widens the columns to fit a row.
    pub(super) fn learn(&mut self, row: &Row) {
        self.namespace = self.namespace.max(row.namespace.as_deref().map_or(0, UnicodeWidthStr::width));
        if self.columns.len() < row.cells.len() {
            self.columns.resize(row.cells.len(), 0);
        }
        for (width, cell) in self.columns.iter_mut().zip(&row.cells) {
            if cell.max_width_bound() > *width {
                *width = (*width).max(cell.max_width());
            }
        }
    }
}

pub(super) struct VisibleColumns {
    /// The index of each column (`None` for the namespace) and its width.
    pub(super) columns: Vec<(Option<usize>, usize)>,
    /// Number of further columns on the right.
    pub(super) hidden: usize,
    /// True if headings use their short form because the table does not fit.
    pub(super) is_tight: bool,
    /// True if columns are not shown because the table does not fit.
    drops_columns: bool,
}

struct ColumnLayout {
    column: Option<usize>,
    width: usize,
    /// The width to which it may shrink now; anything above is optional.
    least: usize,
    /// The width that shows its texts in full.
    whole: usize,
    weight: u8,
    /// The width that remains when long columns are cut.
    floor: usize,
    /// True for a state as text: the lightest columns are dropped before a state is cut.
    is_text: bool,
}

/// Columns of at most this weight are dropped before a state is cut.
const LIGHT: u8 = 3;

impl VisibleColumns {
    /// Lays out the columns in `available` terminal columns.
    pub(super) fn of(table: &Table, cx: &Context<'_>, available: usize) -> Self {
        let shape = Self::with(table, &table.widths.borrow(), cx, available);
        if !shape.drops_columns || !table.has_narrowed.get() || table.index.total() > REMEASURED {
            return shape;
        }
        let present = Widths::of(table.index.all());
        let narrower = Self::with(table, &present, cx, available);
        if narrower.columns.len() <= shape.columns.len() {
            return shape;
        }
        table.has_narrowed.set(false);
        table.widths.replace(present);
        narrower
    }

    fn with(table: &Table, widths: &Widths, cx: &Context<'_>, available: usize) -> Self {
        let most_cut = if table.kind.is::<Event>() { CUT_OF_EVENTS } else { CUT };
        let used = |columns: &[ColumnLayout]| {
            (columns.iter().map(|column| column.width + GAP).sum::<usize>() + LEAD).saturating_sub(GAP)
        };
        let mut columns = layouts(table, widths, cx, available, false);
        let smallest = |column: &ColumnLayout| {
            if column.is_text { column.width } else { column.width.min(most_cut.max(column.floor)) }
        };
        let is_tight = columns.iter().map(|column| smallest(column) + GAP).sum::<usize>() > available;
        if is_tight {
            columns = layouts(table, widths, cx, available, true);
        }
        let (mut hidden, mut drops_columns) = (0, false);
        loop {
            let over = used(&columns).saturating_sub(available);
            if over == 0 {
                break;
            }
            let lightest = columns.iter().map(|column| column.weight).min().unwrap_or(u8::MAX);
            // Columns that are shown only if there is spare space never take it from others.
            if !table.wide && columns.iter().any(|column| column.weight == SPARE) {
                columns.retain(|column| column.weight != SPARE);
                continue;
            }
            // Optional width is removed first, then long columns are cut, then columns are dropped, the lightest first.
            // In wide mode the dropped columns are on the right.
            if let Some(column) = columns.iter_mut().max_by_key(|column| column.width - column.least)
                && column.width > column.least
            {
                column.width -= over.min(column.width - column.least);
            } else if let Some(column) = columns
                .iter_mut()
                .filter(|column| {
                    column.width > most_cut.max(column.floor) && !(column.is_text && lightest <= LIGHT)
                })
                .max_by_key(|column| column.width)
            {
                column.width -= over.min(column.width - most_cut.max(column.floor));
                column.least = column.width;
            } else if columns.len() == 2
                && let Some(column) = columns.iter_mut().max_by_key(|column| column.width)
                && column.width >= over + CUT_OF_THE_LAST
            {
                // The last two columns are cut, not dropped: a name or a state alone would not be enough.
                column.width -= over;
                column.least = column.width;
            } else if columns.len() > 1
                // Of several lightest columns the rightmost is dropped: servers list the important ones first.
                && let Some((at, _)) = columns.iter().enumerate().rev().min_by_key(|(_, column)| column.weight)
            {
                hidden += usize::from(table.wide);
                drops_columns = true;
                columns.remove(if table.wide { columns.len() - 1 } else { at });
            } else {
                break;
            }
        }
        // The width of a dropped column goes to the columns that were cut, first to those with a floor.
        let mut spare = available.saturating_sub(used(&columns));
        let mut cut: Vec<&mut ColumnLayout> = columns.iter_mut().collect();
        cut.order_by_key(|column| std::cmp::Reverse(column.floor));
        for column in cut {
            let back = spare.min(column.whole.saturating_sub(column.width));
            column.width += back;
            spare -= back;
        }
        // Spare space is distributed between the columns, not all at the end.
        let last = columns.len().saturating_sub(1);
        let air = (spare / last.max(1)).min(AIR);
        for column in columns.iter_mut().take(last) {
            column.width += air;
            spare -= air;
        }
        if let Some(ColumnLayout { column: Some(index), width, .. }) = columns.last_mut()
            && table.columns.get(*index).is_some_and(|column| column.name == "MESSAGE")
        {
            *width += spare;
        }
        Self {
            columns: columns.into_iter().map(|column| (column.column, column.width)).collect(),
            hidden,
            is_tight,
            drops_columns,
        }
    }
}

fn layouts(
    table: &Table,
    widths: &Widths,
    cx: &Context<'_>,
    available: usize,
    is_tight: bool,
) -> Vec<ColumnLayout> {
    let mut columns = Vec::new();
    if table.layout.is_none() && table.shows_several(cx) {
        let width = widths.namespace.max("NAMESPACE".len());
        columns.push(ColumnLayout {
            column: None,
            width,
            least: width,
            whole: width,
            weight: 7,
            floor: 0,
            is_text: false,
        });
    }
    let sort = table.index.sort().column;
    // The cluster of a row stays visible, like its name, and precedes its namespace.
    let lead = usize::from(table.shows_context());
    for (index, column) in table.columns.iter().enumerate() {
        // Columns at the left are hidden when the view is shifted; the name stays.
        if !table.shows(cx, column) || (index > lead && index <= table.shift.get() + lead) {
            continue;
        }
        let is_name = table.name_column() == index;
        let arrow = if sort.unwrap_or_else(|| table.name_column()) == index { 2 } else { 0 };
        let seen = widths.columns.get(index).copied().unwrap_or(0);
        let seen = if is_name { seen.min(STRETCHED.max(available / 2)) } else { seen };
        let least = seen.max(column.heading(is_tight).width() + arrow);
        let width = least.max(usize::from(column.usual));
        columns.push(ColumnLayout {
            column: Some(index),
            width,
            least,
            whole: least,
            weight: column.weight,
            floor: usize::from(column.floor),
            is_text: column.usual > 0,
        });
    }
    if lead > 0 && columns.first().is_some_and(|first| first.column.is_none()) && columns.len() > 1 {
        columns.swap(0, 1);
    }
    columns
}
