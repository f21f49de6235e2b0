//! A table from one run to the next: what is kept of it, and how it comes back. Columns and objects may be known only
//! once the list is there; until then the names of both wait.

use super::Table;
use crate::context::Context;
use crate::effect::{Only, TableRoute};
use crate::index::{Filter, Sort};
use crate::kept_tabs::{KeptBelongs, KeptObject, KeptOnly, KeptView};
use crate::resource::{ClusterId, Kind, ObjectRef};
use crate::rows::Row;
use crate::sort_memory::{Direction, SortOrder};

/// What a table that came back still looks for.
#[derive(Debug, Default)]
pub(super) struct Sought {
    sort: Option<SortOrder>,
    /// Whether it came back from the last run, sorted as it was then.
    is_restored: bool,
    selected: Option<(Option<String>, String)>,
    /// The cluster that it is of, in a table over several.
    selected_in: Option<ClusterId>,
}

impl Sought {
    /// Whether nobody has said yet what the rows are to be sorted by.
    pub(super) fn is_unsorted(&self) -> bool {
        self.sort.is_none()
    }

    /// The user has sorted the rows: nothing else decides that any more.
    pub(super) fn forget_sort(&mut self) {
        self.sort = None;
    }
}

impl Table {
    /// What is kept of it.
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

    /// The cluster of what is kept as selected, in a table over several.
    pub(crate) fn cluster_to_keep(&self) -> Option<ClusterId> {
        match &self.sought.selected {
            Some(_) => self.sought.selected_in,
            None => self.index.at(self.cursor_place())?.cluster,
        }
    }

    /// One that was kept, of this kind, of what belongs to this object where it was so, over these clusters.
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

    /// Sorts a table that opens as the user has sorted its kind before.
    pub(super) fn recall_sort(&mut self, cx: &Context<'_>) {
        if !self.sought.is_restored {
            self.sought.sort = cx.sorts.of(&self.kind.resource).cloned();
        }
    }

    /// Finds what is still looked for, once columns and rows are there.
    pub(super) fn find_what_is_sought(&mut self) {
        if !self.columns.is_empty()
            && let Some(SortOrder { column, direction }) = self.sought.sort.take()
        {
            let place = |name: &String| self.columns.iter().position(|column| *column.name == **name);
            match column.as_ref().map(place) {
                None => self.index.set_sort(Sort { column: None, direction }),
                Some(Some(column)) => self.index.set_sort(Sort { column: Some(column), direction }),
                // The column is gone.
                Some(None) => {}
            }
        }
        if !self.loaded {
            return;
        }
        // Whoever has moved on meanwhile is where they want to be.
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

/// What belongs to an object, and that object.
fn belonging(how: KeptBelongs, object: &ObjectRef) -> (KeptOnly, Option<&ObjectRef>) {
    let kept = KeptObject {
        group: object.kind.resource.group.to_string(),
        plural: object.kind.resource.plural.to_string(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    (KeptOnly::Belonging(how, kept), Some(object))
}
