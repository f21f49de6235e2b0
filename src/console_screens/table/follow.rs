//! Updates the rows of a table: a complete rebuild, or change by change as the store reports.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::column_layout::Widths;
use super::{FLASH, Table};
use console_data::context::Context;
use console_data::kind_view;
use console_data::resource::{ResourceKey, Uid};
use console_data::rows::{Row, RowKey};
use console_data::store::{TouchedObjects, controller_of};
use console_operations::effect::RowScope;
use extension::node_fence::NodeFence;

/// Returns the Deployments with rows that show the state of these pods.
fn deployments_of(cx: &Context<'_>, pods: &[Uid]) -> BTreeSet<Uid> {
    let set_of = |pod: &Uid| {
        let pod = cx.stores.pods().entry(pod)?;
        pod.open().controller.as_ref().map(|owner| Uid::from(owner.uid.as_str()))
    };
    let sets = pods.iter().filter_map(set_of);
    sets.filter_map(|set| controller_of(cx.stores.replica_sets().get(&set)?)).collect()
}

impl Table {
    pub(super) fn rebuild(&mut self, cx: &Context<'_>) {
        let is_past = self.past.is_some();
        self.with(cx, |table, cx| table.rebuild_of(cx, is_past));
    }

    /// Rebuilds the rows from the stores of `cx`, in steps if possible.
    fn rebuild_of(&mut self, cx: &Context<'_>, is_past: bool) {
        self.rebuilt = Some(cx.now);
        self.building = None;
        self.learn_kinds(cx);
        if self.over.is_some() {
            self.loaded = self.is_loaded(cx);
            self.learn_columns(cx);
            let all = self.rows_over(cx);
            return self.reset(all);
        }
        self.loaded = self.has_list(cx);
        self.learn_columns(cx);
        if let Some(groups) = &mut self.groups {
            let rows = groups.rebuild(cx.stores).into_iter();
            let rows = rows.filter_map(|row| self.own(cx, row)).collect();
            self.reset(rows);
        } else {
            let all = kind_view::uids(cx.stores, &self.kind.resource);
            if is_past || self.is_mixed() { self.build_at_once(cx, &all) } else { self.build(cx, all) }
        }
    }

    /// Returns the row in the table's columns, if it belongs to the table.
    pub(super) fn own(&self, cx: &Context<'_>, row: Row) -> Option<Row> {
        self.belongs(cx, &row).then(|| self.lay_out_row(cx, row))
    }

    pub(super) fn reset(&mut self, rows: Vec<Row>) {
        // All rows may have changed.
        self.has_narrowed.set(true);
        for row in &rows {
            self.widths.get_mut().learn(row);
        }
        self.index.reset(rows);
        self.stale.clear();
        self.finish_build();
    }

    /// Drops marks of objects that were deleted or are out of scope, once all rows are built: commands and counts must
    /// not include them. Until the list has arrived, a missing row does not mean that its object was deleted, so that
    /// all marks stay.
    pub(super) fn finish_build(&mut self) {
        if self.loaded {
            self.marks.retain(|uid| self.index.get(uid).is_some());
            self.keep_cursor();
        }
        self.resolve_restore_target();
    }

    pub(super) fn changed(&mut self, cx: &Context<'_>, resource: &ResourceKey, touched: &TouchedObjects) {
        if self.paused {
            if self.is_of(resource) {
                self.missed += match touched {
                    TouchedObjects::Some(uids) => uids.len(),
                    TouchedObjects::All | TouchedObjects::Usage => 1,
                };
            }
            return;
        }
        let own = self.is_of(resource);
        // A node's row counts its pods.
        let counted = self.kind.is::<Node>() && *resource == ResourceKey::of::<Pod>();
        // A node's row also shows the progress of its fence.
        if self.kind.is::<Node>() && *resource == ResourceKey::of::<NodeFence>() {
            return self.rebuild(cx);
        }
        // The pods of a deployment are known only once its replica sets are.
        let owners =
            matches!(self.only, RowScope::OwnedBy(_)) && *resource == ResourceKey::of::<ReplicaSet>();
        if counted {
            return self.rebuild_soon(cx);
        }
        match touched {
            TouchedObjects::All if own || owners => self.rebuild(cx),
            TouchedObjects::Usage if own && !self.is_mixed() => self.measured(cx),
            TouchedObjects::Some(uids)
                if own && self.groups.is_some() && uids.len() <= 64 + self.index.total() / 8 =>
            {
                self.change_groups(cx, uids);
            }
            TouchedObjects::Some(uids) if own && self.takes_one_by_one(uids.len()) => {
                for uid in uids {
                    self.upsert_or_remove(cx, &RowKey::from(uid.clone()), self.built(cx, uid));
                }
                if self.is_mixed() && *resource == ResourceKey::of::<Pod>() {
                    for uid in deployments_of(cx, uids) {
                        self.upsert_or_remove(cx, &RowKey::from(uid.clone()), self.built(cx, &uid));
                    }
                }
                // Until the list is complete, the cursor stays at the top or where the user moved it.
                if self.loaded {
                    self.keep_cursor();
                }
            }
            TouchedObjects::Some(_) if own => self.rebuild(cx),
            _ => {}
        }
        // The list is complete only now: all its pages have arrived, and the last one has its rows.
        if own && !self.loaded && self.building.is_none() && self.has_list(cx) {
            self.loaded = true;
            self.finish_build();
        }
    }

    /// Returns whether the lists that the table shows have arrived.
    pub(super) fn has_list(&self, cx: &Context<'_>) -> bool {
        if self.is_mixed() { self.is_mixed_loaded(cx) } else { cx.stores.synced(&self.kind.resource) }
    }

    /// Returns whether the changes are applied one by one; if there are many, one sort is cheaper than a search for
    /// each. In a table of several kinds most changes are of pods without a row, which cost nothing.
    pub(super) fn takes_one_by_one(&self, changes: usize) -> bool {
        let total = self.building.as_ref().map_or(self.index.total(), |building| building.total());
        self.is_mixed() || changes <= 64 + total / 8
    }

    /// Returns whether the rows also depend on another resource.
    pub(super) fn affects_rows(&self, resource: &ResourceKey) -> bool {
        let is_row_source =
            *resource == ResourceKey::of::<Pod>() || *resource == ResourceKey::of::<NodeFence>();
        self.kind.is::<Node>() && is_row_source
    }

    /// Rebuilds all rows; if there are many, at most once a second.
    pub(super) fn rebuild_soon(&mut self, cx: &Context<'_>) {
        let recent = self.rebuilt.is_some_and(|at| cx.now.duration_since(at) < SignedDuration::from_secs(1));
        if self.index.total() <= 64 || !recent {
            self.rebuild(cx);
        }
    }

    pub(super) fn upsert_or_remove(&mut self, cx: &Context<'_>, key: &RowKey, row: Option<Row>) {
        if let Some(building) = &mut self.building {
            building.change(key, row.as_ref());
            if self.index.get(key).is_none() {
                return;
            }
        }
        let Some(row) = row else {
            let removed = self.index.take(key);
            self.marks.remove(key);
            self.flashes.remove(key);
            if let Some(gone) = removed {
                self.note_narrowed(&gone);
                if self.widths.get_mut().was_stretched_by(&gone) {
                    self.widths.replace(Widths::of(self.index.all()));
                }
            }
            return;
        };
        self.widths.get_mut().learn(&row);
        let after = row.cells.clone();
        let before = self.index.insert(row);
        let mask = match &before {
            None => u64::MAX,
            Some(before) => {
                before.cells.iter().zip(&after).enumerate().fold(0, |mask, (column, (old, new))| {
                    if old == new { mask } else { mask | 1 << column.min(63) }
                })
            }
        };
        if let Some(before) = before.filter(|_| mask != 0) {
            self.note_narrowed(&before);
        }
        // Changes that arrive with the first list are not highlighted.
        if mask != 0 && self.loaded {
            if self.flashes.len() > 512 {
                self.flashes.retain(|_, (_, until)| *until > cx.now);
            }
            let until = cx.now.saturating_add(FLASH).unwrap_or(cx.now);
            self.flashes.insert(key.clone(), (mask, until));
        }
    }
    /// Records whether a column may be wider than necessary without this row.
    fn note_narrowed(&mut self, row: &Row) {
        if !self.has_narrowed.get() && self.widths.get_mut().was_widened_by(row) {
            self.has_narrowed.set(true);
        }
    }
}
