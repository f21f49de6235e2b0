//! Computes the length of a value's JSON in bytes without writing it.

use std::fmt::{Display, Error, Write as _};

use serde::ser::{
    Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, SerializeTupleStruct,
    Serializer,
};

/// Returns the length of one value's JSON.
fn json_size<T: ?Sized + Serialize>(value: &T) -> Result<usize, Error> {
    value.serialize(Size)
}

/// A serializer that counts the bytes of compact JSON.
pub(super) struct Size;

/// Counts the fields of a map or the elements of a list.
pub(super) struct PartCounter {
    bytes: usize,
    count: usize,
}

/// `{` and `}`, `[` and `]`, or a text's quotes.
const BRACKETS: usize = 2;

impl PartCounter {
    const NONE: Self = Self { bytes: BRACKETS, count: 0 };

    /// Adds an element and the comma before it.
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes + usize::from(self.count > 0);
        self.count += 1;
    }

    fn element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.add(json_size(value)?);
        Ok(())
    }
}

fn of_text(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_escaped = |byte: &&u8| matches!(byte, b'"' | b'\\' | ..=0x1f);
    // Most texts have none.
    let escaped = bytes.iter().filter(is_escaped).count();
    let more = |byte: &u8| match byte {
        b'"' | b'\\' | b'\x08' | b'\t' | b'\n' | b'\x0c' | b'\r' => 1,
        _ => 5,
    };
    let more = if escaped > 0 { bytes.iter().filter(is_escaped).map(more).sum() } else { 0 };
    BRACKETS + bytes.len() + more
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

impl Serializer for Size {
    type Ok = usize;
    type Error = Error;
    type SerializeSeq = PartCounter;
    type SerializeTuple = PartCounter;
    type SerializeTupleStruct = PartCounter;
    type SerializeTupleVariant = Impossible<usize, Error>;
    type SerializeMap = PartCounter;
    type SerializeStruct = PartCounter;
    type SerializeStructVariant = Impossible<usize, Error>;

    fn serialize_bool(self, value: bool) -> Result<usize, Error> {
        Ok(if value { 4 } else { 5 })
    }

    fn serialize_i8(self, value: i8) -> Result<usize, Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<usize, Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<usize, Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<usize, Error> {
        Ok(usize::from(value < 0) + digits(value.unsigned_abs()))
    }

    fn serialize_u8(self, value: u8) -> Result<usize, Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<usize, Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<usize, Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<usize, Error> {
        Ok(digits(value))
    }

    fn serialize_f32(self, value: f32) -> Result<usize, Error> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<usize, Error> {
        Ok(match super::encode::whole(value) {
            Some(whole) => self.serialize_i64(whole)?,
            None => serde_json::Value::from(value).to_string().len(),
        })
    }

    fn serialize_char(self, value: char) -> Result<usize, Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<usize, Error> {
        Ok(of_text(value))
    }

    fn collect_str<T: ?Sized + Display>(self, value: &T) -> Result<usize, Error> {
        let mut text = String::new();
        write!(text, "{value}")?;
        self.serialize_str(&text)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<usize, Error> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<usize, Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<usize, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<usize, Error> {
        Ok("null".len())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<usize, Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<usize, Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<usize, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<usize, Error> {
        Ok(BRACKETS + of_text(variant) + 1 + json_size(value)?)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<PartCounter, Error> {
        Ok(PartCounter::NONE)
    }

    fn serialize_tuple(self, _: usize) -> Result<PartCounter, Error> {
        Ok(PartCounter::NONE)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<PartCounter, Error> {
        Ok(PartCounter::NONE)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(Error)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<PartCounter, Error> {
        Ok(PartCounter::NONE)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<PartCounter, Error> {
        Ok(PartCounter::NONE)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(Error)
    }
}

impl SerializeSeq for PartCounter {
    type Ok = usize;
    type Error = Error;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<usize, Error> {
        Ok(self.bytes)
    }
}

impl SerializeTuple for PartCounter {
    type Ok = usize;
    type Error = Error;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<usize, Error> {
        Ok(self.bytes)
    }
}

impl SerializeTupleStruct for PartCounter {
    type Ok = usize;
    type Error = Error;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<usize, Error> {
        Ok(self.bytes)
    }
}

impl SerializeMap for PartCounter {
    type Ok = usize;
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        self.element(key)
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        // The colon between key and value.
        self.bytes += 1 + json_size(value)?;
        Ok(())
    }

    fn end(self) -> Result<usize, Error> {
        Ok(self.bytes)
    }
}

impl SerializeStruct for PartCounter {
    type Ok = usize;
    type Error = Error;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        // Field names contain nothing that is escaped.
        self.add(BRACKETS + name.len() + 1 + json_size(value)?);
        Ok(())
    }

    fn end(self) -> Result<usize, Error> {
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_size_is_that_of_the_text_safe_10() {
        let all: String = (0..=0x7f_u8).map(char::from).chain("é€😀\u{7f}\u{2028}".chars()).collect();
        let texts = json!(["", "plain", all, {"a\"b": "c\\d\ne\u{1}"}]);
        let numbers = json!([0, 9, 10, -1, -10, i64::MIN, i64::MAX, u64::MAX, 1.5, -0.25, 1e300]);
        let nested = json!({"a": [], "b": {}, "c": [[1, {"d": null}], true, false], "e": {"f": {"g": "h"}}});
        for value in [Value::Null, texts, numbers, nested] {
            assert_eq!(json_size(&value), Ok(value.to_string().len()), "{value}");
        }
        // Whole floats as Go writes them.
        assert_eq!(json_size(&json!([2.0, -3.0])), Ok("[2,-3]".len()));
        let tuple = (1, "a", Some('"'), None::<u8>);
        assert_eq!(json_size(&tuple), Ok(serde_json::to_string(&tuple).unwrap().len()));
    }
}
