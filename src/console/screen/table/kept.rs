//! Saves a table's state for the next session, and restores it. Columns and objects may be known only once the list
//! arrives; until then their names are pending.

use super::Table;
use crate::context::Context;
use crate::effect::{Only, TableRoute};
use crate::index::{Filter, Sort};
use crate::kept_tabs::{KeptBelongs, KeptObject, KeptOnly, KeptView};
use crate::resource::{ClusterId, Kind, ObjectRef};
use crate::rows::Row;
use crate::sort_memory::{Direction, SortOrder};

/// The sort order and the selection that a restored table still has to apply.
#[derive(Debug, Default)]
pub(super) struct Sought {
    sort: Option<SortOrder>,
    /// True if it was restored from the last session, with that session's sort order.
    is_restored: bool,
    selected: Option<(Option<String>, String)>,
    /// The cluster of the selected object, in a table over several.
    selected_in: Option<ClusterId>,
}

impl Sought {
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
    /// The state that is saved for the next session.
    pub(crate) fn keep(&self) -> KeptView {
        let (only, owner) = match &self.only {
            Only::All => (KeptOnly::All, None),
            Only::OnNode(name) => (KeptOnly::OnNode(name.clone()), None),
            Only::In(name) => (KeptOnly::In(name.clone()), None),
            Only::OwnedBy(object) => belonging(KeptBelongs::Owned, object),
            Only::Selected(object) => belonging(KeptBelongs::Selected, object),
            Only::Using(object) => belonging(KeptBelongs::Using, object),
            Only::About(object) => belonging(KeptBelongs::About, object),
        };
        let sort = self.index.sort();
        let column =
            sort.column.and_then(|column| self.columns.get(column)).map(|column| column.name.to_string());
        let (column, direction) = match &self.sought.sort {
            Some(order) => (order.column.clone(), order.direction),
            None => (column, sort.direction),
        };
        let selected = self.selected().map(|object| (object.namespace, object.name));
        KeptView {
            uid: owner.and_then(|owner| Some(owner.uid.as_ref()?.as_str().to_owned())),
            group: self.kind.resource.group.to_string(),
            plural: self.kind.resource.plural.to_string(),
            only,
            filter: self.query.clone(),
            sort: column,
            descending: direction == Direction::Down,
            wide: self.wide,
            faults: self.index.filter().faults,
            selected: self.sought.selected.clone().or(selected),
            ..KeptView::default()
        }
    }

    /// The cluster of the saved selection, in a table over several.
    pub(crate) fn cluster_to_keep(&self) -> Option<ClusterId> {
        match &self.sought.selected {
            Some(_) => self.sought.selected_in,
            None => self.index.at(self.cursor_place())?.cluster,
        }
    }

    /// Restores a saved table of this kind, restricted to objects of `owner` if it was, over these clusters.
    pub(crate) fn restored(
        kind: Kind,
        owner: Option<ObjectRef>,
        over: Vec<ClusterId>,
        selected_in: Option<ClusterId>,
        kept: KeptView,
    ) -> Self {
        let only = match (kept.only, owner) {
            (KeptOnly::Belonging(how, _), Some(object)) => match how {
                KeptBelongs::Owned => Only::OwnedBy(object),
                KeptBelongs::Selected => Only::Selected(object),
                KeptBelongs::Using => Only::Using(object),
                KeptBelongs::About => Only::About(object),
            },
            (KeptOnly::All | KeptOnly::Belonging(..), _) => Only::All,
            (KeptOnly::OnNode(name), _) => Only::OnNode(name),
            (KeptOnly::In(name), _) => Only::In(name),
        };
        let mut table = Self::new(TableRoute { kind, only, at: None, filter: kept.filter, over, when: None });
        table.wide = kept.wide;
        let direction = if kept.descending { Direction::Down } else { Direction::Up };
        if kept.sort.is_none() {
            table.index.set_sort(Sort { column: None, direction });
        }
        table.index.set_filter(Filter { faults: kept.faults, ..table.index.filter().clone() });
        let sort = kept.sort.map(|name| SortOrder { column: Some(name), direction });
        table.sought = Sought { sort, is_restored: true, selected: kept.selected, selected_in };
        table
    }

    /// Applies the user's last sort order for this kind to a table that opens.
    pub(super) fn recall_sort(&mut self, cx: &Context<'_>) {
        if !self.sought.is_restored {
            self.sought.sort = cx.sorts.of(&self.kind.resource).cloned();
        }
    }

    /// Applies the pending sort order and selection, once columns and rows are known.
    pub(super) fn find_what_is_sought(&mut self) {
        if !self.columns.is_empty()
            && let Some(SortOrder { column, direction }) = self.sought.sort.take()
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
        // If the user has moved the cursor meanwhile, it stays there.
        let sought = self.sought.selected.take().filter(|_| !self.moved);
        let Some((namespace, name)) = sought else { return };
        let cluster = self.sought.selected_in;
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

/// The saved form of a restriction to related objects, and the object.
fn belonging(how: KeptBelongs, object: &ObjectRef) -> (KeptOnly, Option<&ObjectRef>) {
    let kept = KeptObject {
        group: object.kind.resource.group.to_string(),
        plural: object.kind.resource.plural.to_string(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    (KeptOnly::Belonging(how, kept), Some(object))
}
