//! Bodies in chunks: small encodings are copied together, large ones are shared.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

/// The approximate size of a chunk: large enough that its overhead does not matter, small enough that
/// thousands of clients may have one each.
pub(super) const PIECE_BYTES: usize = 32 << 10;

/// From this size on, copying costs more than a chunk of its own.
const SHARED_BYTES: usize = PIECE_BYTES / 2;

/// Collects encoded data.
#[derive(Debug, Default)]
pub(super) struct ChunkBuilder {
    gathered: BytesMut,
    ready: VecDeque<Bytes>,
}

impl ChunkBuilder {
    /// Adds a copy of `bytes`.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.gathered.put(bytes);
    }

    /// Adds an encoding that may be shared with others.
    pub(super) fn share(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_BYTES {
            self.gathered.put(bytes);
        } else {
            self.cut();
            self.ready.push_back(bytes);
        }
        if self.gathered.len() >= PIECE_BYTES {
            self.cut();
            // More will follow: the next chunk does not grow step by step.
            self.gathered.reserve(PIECE_BYTES + SHARED_BYTES);
        }
    }

    /// Returns the next chunk, if one is full.
    pub(super) fn full(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    /// Returns the next chunk, full or not; `None` if none remain.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            self.cut();
        }
        self.ready.pop_front()
    }

    fn cut(&mut self) {
        if !self.gathered.is_empty() {
            self.ready.push_back(self.gathered.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_encodings_are_gathered_and_large_ones_shared() {
        let large = Bytes::from(vec![b'x'; SHARED_BYTES]);
        let mut pieces = ChunkBuilder::default();
        pieces.put(b"[");
        pieces.share(Bytes::from_static(b"1"));
        assert_eq!(pieces.full(), None);
        pieces.put(b",");
        pieces.share(large.clone());
        pieces.put(b"]");
        assert_eq!(pieces.full().as_deref(), Some(&b"[1,"[..]));
        assert_eq!(pieces.full().map(|piece| piece.as_ptr()), Some(large.as_ptr()));
        assert_eq!(pieces.full(), None);
        assert_eq!(pieces.next().as_deref(), Some(&b"]"[..]));
        assert_eq!(pieces.next(), None);
        for _ in 0..PIECE_BYTES {
            pieces.share(Bytes::from_static(b"ab"));
        }
        let mut all = 0;
        while let Some(piece) = pieces.next() {
            assert!(piece.len() <= PIECE_BYTES + 1);
            all += piece.len();
        }
        assert_eq!(all, 2 * PIECE_BYTES);
    }
}
