//! Compressed JSON of many similar objects: each is deflated with the texts of earlier objects as the dictionary.
//!
//! Pods of one template differ in names, addresses and times: with one of them as the dictionary, another shrinks to a
//! tenth of its text.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// The maximum size of a dictionary: a few objects. A larger one costs more time per object.
const DICTIONARY: usize = 8 * 1024;
/// An object that does not shrink by this factor is unlike the earlier ones: it becomes the dictionary of the next
/// ones.
const WELL_PACKED: usize = 4;
/// The number of dictionaries that are created freely; further ones only while dictionaries are a small part of the
/// packed data.
const FREE_DICTIONARIES: usize = 4;
const SMALL_PART: usize = 8;

thread_local! {
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
}

/// Compresses the texts of one resource.
pub(crate) struct Packer {
    /// Created with the first text, because it is larger than many texts.
    deflate: Option<Box<Compress>>,
    dictionary: Arc<[u8]>,
    dictionaries: usize,
    packed: usize,
    buffer: Vec<u8>,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").field("dictionaries", &self.dictionaries).finish_non_exhaustive()
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self { deflate: None, dictionary: Arc::new([]), dictionaries: 0, packed: 0, buffer: Vec::new() }
    }
}

/// A compressed text.
pub(crate) struct PackedText {
    bytes: Box<[u8]>,
    length: u32,
    /// `None` if the bytes are the text itself.
    dictionary: Option<Arc<[u8]>>,
}

impl fmt::Debug for PackedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes.len(), self.length)
    }
}

impl Packer {
    /// Compresses a text.
    pub(crate) fn pack(&mut self, text: &[u8]) -> PackedText {
        if self.dictionary.is_empty() {
            self.learn(text);
        }
        let length = u32::try_from(text.len()).ok();
        let Some(length) = length.filter(|_| self.deflate(text).is_some()) else {
            return PackedText { bytes: text.into(), length: 0, dictionary: None };
        };
        let packed = PackedText {
            bytes: self.buffer.as_slice().into(),
            length,
            dictionary: Some(self.dictionary.clone()),
        };
        self.packed += self.buffer.len();
        let is_unlike = self.buffer.len() * WELL_PACKED > text.len();
        let has_capacity = self.dictionaries < FREE_DICTIONARIES
            || self.packed / SMALL_PART > self.dictionaries * DICTIONARY;
        if is_unlike && has_capacity {
            self.learn(text);
        }
        packed
    }

    /// Makes this text, and the end of the previous dictionary, the dictionary of the next texts.
    fn learn(&mut self, text: &[u8]) {
        let text = &text[text.len().saturating_sub(DICTIONARY)..];
        let before = self.dictionary.len().min(DICTIONARY - text.len());
        let before = &self.dictionary[self.dictionary.len() - before..];
        self.dictionary = [before, text].concat().into();
        self.dictionaries += 1;
    }

    /// Deflates a text into the buffer.
    fn deflate(&mut self, text: &[u8]) -> Option<()> {
        let deflate =
            self.deflate.get_or_insert_with(|| Box::new(Compress::new(Compression::default(), false)));
        deflate.reset();
        deflate.set_dictionary(&self.dictionary).ok()?;
        self.buffer.clear();
        loop {
            self.buffer.reserve(text.len() / 2 + 64);
            let read = usize::try_from(deflate.total_in()).ok()?;
            let status = deflate.compress_vec(text.get(read..)?, &mut self.buffer, FlushCompress::Finish);
            if status.ok()? == Status::StreamEnd {
                return Some(());
            }
        }
    }
}

impl PackedText {
    /// Decompresses the text.
    pub(crate) fn unpack(&self) -> Vec<u8> {
        match &self.dictionary {
            None => self.bytes.to_vec(),
            Some(dictionary) => self.inflate(dictionary).unwrap_or_default(),
        }
    }

    fn inflate(&self, dictionary: &[u8]) -> Option<Vec<u8>> {
        INFLATE.with_borrow_mut(|inflate| {
            inflate.reset(false);
            inflate.set_dictionary(dictionary).ok()?;
            let mut text = Vec::with_capacity(self.length as usize);
            // The data is complete and the output has its full capacity.
            let status = inflate.decompress_vec(&self.bytes, &mut text, FlushDecompress::Finish);
            (status.ok()? == Status::StreamEnd).then_some(text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pod(n: usize) -> String {
        format!(
            "{{\"metadata\":{{\"name\":\"web-7d9c{n:05}\",\"labels\":{{\"app\":\"web\"}}}},\"spec\":{{\"containers\":\
             [{{\"name\":\"web\",\"image\":\"nginx:1.27\",\"ports\":[{{\"containerPort\":8080}}],\"env\":\
             [{{\"name\":\"MODE\",\"value\":\"production\"}}]}}]}},\"status\":{{\"podIP\":\"10.0.{}.{}\"}}}}",
            n / 256,
            n % 256
        )
    }

    #[test]
    fn similar_objects_take_a_fraction_of_their_text_con_1() {
        let mut packer = Packer::default();
        let (mut texts, mut packed) = (0, 0);
        for n in 0..500 {
            let text = pod(n);
            let one = packer.pack(text.as_bytes());
            assert_eq!(one.unpack(), text.as_bytes());
            texts += text.len();
            packed += one.bytes.len();
        }
        assert!(packed * 6 < texts, "{packed} of {texts}");
        assert_eq!(packer.dictionaries, 1);
    }

    #[test]
    fn dissimilar_objects_do_not_create_unlimited_dictionaries_con_1() {
        let mut packer = Packer::default();
        let mut seed: u64 = 1;
        let mut packed = 0;
        for _ in 0..2000 {
            let mut text = Vec::new();
            while text.len() < 600 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.extend_from_slice(format!("{:x}", seed >> 24).as_bytes());
            }
            let one = packer.pack(&text);
            assert_eq!(one.unpack(), text);
            packed += one.bytes.len();
        }
        let spent = packer.dictionaries * DICTIONARY;
        assert!(
            spent <= FREE_DICTIONARIES * DICTIONARY + packed / SMALL_PART + DICTIONARY,
            "{spent} {packed}"
        );
    }

    proptest! {
        #[test]
        fn any_texts_come_back_con_1(texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3000), 0..12)) {
            let mut packer = Packer::default();
            let packed: Vec<PackedText> = texts.iter().map(|text| packer.pack(text)).collect();
            for (text, packed) in texts.iter().zip(&packed) {
                prop_assert_eq!(text, &packed.unpack());
            }
        }
    }
}
