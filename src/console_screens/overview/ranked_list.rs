//! A sorted list with access by index.
//!
//! It consists of chunks of bounded length: an insertion moves the rest of one chunk, not of the whole list.
//!
//! Invariant: no chunk is empty or longer than [`MAX_CHUNK`], and the concatenation of all chunks is sorted.

use base::sort::SliceOrder;

/// Maximum number of elements in a chunk.
const MAX_CHUNK: usize = 512;

/// A sorted list.
#[derive(Debug)]
pub(super) struct RankedList<T> {
    pieces: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for RankedList<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), len: 0 }
    }
}

impl<T: Ord> RankedList<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the element at an index.
    pub(super) fn at(&self, mut place: usize) -> Option<&T> {
        for piece in &self.pieces {
            match piece.get(place) {
                Some(element) => return Some(element),
                None => place -= piece.len(),
            }
        }
        None
    }

    /// Returns all elements, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    /// Returns the chunk that contains or would contain an element, and its index there.
    fn find(&self, element: &T) -> Option<(usize, Result<usize, usize>)> {
        let after = self.pieces.partition_point(|piece| piece.first() <= Some(element));
        let piece = after.saturating_sub(1);
        Some((piece, self.pieces.get(piece)?.binary_search(element)))
    }

    /// Returns the index of an element.
    pub(super) fn position_of(&self, element: &T) -> Option<usize> {
        let (piece, found) = self.find(element)?;
        let before: usize = self.pieces[..piece].iter().map(Vec::len).sum();
        Some(before + found.ok()?)
    }

    /// Inserts an element, unless it is present.
    pub(super) fn insert(&mut self, element: T) {
        let Some((at, found)) = self.find(&element) else {
            self.pieces.push(vec![element]);
            self.len = 1;
            return;
        };
        let Err(place) = found else { return };
        let piece = &mut self.pieces[at];
        piece.insert(place, element);
        self.len += 1;
        if piece.len() > MAX_CHUNK {
            let rest = piece.split_off(MAX_CHUNK / 2);
            self.pieces.insert(at + 1, rest);
        }
    }

    /// Removes an element.
    pub(super) fn take(&mut self, element: &T) {
        let Some((at, Ok(place))) = self.find(element) else { return };
        let piece = &mut self.pieces[at];
        piece.remove(place);
        self.len -= 1;
        if piece.is_empty() {
            self.pieces.remove(at);
        }
    }
}

impl<T: Ord> FromIterator<T> for RankedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut all: Vec<T> = elements.into_iter().collect();
        all.order();
        all.dedup();
        let (len, mut pieces) = (all.len(), Vec::with_capacity(all.len() / (MAX_CHUNK / 2) + 1));
        let mut left = all.into_iter();
        loop {
            // Chunks are half full, so that insertions do not split them at once.
            let piece: Vec<T> = left.by_ref().take(MAX_CHUNK / 2).collect();
            if piece.is_empty() {
                return Self { pieces, len };
            }
            pieces.push(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_sorted_set_with_places_con_1(
            first in proptest::collection::vec(0u32..5000, 0..2000),
            changes in proptest::collection::vec((0u32..5000, any::<bool>()), 0..2000),
        ) {
            let (mut ranked, mut set): (RankedList<u32>, BTreeSet<u32>) =
                (first.iter().copied().collect(), first.into_iter().collect());
            for (element, put) in changes {
                if put {
                    ranked.insert(element);
                    set.insert(element);
                } else {
                    ranked.take(&element);
                    set.remove(&element);
                }
            }
            prop_assert!(ranked.iter().eq(&set));
            prop_assert_eq!(ranked.len(), set.len());
            prop_assert!(ranked.pieces.iter().all(|piece| (1..=MAX_CHUNK).contains(&piece.len())));
            for (place, element) in set.iter().enumerate() {
                prop_assert_eq!((ranked.at(place), ranked.position_of(element)), (Some(element), Some(place)));
            }
            prop_assert_eq!(ranked.at(set.len()), None);
        }
    }
}
