//! Port ranges that many peers share: a rule with thousands of peers and thousands of ports costs their sum, not their
//! product.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Weak};

use super::port_range::PortRange;

/// Ranges that neither overlap nor touch each other, stored once with their hash, so that copies and hash keys are
/// cheap.
#[derive(Clone)]
pub struct Ranges(Arc<RangeSet>);

struct RangeSet {
    hash: u64,
    all: BTreeSet<PortRange>,
}

impl Ranges {
    /// Creates ranges from ranges in any order; overlapping and adjacent ones are merged.
    pub fn of(ranges: impl IntoIterator<Item = PortRange>) -> Self {
        let sorted: BTreeSet<PortRange> = ranges.into_iter().collect();
        let mut merged: Vec<PortRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match merged.last_mut() {
                Some(last)
                    if last.protocol == range.protocol && range.first <= last.last.saturating_add(1) =>
                {
                    last.last = last.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        let all: BTreeSet<PortRange> = merged.into_iter().collect();
        let mut hasher = DefaultHasher::new();
        all.hash(&mut hasher);
        Self(Arc::new(RangeSet { hash: hasher.finish(), all }))
    }
}

impl Deref for Ranges {
    type Target = BTreeSet<PortRange>;

    fn deref(&self) -> &Self::Target {
        &self.0.all
    }
}

impl fmt::Debug for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.all.fmt(f)
    }
}

impl PartialEq for Ranges {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranges {}

impl Hash for Ranges {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl PartialOrd for Ranges {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Orders by hash; the order has no other meaning.
impl Ord for Ranges {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        self.0.hash.cmp(&other.0.hash).then_with(|| self.0.all.cmp(&other.0.all))
    }
}

/// The ranges in use: equal ones are stored once, so that they can be compared by address.
#[derive(Default)]
pub(super) struct KnownRanges {
    by_hash: HashMap<u64, Vec<Weak<RangeSet>>>,
    /// Number of entries at which unused ones are removed.
    prune_at: usize,
}

impl KnownRanges {
    /// Returns the stored ranges that are equal to these, storing these if there are none.
    pub(super) fn shared(&mut self, ranges: Ranges) -> Ranges {
        let same = self.by_hash.entry(ranges.0.hash).or_default();
        if let Some(known) = same.iter().filter_map(Weak::upgrade).find(|known| known.all == ranges.0.all) {
            return Ranges(known);
        }
        same.push(Arc::downgrade(&ranges.0));
        if self.by_hash.len() > self.prune_at {
            self.by_hash.retain(|_, same| {
                same.retain(|one| one.strong_count() > 0);
                !same.is_empty()
            });
            self.prune_at = 2 * self.by_hash.len() + 64;
        }
        ranges
    }

    /// Returns the number of ranges in use.
    #[cfg(test)]
    fn used_count(&self) -> usize {
        self.by_hash.values().flatten().filter(|one| one.strong_count() > 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;

    fn ranges(ports: &[u16]) -> Ranges {
        Ranges::of(ports.iter().map(|port| PortRange::one(Protocol::Tcp, *port)))
    }

    #[test]
    fn equal_ranges_are_stored_once_while_they_are_in_use_net_8() {
        let mut known = KnownRanges::default();
        let (one, other) = (known.shared(ranges(&[80, 82])), known.shared(ranges(&[82, 80])));
        assert!(Arc::ptr_eq(&one.0, &other.0) && one == other);
        assert_eq!(known.used_count(), 1);
        drop((one, other));
        assert_eq!(known.used_count(), 0);
        let held: Vec<Ranges> = (0..10).map(|port| known.shared(ranges(&[port]))).collect();
        for port in 0..10_000 {
            known.shared(ranges(&[port, 20_000]));
        }
        assert!(known.by_hash.len() <= 200 && known.used_count() == held.len(), "{}", known.by_hash.len());
    }

    #[test]
    fn ranges_are_equal_only_if_they_cover_the_same_ports_net_8() {
        for (one, other, same) in [
            (&[80, 81][..], &[81, 80][..], true),
            (&[80], &[81], false),
            (&[80, 81, 82], &[82, 80, 81, 81], true),
            (&[], &[], true),
            (&[80], &[], false),
        ] {
            let (one, other) = (ranges(one), ranges(other));
            assert_eq!(one == other, same, "{one:?} {other:?}");
            assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
        }
    }
}
