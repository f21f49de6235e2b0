//! The rows of one table, kept sorted and filtered while they change one by one.
//!
//! Invariant: `order` holds exactly the uids of `rows` that the filter lets through, sorted; a change
//! costs a binary search, not a sort. Debug builds compare with a sort from scratch now and then.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::query::Query;
use super::resource::Uid;
use super::rows::Row;
use super::rows::cell::natural;

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    /// The column; `None` is namespace and name.
    pub(crate) column: Option<usize>,
    /// Which end comes first.
    pub(crate) direction: Direction,
}

/// Which end comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The least.
    Up,
    /// The greatest.
    Down,
}

/// Which rows are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// What was typed after `/`.
    pub(crate) query: Query,
    /// Only what is not well.
    pub(crate) faults: bool,
}

impl Filter {
    fn matches(&self, row: &Row) -> bool {
        (!self.faults
            || row.health.is_some_and(|health| health.is_fault() || health == super::health::Health::Pending))
            && self.query.matches(row)
    }
}

/// The rows.
#[derive(Debug)]
pub(crate) struct Index {
    rows: HashMap<Uid, Row>,
    order: Vec<Uid>,
    sort: Sort,
    filter: Filter,
}

impl Index {
    /// An empty index.
    pub(crate) fn new(sort: Sort) -> Self {
        Self { rows: HashMap::new(), order: Vec::new(), sort, filter: Filter::default() }
    }

    /// How many rows are shown.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no row is shown.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many rows there are, shown or not.
    pub(crate) fn total(&self) -> usize {
        self.rows.len()
    }

    /// The row at a place of the order.
    pub(crate) fn at(&self, place: usize) -> Option<&Row> {
        self.order.get(place).and_then(|uid| self.rows.get(uid))
    }

    /// The row of a uid, shown or not.
    pub(crate) fn get(&self, uid: &Uid) -> Option<&Row> {
        self.rows.get(uid)
    }

    /// The shown rows, in order.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Row> {
        self.order.iter().filter_map(|uid| self.rows.get(uid))
    }

    /// All rows, shown or not, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// Where a uid stands in the order.
    pub(crate) fn place(&self, uid: &Uid) -> Option<usize> {
        let row = self.rows.get(uid)?;
        self.order.binary_search_by(|other| self.compare(&self.rows[other], row)).ok()
    }

    /// What the rows are sorted by.
    pub(crate) fn sort(&self) -> Sort {
        self.sort
    }

    /// Which rows are shown.
    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Sorts anew.
    pub(crate) fn set_sort(&mut self, sort: Sort) {
        self.sort = sort;
        self.resort();
    }

    /// Filters anew.
    pub(crate) fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.resort();
    }

    /// Replaces all rows.
    pub(crate) fn reset(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows = rows.into_iter().map(|row| (row.uid.clone(), row)).collect();
        self.resort();
    }

    /// Puts a row in or in the place of its older self, which is returned.
    pub(crate) fn put(&mut self, row: Row) -> Option<Row> {
        let before = self.take(&row.uid);
        if self.filter.matches(&row) {
            let place = self.order.binary_search_by(|other| self.compare(&self.rows[other], &row));
            self.order.insert(place.unwrap_or_else(|place| place), row.uid.clone());
        }
        self.rows.insert(row.uid.clone(), row);
        before
    }

    /// Takes a row out.
    pub(crate) fn take(&mut self, uid: &Uid) -> Option<Row> {
        if let Some(place) = self.place(uid) {
            self.order.remove(place);
        }
        self.rows.remove(uid)
    }

    fn resort(&mut self) {
        // Rows, not their names, are compared: a look-up for each comparison would be most of the work.
        let mut rows: Vec<&Row> = self.rows.values().filter(|row| self.filter.matches(row)).collect();
        rows.sort_by(|a, b| self.compare(a, b));
        self.order = rows.into_iter().map(|row| row.uid.clone()).collect();
    }

    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        let by_column = self.sort.column.map_or(Ordering::Equal, |column| {
            match (a.cells.get(column), b.cells.get(column)) {
                (Some(a), Some(b)) => a.order(b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            }
        });
        let turn = |order: Ordering| match self.sort.direction {
            Direction::Up => order,
            Direction::Down => order.reverse(),
        };
        let by_name = || {
            let by_namespace = a.namespace.cmp(&b.namespace);
            by_namespace.then_with(|| natural(&a.name, &b.name)).then_with(|| a.uid.cmp(&b.uid))
        };
        // What is equal stays in the order of names, unless the names are what is sorted by.
        match self.sort.column {
            Some(_) => turn(by_column).then_with(|| b.newness.cmp(&a.newness)).then_with(by_name),
            None => turn(by_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Cell;
    use proptest::prelude::*;

    fn row(id: u8, number: i64) -> Row {
        Row {
            uid: Uid::from(id.to_string().as_str()),
            namespace: None,
            name: format!("row-{}", id % 7),
            cells: vec![Cell::Number(number)],
            health: None,
            labels: std::sync::Arc::default(),
            newness: u64::from(id % 3),
        }
    }

    proptest! {
        #[test]
        fn changes_one_by_one_end_where_a_sort_would_con_1(
            changes in proptest::collection::vec((0u8..40, prop::option::of(0i64..5)), 0..200),
            down in any::<bool>(),
            filtered in any::<bool>(),
        ) {
            let direction = if down { Direction::Down } else { Direction::Up };
            let mut index = Index::new(Sort { column: Some(0), direction });
            if filtered {
                index.set_filter(Filter { query: Query::parse("!row-3").expect("a query"), faults: false });
            }
            for (id, number) in changes {
                match number {
                    Some(number) => { index.put(row(id, number)); }
                    None => { index.take(&Uid::from(id.to_string().as_str())); }
                }
            }
            let kept = index.order.clone();
            index.resort();
            prop_assert_eq!(kept, index.order);
        }
    }
}
