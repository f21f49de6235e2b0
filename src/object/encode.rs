//! Writes an object as JSON, with its field managers, which are stored beside the typed value, first in the metadata.
//!
//! Values serialize themselves through `erased_serde`: the code that serializes all fields of all kinds is compiled
//! once for this writer and all others.

use std::fmt::Error;
use std::io::Write;
use std::mem;
use std::ops::Range;

use erased_serde::Serialize as ErasedSerialize;
use serde::ser::{Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};
use serde_json::{Number, Value};

use super::json_text::write_text;
use super::managed::ManagedFields;

/// The JSON text of an object.
#[derive(Debug, Default)]
pub(super) struct ObjectText {
    pub(super) json: Vec<u8>,
    /// The bytes of the field `resourceVersion` with its comma, or the place before `uid` where it belongs; `None` in an
    /// object with neither.
    pub(super) revision: Option<Range<usize>>,
}

/// Returns the JSON text of a value.
pub(super) fn text(value: &dyn ErasedSerialize) -> Vec<u8> {
    let mut json = Vec::new();
    write(value, Level::Below, &ManagedFields::default(), &mut json);
    json
}

/// Appends the JSON text of an object to `json`. Returns where its revision is, as in [`ObjectText`].
pub(super) fn write_object(
    object: &dyn ErasedSerialize,
    managers: &ManagedFields,
    json: &mut Vec<u8>,
) -> Option<Range<usize>> {
    write(object, Level::Object, managers, json)
}

fn write(
    value: &dyn ErasedSerialize,
    level: Level,
    managers: &ManagedFields,
    json: &mut Vec<u8>,
) -> Option<Range<usize>> {
    let mut writer = JsonWriter { json, managers, level, revision: None };
    erased_serde::serialize(value, &mut writer).expect("API types have string keys and finite numbers");
    writer.revision
}

/// A level of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Level {
    Object,
    Metadata,
    #[default]
    Below,
}

/// Writes a value as compact JSON.
struct JsonWriter<'o> {
    json: &'o mut Vec<u8>,
    managers: &'o ManagedFields,
    /// The level of the value that follows.
    level: Level,
    revision: Option<Range<usize>>,
}

impl<'o> JsonWriter<'o> {
    #[expect(clippy::unnecessary_wraps, reason = "callers return the result")]
    fn put(&mut self, json: &[u8]) -> Result<(), Error> {
        self.json.extend_from_slice(json);
        Ok(())
    }

    fn fields<'w>(&'w mut self) -> Fields<'w, 'o> {
        let level = mem::take(&mut self.level);
        self.json.push(b'{');
        let has_managers = level == Level::Metadata && !self.managers.is_empty();
        if has_managers {
            self.managers.write_json(self.json);
        }
        Fields { writer: self, level, is_first: !has_managers, after_revision: false }
    }
}

/// Writes the fields of a map or struct.
struct Fields<'w, 'o> {
    writer: &'w mut JsonWriter<'o>,
    level: Level,
    is_first: bool,
    /// The last field is the metadata's `resourceVersion`.
    after_revision: bool,
}

impl Fields<'_, '_> {
    fn name<T: ?Sized + Serialize>(&mut self, name: &T) -> Result<(), Error> {
        let writer = &mut *self.writer;
        if !mem::take(&mut self.is_first) {
            writer.json.push(b',');
        }
        let start = writer.json.len();
        name.serialize(&mut *writer)?;
        let name = &writer.json[start..];
        if name[0] != b'"' {
            return Err(Error);
        }
        match self.level {
            Level::Object if name == b"\"metadata\"" => writer.level = Level::Metadata,
            Level::Metadata => {
                if mem::take(&mut self.after_revision) {
                    writer.revision = writer.revision.take().map(|field| field.start..start);
                }
                self.after_revision = name == b"\"resourceVersion\"";
                if self.after_revision || (name == b"\"uid\"" && writer.revision.is_none()) {
                    writer.revision = Some(start..start);
                }
            }
            _ => {}
        }
        writer.put(b":")
    }

    fn finish(self) -> Result<(), Error> {
        if self.after_revision {
            self.writer.revision = None;
        }
        self.writer.put(b"}")
    }
}

impl SerializeStruct for Fields<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.name(name)?;
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

impl SerializeMap for Fields<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        self.name(key)
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

/// Writes the elements of a list.
struct Elements<'w, 'o> {
    writer: &'w mut JsonWriter<'o>,
    is_first: bool,
}

impl SerializeSeq for Elements<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        if !mem::take(&mut self.is_first) {
            self.writer.json.push(b',');
        }
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.writer.put(b"]")
    }
}

impl<'w, 'o> Serializer for &'w mut JsonWriter<'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Elements<'w, 'o>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Fields<'w, 'o>;
    type SerializeStruct = Fields<'w, 'o>;
    type SerializeStructVariant = Impossible<(), Error>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.put(if value { b"true" } else { b"false" })
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        write!(self.json, "{value}").map_err(|_| Error)
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        write!(self.json, "{value}").map_err(|_| Error)
    }

    /// Writes numbers as Go does: a whole one without a fraction.
    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        match (whole(value), Number::from_f64(value)) {
            (Some(whole), _) => self.serialize_i64(whole),
            (None, Some(number)) => write!(self.json, "{number}").map_err(|_| Error),
            (None, None) => self.serialize_unit(),
        }
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        write_text(value, self.json);
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.put(b"null")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'w, 'o>, Error> {
        self.json.push(b'[');
        self.level = Level::Below;
        Ok(Elements { writer: self, is_first: true })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields<'w, 'o>, Error> {
        Ok(self.fields())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'w, 'o>, Error> {
        Ok(self.fields())
    }

    base::object_serializer_methods!();
}

/// Returns the whole number that a float is, within the range in which floats represent every integer.
pub(super) fn whole(value: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64)
}

/// Replaces floats by whole numbers where possible, so that an object's value compares equal to what a client wrote.
pub(super) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}
