//! Stable sorts whose code is compiled once, and sorted maps without a sort.
//!
//! Each call of the standard library's sorts compiles the algorithm again for its elements and its comparison: 6 KB each,
//! and a twentieth of the binary for 250 calls. The sorts here compare positions and then swap the elements, which costs
//! an allocation and indirect calls. Code that requests and packets pass sorts with the standard library.
//!
//! Each `collect` of a `BTreeMap` compiles a sort, too, and so does each `BTreeMap::from` an array:
//! [`CollectMap::collect_map`] inserts the entries one by one.

use std::cmp::Ordering;
use std::mem;

/// Sorts lists as [`slice::sort`] and its relatives do.
pub trait SliceOrder<T> {
    /// Sorts the elements.
    fn order(&mut self)
    where
        T: Ord;

    /// Sorts the elements by a comparison.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts the elements by a key, which is computed for each comparison.
    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);

    /// Sorts the elements by a key, which is computed once for each element.
    fn order_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> SliceOrder<T> for [T] {
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }

    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let swaps = swaps(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        for (a, b) in &swaps {
            self.swap(*a, *b);
        }
    }

    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }

    fn order_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K) {
        let keys: Vec<K> = self.iter().map(key).collect();
        for (a, b) in &swaps(keys.len(), &mut |a, b| keys[a].cmp(&keys[b])) {
            self.swap(*a, *b);
        }
    }
}

/// Collects maps as [`Iterator::collect`] does.
pub trait CollectMap: IntoIterator + Sized {
    /// Collects the entries into a map; of several with the same key, the last remains.
    fn collect_map<M: Default + Extend<Self::Item>>(self) -> M {
        let mut map = M::default();
        map.extend(self);
        map
    }
}

impl<I: IntoIterator> CollectMap for I {}

/// Returns the positions to swap, one pair after the other, to sort a list whose elements compare like this.
fn swaps(length: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<(usize, usize)> {
    if length < 2 {
        return Vec::new();
    }
    let mut sources: Vec<usize> = (0..length).collect();
    sources.sort_by(|a, b| compare(*a, *b));
    let mut swaps = Vec::new();
    for start in 0..length {
        // Elements change places in cycles. A position that has its element is its own source.
        let mut place = start;
        loop {
            let source = mem::replace(&mut sources[place], place);
            if source == start || source == place {
                break;
            }
            swaps.push((place, source));
            place = source;
        }
    }
    swaps
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn lists_are_sorted_as_by_the_standard_library() {
        for (length, step) in [(0, 1), (1, 1), (2, 1), (2, 19), (21, 1), (21, 20), (50, 7), (61, 13)] {
            let list: Vec<(usize, usize)> = (0..length).map(|n| (n * step % 21, n % 5)).collect();
            let sorted = |sort: fn(&mut [(usize, usize)])| {
                let mut list = list.clone();
                sort(&mut list);
                list
            };
            assert_eq!(sorted(SliceOrder::order), sorted(<[_]>::sort_unstable));
            let stable = sorted(|list| list.sort_by_key(|(key, _)| Reverse(*key)));
            assert_eq!(sorted(|list| list.order_by(|a, b| b.0.cmp(&a.0))), stable);
            assert_eq!(sorted(|list| list.order_by_key(|(key, _)| Reverse(*key))), stable);
            assert_eq!(sorted(|list| list.order_by_cached_key(|(key, _)| Reverse(*key))), stable);
        }
    }
}
