//! A table over several clusters (CON-16): the origin of its rows, and the freshness of each cluster. Every row names
//! its cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Table;
use crate::object_commands;
use base::sort::CollectMap;
use console_data::clusters::{ConnectionState, Freshness};
use console_data::context::Context;
use console_data::kind_view;
use console_data::resource::{ClusterId, Kind, ResourceKey};
use console_data::rows::{Cell, Column, Row, RowKey};
use console_data::store::TouchedObjects;
use console_operations::effect::Effect;
use console_toolkit::text::clean;

/// The heading of the column with each row's cluster.
pub(super) const CONTEXT: &str = "CONTEXT";

/// The clusters of a table over several clusters.
#[derive(Debug)]
pub(super) struct MultiClusterScope {
    pub(super) clusters: Vec<ClusterId>,
    /// The only cluster with visible rows, if the table is narrowed.
    pub(super) narrowed: Option<ClusterId>,
    kinds: BTreeMap<ClusterId, Kind>,
}

impl MultiClusterScope {
    pub(super) fn new(clusters: Vec<ClusterId>) -> Self {
        Self { clusters, narrowed: None, kinds: BTreeMap::new() }
    }

    /// Returns whether each row has to name its cluster.
    pub(super) fn is_of_several(&self) -> bool {
        self.clusters.len() > 1
    }

    /// Returns whether the rows of a cluster are shown.
    fn shows(&self, cluster: ClusterId) -> bool {
        self.clusters.contains(&cluster) && self.narrowed.is_none_or(|only| only == cluster)
    }
}

impl Table {
    /// Returns the clusters of the table; `None` if it shows those of its screen.
    pub fn over(&self) -> Option<&[ClusterId]> {
        self.over.as_ref().map(|over| over.clusters.as_slice())
    }

    /// Returns the kind of the table.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the kind of a row in its cluster.
    pub(super) fn kind_of(&self, row: &Row) -> &Kind {
        if let Some(kind) = self.kind_of_mixed(row) {
            return kind;
        }
        let kinds = self.over.as_ref().map(|over| &over.kinds);
        row.cluster.and_then(|cluster| kinds?.get(&cluster)).unwrap_or(&self.kind)
    }

    /// Returns whether the rows name their cluster.
    pub(super) fn shows_context(&self) -> bool {
        self.over.as_ref().is_some_and(MultiClusterScope::is_of_several)
    }

    /// Returns the column that names the cluster.
    pub(super) fn context_column() -> Column {
        Column::text(CONTEXT).weight(10)
    }

    /// Returns the name of the only cluster with visible rows, if the table is narrowed.
    pub(super) fn narrowed_to<'a>(&self, cx: &Context<'a>) -> Option<&'a str> {
        let only = self.over.as_ref()?.narrowed?;
        Some(cx.clusters.get(only)?.name)
    }

    /// Returns ` @dev,prod`, for the breadcrumb; the number of clusters if the names are too long.
    pub(super) fn clusters_label(&self, cx: &Context<'_>) -> String {
        let Some(over) = &self.over else { return String::new() };
        if let Some(only) = over.narrowed {
            let name = cx.clusters.get(only).map_or("", |cluster| cluster.name);
            return format!(" @{name} of {}", over.clusters.len());
        }
        let names: Vec<&str> =
            over.clusters.iter().filter_map(|id| Some(cx.clusters.get(*id)?.name)).collect();
        let names = names.join(",");
        if names.len() > 24 { format!(" @{} contexts", over.clusters.len()) } else { format!(" @{names}") }
    }

    /// Returns the freshness of each cluster's rows, by the cluster's name.
    pub fn freshness(&self, cx: &Context<'_>) -> Vec<(String, Freshness)> {
        let clusters = self.over.iter().flat_map(|over| &over.clusters);
        clusters
            .filter_map(|id| {
                let cluster = cx.clusters.get(*id)?;
                Some((cluster.name.to_owned(), cluster.freshness(&self.kind)))
            })
            .collect()
    }

    /// Returns the same as [`Self::freshness`], but as text, with the message of the server or the connection.
    pub fn states(&self, cx: &Context<'_>) -> Vec<State> {
        let clusters = self.over.iter().flat_map(|over| &over.clusters);
        clusters
            .filter_map(|id| {
                let cluster = cx.clusters.get(*id)?;
                let fresh = cluster.freshness(&self.kind);
                let label = match &fresh {
                    Freshness::Live => "live".to_owned(),
                    Freshness::CatchingUp if *cluster.reach != ConnectionState::Reached => {
                        "connecting".to_owned()
                    }
                    Freshness::CatchingUp => "catching up".to_owned(),
                    Freshness::Silent(since) => {
                        cx.redraw_in(1);
                        cluster.outage_label(&self.kind, *since, cx.now)
                    }
                    Freshness::NotAllowed => "not allowed".to_owned(),
                    Freshness::Absent => format!("has no {}", self.kind.resource.plural),
                };
                let reason = cluster.unavailable_reason(&self.kind).filter(|_| fresh != Freshness::Live);
                let name = clean(cluster.name).into_owned();
                Some(State { name, fresh, label, reason })
            })
            .collect()
    }

    /// Returns the clusters that do not respond, and since when: their rows are as old as that.
    pub(super) fn stale_clusters(&self, cx: &Context<'_>) -> BTreeMap<ClusterId, Timestamp> {
        let clusters = self.over.iter().flat_map(|over| &over.clusters);
        let silent = clusters.filter_map(|id| match cx.clusters.get(*id)?.freshness(&self.kind) {
            Freshness::Silent(since) => Some((*id, since)),
            _ => None,
        });
        silent.collect_map()
    }

    /// Returns the current rows of all the table's clusters.
    pub(super) fn rows_over(&mut self, cx: &Context<'_>) -> Vec<Row> {
        let Some(over) = &mut self.over else { return Vec::new() };
        for id in &over.clusters {
            if let Some(cluster) = cx.clusters.get(*id) {
                over.kinds.insert(*id, cluster.kind(&self.kind));
            }
        }
        let mut rows = Vec::new();
        for id in over.clusters.clone() {
            let Some(of) = cx.on(id) else { continue };
            let Some(kind) = self.over.as_ref().and_then(|over| over.kinds.get(&id)).cloned() else {
                continue;
            };
            let own = self.other_columns(&of, &kind);
            let uids = kind_view::uids(of.stores, &kind.resource);
            let all = uids.iter().filter_map(|uid| kind_view::row(of.stores, &kind.resource, uid));
            rows.extend(all.filter_map(|row| self.row_over(&of, own.as_deref(), row)));
        }
        rows
    }

    /// Returns a cluster's row in the table's columns; `None` if it is not shown.
    fn row_over(&self, of: &Context<'_>, own: Option<&[Column]>, row: Row) -> Option<Row> {
        let mut row = Row { cluster: Some(of.cluster), ..row };
        if !self.over.as_ref()?.shows(of.cluster) || !self.belongs(of, &row) {
            return None;
        }
        if let Some(own) = own {
            row.cells = self.in_these_columns(own, &row);
        }
        Some(self.lay_out_row(of, row))
    }

    /// Returns the columns of the kind in a cluster, if they differ in names or order from those of this table.
    fn other_columns(&self, of: &Context<'_>, kind: &Kind) -> Option<Vec<Column>> {
        let own = kind_view::columns(of.stores, &kind.resource);
        let names = own.iter().map(|column| &column.name);
        (!own.is_empty() && !names.eq(&self.own)).then_some(own)
    }

    /// Rearranges cells into the columns of this table.
    fn in_these_columns(&self, own: &[Column], row: &Row) -> Vec<Cell> {
        let cell = |name: &Cow<'static, str>| {
            let at = own.iter().position(|column| column.name == *name);
            at.and_then(|at| row.cells.get(at)).cloned().unwrap_or(Cell::Dim("-".into()))
        };
        self.own.iter().map(cell).collect()
    }

    /// Applies changes in one of the table's clusters.
    pub(super) fn changed_in(
        &mut self,
        cx: &Context<'_>,
        cluster: ClusterId,
        resource: &ResourceKey,
        touched: &TouchedObjects,
    ) {
        let Some(of) = cx.on(cluster) else { return };
        let Some(kind) = of.clusters.get(cluster).map(|of| of.kind(&self.kind)) else { return };
        if !self.is_of(resource) && kind.resource != *resource {
            // Other resources that rows depend on are handled as in a table of one cluster.
            if !self.paused && self.affects_rows(resource) {
                self.rebuild_soon(cx);
            }
            return;
        }
        if self.paused {
            self.missed += match touched {
                TouchedObjects::Some(uids) => uids.len(),
                TouchedObjects::All | TouchedObjects::Usage => 1,
            };
            return;
        }
        let loaded = self.is_loaded(cx);
        let few = |uids: &Vec<_>| self.takes_one_by_one(uids.len());
        let known = self.over.as_ref().is_some_and(|over| over.kinds.get(&cluster) == Some(&kind));
        match touched {
            TouchedObjects::Some(uids)
                if known && !self.columns.is_empty() && loaded == self.loaded && few(uids) =>
            {
                let own = self.other_columns(&of, &kind);
                for uid in uids {
                    let row = kind_view::row(of.stores, &kind.resource, uid);
                    let row = row.and_then(|row| self.row_over(&of, own.as_deref(), row));
                    let key = RowKey { cluster: Some(cluster), uid: uid.clone() };
                    self.upsert_or_remove(cx, &key, row);
                }
                if self.loaded {
                    self.keep_cursor();
                }
            }
            _ => self.rebuild(cx),
        }
    }

    /// Returns whether the list of every cluster that provides one has arrived.
    pub(super) fn is_loaded(&self, cx: &Context<'_>) -> bool {
        let clusters = self.over.iter().flat_map(|over| &over.clusters);
        clusters.filter_map(|id| cx.clusters.get(*id)).all(|cluster| cluster.is_loaded(&self.kind))
    }

    /// Toggles between the rows of one cluster and those of all.
    pub(super) fn narrow(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        let selected = self.index.at(self.cursor_row()).and_then(|row| row.cluster);
        let Some(over) = &mut self.over else { return Vec::new() };
        over.narrowed = match over.narrowed {
            Some(_) => None,
            None => selected,
        };
        if over.narrowed.is_none() && selected.is_none() {
            return vec![Effect::info(object_commands::NOTHING_SELECTED)];
        }
        self.rebuild(cx);
        Vec::new()
    }
}

/// The freshness of one cluster's rows.
#[derive(Debug)]
pub struct State {
    /// The cluster's name.
    pub name: String,
    /// The freshness.
    pub fresh: Freshness,
    /// The freshness in one or two words.
    pub label: String,
    /// The message of the server or the connection.
    pub reason: Option<String>,
}
