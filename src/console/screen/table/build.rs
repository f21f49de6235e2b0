//! Tables of very many rows, built some rows at a time between other work, so that keys do not wait for them.
//!
//! A table that is opened, or whose list is another one from now on, shows what it has of it until the new rows are all
//! there. One that is seen again, or whose objects' use was measured anew, has its rows in sight built at once and the others
//! in their places one after the other.

use std::collections::HashSet;

use super::Table;
use crate::context::Context;
use crate::index::Index;
use crate::kind_view;
use crate::resource::Uid;
use crate::rows::{Row, RowKey};

/// Rows that are built at once.
const AT_ONCE: usize = 512;
/// How many of more are built in one go between other work: a millisecond or two.
const STEP: usize = 256;

/// The rows of a table that will be shown when all are there.
#[derive(Debug)]
pub(super) struct Building {
    rows: Index,
    /// What was filtered by when it began.
    query: String,
    faults: bool,
    /// Whose rows are not built yet.
    left: Vec<Uid>,
}

impl Building {
    /// How many rows there will be, about.
    pub(super) fn total(&self) -> usize {
        self.rows.total() + self.left.len()
    }

    /// Takes in that an object changed which may be built already.
    pub(super) fn change(&mut self, key: &RowKey, row: Option<&Row>) {
        match row {
            Some(row) => drop(self.rows.put(row.clone())),
            None => drop(self.rows.take(key)),
        }
    }
}

impl Table {
    /// Builds all rows: few at once, of more those in sight.
    pub(super) fn build(&mut self, cx: &Context<'_>, all: Vec<Uid>) {
        if all.len() <= AT_ONCE {
            return self.build_at_once(cx, &all);
        }
        let there = cx.stores.get(&self.kind.resource);
        let is_there = |row: &Row| there.is_some_and(|store| store.get(&row.uid).is_some());
        let is_gone = |row: &&Row| !is_there(row) || !self.belongs(cx, row);
        let gone: HashSet<RowKey> = self.index.all().filter(is_gone).map(Row::key).collect();
        self.index.take_all(&gone);
        let is_new = |uid: &&Uid| self.index.get(&RowKey::from((*uid).clone())).is_none();
        let new: Vec<Uid> = all.iter().filter(is_new).cloned().collect();
        if new.len() <= AT_ONCE {
            self.build_anew(cx);
            for uid in &new {
                self.put_built(cx, uid);
            }
            return self.is_built();
        }
        self.stale.clear();
        self.build_those_in_sight(cx);
        let filter = self.index.filter().clone();
        let (query, faults) = (self.query.clone(), filter.faults);
        let mut rows = Index::new(self.index.sort());
        rows.set_filter(filter);
        self.loaded = false;
        self.building = Some(Box::new(Building { rows, query, faults, left: all }));
    }

    /// Builds all rows, however many.
    pub(super) fn build_at_once(&mut self, cx: &Context<'_>, all: &[Uid]) {
        let rows = all.iter().filter_map(|uid| self.built(cx, uid)).collect();
        self.reset(rows);
    }

    /// Takes in what all objects use now.
    pub(super) fn measured(&mut self, cx: &Context<'_>) {
        if self.groups.is_some() || self.over.is_some() || self.index.total() <= AT_ONCE {
            return self.rebuild(cx);
        }
        self.build_anew(cx);
    }

    /// Whether rows are not built yet.
    pub(super) fn is_building(&self) -> bool {
        self.building.is_some() || !self.stale.is_empty()
    }

    /// Goes on with them.
    pub(super) fn build_on(&mut self, cx: &Context<'_>) {
        for uid in self.stale.split_off(self.stale.len().saturating_sub(STEP)) {
            self.put_built(cx, &uid);
        }
        let Some(mut building) = self.building.take() else { return };
        let next = building.left.split_off(building.left.len().saturating_sub(STEP));
        let rows: Vec<Row> = next.iter().filter_map(|uid| self.built(cx, uid)).collect();
        for row in &rows {
            self.widths.learn(row);
        }
        building.rows.add(rows);
        if !building.left.is_empty() {
            self.building = Some(building);
            return;
        }
        let (sort, filter) = (self.index.sort(), self.index.filter().clone());
        self.index = building.rows;
        // Both may have been chosen meanwhile.
        if self.index.sort() != sort {
            self.index.set_sort(sort);
        }
        if self.query != building.query || filter.faults != building.faults {
            self.index.set_filter(filter);
        }
        self.loaded = self.has_list(cx);
        self.is_built();
    }

    /// Builds the rows that are there anew, those in sight at once.
    fn build_anew(&mut self, cx: &Context<'_>) {
        self.stale = self.index.all().map(|row| row.uid.clone()).collect();
        self.build_those_in_sight(cx);
    }

    fn build_those_in_sight(&mut self, cx: &Context<'_>) {
        let rows = self.index.shown().skip(self.offset.get()).take(self.height.get());
        for uid in rows.map(|row| row.uid.clone()).collect::<Vec<_>>() {
            self.put_built(cx, &uid);
        }
    }

    /// Puts an object's row in its place. That an object is gone is told by itself.
    fn put_built(&mut self, cx: &Context<'_>, uid: &Uid) {
        if let Some(row) = self.built(cx, uid) {
            self.widths.learn(&row);
            self.index.put(row);
        }
    }

    /// The row of an object that is listed, as the table has it.
    pub(super) fn built(&self, cx: &Context<'_>, uid: &Uid) -> Option<Row> {
        self.own(cx, kind_view::row(cx.stores, &self.kind.resource, uid)?)
    }
}
