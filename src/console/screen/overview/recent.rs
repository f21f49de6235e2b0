//! Which events are shown, the newest first: kept in order while they change one by one.
//!
//! Invariant: `order` holds exactly the keys of `known`.

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::Timestamp;

use super::ranked::Ranked;
use crate::resource::Uid;

/// When it was last seen, the newest first; of one second the one that was written last.
pub(super) type Key = (Reverse<Option<Timestamp>>, Reverse<u64>);

/// The events.
#[derive(Debug, Default)]
pub(super) struct Recent {
    order: Ranked<(Key, Uid)>,
    known: HashMap<Uid, Key>,
}

impl Recent {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The one at a place.
    pub(super) fn at(&self, place: usize) -> Option<&Uid> {
        self.order.at(place).map(|(_, uid)| uid)
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Uid> {
        self.order.iter().map(|(_, uid)| uid)
    }

    /// Where one is.
    pub(super) fn place(&self, uid: &Uid) -> Option<usize> {
        self.order.place(&(*self.known.get(uid)?, uid.clone()))
    }

    /// Begins anew with these.
    pub(super) fn reset(&mut self, events: impl Iterator<Item = (Uid, Key)>) {
        self.known = events.collect();
        self.order = self.known.iter().map(|(uid, key)| (*key, uid.clone())).collect();
    }

    /// Puts one in, or elsewhere.
    pub(super) fn put(&mut self, uid: Uid, key: Key) {
        if self.known.get(&uid) == Some(&key) {
            return;
        }
        self.take(&uid);
        self.order.put((key, uid.clone()));
        self.known.insert(uid, key);
    }

    /// Takes one out.
    pub(super) fn take(&mut self, uid: &Uid) {
        if let Some(key) = self.known.remove(uid) {
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
            let mut recent = Recent::default();
            let mut there = HashMap::new();
            for (id, change) in changes {
                let uid = Uid::from(id.to_string().as_str());
                if let Some((second, revision)) = change {
                    let key = (Reverse(Timestamp::from_second(second).ok()), Reverse(revision));
                    recent.put(uid.clone(), key);
                    there.insert(uid, key);
                } else {
                    recent.take(&uid);
                    there.remove(&uid);
                }
            }
            let mut anew = Recent::default();
            anew.reset(there.into_iter());
            prop_assert!(recent.order.iter().eq(anew.order.iter()));
            for (place, uid) in recent.iter().enumerate() {
                prop_assert_eq!(recent.place(uid), Some(place));
            }
        }
    }
}
