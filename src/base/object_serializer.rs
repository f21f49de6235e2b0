//! Methods that all serializers of objects share: to JSON, to protobuf, to digests.

use std::fmt::Error;

use serde::Serialize;
use serde_json::Value;

/// Returns the text of a map's key; an error if it is no text.
pub fn key_text<T: ?Sized + Serialize>(key: &T) -> Result<String, Error> {
    match serde_json::to_value(key) {
        Ok(Value::String(text)) => Ok(text),
        _ => Err(Error),
    }
}

/// The methods of a [`serde::Serializer`] that delegate to others, with [`std::fmt::Error`] as its error. Types without a
/// JSON form are treated as `serde_json` does, and types that the API does not use are errors.
#[macro_export]
macro_rules! object_serializer_methods {
    () => {
        fn serialize_i8(self, value: i8) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_i64(value.into())
        }

        fn serialize_i16(self, value: i16) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_i64(value.into())
        }

        fn serialize_i32(self, value: i32) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_i64(value.into())
        }

        fn serialize_u8(self, value: u8) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_u64(value.into())
        }

        fn serialize_u16(self, value: u16) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_u64(value.into())
        }

        fn serialize_u32(self, value: u32) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_u64(value.into())
        }

        fn serialize_f32(self, value: f32) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_f64(value.into())
        }

        fn serialize_char(self, value: char) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_str(value.encode_utf8(&mut [0; 4]))
        }

        fn collect_str<T: ?Sized + ::std::fmt::Display>(
            self,
            value: &T,
        ) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_str(&value.to_string())
        }

        fn serialize_bytes(self, _: &[u8]) -> Result<Self::Ok, ::std::fmt::Error> {
            Err(::std::fmt::Error)
        }

        fn serialize_none(self) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_unit()
        }

        fn serialize_some<T: ?Sized + ::serde::Serialize>(
            self,
            value: &T,
        ) -> Result<Self::Ok, ::std::fmt::Error> {
            value.serialize(self)
        }

        fn serialize_unit_struct(self, _: &'static str) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_unit()
        }

        fn serialize_unit_variant(
            self,
            _: &'static str,
            _: u32,
            variant: &'static str,
        ) -> Result<Self::Ok, ::std::fmt::Error> {
            self.serialize_str(variant)
        }

        fn serialize_newtype_struct<T: ?Sized + ::serde::Serialize>(
            self,
            _: &'static str,
            value: &T,
        ) -> Result<Self::Ok, ::std::fmt::Error> {
            value.serialize(self)
        }

        fn serialize_newtype_variant<T: ?Sized + ::serde::Serialize>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<Self::Ok, ::std::fmt::Error> {
            Err(::std::fmt::Error)
        }

        fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, ::std::fmt::Error> {
            Err(::std::fmt::Error)
        }

        fn serialize_tuple_struct(
            self,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleStruct, ::std::fmt::Error> {
            Err(::std::fmt::Error)
        }

        fn serialize_tuple_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleVariant, ::std::fmt::Error> {
            Err(::std::fmt::Error)
        }

        fn serialize_struct_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStructVariant, ::std::fmt::Error> {
            Err(::std::fmt::Error)
        }
    };
}
