//! Encodes an object as JSON and inserts its field managers, which are stored beside the typed value, into the
//! metadata.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::managed::ManagedFields;

/// A formatter that writes compact JSON, with the field managers first in the metadata.
pub(super) struct Encoder {
    /// `"managedFields":[…]`; empty if no field has a manager.
    owners: Vec<u8>,
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

impl Encoder {
    pub(super) fn serializer<W: Write>(out: W, owners: &ManagedFields) -> Serializer<W, Self> {
        let mut text = Vec::new();
        if !owners.is_empty() {
            owners.write_json(&mut text).expect("writing to memory cannot fail");
        }
        Serializer::with_formatter(out, Self { owners: text, depth: 0, at: EncoderPosition::Other })
    }

    /// Returns the JSON text of a value.
    pub(super) fn text(value: &impl Serialize) -> Vec<u8> {
        let mut text = Vec::new();
        let mut serializer = Self::serializer(&mut text, &ManagedFields::default());
        value.serialize(&mut serializer).expect("API types have string keys and finite numbers");
        text
    }
}

impl Formatter for Encoder {
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"{")?;
        if self.depth == 2 && self.at == EncoderPosition::Metadata && !self.owners.is_empty() {
            self.at = EncoderPosition::Owners;
            out.write_all(&self.owners)?;
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
