//! Header blocks: names and values, compressed with one zlib stream per direction (SPDY/3, section 2.6.10).
//!
//! Decompression is bounded: a block that would exceed the limit is refused without being held.

use bytes::{Buf, BufMut, Bytes};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::dictionary::DICTIONARY;

/// The longest decompressed block.
const MAX_BLOCK_BYTES: usize = 64 << 10;

/// SPDY's zlib window.
const WINDOW_BITS: u8 = 15;

/// Names and values in order. Names are lower case, as SPDY requires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Headers {
    /// Returns the first value of a lower-case name; empty if absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Headers {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.to_string())).into())
    }
}

/// A block that cannot be read: both sides' compression states would diverge, so the connection cannot
/// continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderError {
    /// Not zlib, or another dictionary.
    #[error("cannot decompress a header block")]
    Compression,
    /// Larger than any honest block.
    #[error("header block of more than {MAX_BLOCK_BYTES} bytes")]
    TooLong,
    /// The decompressed bytes are no names and values.
    #[error("malformed header block")]
    Malformed,
}

/// The sender's compression state.
#[derive(Debug)]
pub(super) struct HeaderWriter(Option<Compress>);

impl HeaderWriter {
    pub(super) fn new() -> Self {
        Self(None)
    }

    /// Returns the next block of this connection.
    pub(super) fn write(&mut self, headers: &Headers) -> Result<Bytes, HeaderError> {
        let mut plain = Vec::new();
        plain.put_u32(headers.0.len() as u32);
        for text in headers.0.iter().flat_map(|(name, value)| [name, value]) {
            plain.put_u32(text.len() as u32);
            plain.extend_from_slice(text.as_bytes());
        }
        let compress = match &mut self.0 {
            Some(compress) => compress,
            // A deflate state is large; connections that never send headers have none.
            none => {
                let mut compress = Compress::new_with_window_bits(Compression::fast(), true, WINDOW_BITS);
                compress.set_dictionary(&DICTIONARY).map_err(|_| HeaderError::Compression)?;
                none.insert(compress)
            }
        };
        let mut out = Vec::with_capacity(plain.len() + 64);
        let start = compress.total_in();
        loop {
            let done = (compress.total_in() - start) as usize;
            compress
                .compress_vec(&plain[done..], &mut out, FlushCompress::Sync)
                .map_err(|_| HeaderError::Compression)?;
            if out.len() < out.capacity() {
                return Ok(out.into());
            }
            out.reserve(256);
        }
    }
}

/// The receiver's compression state.
#[derive(Debug)]
pub(super) struct HeaderReader(Decompress);

impl HeaderReader {
    pub(super) fn new() -> Self {
        Self(Decompress::new_with_window_bits(true, WINDOW_BITS))
    }

    /// Reads the next block of this connection.
    pub(super) fn read(&mut self, block: &[u8]) -> Result<Headers, HeaderError> {
        let plain = self.inflate(block)?;
        parse(plain.into()).ok_or(HeaderError::Malformed)
    }

    fn inflate(&mut self, block: &[u8]) -> Result<Vec<u8>, HeaderError> {
        let mut out = Vec::with_capacity((block.len() * 4).clamp(512, MAX_BLOCK_BYTES));
        let start = self.0.total_in();
        let mut has_dictionary = false;
        loop {
            let done = (self.0.total_in() - start) as usize;
            match self.0.decompress_vec(&block[done..], &mut out, FlushDecompress::Sync) {
                Ok(Status::Ok | Status::BufError) => {}
                // The stream of a connection never ends.
                Ok(Status::StreamEnd) => return Err(HeaderError::Compression),
                Err(error) => {
                    if error.needs_dictionary().is_none() || std::mem::replace(&mut has_dictionary, true) {
                        return Err(HeaderError::Compression);
                    }
                    self.0.set_dictionary(&DICTIONARY).map_err(|_| HeaderError::Compression)?;
                    continue;
                }
            }
            let taken = (self.0.total_in() - start) as usize;
            if out.len() > MAX_BLOCK_BYTES {
                return Err(HeaderError::TooLong);
            }
            if out.len() < out.capacity() {
                // The buffer had more space: remaining input does not belong to a block.
                return if taken == block.len() { Ok(out) } else { Err(HeaderError::Compression) };
            }
            out.reserve(out.len());
        }
    }
}

/// Names and values; `None` if the bytes are malformed.
fn parse(mut plain: Bytes) -> Option<Headers> {
    let text = |plain: &mut Bytes| {
        let length = plain.try_get_u32().ok()? as usize;
        (length <= plain.len()).then(|| String::from_utf8(plain.split_to(length).into()).ok())?
    };
    let count = plain.try_get_u32().ok()?;
    let mut headers = Vec::new();
    for _ in 0..count {
        // Each takes at least eight bytes of the bounded input: a false count ends here.
        let (name, value) = (text(&mut plain)?, text(&mut plain)?);
        if name.is_empty() {
            return None;
        }
        headers.push((name.to_ascii_lowercase(), value));
    }
    plain.is_empty().then_some(Headers(headers))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_build_on_the_ones_before_api_3() {
        let (mut writer, mut reader) = (HeaderWriter::new(), HeaderReader::new());
        let first = Headers::from([("streamType", "error"), ("port", "80"), ("requestID", "0")]);
        let second = Headers::from([("streamType", "data"), ("port", "80"), ("requestID", "0")]);
        let blocks = [&first, &second, &Headers::default()].map(|headers| writer.write(headers).unwrap());
        // The first block names the dictionary; the second mostly refers to the first.
        assert_eq!(blocks[0][..6], [0x78, blocks[0][1], 0xe3, 0xc6, 0xa7, 0xc2]);
        assert!(blocks[1].len() < blocks[0].len());
        assert_eq!(reader.read(&blocks[0]).as_ref(), Ok(&first));
        assert_eq!(reader.read(&blocks[1]).as_ref(), Ok(&second));
        assert_eq!(reader.read(&blocks[2]), Ok(Headers::default()));
        assert_eq!((second.get("streamtype"), second.get("nosuch")), ("data", ""));
    }

    fn compressed(plain: &[u8]) -> Vec<u8> {
        let mut compress = Compress::new_with_window_bits(Compression::best(), true, WINDOW_BITS);
        compress.set_dictionary(&DICTIONARY).unwrap();
        let mut out = Vec::with_capacity(plain.len() + 1024);
        compress.compress_vec(plain, &mut out, FlushCompress::Sync).unwrap();
        out
    }

    #[test]
    fn hostile_blocks_are_refused_sec_2() {
        let check = |block: &[u8], expected: HeaderError| {
            assert_eq!(HeaderReader::new().read(block), Err(expected), "{block:x?}");
        };
        // 30 kB that would become 30 MB.
        let bomb = compressed(&vec![0; 30 << 20]);
        assert!(bomb.len() < 32 << 10);
        check(&bomb, HeaderError::TooLong);
        check(b"not zlib at all", HeaderError::Compression);
        check(&[0x78, 0xbb, 1, 2, 3, 4, 5, 6], HeaderError::Compression);
        check(b"", HeaderError::Malformed);
        check(&compressed(&[0xff; 4]), HeaderError::Malformed);
        check(&compressed(b"\0\0\0\x01\0\0\0\x01a\0\0\0\x09b"), HeaderError::Malformed);
        check(&compressed(b"\0\0\0\x01\0\0\0\0\0\0\0\x01b"), HeaderError::Malformed);
        check(&compressed(b"\0\0\0\x01\0\0\0\x01a\0\0\0\x01b and more"), HeaderError::Malformed);
        check(&compressed(b"\0\0\0\x01\0\0\0\x01a\0\0\0\x01\xff"), HeaderError::Malformed);
    }

    proptest! {
        #[test]
        fn written_headers_are_read_back_api_3(
            blocks in prop::collection::vec(prop::collection::vec(("[a-z][a-z-]{0,20}", ".{0,200}"), 0..20), 1..8)
        ) {
            let (mut writer, mut reader) = (HeaderWriter::new(), HeaderReader::new());
            for block in blocks {
                let headers = Headers(block);
                prop_assert_eq!(reader.read(&writer.write(&headers).unwrap()), Ok(headers));
            }
        }

        #[test]
        fn no_block_is_too_hostile_sec_2(
            mut block in prop::collection::vec(any::<u8>(), 0..200), real: bool, cut in 0..300_usize,
        ) {
            if real {
                block = compressed(&block);
                block.truncate(cut);
            }
            let _ = HeaderReader::new().read(&block);
        }
    }
}
