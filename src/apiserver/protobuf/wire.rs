//! The wire format: tags, varints, lengths. Independent of types.

use super::ProtobufError;

/// The value after a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    /// A variable-length number: integers and booleans.
    Varint(u64),
    /// Eight bytes: doubles.
    Fixed64([u8; 8]),
    /// Four bytes: floats, which no Kubernetes type has.
    Fixed32,
    /// Text, bytes, messages, packed lists.
    Bytes(&'a [u8]),
}

impl Payload<'_> {
    pub(super) fn wire_type(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        }
    }
}

/// Reads one message's fields in the order they come.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next field's number and payload; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Truncated)?;
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.try_into().map_err(|_| ProtobufError::Truncated)?;
                Payload::Fixed64(bytes)
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Payload::Fixed32
            }
            // Groups were deprecated before Kubernetes existed.
            _ => return Err(ProtobufError::Truncated),
        };
        Ok(Some((number, payload)))
    }

    /// Returns a bare number, as packed lists have them; `None` at the end.
    pub(super) fn next_packed(&mut self) -> Result<Option<u64>, ProtobufError> {
        if self.rest.is_empty() { Ok(None) } else { self.varint().map(Some) }
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for (index, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(ProtobufError::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}
