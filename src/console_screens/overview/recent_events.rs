//! The order of the shown events, newest first, updated with each change.
//!
//! Invariant: `order` has exactly the keys of `known`.

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::Timestamp;

use super::ranked_list::RankedList;
use console_data::resource::Uid;

/// The sort key of an event: the last occurrence, newest first; within a second, the last write first.
pub(super) type Key = (Reverse<Option<Timestamp>>, Reverse<u64>);

/// The shown events.
#[derive(Debug, Default)]
pub(super) struct RecentEvents {
    order: RankedList<(Key, Uid)>,
    keys: HashMap<Uid, Key>,
}

impl RecentEvents {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the event at an index.
    pub(super) fn at(&self, place: usize) -> Option<&Uid> {
        self.order.at(place).map(|(_, uid)| uid)
    }

    /// Returns all events, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Uid> {
        self.order.iter().map(|(_, uid)| uid)
    }

    /// Returns the index of an event.
    pub(super) fn position_of(&self, uid: &Uid) -> Option<usize> {
        self.order.position_of(&(*self.keys.get(uid)?, uid.clone()))
    }

    /// Replaces all events.
    pub(super) fn reset(&mut self, events: impl Iterator<Item = (Uid, Key)>) {
        self.keys = events.collect();
        self.order = self.keys.iter().map(|(uid, key)| (*key, uid.clone())).collect();
    }

    /// Inserts an event, or moves it to its new position.
    pub(super) fn insert(&mut self, uid: Uid, key: Key) {
        if self.keys.get(&uid) == Some(&key) {
            return;
        }
        self.take(&uid);
        self.order.insert((key, uid.clone()));
        self.keys.insert(uid, key);
    }

    /// Removes an event.
    pub(super) fn take(&mut self, uid: &Uid) {
        if let Some(key) = self.keys.remove(uid) {
            self.order.take(&(key, uid.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn changes_one_by_one_end_where_a_sort_would_con_1(
            changes in proptest::collection::vec((0u8..40, prop::option::of((0i64..5, 0u64..3))), 0..200),
        ) {
            let mut recent = RecentEvents::default();
            let mut there = HashMap::new();
            for (id, change) in changes {
                let uid = Uid::from(id.to_string().as_str());
                if let Some((second, revision)) = change {
                    let key = (Reverse(Timestamp::from_second(second).ok()), Reverse(revision));
                    recent.insert(uid.clone(), key);
                    there.insert(uid, key);
                } else {
                    recent.take(&uid);
                    there.remove(&uid);
                }
            }
            let mut rebuilt = RecentEvents::default();
            rebuilt.reset(there.into_iter());
            prop_assert!(recent.order.iter().eq(rebuilt.order.iter()));
            for (place, uid) in recent.iter().enumerate() {
                prop_assert_eq!(recent.position_of(uid), Some(place));
            }
        }
    }
}
