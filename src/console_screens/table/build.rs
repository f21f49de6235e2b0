//! Builds tables with very many rows in steps between other work, so that keys do not wait for them.
//!
//! A table that is opened, or that gets another list, shows its present rows until all new rows are built. If a table
//! is shown again, or its usage values changed, the visible rows are built at once and the others one after the other
//! in place.

use std::collections::HashSet;

use super::Table;
use console_data::context::Context;
use console_data::index::Index;
use console_data::kind_view;
use console_data::resource::Uid;
use console_data::rows::{Row, RowKey};

/// Maximum number of rows that are built at once.
const AT_ONCE: usize = 512;
/// Number of rows built in each later step, which takes one or two milliseconds.
const STEP: usize = 256;

/// New rows of a table, shown when all of them are built.
#[derive(Debug)]
pub(super) struct TableBuild {
    rows: Index,
    /// The filter when building started.
    query: String,
    faults: bool,
    /// Objects without a new row yet.
    remaining: Vec<Uid>,
}

impl TableBuild {
    /// Approximate number of rows when building is complete.
    pub(super) fn total(&self) -> usize {
        self.rows.total() + self.remaining.len()
    }

    /// Applies the change of an object that may already have a new row.
    pub(super) fn change(&mut self, key: &RowKey, row: Option<&Row>) {
        match row {
            Some(row) => drop(self.rows.insert(row.clone())),
            None => drop(self.rows.take(key)),
        }
    }
}

impl Table {
    /// Builds all rows: few rows at once, of many rows the visible ones first.
    pub(super) fn build(&mut self, cx: &Context<'_>, all: Vec<Uid>) {
        if all.len() <= AT_ONCE {
            return self.build_at_once(cx, &all);
        }
        let there = cx.stores.get(&self.kind.resource);
        let is_there = |row: &Row| there.is_some_and(|store| store.get(&row.uid).is_some());
        let is_removed = |row: &&Row| !is_there(row) || !self.belongs(cx, row);
        let removed: HashSet<RowKey> = self.index.all().filter(is_removed).map(Row::key).collect();
        self.index.take_all(&removed);
        let is_new = |uid: &&Uid| self.index.get(&RowKey::from((*uid).clone())).is_none();
        let new: Vec<Uid> = all.iter().filter(is_new).cloned().collect();
        if new.len() <= AT_ONCE {
            self.restart_build(cx);
            for uid in &new {
                self.insert_built(cx, uid);
            }
            return self.finish_build();
        }
        self.stale.clear();
        self.build_those_in_sight(cx);
        let filter = self.index.filter().clone();
        let (query, faults) = (self.query.clone(), filter.faults);
        let mut rows = Index::new(self.index.sort());
        rows.set_filter(filter);
        self.loaded = false;
        self.building = Some(Box::new(TableBuild { rows, query, faults, remaining: all }));
    }

    /// Builds all rows at once.
    pub(super) fn build_at_once(&mut self, cx: &Context<'_>, all: &[Uid]) {
        let rows = all.iter().filter_map(|uid| self.built(cx, uid)).collect();
        self.reset(rows);
    }

    /// Applies new usage values of all objects.
    pub(super) fn measured(&mut self, cx: &Context<'_>) {
        if self.groups.is_some() || self.over.is_some() || self.index.total() <= AT_ONCE {
            return self.rebuild(cx);
        }
        self.restart_build(cx);
    }

    /// Returns whether rows remain to be built.
    pub(super) fn is_building(&self) -> bool {
        self.building.is_some() || !self.stale.is_empty()
    }

    /// Builds the next rows.
    pub(super) fn build_on(&mut self, cx: &Context<'_>) {
        for uid in self.stale.split_off(self.stale.len().saturating_sub(STEP)) {
            self.insert_built(cx, &uid);
        }
        let Some(mut building) = self.building.take() else { return };
        let next = building.remaining.split_off(building.remaining.len().saturating_sub(STEP));
        let rows: Vec<Row> = next.iter().filter_map(|uid| self.built(cx, uid)).collect();
        for row in &rows {
            self.widths.get_mut().learn(row);
        }
        building.rows.add(rows);
        if !building.remaining.is_empty() {
            self.building = Some(building);
            return;
        }
        let (sort, filter) = (self.index.sort(), self.index.filter().clone());
        self.index = building.rows;
        // Sort and filter may have changed meanwhile.
        if self.index.sort() != sort {
            self.index.set_sort(sort);
        }
        if self.query != building.query || filter.faults != building.faults {
            self.index.set_filter(filter);
        }
        self.loaded = self.has_list(cx);
        self.finish_build();
    }

    /// Rebuilds the existing rows, the visible ones at once.
    fn restart_build(&mut self, cx: &Context<'_>) {
        self.stale = self.index.all().map(|row| row.uid.clone()).collect();
        self.build_those_in_sight(cx);
    }

    fn build_those_in_sight(&mut self, cx: &Context<'_>) {
        let shown = self.window.last_drawn();
        let rows = self.index.visible_rows().skip(shown.start).take(shown.len());
        for uid in rows.map(|row| row.uid.clone()).collect::<Vec<_>>() {
            self.insert_built(cx, &uid);
        }
    }

    /// Updates an object's row in place. Deletions arrive as separate changes.
    fn insert_built(&mut self, cx: &Context<'_>, uid: &Uid) {
        if let Some(row) = self.built(cx, uid) {
            self.widths.get_mut().learn(&row);
            self.index.insert(row);
        }
    }

    /// Returns the row of an object, in the table's columns, if the table lists the object.
    pub(super) fn built(&self, cx: &Context<'_>, uid: &Uid) -> Option<Row> {
        self.own(cx, kind_view::row(cx.stores, &self.kind.resource, uid)?)
    }
}
