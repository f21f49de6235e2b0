//! Encodes an object as JSON and inserts its field managers, which are stored beside the typed value, into the
//! metadata.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::managed::ManagedFields;

/// A formatter that writes compact JSON, with the field managers first in the metadata.
pub(super) struct Encoder<'o> {
    owners: &'o ManagedFields,
    depth: usize,
    at: EncoderPosition,
}

/// The encoder's position at the top level of the object.
#[derive(PartialEq)]
enum EncoderPosition {
    Other,
    /// In the name of a field.
    Name,
    /// Before the metadata.
    Metadata,
    /// In the metadata, after the field managers and before any other field.
    Owners,
}

impl<'o> Encoder<'o> {
    pub(super) fn serializer(out: Output<'o>, owners: &'o ManagedFields) -> JsonSerializer<'o> {
        Serializer::with_formatter(out, Self { owners, depth: 0, at: EncoderPosition::Other })
    }

    /// Returns the JSON text of a value.
    pub(super) fn text(value: &impl Serialize) -> Vec<u8> {
        let mut text = Vec::new();
        let owners = ManagedFields::default();
        let mut serializer = Encoder::serializer(Output::Text(&mut text), &owners);
        value.serialize(&mut serializer).expect("API types have string keys and finite numbers");
        text
    }
}

/// The only serializer to JSON for which the serialization of all fields of all kinds is compiled.
pub(super) type JsonSerializer<'o> = Serializer<Output<'o>, Encoder<'o>>;

/// The destination of a JSON text.
pub(super) enum Output<'o> {
    /// The text is appended here.
    Text(&'o mut Vec<u8>),
    /// Only the number of bytes so far.
    Length(usize),
}

impl Output<'_> {
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Length(length) => *length,
        }
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Text(text) => text.extend_from_slice(bytes),
            Self::Length(length) => *length += bytes.len(),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Formatter for Encoder<'_> {
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"{")?;
        if self.depth == 2 && self.at == EncoderPosition::Metadata && !self.owners.is_empty() {
            self.at = EncoderPosition::Owners;
            self.owners.write_json(&mut { out })?;
        }
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        let follows_owners = self.depth == 2 && self.at == EncoderPosition::Owners;
        if self.depth == 1 {
            self.at = EncoderPosition::Name;
        } else if follows_owners {
            self.at = EncoderPosition::Other;
        }
        if first && !follows_owners { Ok(()) } else { out.write_all(b",") }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _out: &mut W) -> io::Result<()> {
        if self.at == EncoderPosition::Name {
            self.at = EncoderPosition::Other;
        }
        Ok(())
    }

    /// Writes numbers as Go does: a whole one without a fraction.
    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        match whole(value) {
            Some(whole) => write!(out, "{whole}"),
            None => out.write_all(serde_json::Value::from(value).to_string().as_bytes()),
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if self.at == EncoderPosition::Name && fragment == "metadata" {
            self.at = EncoderPosition::Metadata;
        }
        out.write_all(fragment.as_bytes())
    }
}

/// Returns the whole number that a float is, within the range in which floats represent every integer.
pub(super) fn whole(value: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64)
}

/// Replaces floats by whole numbers where possible, so that an object's value compares equal to what a client wrote.
pub(super) fn whole_numbers(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *number = whole.into();
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}
