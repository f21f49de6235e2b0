//! What an object knows of its JSON.

use std::mem;

use bytes::Bytes;
use parking_lot::Mutex;

use super::Revision;
use crate::encode::ObjectText;

/// The JSON of an object, as far as it is known. It is locked while the object is encoded, so that concurrent readers encode
/// it once.
#[derive(Default)]
pub(super) struct Encoding(Mutex<Known>);

/// The known part.
#[derive(Default)]
enum Known {
    #[default]
    Nothing,
    Length(usize),
    /// The text of an object that is about to be stored.
    Unstored(ObjectText),
    /// The text that readers of a stored object share.
    Shared(Bytes),
}

impl Known {
    fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Nothing | Self::Length(_) => None,
            Self::Unstored(text) => Some(&text.json),
            Self::Shared(text) => Some(text),
        }
    }

    fn length(&self) -> Option<usize> {
        match self {
            Self::Length(length) => Some(*length),
            known => known.text().map(<[u8]>::len),
        }
    }

    /// Drops the text unless readers share it.
    fn without_unstored(self) -> Self {
        match self {
            Self::Unstored(text) => Self::Length(text.json.len()),
            known => known,
        }
    }
}

impl Encoding {
    /// Returns the text that all readers share; `encode` appends it to a buffer.
    pub(super) fn shared(&self, encode: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let mut known = self.0.lock();
        let text = match mem::take(&mut *known) {
            Known::Shared(text) => text,
            Known::Unstored(text) => text.json.into_boxed_slice().into(),
            known => {
                let mut text = Vec::with_capacity(known.length().unwrap_or_default());
                encode(&mut text);
                text.into()
            }
        };
        *known = Known::Shared(text.clone());
        text
    }

    /// Holds the text that `encode` returns until the object is stored, unless a text is there already.
    pub(super) fn hold(&self, encode: impl FnOnce() -> ObjectText) {
        let mut known = self.0.lock();
        if known.text().is_none() {
            *known = Known::Unstored(encode());
        }
    }

    /// Drops the text of a stored object unless readers share it.
    pub(super) fn release(&self) {
        let mut known = self.0.lock();
        *known = mem::take(&mut *known).without_unstored();
    }

    /// Appends the text; `encode` appends it if it is unknown.
    pub(super) fn append_to(&self, json: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
        match self.0.lock().text() {
            Some(text) => json.extend_from_slice(text),
            None => encode(json),
        }
    }

    /// Returns the length of the text; `encode` appends it to a buffer if it is unknown.
    pub(super) fn length(&self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let mut known = self.0.lock();
        known.length().unwrap_or_else(|| {
            let mut text = Vec::new();
            encode(&mut text);
            *known = Known::Length(text.len());
            text.len()
        })
    }

    /// Forgets everything, before the object changes.
    pub(super) fn forget(&mut self) {
        *self.0.get_mut() = Known::Nothing;
    }

    /// Forgets a shared text.
    pub(super) fn forget_shared(&mut self) {
        let known = self.0.get_mut();
        if let Known::Shared(text) = known {
            *known = Known::Length(text.len());
        }
    }

    /// Returns the encoding of the same object at another revision, which the text gets.
    pub(super) fn at_revision(&mut self, revision: Revision) -> Self {
        let Known::Unstored(ObjectText { mut json, revision: Some(field) }) = mem::take(self.0.get_mut())
        else {
            return Self::default();
        };
        let new = format!("\"resourceVersion\":\"{revision}\",");
        let moved = field.start..field.start + new.len();
        json.splice(field, new.into_bytes());
        Self(Mutex::new(Known::Unstored(ObjectText { json, revision: Some(moved) })))
    }
}

/// A clone shares the text with readers, but does not copy one that is about to be stored.
impl Clone for Encoding {
    fn clone(&self) -> Self {
        Self(Mutex::new(match &*self.0.lock() {
            Known::Shared(text) => Known::Shared(text.clone()),
            known => known.length().map_or(Known::Nothing, Known::Length),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_text_is_encoded_once_and_dropped_unless_readers_share_it_safe_10() {
        let encoded = Cell::new(0);
        let encode = |json: &mut Vec<u8>| {
            encoded.set(encoded.get() + 1);
            json.extend_from_slice(b"{}");
        };
        let hold = |encoding: &Encoding| {
            encoding.hold(|| {
                let mut text = ObjectText::default();
                encode(&mut text.json);
                text
            });
        };
        let appended = |encoding: &Encoding| {
            let mut json = b" ".to_vec();
            encoding.append_to(&mut json, encode);
            (json, encoded.get())
        };
        let encoding = Encoding::default();
        hold(&encoding);
        hold(&encoding);
        assert_eq!((encoding.length(encode), appended(&encoding)), (2, (b" {}".to_vec(), 1)));
        encoding.release();
        assert_eq!((encoding.length(encode), encoded.get()), (2, 1), "the length remains");
        assert_eq!(appended(&encoding), (b" {}".to_vec(), 2));
        assert_eq!(appended(&encoding), (b" {}".to_vec(), 3), "a text for one use is not retained");
        assert_eq!((encoding.shared(encode), encoded.get()), (Bytes::from("{}"), 4));
        encoding.release();
        assert_eq!(
            (encoding.clone().shared(encode), appended(&encoding)),
            (Bytes::from("{}"), (b" {}".to_vec(), 4))
        );

        let mut encoding = Encoding::default();
        hold(&encoding);
        assert_eq!(
            (encoding.shared(encode), encoded.get()),
            (Bytes::from("{}"), 5),
            "readers take the held text"
        );
        encoding.forget_shared();
        assert_eq!((encoding.length(encode), encoded.get()), (2, 5));
        encoding.forget();
        assert_eq!((encoding.length(encode), encoded.get()), (2, 6));
    }
}
