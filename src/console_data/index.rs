//! The rows of one table, which stay sorted and filtered while they change one by one.
//!
//! Invariant: `sorted` has exactly the slots of `rows`, `order` those that match the filter, both sorted; a change
//! costs a binary search, not a sort. A filter over very many rows examines a part of them at a time, so that keys do
//! not wait for it.

mod slots;

use std::cmp::Ordering;
use std::collections::HashSet;

use super::query::Query;
use super::rows::cell::natural;
use super::rows::{Row, RowKey};
use super::sort_memory::Direction;
use slots::{Slot, Slots};

/// The sort order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    /// The column; `None` is namespace and name.
    pub column: Option<usize>,
    /// The direction.
    pub direction: Direction,
}

/// The condition for a row to be shown.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The query after `/`.
    pub query: Query,
    /// Shows only unhealthy objects.
    pub faults: bool,
}

impl Filter {
    fn is_all(&self) -> bool {
        !self.faults && matches!(self.query, Query::All)
    }

    fn matches(&self, row: &Row) -> bool {
        self.matches_with(row, &mut String::new())
    }

    /// As `matches`, for many rows, with a reusable buffer for [`Query::matches_with`].
    fn matches_with(&self, row: &Row, text: &mut String) -> bool {
        (!self.faults
            || row.health.is_some_and(|health| {
                health.is_fault() || health == console_toolkit::health::Health::Pending
            }))
            && self.query.matches_with(row, text)
    }

    /// Reports whether every row that this filter shows is also shown by the other.
    fn is_within(&self, other: &Self) -> bool {
        (self.faults || !other.faults) && self.query.is_within(&other.query)
    }
}

/// The number of rows that a filter examines before the typed text is drawn, and (`STEP`) at a time between other work.
/// Either takes a millisecond or two, because most rows are in no CPU cache.
const FILTER_BATCH: usize = 512;
const STEP: usize = 512;

/// A filter in progress, which has not examined all rows yet.
#[derive(Debug)]
struct FilterProgress {
    filter: Filter,
    /// The number of sorted rows that were examined.
    at: usize,
    /// The examined rows that match, sorted.
    matched: Vec<Slot>,
}

/// The sorted and filtered rows.
#[derive(Debug)]
pub struct Index {
    rows: Slots,
    /// All rows, sorted.
    sorted: Vec<Slot>,
    /// The rows that match the filter, sorted; `None` if there is no filter.
    order: Option<Vec<Slot>>,
    sort: Sort,
    filter: Filter,
    /// The next filter, while it examines the rows. Until it has examined all, the previous filter applies.
    next: Option<FilterProgress>,
}

impl Index {
    /// Creates an index without rows.
    pub fn new(sort: Sort) -> Self {
        let (rows, sorted) = (Slots::default(), Vec::new());
        Self { rows, sorted, order: None, sort, filter: Filter::default(), next: None }
    }

    fn visible(&self) -> &[Slot] {
        self.order.as_deref().unwrap_or(&self.sorted)
    }

    /// Returns the number of rows that are shown.
    pub fn len(&self) -> usize {
        self.visible().len()
    }

    /// Reports whether no row is shown.
    pub fn is_empty(&self) -> bool {
        self.visible().is_empty()
    }

    /// Returns the number of all rows, shown or not.
    pub fn total(&self) -> usize {
        self.rows.len()
    }

    /// Returns the shown row at a position.
    pub fn at(&self, place: usize) -> Option<&Row> {
        self.visible().get(place).map(|slot| &self.rows[*slot])
    }

    /// Returns a row, shown or not.
    pub fn get(&self, key: &RowKey) -> Option<&Row> {
        self.rows.find(key).map(|slot| &self.rows[slot])
    }

    /// Returns the shown rows, in order.
    pub fn visible_rows(&self) -> impl Iterator<Item = &Row> {
        self.visible().iter().map(|slot| &self.rows[*slot])
    }

    /// Returns all rows, shown or not, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().map(|(_, row)| row)
    }

    /// Returns the position of a shown row.
    pub fn position_of(&self, key: &RowKey) -> Option<usize> {
        self.search(self.visible(), self.get(key)?).ok()
    }

    /// Returns the position of a row, or as an error the position at which it would be inserted.
    fn search(&self, list: &[Slot], row: &Row) -> Result<usize, usize> {
        list.binary_search_by(|other| self.compare(&self.rows[*other], row))
    }

    /// Returns the sort order.
    pub fn sort(&self) -> Sort {
        self.sort
    }

    /// Returns the filter, or the next one while it is in progress.
    pub fn filter(&self) -> &Filter {
        self.next.as_ref().map_or(&self.filter, |next| &next.filter)
    }

    /// Changes the sort order and sorts all rows again.
    pub fn set_sort(&mut self, sort: Sort) {
        self.sort = sort;
        self.resort();
    }

    /// Changes the filter: at once, or incrementally for very many rows (see [`Self::continue_filter`]).
    pub fn set_filter(&mut self, filter: Filter) {
        if self.next.is_none() && self.len() <= FILTER_BATCH && filter.is_within(&self.filter) {
            return self.narrow(filter);
        }
        self.begin(filter);
        self.look(FILTER_BATCH);
    }

    /// Applies a stricter filter to the shown rows only: hidden rows stay hidden.
    fn narrow(&mut self, filter: Filter) {
        let mut text = String::new();
        let matches = |slot: &Slot| filter.matches_with(&self.rows[*slot], &mut text);
        self.order = (!filter.is_all()).then(|| self.visible().iter().copied().filter(matches).collect());
        self.filter = filter;
    }

    /// Reports whether a filter is in progress.
    pub fn is_filtering(&self) -> bool {
        self.next.is_some()
    }

    /// Continues the filter; returns whether it is complete.
    pub fn continue_filter(&mut self) -> bool {
        self.look(STEP)
    }

    fn begin(&mut self, filter: Filter) {
        self.next = Some(FilterProgress { filter, at: 0, matched: Vec::new() });
    }

    fn look(&mut self, count: usize) -> bool {
        let Some(next) = &mut self.next else { return false };
        if !next.filter.is_all() {
            let end = next.at.saturating_add(count).min(self.sorted.len());
            let mut text = String::new();
            let matches = |slot: &Slot| next.filter.matches_with(&self.rows[*slot], &mut text);
            next.matched.extend(self.sorted[next.at..end].iter().copied().filter(matches));
            next.at = end;
            if end < self.sorted.len() {
                return false;
            }
        }
        if let Some(FilterProgress { filter, matched: found, .. }) = self.next.take() {
            self.order = (!filter.is_all()).then_some(found);
            self.filter = filter;
        }
        true
    }

    /// Replaces all rows.
    pub fn reset(&mut self, rows: impl IntoIterator<Item = Row>) {
        let rows = rows.into_iter();
        self.rows = Slots::with_capacity(rows.size_hint().0);
        for row in rows {
            self.rows.insert(row);
        }
        self.resort();
    }

    /// Inserts many rows at once; rows that exist already are updated.
    pub fn add(&mut self, rows: Vec<Row>) {
        let (rows, there): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| self.rows.find(&row.key()).is_none());
        for row in there {
            self.insert(row);
        }
        let mut slots: Vec<Slot> = rows.into_iter().map(|row| self.rows.insert(row).0).collect();
        slots.sort_by(|a, b| self.compare(&self.rows[*a], &self.rows[*b]));
        if let Some(mut order) = self.order.take() {
            let mut text = String::new();
            let matches = |slot: &&Slot| self.filter.matches_with(&self.rows[**slot], &mut text);
            let shown: Vec<Slot> = slots.iter().filter(matches).copied().collect();
            self.merge(&mut order, &shown);
            self.order = Some(order);
        }
        let mut sorted = std::mem::take(&mut self.sorted);
        self.merge(&mut sorted, &slots);
        self.sorted = sorted;
        // A filter that has examined a part of the rows starts again.
        if let Some(next) = self.next.take() {
            self.begin(next.filter);
        }
    }

    /// Merges sorted slots into a sorted list: one binary search per new slot, and each old slot moves once.
    fn merge(&self, list: &mut Vec<Slot>, new: &[Slot]) {
        let mut end = list.len();
        list.resize(end + new.len(), Slot::default());
        for (before, slot) in new.iter().enumerate().rev() {
            let (Ok(place) | Err(place)) = self.search(&list[..end], &self.rows[*slot]);
            list.copy_within(place..end, place + before + 1);
            list[place + before] = *slot;
            end = place;
        }
    }

    /// Removes many rows.
    pub fn take_all(&mut self, keys: &HashSet<RowKey>) {
        if keys.is_empty() {
            return;
        }
        let rows = &self.rows;
        let stays = |slot: &Slot| !keys.contains(&rows[*slot].key());
        self.sorted.retain(stays);
        if let Some(order) = &mut self.order {
            order.retain(stays);
        }
        for key in keys {
            self.rows.take(key);
        }
        if let Some(next) = self.next.take() {
            self.begin(next.filter);
        }
    }

    /// Inserts or replaces a row; returns the previous one.
    pub fn insert(&mut self, row: Row) -> Option<Row> {
        if self.keeps_position(&row) {
            return self.rows.insert(row).1;
        }
        let before = self.take(&row.key());
        let (slot, _) = self.rows.insert(row);
        let row = &self.rows[slot];
        let (Ok(place) | Err(place)) = self.search(&self.sorted, row);
        let shown = self.order.as_ref().filter(|_| self.filter.matches(row));
        let shown = shown.map(|order| self.search(order, row).unwrap_or_else(|place| place));
        let found = self.next.as_ref().filter(|next| place < next.at).map(|next| {
            let matches = !next.filter.is_all() && next.filter.matches(row);
            matches.then(|| self.search(&next.matched, row).unwrap_or_else(|place| place))
        });
        if let (Some(order), Some(place)) = (&mut self.order, shown) {
            order.insert(place, slot);
        }
        if let (Some(next), Some(found)) = (&mut self.next, found) {
            next.at += 1;
            if let Some(place) = found {
                next.matched.insert(place, slot);
            }
        }
        self.sorted.insert(place, slot);
        before
    }

    /// Reports whether a row exists and neither its position nor its visibility changes. This is so for most changes;
    /// the sorted lists, which may be long, then stay as they are.
    fn keeps_position(&self, row: &Row) -> bool {
        let Some(before) = self.get(&row.key()) else { return false };
        let Ok(place) = self.search(&self.sorted, before) else { return false };
        let is_after = |other: &Slot| self.compare(&self.rows[*other], row).is_lt();
        let is_before = |other: &Slot| self.compare(row, &self.rows[*other]).is_lt();
        let same = |filter: &Filter| filter.matches(before) == filter.matches(row);
        (place == 0 || is_after(&self.sorted[place - 1]))
            && self.sorted.get(place + 1).is_none_or(is_before)
            && same(&self.filter)
            && self.next.as_ref().is_none_or(|next| same(&next.filter))
    }

    /// Removes a row.
    pub fn take(&mut self, key: &RowKey) -> Option<Row> {
        let row = self.get(key)?;
        let place = self.search(&self.sorted, row).ok();
        let shown = self.order.as_ref().and_then(|order| self.search(order, row).ok());
        let found = self.next.as_ref().and_then(|next| self.search(&next.matched, row).ok());
        if let Some(next) = &mut self.next {
            next.at -= usize::from(place.is_some_and(|place| place < next.at));
            if let Some(place) = found {
                next.matched.remove(place);
            }
        }
        if let (Some(order), Some(place)) = (&mut self.order, shown) {
            order.remove(place);
        }
        if let Some(place) = place {
            self.sorted.remove(place);
        }
        self.rows.take(key)
    }

    /// Sorts and filters all rows from scratch.
    fn resort(&mut self) {
        // Compares rows, not their slots: a lookup for each comparison would be most of the work.
        let mut rows: Vec<(Slot, &Row)> = self.rows.iter().collect();
        rows.sort_by(|(_, a), (_, b)| self.compare(a, b));
        self.sorted = rows.into_iter().map(|(slot, _)| slot).collect();
        let filter = self.filter().clone();
        self.begin(filter);
        self.look(usize::MAX);
    }

    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        let by_column = self.sort.column.map_or(Ordering::Equal, |column| {
            match (a.cells.get(column), b.cells.get(column)) {
                (Some(a), Some(b)) => a.order(b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            }
        });
        let apply_direction = |order: Ordering| match self.sort.direction {
            Direction::Up => order,
            Direction::Down => order.reverse(),
        };
        let by_name = || {
            let by_namespace = a.namespace.cmp(&b.namespace);
            let by_name = by_namespace.then_with(|| natural(&a.name, &b.name));
            by_name.then_with(|| (a.cluster, &a.uid).cmp(&(b.cluster, &b.uid)))
        };
        // Equal rows are ordered by name, unless the sort is by name.
        match self.sort.column {
            Some(_) => apply_direction(by_column).then_with(|| b.newness.cmp(&a.newness)).then_with(by_name),
            None => apply_direction(by_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{ClusterId, Uid};
    use crate::rows::Cell;
    use proptest::prelude::*;

    fn row(id: u8, number: i64) -> Row {
        Row {
            // Clusters may be copies, so every uid occurs twice.
            cluster: Some([ClusterId::HOME, ClusterId::joined(1)][usize::from(id % 2)]),
            uid: Uid::from((id / 2).to_string().as_str()),
            namespace: None,
            name: format!("row-{}", id / 2 % 7),
            cells: vec![Cell::Number(number)],
            health: None,
            labels: std::sync::Arc::default(),
            workload: None,
            newness: u64::from(id % 3),
        }
    }

    proptest! {
        #[test]
        fn changes_one_by_one_end_where_a_sort_would_con_1(
            changes in proptest::collection::vec((0u8..40, prop::option::of(0i64..5), 0usize..4), 0..200),
            down in any::<bool>(),
            filtered in any::<bool>(),
            pattern in prop::option::of("!?row-[0-6]"),
        ) {
            let direction = if down { Direction::Down } else { Direction::Up };
            let mut index = Index::new(Sort { column: Some(0), direction });
            let filter = |text: &str| Filter { query: Query::parse(text).expect("a query"), faults: false };
            if filtered {
                index.set_filter(filter("!row-3"));
            }
            for (step, (id, number, look)) in changes.into_iter().enumerate() {
                // A new filter starts in the middle, and examines some rows at a time while they change.
                if let Some(pattern) = pattern.as_ref().filter(|_| step == 50) {
                    index.begin(filter(pattern));
                }
                match number {
                    Some(number) => { index.insert(row(id, number)); }
                    None => { index.take(&row(id, 0).key()); }
                }
                if look > 0 {
                    index.look(look);
                }
            }
            index.look(usize::MAX);
            // Many rows are inserted at once, some of which exist, and many are removed.
            index.add((20..30).map(|id| row(id, 2)).collect());
            index.take_all(&(10..16).map(|id| row(id, 0).key()).collect());
            index.look(usize::MAX);
            prop_assert!((20..30).all(|id| index.get(&row(id, 0).key()).is_some()));
            prop_assert!((10..16).all(|id| index.get(&row(id, 0).key()).is_none()));
            prop_assert_eq!(index.rows.iter().count(), index.total());
            let before = (index.sorted.clone(), index.visible().to_vec());
            index.resort();
            prop_assert_eq!(before, (index.sorted.clone(), index.visible().to_vec()));
            // A longer query of the same type examines only the shown rows.
            for typed in ["w-", "ow-3"] {
                index.set_filter(filter(typed));
                let narrowed = index.visible().to_vec();
                index.resort();
                prop_assert_eq!(narrowed, index.visible());
            }
        }

    }

    #[test]
    fn a_filter_of_many_rows_ends_where_it_would_at_once_con_1() {
        let number = 3;
        let mut index = Index::new(Sort { column: None, direction: Direction::Up });
        let many = FILTER_BATCH + STEP + 10;
        index
            .reset((0..many).map(|n| Row { uid: Uid::from(n.to_string().as_str()), ..row(0, n as i64 % 7) }));
        let query = Query::parse(&format!("^{number}$")).expect("a query");
        index.set_filter(Filter { query, faults: false });
        assert!(index.is_filtering() && index.len() == many, "the last filter holds as long");
        assert!(!index.continue_filter());
        assert!(index.continue_filter() && !index.is_filtering());
        assert!(index.visible_rows().all(|row| row.cells == [Cell::Number(number)]));
        assert_eq!(index.len(), (0..many).filter(|n| *n as i64 % 7 == number).count());
    }
}
