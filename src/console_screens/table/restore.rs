//! Saves a table's state for the next session, and restores it; selects an object by its name. Columns and objects may
//! be known only once the list arrives; until then their names are pending.

use super::Table;
use console_data::context::Context;
use console_data::index::{Filter, Sort};
use console_data::resource::{ClusterId, Kind, ObjectRef};
use console_data::rows::Row;
use console_data::saved_tabs::{IMAGE_NAMES, SavedObject, SavedRelation, SavedScope, SavedView};
use console_data::sort_memory::{Direction, SortOrder};
use console_operations::effect::{ImageUse, RowScope, TableRoute};

/// The sort order and the selection that a table still has to apply: those of the last session, or an object that the
/// user named.
#[derive(Debug, Default)]
pub(super) struct RestoreTarget {
    sort: Option<SortOrder>,
    /// True if the table was restored from the last session, with that session's sort order.
    is_restored: bool,
    selected: Option<(Option<String>, String)>,
    /// The cluster of the selected object, in a table over several clusters.
    selected_in: Option<ClusterId>,
    /// The name of the object to select, in any namespace.
    named: Option<String>,
}

impl RestoreTarget {
    /// Returns the target of a new table: the object of this name.
    pub(super) fn named(named: Option<String>) -> Self {
        Self { named, ..Self::default() }
    }

    /// Returns whether no sort order is pending.
    pub(super) fn is_unsorted(&self) -> bool {
        self.sort.is_none()
    }

    /// Drops the pending sort order, because the user has sorted the rows.
    pub(super) fn forget_sort(&mut self) {
        self.sort = None;
    }
}

impl Table {
    /// Returns the state that is saved for the next session.
    pub(crate) fn keep(&self) -> SavedView {
        let (only, owner) = match &self.only {
            RowScope::All => (SavedScope::All, None),
            RowScope::OnNode(name) => (SavedScope::OnNode(name.clone()), None),
            RowScope::UsingImage(used) => {
                let names = used.names.iter().take(IMAGE_NAMES).cloned().collect();
                (SavedScope::UsingImage { node: used.node.clone(), names }, None)
            }
            RowScope::In(name) => (SavedScope::In(name.clone()), None),
            RowScope::OwnedBy(object) => belonging(SavedRelation::Owned, object),
            RowScope::Selected(object) => belonging(SavedRelation::Selected, object),
            RowScope::Using(object) => belonging(SavedRelation::Using, object),
            RowScope::About(object) => belonging(SavedRelation::About, object),
        };
        let sort = self.index.sort();
        let column =
            sort.column.and_then(|column| self.columns.get(column)).map(|column| column.name.to_string());
        let (column, direction) = match &self.restore_target.sort {
            Some(order) => (order.column.clone(), order.direction),
            None => (column, sort.direction),
        };
        let selected = self.selected().map(|object| (object.namespace, object.name));
        SavedView {
            uid: owner.and_then(|owner| Some(owner.uid.as_ref()?.as_str().to_owned())),
            group: self.kind.resource.group.to_string(),
            plural: self.kind.resource.plural.to_string(),
            only,
            filter: self.query.clone(),
            sort: column,
            descending: direction == Direction::Down,
            wide: self.wide,
            faults: self.index.filter().faults,
            selected: self.restore_target.selected.clone().or(selected),
            ..SavedView::default()
        }
    }

    /// Returns the cluster of the saved selection, in a table over several clusters.
    pub(crate) fn cluster_to_keep(&self) -> Option<ClusterId> {
        match &self.restore_target.selected {
            Some(_) => self.restore_target.selected_in,
            None => self.index.at(self.cursor_row())?.cluster,
        }
    }

    /// Restores a saved table of this kind over these clusters; if it listed only objects related to another one,
    /// `owner` is that object.
    pub fn restored(
        kind: Kind,
        owner: Option<ObjectRef>,
        over: Vec<ClusterId>,
        selected_in: Option<ClusterId>,
        saved: SavedView,
    ) -> Self {
        let only = match (saved.only, owner) {
            (SavedScope::Belonging(how, _), Some(object)) => match how {
                SavedRelation::Owned => RowScope::OwnedBy(object),
                SavedRelation::Selected => RowScope::Selected(object),
                SavedRelation::Using => RowScope::Using(object),
                SavedRelation::About => RowScope::About(object),
            },
            (SavedScope::All | SavedScope::Belonging(..), _) => RowScope::All,
            (SavedScope::OnNode(name), _) => RowScope::OnNode(name),
            (SavedScope::UsingImage { node, names }, _) => {
                RowScope::UsingImage(ImageUse { node, names, pods: Vec::new() })
            }
            (SavedScope::In(name), _) => RowScope::In(name),
        };
        let mut table =
            Self::new(TableRoute { only, filter: saved.filter, clusters: over, ..TableRoute::of(kind) });
        table.wide = saved.wide;
        let direction = if saved.descending { Direction::Down } else { Direction::Up };
        if saved.sort.is_none() {
            table.index.set_sort(Sort { column: None, direction });
        }
        table.index.set_filter(Filter { faults: saved.faults, ..table.index.filter().clone() });
        let sort = saved.sort.map(|name| SortOrder { column: Some(name), direction });
        table.restore_target =
            RestoreTarget { sort, is_restored: true, selected: saved.selected, selected_in, named: None };
        table
    }

    /// Applies the user's last sort order for this kind to a table that opens.
    pub(super) fn restore_sort(&mut self, cx: &Context<'_>) {
        if !self.restore_target.is_restored {
            self.restore_target.sort = cx.sorts.of(&self.kind.resource).cloned();
        }
    }

    /// Applies the pending sort order and selection, once columns and rows are known.
    pub(super) fn resolve_restore_target(&mut self) {
        if !self.columns.is_empty()
            && let Some(SortOrder { column, direction }) = self.restore_target.sort.take()
        {
            let place = |name: &String| self.columns.iter().position(|column| *column.name == **name);
            match column.as_ref().map(place) {
                None => self.index.set_sort(Sort { column: None, direction }),
                Some(Some(column)) => self.index.set_sort(Sort { column: Some(column), direction }),
                // The column does not exist any more.
                Some(None) => {}
            }
        }
        if !self.loaded {
            return;
        }
        if let Some(name) = self.restore_target.named.take() {
            let found = self.index.visible_rows().find(|row| row.name == name).map(Row::key);
            match found {
                // If the user has moved the cursor meanwhile, it stays there.
                Some(_) if self.moved => {}
                Some(found) => {
                    self.cursor = Some(found);
                    self.keep_cursor();
                }
                None => {
                    let filter =
                        if name.contains(['/', ' ']) { String::new() } else { format!("; /{name} filters") };
                    self.news.push(format!("no {} {name:?} in this list{filter}", self.kind.singular));
                }
            }
        }
        let selected = self.restore_target.selected.take().filter(|_| !self.moved);
        let Some((namespace, name)) = selected else { return };
        let cluster = self.restore_target.selected_in;
        let is = |row: &&Row| {
            row.name == name && row.namespace == namespace && (cluster.is_none() || row.cluster == cluster)
        };
        let found = self.index.all().find(is).map(Row::key);
        if found.is_some() {
            self.cursor = found;
            self.keep_cursor();
        }
    }
}

/// Returns the saved form of a restriction to related objects, and the object.
fn belonging(how: SavedRelation, object: &ObjectRef) -> (SavedScope, Option<&ObjectRef>) {
    let saved = SavedObject {
        group: object.kind.resource.group.to_string(),
        plural: object.kind.resource.plural.to_string(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    (SavedScope::Belonging(how, saved), Some(object))
}
