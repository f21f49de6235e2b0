//! What the objects of a table's rows use, measured anew every few seconds: of very many rows, some at a time.

use super::Table;
use crate::context::Context;
use crate::kind_view;
use crate::rows::cell::Shown;

/// Rows that are built anew at once.
const AT_ONCE: usize = 512;
/// How many of more are built in one go between other work: a millisecond or two.
const STEP: usize = 128;

impl Table {
    /// Takes in what all of them use now.
    pub(super) fn measured(&mut self, cx: &Context<'_>) {
        let sorted = self.index.sort().column.and_then(|column| self.columns.get(column));
        let by_use = sorted.is_some_and(|column| column.shown == Shown::Measured);
        // Where nearly all change their places, one sort is less than many searches.
        if by_use || self.groups.is_some() || self.over.is_some() || self.index.total() <= AT_ONCE {
            return self.rebuild(cx);
        }
        self.to_measure = self.index.all().map(|row| row.uid.clone()).collect();
    }

    /// Goes on with it.
    pub(super) fn measure_on(&mut self, cx: &Context<'_>) {
        for uid in self.to_measure.split_off(self.to_measure.len().saturating_sub(STEP)) {
            // That one is gone is told by itself.
            let row = kind_view::row(cx.stores, &self.kind.resource, &uid);
            if let Some(row) = row.filter(|row| self.belongs(cx, row)) {
                let row = self.laid_out(cx, row);
                self.widths.learn(&row);
                self.index.put(row);
            }
        }
    }
}
