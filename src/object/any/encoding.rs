//! The cached JSON of an object.

use std::mem;

use bytes::Bytes;
use parking_lot::Mutex;

use super::Revision;
use crate::encode::ObjectText;

/// The JSON of an object, as far as it is known. It is locked while a text that readers share, or a length, is encoded, so
/// that concurrent readers encode it once.
#[derive(Default)]
pub(super) struct Encoding(Mutex<EncodingState>);

/// The text, or its length, as far as either is known.
#[derive(Default)]
enum EncodingState {
    #[default]
    Unknown,
    Length(usize),
    /// The text of an object that is about to be stored.
    Unstored(ObjectText),
    /// The text that readers of a stored object share.
    Shared(Bytes),
}

impl EncodingState {
    fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Unknown | Self::Length(_) => None,
            Self::Unstored(text) => Some(&text.json),
            Self::Shared(text) => Some(text),
        }
    }

    fn length(&self) -> Option<usize> {
        match self {
            Self::Length(length) => Some(*length),
            state => state.text().map(<[u8]>::len),
        }
    }

    /// Drops the text unless readers share it.
    fn without_unstored(self) -> Self {
        match self {
            Self::Unstored(text) => Self::Length(text.json.len()),
            state => state,
        }
    }
}

impl Encoding {
    /// Returns the text that all readers share; `encode` appends it to a buffer.
    pub(super) fn shared(&self, encode: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let mut state = self.0.lock();
        let text = match mem::take(&mut *state) {
            EncodingState::Shared(text) => text,
            EncodingState::Unstored(text) => text.json.into_boxed_slice().into(),
            state => {
                let mut text = Vec::with_capacity(state.length().unwrap_or_default());
                encode(&mut text);
                text.into()
            }
        };
        *state = EncodingState::Shared(text.clone());
        text
    }

    /// Holds the text that `encode` returns until the object is stored, unless a text is there already.
    pub(super) fn hold(&self, encode: impl FnOnce() -> ObjectText) {
        let mut state = self.0.lock();
        if state.text().is_none() {
            *state = EncodingState::Unstored(encode());
        }
    }

    /// Drops the text of a stored object unless readers share it.
    pub(super) fn release(&self) {
        let mut state = self.0.lock();
        *state = mem::take(&mut *state).without_unstored();
    }

    /// Appends the text; `encode` appends it if it is unknown.
    pub(super) fn append_to(&self, json: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
        let is_known = self.0.lock().text().map(|text| json.extend_from_slice(text)).is_some();
        if !is_known {
            encode(json);
        }
    }

    /// Returns the length of the text; `encode` appends it to a buffer if it is unknown.
    pub(super) fn length(&self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let mut state = self.0.lock();
        state.length().unwrap_or_else(|| {
            let mut text = Vec::new();
            encode(&mut text);
            *state = EncodingState::Length(text.len());
            text.len()
        })
    }

    /// Forgets everything, before the object changes.
    pub(super) fn forget(&mut self) {
        *self.0.get_mut() = EncodingState::Unknown;
    }

    /// Forgets a shared text.
    pub(super) fn forget_shared(&mut self) {
        let state = self.0.get_mut();
        if let EncodingState::Shared(text) = state {
            *state = EncodingState::Length(text.len());
        }
    }

    /// Returns the encoding of the same object at another revision, which the text gets.
    pub(super) fn at_revision(&mut self, revision: Revision) -> Self {
        let EncodingState::Unstored(ObjectText { mut json, revision: Some(field) }) =
            mem::take(self.0.get_mut())
        else {
            return Self::default();
        };
        let new = format!("\"resourceVersion\":\"{revision}\",");
        let moved = field.start..field.start + new.len();
        json.splice(field, new.into_bytes());
        Self(Mutex::new(EncodingState::Unstored(ObjectText { json, revision: Some(moved) })))
    }
}

/// A clone shares the text with readers, but does not copy one that is about to be stored. It does not wait for an encoding
/// under way, because the store clones objects under its lock.
impl Clone for Encoding {
    fn clone(&self) -> Self {
        let state = self.0.try_lock();
        Self(Mutex::new(match state.as_deref() {
            Some(EncodingState::Shared(text)) => EncodingState::Shared(text.clone()),
            Some(state) => state.length().map_or(EncodingState::Unknown, EncodingState::Length),
            None => EncodingState::Unknown,
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
    #[test]
    fn a_clone_does_not_wait_for_an_encoding_under_way_safe_10() {
        let encoding = Encoding::default();
        assert_eq!(encoding.length(|json| json.extend_from_slice(b"{}")), 2);
        let under_way = encoding.0.lock();
        let copy = encoding.clone();
        drop(under_way);
        assert_eq!(copy.length(|json| json.extend_from_slice(b"{ }")), 3, "nothing was known of the copy");
    }
}
