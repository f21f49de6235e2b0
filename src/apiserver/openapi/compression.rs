//! Documents that are held compressed, and sent chunk by chunk.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use hyper::body::{Body, Frame, SizeHint};

use crate::chunks::PIECE_BYTES;

/// Compressed bytes; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CompressedBytes {
    deflated: Bytes,
    length: usize,
}

/// Compresses bytes as they come, so that a document never exists as a whole.
pub(super) struct Compressor {
    encoder: DeflateEncoder<Vec<u8>>,
    length: usize,
}

impl Compressor {
    pub(super) fn new() -> Self {
        Self { encoder: DeflateEncoder::new(Vec::new(), Compression::fast()), length: 0 }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.encoder.write_all(bytes).expect("writing to memory cannot fail");
        self.length += bytes.len();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn finish(self) -> CompressedBytes {
        let deflated = self.encoder.finish().expect("writing to memory cannot fail").into_boxed_slice();
        CompressedBytes { deflated: deflated.into(), length: self.length }
    }
}

impl CompressedBytes {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut compressor = Compressor::new();
        compressor.write(bytes);
        compressor.finish()
    }

    /// Returns a reader of the uncompressed bytes.
    pub(super) fn reader(&self) -> DeflateDecoder<Reader<Bytes>> {
        DeflateDecoder::new(self.deflated.clone().reader())
    }

    /// Returns the uncompressed bytes.
    #[cfg(test)]
    pub(super) fn read(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length);
        self.reader().read_to_end(&mut bytes).expect("the data was compressed by this module");
        bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// A body of blocks, each of which is decompressed when it is sent, chunk by chunk.
#[derive(Debug, Default)]
pub(crate) struct BlockBody {
    waiting: VecDeque<Block>,
    open: Option<DeflateDecoder<Reader<Bytes>>>,
    remaining_bytes: u64,
}

#[derive(Debug)]
enum Block {
    Plain(Bytes),
    Compressed(CompressedBytes),
}

impl BlockBody {
    /// Adds bytes at the end.
    pub(super) fn put(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.remaining_bytes += bytes.len() as u64;
        self.waiting.push_back(Block::Plain(bytes));
    }

    /// Adds compressed bytes at the end.
    pub(super) fn share(&mut self, compressed: &CompressedBytes) {
        self.remaining_bytes += compressed.length as u64;
        self.waiting.push_back(Block::Compressed(compressed.clone()));
    }

    /// Returns the next chunk of the body.
    fn next_piece(&mut self) -> Option<Bytes> {
        loop {
            if let Some(decoder) = &mut self.open {
                let mut piece = Vec::with_capacity(PIECE_BYTES);
                let part = decoder.take(PIECE_BYTES as u64).read_to_end(&mut piece);
                if part.expect("the data was compressed by this module") > 0 {
                    return Some(piece.into());
                }
                self.open = None;
            }
            match self.waiting.pop_front()? {
                Block::Plain(bytes) if !bytes.is_empty() => return Some(bytes),
                Block::Plain(_) => {}
                Block::Compressed(compressed) => self.open = Some(compressed.reader()),
            }
        }
    }
}

impl From<&CompressedBytes> for BlockBody {
    fn from(compressed: &CompressedBytes) -> Self {
        let mut blocks = Self::default();
        blocks.share(compressed);
        blocks
    }
}

impl From<Bytes> for BlockBody {
    fn from(bytes: Bytes) -> Self {
        let mut blocks = Self::default();
        blocks.put(bytes);
        blocks
    }
}

impl Body for BlockBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.next_piece();
        self.remaining_bytes -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining_bytes)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_body_of_blocks_is_sent_in_small_pieces_perf_1() {
        let long = "0123456789".repeat(100_000);
        let mut blocks = BlockBody::default();
        blocks.put("[");
        blocks.share(&CompressedBytes::of(long.as_bytes()));
        blocks.share(&CompressedBytes::of(b""));
        blocks.put("");
        blocks.put("]");
        assert_eq!(blocks.size_hint().exact(), Some(long.len() as u64 + 2));
        let mut received = Vec::new();
        while let Some(frame) = blocks.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_BYTES);
            received.extend_from_slice(&piece);
        }
        assert!(blocks.is_end_stream());
        assert_eq!(received, format!("[{long}]").into_bytes());
    }
}
