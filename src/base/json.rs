//! Decodes types from JSON.
//!
//! [`from_value`] does what [`serde_json::from_value`] does, except that a struct must be an object, not a list. Its errors
//! know the path of the invalid field. `serde_json` compiles 500 lines of LLVM code for each struct, and again for texts;
//! here a struct has a tenth of it, and a text is read as a value first. Values take more memory than types that ignore
//! most of a text, so large texts of strangers, such as image manifests, webhooks' answers and recordings, are left to
//! `serde_json`.

use std::fmt::{self, Display};
use std::vec;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Expected, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value, map};

/// Reads a type from its JSON value.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, JsonError> {
    T::deserialize(Decoder(value))
}

/// Reads a type from its JSON text.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    from_slice(text.as_bytes())
}

/// Reads a type from its JSON text.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, JsonError> {
    from_value(serde_json::from_slice(text)?)
}

/// The reason why JSON is not of a type.
#[derive(Debug)]
pub struct JsonError(Box<JsonFault>);

#[derive(Debug)]
struct JsonFault {
    path: String,
    message: String,
}

impl JsonError {
    /// Returns the path of the invalid field, such as `spec.containers[0].name`; empty for the whole value.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Says that the path is that of a part of this field, or of this element in brackets.
    #[must_use]
    #[cold]
    pub fn below(mut self, parent: &str) -> Self {
        let path = &mut self.0.path;
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        *path = format!("{parent}{dot}{path}");
        self
    }
}

/// Tells what is wrong, without the path.
impl Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for JsonError {}

impl de::Error for JsonError {
    #[cold]
    fn custom<T: Display>(message: T) -> Self {
        Self(Box::new(JsonFault { path: String::new(), message: message.to_string() }))
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        serde_json::Error::invalid_type(found, expected).into()
    }

    #[cold]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        serde_json::Error::invalid_value(found, expected).into()
    }
}

impl From<serde_json::Error> for JsonError {
    #[cold]
    fn from(error: serde_json::Error) -> Self {
        de::Error::custom(error)
    }
}

impl From<JsonError> for serde_json::Error {
    #[cold]
    fn from(error: JsonError) -> Self {
        de::Error::custom(error)
    }
}

/// Reads one value.
struct Decoder(Value);

/// Leaves types without parts, which are few, to `serde_json`.
macro_rules! as_serde_json {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            Ok(self.0.$method(visitor)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Decoder {
    type Error = JsonError;

    as_serde_json! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.fields(&visitor) {
            Ok(fields) => visitor.visit_map(fields),
            Err(error) => Err(error),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.elements(&visitor) {
            Ok(mut elements) => {
                let value = visitor.visit_seq(&mut elements)?;
                elements.end().map(|()| value)
            }
            Err(error) => Err(error),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self.variant() {
            Ok(variant) => visitor.visit_enum(variant),
            Err(error) => Err(error),
        }
    }
}

impl Decoder {
    #[inline(never)]
    fn fields(self, expected: &dyn Expected) -> Result<Fields, JsonError> {
        match self.0 {
            Value::Object(fields) => Ok(Fields::of(fields)),
            other => Err(unexpected(&other, expected)),
        }
    }

    #[inline(never)]
    fn elements(self, expected: &dyn Expected) -> Result<Elements, JsonError> {
        match self.0 {
            Value::Array(elements) => Ok(Elements { total: elements.len(), rest: elements.into_iter() }),
            other => Err(unexpected(&other, expected)),
        }
    }

    #[inline(never)]
    fn variant(self) -> Result<Variant, JsonError> {
        match self.0 {
            Value::String(name) => Ok(Variant { name, content: None }),
            Value::Object(fields) => {
                let mut fields = fields.into_iter();
                match (fields.next(), fields.next()) {
                    (Some((name, content)), None) => Ok(Variant { name, content: Some(content) }),
                    _ => Err(de::Error::invalid_value(Unexpected::Map, &"map with a single key")),
                }
            }
            other => Err(unexpected(&other, &"string or map")),
        }
    }
}

/// Returns the error about a value of another type.
#[cold]
fn unexpected(value: &Value, expected: &dyn Expected) -> JsonError {
    let found = match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Unexpected::Unsigned(number),
            (None, Some(number)) => Unexpected::Signed(number),
            (None, None) => Unexpected::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    de::Error::invalid_type(found, expected)
}

/// Reads the fields of a struct or map.
struct Fields {
    rest: map::IntoIter,
    /// The name of the field that was read last.
    name: String,
    /// Its value.
    value: Option<Value>,
}

impl Fields {
    fn of(fields: Map<String, Value>) -> Self {
        Self { rest: fields.into_iter(), name: String::new(), value: None }
    }

    #[inline(never)]
    fn next_name(&mut self) -> Option<Name<'_>> {
        let (name, value) = self.rest.next()?;
        (self.name, self.value) = (name, Some(value));
        Some(Name(&self.name))
    }

    #[inline(never)]
    fn next(&mut self) -> Result<Decoder, JsonError> {
        self.value.take().map(Decoder).ok_or_else(|| de::Error::custom("value is missing"))
    }
}

impl<'de> MapAccess<'de> for Fields {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, JsonError> {
        let Some(name) = self.next_name() else { return Ok(None) };
        match seed.deserialize(name) {
            Ok(key) => Ok(Some(key)),
            Err(error) => Err(error.below(&self.name)),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        match self.next().and_then(|value| seed.deserialize(value)) {
            Ok(value) => Ok(value),
            Err(error) => Err(error.below(&self.name)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// Reads the name of a field or variant, or the key of a map.
struct Name<'n>(&'n str);

/// Reads keys that are numbers.
macro_rules! parsed {
    ($($method:ident $visit:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            match self.0.parse() {
                Ok(number) => visitor.$visit(number),
                Err(_) => visitor.visit_str(self.0),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Name<'_> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_str(self.0)
    }

    parsed! {
        deserialize_i8 visit_i8 deserialize_i16 visit_i16 deserialize_i32 visit_i32 deserialize_i64 visit_i64
        deserialize_u8 visit_u8 deserialize_u16 visit_u16 deserialize_u32 visit_u32 deserialize_u64 visit_u64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_enum(Variant { name: self.0.to_owned(), content: None })
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

/// Reads the elements of a list.
struct Elements {
    rest: vec::IntoIter<Value>,
    total: usize,
}

impl Elements {
    #[inline(never)]
    fn next(&mut self) -> Option<Decoder> {
        self.rest.next().map(Decoder)
    }

    /// Adds the element that was read last to the path of an error.
    #[cold]
    fn at_last(&self, error: JsonError) -> JsonError {
        error.below(&format!("[{}]", self.total - self.rest.len() - 1))
    }

    /// Refuses elements that a tuple does not have.
    #[inline(never)]
    fn end(&self) -> Result<(), JsonError> {
        if self.rest.len() == 0 {
            return Ok(());
        }
        Err(de::Error::invalid_length(self.total, &"fewer elements in array"))
    }
}

impl<'de> SeqAccess<'de> for &mut Elements {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, JsonError> {
        let Some(element) = self.next() else { return Ok(None) };
        match seed.deserialize(element) {
            Ok(element) => Ok(Some(element)),
            Err(error) => Err(self.at_last(error)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// Reads an enum.
struct Variant {
    name: String,
    /// The variant's value; `None` if the enum is a text.
    content: Option<Value>,
}

impl<'de> EnumAccess<'de> for Variant {
    type Error = JsonError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), JsonError> {
        seed.deserialize(Name(&self.name)).map(|variant| (variant, self))
    }
}

impl Variant {
    fn content(&mut self, expected: &dyn Expected) -> Result<Decoder, JsonError> {
        match self.content.take() {
            Some(content) => Ok(Decoder(content)),
            None => Err(de::Error::invalid_type(Unexpected::UnitVariant, expected)),
        }
    }
}

impl<'de> VariantAccess<'de> for Variant {
    type Error = JsonError;

    fn unit_variant(self) -> Result<(), JsonError> {
        match self.content {
            None | Some(Value::Null) => Ok(()),
            Some(other) => Err(unexpected(&other, &"unit").below(&self.name)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, JsonError> {
        let content = self.content(&"newtype variant")?;
        seed.deserialize(content).map_err(|error| error.below(&self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(mut self, _length: usize, visitor: V) -> Result<V::Value, JsonError> {
        let content = self.content(&"tuple variant")?;
        content.deserialize_seq(visitor).map_err(|error| error.below(&self.name))
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        let content = self.content(&"struct variant")?;
        content.deserialize_map(visitor).map_err(|error| error.below(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// Compares the result and the error with those of `serde_json`.
    fn same<T: DeserializeOwned + PartialEq + std::fmt::Debug>(value: &Value) {
        let expected = serde_json::from_value::<T>(value.clone()).map_err(|error| error.to_string());
        assert_eq!(from_value::<T>(value.clone()).map_err(|error| error.to_string()), expected, "{value}");
    }

    /// A struct with the kinds of fields that our own types have.
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Sample {
        #[serde(default)]
        choice: Option<Choice>,
        #[serde(default)]
        choices: BTreeMap<Choice, u8>,
        #[serde(default)]
        by_port: BTreeMap<u16, Option<()>>,
        #[serde(default)]
        tagged: Vec<LabelledChoice>,
        #[serde(default)]
        either: Option<Either>,
        #[serde(default)]
        pair: Option<Pair>,
        #[serde(default)]
        addresses: [Option<IpAddr>; 2],
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }

    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    enum Choice {
        Plain,
        Wrapped(Wrapper),
        Tuple(u8, String),
        Struct { count: i8 },
    }

    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    struct Wrapper(Option<char>);

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "type", deny_unknown_fields)]
    enum LabelledChoice {
        Number { value: f32 },
        Nothing,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        List(Vec<Pair>),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Pair(i64, bool);

    #[test]
    fn types_of_our_own_are_read_as_by_serde_json_api_5() {
        for value in [
            json!({"choice": "Plain"}),
            json!({"choice": {"Plain": null}}),
            json!({"choice": {"Plain": 1}}),
            json!({"choice": {"Wrapped": "c"}}),
            json!({"choice": {"Wrapped": null}}),
            json!({"choice": {"Wrapped": "no"}}),
            json!({"choice": "Wrapped"}),
            json!({"choice": {"Tuple": [1, "a"]}}),
            json!({"choice": {"Tuple": [1]}}),
            json!({"choice": {"Tuple": [1, "a", 2]}}),
            json!({"choice": {"Struct": {"count": -5}}}),
            json!({"choice": {"Struct": {}}}),
            json!({"choice": {"Plain": null, "Tuple": []}}),
            json!({"choice": {}}),
            json!({"choice": 5}),
            json!({"choice": "Other"}),
            json!({"choices": {"Plain": 7}}),
            json!({"choices": {"Other": 7}}),
            json!({"byPort": {"80": null, "443": null}}),
            json!({"tagged": [{"type": "Number", "value": 1.5}, {"type": "Nothing"}, {"type": "Number", "value": 2}]}),
            json!({"tagged": [{"type": "Number"}]}),
            json!({"tagged": [{"type": "Other"}]}),
            json!({"tagged": [{"value": 1}]}),
            json!({"either": "text"}),
            json!({"either": [[1, true], [-2, false]]}),
            json!({"either": 1}),
            json!({"pair": [1, true], "more": {"a": [1, null, "x"]}, "other": 1.5}),
            json!({"pair": [1]}),
            json!({"addresses": ["127.0.0.1", null]}),
            json!({"addresses": ["127.0.0.1"]}),
            json!({"addresses": ["localhost", null]}),
            json!("text"),
        ] {
            same::<Sample>(&value);
        }
        for value in [json!(null), json!(0), json!(-1), json!(256), json!(1.5), json!("7"), json!(true)] {
            same::<u8>(&value);
            same::<i64>(&value);
            same::<f64>(&value);
            same::<bool>(&value);
            same::<String>(&value);
            same::<Option<u32>>(&value);
            same::<()>(&value);
            same::<Value>(&value);
        }
    }

    #[test]
    fn an_error_has_the_path_of_the_field_cli_6() {
        for (value, path) in [
            (json!({"pair": [1, "yes"]}), "pair[1]"),
            (json!({"choice": {"Struct": {"count": "many"}}}), "choice.Struct.count"),
            (json!({"choice": {"Tuple": [1, 2]}}), "choice.Tuple[1]"),
            (json!({"byPort": {"http": null}}), "byPort.http"),
            (json!({"addresses": [null, "x"]}), "addresses[1]"),
            (json!([]), ""),
        ] {
            // Without `rest`, which makes serde read all fields first.
            #[derive(Debug, Deserialize)]
            #[serde(rename_all = "camelCase")]
            #[expect(dead_code, reason = "only errors are looked at")]
            struct Plain {
                pair: Option<Pair>,
                choice: Option<Choice>,
                by_port: Option<BTreeMap<u16, Option<()>>>,
                addresses: Option<Vec<Option<IpAddr>>>,
            }
            assert_eq!(from_value::<Plain>(value.clone()).unwrap_err().path(), path, "{value}");
        }
        let error = from_str::<Pair>("[1,\n true").unwrap_err();
        assert_eq!(error.to_string(), "EOF while parsing a list at line 2 column 5");
        assert_eq!(from_slice::<Pair>(b"[1, true]").unwrap(), Pair(1, true));
    }
}
