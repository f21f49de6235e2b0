//! Decompresses an archive or a layer: gzip or zstd, recognised by the first bytes.
//!
//! Nothing here bounds the output; the reader does. The memory for reading is bounded: a zstd frame that needs a window
//! of more than 128 MiB is refused.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// A stream's compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Detects the compression by a stream's first bytes. A zstd stream may begin with skippable frames.
    pub(super) fn of(begin: &[u8]) -> Self {
        match begin {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Returns the stream's decompressed content.
pub(super) fn plain<'a>(mut stream: impl BufRead + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    Ok(match Compression::of(stream.fill_buf()?) {
        Compression::None => Box::new(stream),
        Compression::Gzip => Box::new(MultiGzDecoder::new(stream)),
        Compression::Zstd => {
            Box::new(ZstdDecoder { stream, decoder: Box::new(FrameDecoder::new()), in_frame: false })
        }
    })
}

/// Decodes consecutive zstd frames, to the end of the stream.
struct ZstdDecoder<R> {
    stream: R,
    decoder: Box<FrameDecoder>,
    in_frame: bool,
}

impl<R: BufRead> ZstdDecoder<R> {
    /// Advances to the next frame with content; false at the end.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.stream.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.stream) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.stream.by_ref().take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(format!("zstd: {error}"))),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdDecoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.in_frame && self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.in_frame && !self.decoder.is_finished() {
                // One block at a time: decompresses no more than the reader needs.
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder
                    .decode_blocks(&mut self.stream, one)
                    .map_err(|error| io::Error::other(format!("zstd: {error}")))?;
                continue;
            }
            self.in_frame = self.next_frame()?;
            if !self.in_frame {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        plain(bytes)?.take(64 << 20).read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn frames_follow_each_other_and_some_are_skipped() {
        let text: Vec<u8> = (0..60_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let frame = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
        let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let stream = [skipped.clone(), frame(&text), frame(b""), skipped.clone(), frame(b"end")].concat();
        assert_eq!(unpacked(&stream).unwrap(), [&text[..], b"end"].concat());
        assert_eq!(unpacked(b"as it is").unwrap(), b"as it is");

        // SEC-2: truncated data, garbage, and data that needs too much memory are refused, and nothing panics.
        for cut in (0..stream.len()).step_by(4999).chain([skipped.len() - 1, skipped.len() + 3, 9]) {
            let _ = unpacked(&stream[..cut]);
        }
        assert!(unpacked(&stream[..stream.len() - 2]).is_err());
        assert!(unpacked(&[frame(b"x"), b"garbage".to_vec()].concat()).is_err());
        // A frame without its size, whose window is 1 TiB.
        let greedy = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 30 << 3, 1, 0, 0];
        assert!(unpacked(&greedy).is_err());
        let mut damaged = frame(&text);
        for at in (4..damaged.len()).step_by(damaged.len() / 40) {
            damaged[at] ^= 0x55;
            let _ = unpacked(&damaged);
        }
    }

    /// SEC-2: a bomb is unpacked only as far as it is read.
    #[test]
    fn a_compression_bomb_is_unpacked_only_as_far_as_it_is_read() {
        // Blocks of one byte, 128 KiB times: 4 GiB in 128 kB.
        let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x40];
        for _ in 0..32_768 {
            // Not the last block, repeated, 128 KiB long.
            let header: u32 = (128 << 10) << 3 | 1 << 1;
            bomb.extend_from_slice(&header.to_le_bytes()[..3]);
            bomb.push(b'x');
        }
        let mut reader = plain(&bomb[..]).unwrap();
        let mut few = vec![0; 1 << 20];
        reader.read_exact(&mut few).unwrap();
        assert!(few.iter().all(|byte| *byte == b'x'));
    }
}
