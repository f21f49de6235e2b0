//! Which columns of a table are shown and how wide they are.
//!
//! Columns must not jump while one reads. So a width follows the widest text there ever was in the whole
//! list (not only what is on the screen), with room for what its state usually becomes, and only grows
//! until the view is opened anew.

use k8s_openapi::api::core::v1::Event;
use unicode_width::UnicodeWidthStr;

use super::Table;
use crate::context::Context;
use crate::rows::cell::SPARE;
use crate::rows::{Cell, Row};

/// Space between two columns.
pub(super) const GAP: usize = 2;

/// Room for the mark or the cursor in front of a row.
const LEAD: usize = 2;

/// A column wider than this was made so by a text that is out of the ordinary.
const STRETCHED: usize = 48;

/// What a long column keeps when it is cut.
const CUT: usize = 24;

/// The same of events: each of their columns says something that the others do not.
const CUT_OF_EVENTS: usize = 14;

/// The same of the last two, which both stay.
const CUT_OF_THE_LAST: usize = 10;

/// Most spare room that goes between two columns.
const AIR: usize = 4;

/// The widest texts there ever were.
#[derive(Debug, Default)]
pub(super) struct Widths {
    namespace: usize,
    columns: Vec<usize>,
}

impl Widths {
    /// Forgets them: the next list is another one.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a row that goes leaves a column much wider than the others may need: such a one is measured anew.
    pub(super) fn was_stretched_by(&self, row: &Row) -> bool {
        let mut cells = self.columns.iter().zip(&row.cells);
        cells.any(|(width, cell)| *width > STRETCHED && cell.room() == *width)
    }

    /// Makes room for a row.
    pub(super) fn learn(&mut self, row: &Row) {
        self.namespace = self.namespace.max(row.namespace.as_deref().map_or(0, UnicodeWidthStr::width));
        if self.columns.len() < row.cells.len() {
            self.columns.resize(row.cells.len(), 0);
        }
        for (width, cell) in self.columns.iter_mut().zip(&row.cells) {
            if cell.room_at_most() > *width {
                *width = (*width).max(cell.room());
            }
        }
    }
}

/// The columns in sight.
pub(super) struct Shape {
    /// Index of a column, `None` for the namespace; and its width.
    pub(super) columns: Vec<(Option<usize>, usize)>,
    /// How many more there would be on the right.
    pub(super) hidden: usize,
    /// The table uses the short form of headings because it does not fit.
    pub(super) is_tight: bool,
}

struct ColumnLayout {
    column: Option<usize>,
    width: usize,
    /// What it may shrink to now; more than it is a wish.
    least: usize,
    /// What its texts need to be seen whole.
    whole: usize,
    weight: u8,
    /// The width it keeps when long columns are cut.
    floor: usize,
    /// Whether it is worth more whole than the lightest columns beside it are: a state in words.
    in_words: bool,
}

/// Columns of this weight or less go before a state is cut.
const LIGHT: u8 = 3;

impl Shape {
    /// For so many terminal columns.
    pub(super) fn of(table: &Table, cx: &Context<'_>, room: usize) -> Self {
        let most_cut = if table.kind.is::<Event>() { CUT_OF_EVENTS } else { CUT };
        let used = |wanted: &[ColumnLayout]| {
            (wanted.iter().map(|column| column.width + GAP).sum::<usize>() + LEAD).saturating_sub(GAP)
        };
        let mut wanted = layouts(table, cx, false);
        let smallest = |column: &ColumnLayout| {
            if column.in_words { column.width } else { column.width.min(most_cut.max(column.floor)) }
        };
        let is_tight = wanted.iter().map(|column| smallest(column) + GAP).sum::<usize>() > room;
        if is_tight {
            wanted = layouts(table, cx, true);
        }
        let mut hidden = 0;
        loop {
            let over = used(&wanted).saturating_sub(room);
            if over == 0 {
                break;
            }
            let lightest = wanted.iter().map(|column| column.weight).min().unwrap_or(u8::MAX);
            // What is there only where there is room to spare takes none from others.
            if !table.wide && wanted.iter().any(|column| column.weight == SPARE) {
                wanted.retain(|column| column.weight != SPARE);
                continue;
            }
            // Wishes go first, then long columns are cut, then whole columns go, the lightest first. Who asked
            // for all of them finds the others on the right.
            if let Some(column) = wanted.iter_mut().max_by_key(|column| column.width - column.least)
                && column.width > column.least
            {
                column.width -= over.min(column.width - column.least);
            } else if let Some(column) = wanted
                .iter_mut()
                .filter(|column| {
                    column.width > most_cut.max(column.floor) && !(column.in_words && lightest <= LIGHT)
                })
                .max_by_key(|column| column.width)
            {
                column.width -= over.min(column.width - most_cut.max(column.floor));
                column.least = column.width;
            } else if wanted.len() == 2
                && let Some(column) = wanted.iter_mut().max_by_key(|column| column.width)
                && column.width >= over + CUT_OF_THE_LAST
            {
                // A name or a state alone says too little.
                column.width -= over;
                column.least = column.width;
            } else if wanted.len() > 1
                && let Some((at, _)) = wanted.iter().enumerate().min_by_key(|(_, column)| column.weight)
            {
                hidden += usize::from(table.wide);
                wanted.remove(if table.wide { wanted.len() - 1 } else { at });
            } else {
                break;
            }
        }
        // The room of a column that was removed goes to those that were cut, first to those with a floor.
        let mut spare = room.saturating_sub(used(&wanted));
        let mut cut: Vec<&mut ColumnLayout> = wanted.iter_mut().collect();
        cut.sort_by_key(|column| std::cmp::Reverse(column.floor));
        for column in cut {
            let back = spare.min(column.whole.saturating_sub(column.width));
            column.width += back;
            spare -= back;
        }
        // Spare room goes between the columns, calmly, not all at the end.
        let last = wanted.len().saturating_sub(1);
        let air = (spare / last.max(1)).min(AIR);
        for column in wanted.iter_mut().take(last) {
            column.width += air;
            spare -= air;
        }
        if let Some(ColumnLayout { column: Some(index), width, .. }) = wanted.last_mut()
            && table.columns.get(*index).is_some_and(|column| column.name == "MESSAGE")
        {
            *width += spare;
        }
        Self {
            columns: wanted.into_iter().map(|column| (column.column, column.width)).collect(),
            hidden,
            is_tight,
        }
    }
}

fn layouts(table: &Table, cx: &Context<'_>, is_tight: bool) -> Vec<ColumnLayout> {
    let mut wanted = Vec::new();
    if table.layout.is_none() && table.shows_several(cx) {
        let width = table.widths.namespace.max("NAMESPACE".len());
        wanted.push(ColumnLayout {
            column: None,
            width,
            least: width,
            whole: width,
            weight: 7,
            floor: 0,
            in_words: false,
        });
    }
    let sort = table.index.sort().column;
    // Of which cluster a row is stays in sight, as its name does, and stands before its namespace.
    let lead = usize::from(table.says_context());
    for (index, column) in table.columns.iter().enumerate() {
        // Columns of the left edge go out of sight when the view is shifted; the name stays.
        if !table.shows(cx, column) || (index > lead && index <= table.shift.get() + lead) {
            continue;
        }
        let arrow = if sort.unwrap_or_else(|| table.name_column()) == index { 2 } else { 0 };
        let seen = table.widths.columns.get(index).copied().unwrap_or(0);
        let least = seen.max(column.heading(is_tight).width() + arrow);
        let width = least.max(usize::from(column.usual));
        wanted.push(ColumnLayout {
            column: Some(index),
            width,
            least,
            whole: least,
            weight: column.weight,
            floor: usize::from(column.floor),
            in_words: column.usual > 0,
        });
    }
    if lead > 0 && wanted.first().is_some_and(|first| first.column.is_none()) && wanted.len() > 1 {
        wanted.swap(0, 1);
    }
    wanted
}

impl Cell {
    /// What its room is not more than, told without a look at each letter: none has more columns than bytes.
    fn room_at_most(&self) -> usize {
        match self {
            Self::Text(text) | Self::Dim(text) => text.len(),
            Self::Used { text, .. } => text.len() + 1,
            Self::Status(text, health) => text.len() + health.glyph().width() + 1,
            Self::Warning(text) => text.len() + 2,
            _ => usize::MAX,
        }
    }

    /// The room the cell takes while it stays what it is, whatever the time.
    fn room(&self) -> usize {
        /// `7h59m`, `7d23h`, `364d`: the longest ages of the first eight years.
        const AGE: usize = 5;
        match self {
            Self::Text(text) | Self::Dim(text) => text.width(),
            Self::Used { text, .. } => text.width() + 1,
            Self::Status(text, health) => text.width() + health.glyph().width() + 1,
            Self::Warning(text) => text.width() + 2,
            Self::Age(Some(_)) | Self::Until(_) => AGE,
            Self::Restarts(count, Some(_)) if *count > 0 => count.to_string().len() + AGE + " ( ago)".len(),
            Self::Age(None) => "<unknown>".len(),
            Self::Number(_) | Self::Ratio(..) | Self::Restarts(..) => self.plain().width(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_is_wider_than_its_bytes_con_2(text in any::<String>()) {
            let cells = [Cell::Text, Cell::Dim, Cell::Warning].map(|cell| cell(text.as_str().into()));
            let status = Cell::Status(text.as_str().into(), Health::Running);
            for cell in cells.iter().chain([&status]) {
                prop_assert!(cell.room() <= cell.room_at_most(), "{cell:?}");
            }
        }
    }
}
