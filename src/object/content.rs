//! An object as a value without some of its fields, which are then not even read.

use std::fmt::Display;

use serde::ser::{Error as _, Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};
use serde_json::{Error, Map, Value};

/// Makes a value of an object; fields of these names at its top are left out.
pub(super) struct Without<'a>(pub(super) &'a [&'a str]);

/// The fields so far.
pub(super) struct Fields<'a> {
    without: &'a [&'a str],
    written: Map<String, Value>,
    /// Of the entry under way, in a map.
    key: String,
}

impl<'a> Without<'a> {
    fn fields(self) -> Fields<'a> {
        Fields { without: self.0, written: Map::new(), key: String::new() }
    }
}

impl Fields<'_> {
    fn add<T: ?Sized + Serialize>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        if !self.without.contains(&name) {
            self.written.insert(name.into(), serde_json::to_value(value)?);
        }
        Ok(())
    }
}

impl SerializeStruct for Fields<'_> {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.add(name, value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(Value::Object(self.written))
    }
}

impl SerializeMap for Fields<'_> {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        let Value::String(key) = serde_json::to_value(key)? else { return Err(no_object()) };
        self.key = key;
        Ok(())
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        let key = std::mem::take(&mut self.key);
        self.add(&key, value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(Value::Object(self.written))
    }
}

fn no_object() -> Error {
    Error::custom("not an object")
}

macro_rules! refused {
    ($($method:ident($($type:ty)?);)*) => {
        $(fn $method(self $(, _: $type)?) -> Result<Value, Error> { Err(no_object()) })*
    };
}

impl<'a> Serializer for Without<'a> {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = Impossible<Value, Error>;
    type SerializeTuple = Impossible<Value, Error>;
    type SerializeTupleStruct = Impossible<Value, Error>;
    type SerializeTupleVariant = Impossible<Value, Error>;
    type SerializeMap = Fields<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Impossible<Value, Error>;

    refused! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<Value, Error> {
        Err(no_object())
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Value, Error> {
        Err(no_object())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        Err(no_object())
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        Err(no_object())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Error> {
        Err(no_object())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(no_object())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields<'a>, Error> {
        Ok(self.fields())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, Error> {
        Ok(self.fields())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(no_object())
    }

    fn collect_str<T: ?Sized + Display>(self, _: &T) -> Result<Value, Error> {
        Err(no_object())
    }
}
