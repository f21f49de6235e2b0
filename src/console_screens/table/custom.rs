//! The columns of a table: those of the kind, or the user's choice (CON-16).

use super::Table;
use console_data::context::Context;
use console_data::extensions::Order;
use console_data::index::Sort;
use console_data::kind_view;
use console_data::rows::cell::ColumnVisibility;
use console_data::rows::custom::Layout;
use console_data::rows::{Cell, Column, Row};
use console_data::scope::Scope;
use console_data::sort_memory::Direction;
use console_operations::effect::{Effect, RowScope};
use console_toolkit::text::clean;
use console_toolkit::toast::Toast;

impl Table {
    /// Returns whether the rows may be of several namespaces.
    pub(super) fn shows_several(&self, cx: &Context<'_>) -> bool {
        self.kind.namespaced
            && match &self.only {
                RowScope::All => *cx.scope == Scope::All,
                RowScope::OnNode(_) | RowScope::UsingImage(_) => true,
                _ => false,
            }
    }

    /// Returns whether a column is shown now, if there is space for it.
    pub(super) fn shows(&self, cx: &Context<'_>, column: &Column) -> bool {
        match column.visibility {
            ColumnVisibility::Always => true,
            ColumnVisibility::Wide => self.wide,
            ColumnVisibility::Measured => self.measures(cx),
            ColumnVisibility::Several => self.shows_several(cx),
            ColumnVisibility::Never => false,
        }
    }

    /// Returns whether metrics are available, in at least one of the table's clusters.
    pub(super) fn measures(&self, cx: &Context<'_>) -> bool {
        let Some(clusters) = self.over() else { return cx.stores.measures() };
        clusters.iter().any(|id| cx.clusters.get(*id).is_some_and(|cluster| cluster.stores.measures()))
    }

    /// Returns the columns of the kind itself; in a table over several clusters, those of the first cluster that
    /// reported them.
    fn own_columns(&self, cx: &Context<'_>) -> Vec<Column> {
        let Some(clusters) = self.over() else {
            return kind_view::columns(cx.stores, &self.kind.resource);
        };
        let columns = clusters.iter().filter_map(|id| {
            let cluster = cx.clusters.get(*id)?;
            let columns = kind_view::columns(cluster.stores, &cluster.kind(&self.kind).resource);
            (!columns.is_empty()).then_some(columns)
        });
        columns.into_iter().next().unwrap_or_default()
    }

    /// Returns the index of the name column; of the first column if there is none.
    pub(super) fn name_column(&self) -> usize {
        self.columns.iter().position(|column| column.name == "NAME").unwrap_or(0)
    }

    /// Updates the columns. The sort column stays the same even if its position changes; the initial sort order of a
    /// custom view is applied when the view arrives.
    pub(super) fn learn_columns(&mut self, cx: &Context<'_>) {
        let own = self.own_columns(cx);
        self.own = own.iter().map(|column| column.name.clone()).collect();
        let namespace = match (&self.only, cx.scope) {
            (RowScope::In(name), _) | (RowScope::All, Scope::One(name)) => Some(name.as_str()),
            (
                RowScope::OwnedBy(object)
                | RowScope::Selected(object)
                | RowScope::Using(object)
                | RowScope::About(object),
                _,
            ) => object.namespace.as_deref(),
            _ => None,
        };
        let view = cx.extensions.view(cx.catalogue, &self.kind, namespace.filter(|_| self.kind.namespaced));
        // The columns of a server-side Table arrive with its list.
        let layout =
            view.filter(|_| !own.is_empty()).map(|view| Layout::new(view, &own, self.kind.namespaced));
        // Until the table has columns, its sort column is one of the kind's own.
        let before = if self.columns.is_empty() { &own } else { &self.columns };
        let before: Vec<_> = before.iter().map(|column| column.name.clone()).collect();
        let mut columns = layout.as_ref().map_or(own, |layout| layout.columns.clone());
        let lead = usize::from(self.shows_context() && !columns.is_empty());
        if lead > 0 {
            columns.insert(0, Self::context_column());
        }
        let is_another = layout != self.layout;
        if !is_another && columns == self.columns {
            return;
        }
        let (sort, picked) = (self.index.sort(), self.picked);
        let moved = |at: usize| {
            let name = before.get(at)?;
            columns.iter().position(|column| column.name == *name)
        };
        let column = if before.is_empty() { sort.column } else { sort.column.and_then(moved) };
        self.picked = picked.and_then(moved);
        self.columns = columns;
        if is_another {
            self.widths.get_mut().clear();
            self.flashes.clear();
            self.layout = layout;
            let unknown = self.layout.iter().flat_map(|layout| layout.unknown.iter().cloned());
            self.news.extend(unknown);
        }
        let first = self.layout.as_ref().filter(|_| is_another).and_then(|layout| layout.sort);
        let sort = match first {
            Some((column, order)) if self.restore_target.is_unsorted() => {
                let direction = match order {
                    Order::Ascending => Direction::Up,
                    Order::Descending => Direction::Down,
                };
                Sort { column: Some(column + lead), direction }
            }
            // If the sort column disappears, rows are sorted by name.
            _ if column.is_none() && sort.column.is_some() => Sort { column, direction: Direction::Up },
            _ => Sort { column, ..sort },
        };
        if sort != self.index.sort() {
            self.index.set_sort(sort);
        }
    }

    /// Rearranges a row of the kind's own columns into the table's columns.
    pub(super) fn lay_out_row(&self, cx: &Context<'_>, row: Row) -> Row {
        let mut row = match &self.layout {
            Some(layout) => {
                let object = cx.stores.object(&self.kind_of(&row).resource, &row.uid);
                layout.lay_out(row, object.map(|object| &**object))
            }
            None => row,
        };
        if self.shows_context() {
            let name = cx.clusters.get(cx.cluster).map_or("", |cluster| cluster.name);
            row.cells.insert(0, Cell::Text(clean(name).into()));
        }
        row
    }

    /// Returns the pending warnings as toasts.
    pub(super) fn take_warnings(&mut self) -> Vec<Effect> {
        self.news.drain(..).map(|news| Effect::Toast(Toast::warning(news))).collect()
    }
}
