//! Common parts of this module's serializers: types without a JSON form are treated as `serde_json` does, and
//! types that the API does not use are errors.

/// The methods of a `Serializer` that delegate to others.
macro_rules! as_json {
    () => {
        fn serialize_i8(self, value: i8) -> Result<Self::Ok, Error> {
            self.serialize_i64(value.into())
        }

        fn serialize_i16(self, value: i16) -> Result<Self::Ok, Error> {
            self.serialize_i64(value.into())
        }

        fn serialize_i32(self, value: i32) -> Result<Self::Ok, Error> {
            self.serialize_i64(value.into())
        }

        fn serialize_u8(self, value: u8) -> Result<Self::Ok, Error> {
            self.serialize_u64(value.into())
        }

        fn serialize_u16(self, value: u16) -> Result<Self::Ok, Error> {
            self.serialize_u64(value.into())
        }

        fn serialize_u32(self, value: u32) -> Result<Self::Ok, Error> {
            self.serialize_u64(value.into())
        }

        fn serialize_f32(self, value: f32) -> Result<Self::Ok, Error> {
            self.serialize_f64(value.into())
        }

        fn serialize_char(self, value: char) -> Result<Self::Ok, Error> {
            self.serialize_str(value.encode_utf8(&mut [0; 4]))
        }

        fn collect_str<T: ?Sized + Display>(self, value: &T) -> Result<Self::Ok, Error> {
            let mut text = String::new();
            write!(text, "{value}")?;
            self.serialize_str(&text)
        }

        fn serialize_bytes(self, _: &[u8]) -> Result<Self::Ok, Error> {
            Err(Error)
        }

        fn serialize_none(self) -> Result<Self::Ok, Error> {
            self.serialize_unit()
        }

        fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<Self::Ok, Error> {
            value.serialize(self)
        }

        fn serialize_unit_struct(self, _: &'static str) -> Result<Self::Ok, Error> {
            self.serialize_unit()
        }

        fn serialize_unit_variant(
            self,
            _: &'static str,
            _: u32,
            variant: &'static str,
        ) -> Result<Self::Ok, Error> {
            self.serialize_str(variant)
        }

        fn serialize_newtype_struct<T: ?Sized + Serialize>(
            self,
            _: &'static str,
            value: &T,
        ) -> Result<Self::Ok, Error> {
            value.serialize(self)
        }

        fn serialize_newtype_variant<T: ?Sized + Serialize>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<Self::Ok, Error> {
            Err(Error)
        }

        fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
            Err(Error)
        }

        fn serialize_tuple_struct(
            self,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleStruct, Error> {
            Err(Error)
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

        fn serialize_struct_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStructVariant, Error> {
            Err(Error)
        }
    };
}

pub(super) use as_json;
