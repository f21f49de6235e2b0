//! Decodes the types of the API from JSON values.
//!
//! It does what [`serde_json::from_value`] does, with the same errors. That compiles 500 lines of LLVM code for each
//! struct, and Kubernetes has 560; here a struct has a tenth of it.

use std::vec;

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value, map};

/// Reads a type from its JSON.
pub(super) fn decode<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(Decoder(value))
}

/// Reads one value.
struct Decoder(Value);

/// Leaves types without parts, which are few, to `serde_json`.
macro_rules! as_serde_json {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.0.$method(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Decoder {
    type Error = Error;

    as_serde_json! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.fields(&visitor) {
            Ok(fields) => visitor.visit_map(fields),
            Err(error) => Err(error),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.elements(&visitor) {
            Ok(elements) => visitor.visit_seq(elements),
            Err(error) => Err(error),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_tuple(length, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_tuple_struct(name, length, visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }
}

impl Decoder {
    #[inline(never)]
    fn fields(self, expected: &dyn Expected) -> Result<Fields, Error> {
        match self.0 {
            Value::Object(fields) => Ok(Fields { rest: fields.into_iter(), value: None }),
            other => Err(unexpected(&other, expected)),
        }
    }

    #[inline(never)]
    fn elements(self, expected: &dyn Expected) -> Result<Elements, Error> {
        match self.0 {
            Value::Array(elements) => Ok(Elements(elements.into_iter())),
            other => Err(unexpected(&other, expected)),
        }
    }
}

/// Returns the error about a value of another type.
fn unexpected(value: &Value, expected: &dyn Expected) -> Error {
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
    Error::invalid_type(found, expected)
}

/// Reads the fields of a struct or map.
struct Fields {
    rest: map::IntoIter,
    /// The value of the field whose name was read last.
    value: Option<Value>,
}

impl Fields {
    #[inline(never)]
    fn next_name(&mut self) -> Option<String> {
        let (name, value) = self.rest.next()?;
        self.value = Some(value);
        Some(name)
    }

    #[inline(never)]
    fn next(&mut self) -> Result<Decoder, Error> {
        self.value.take().map(Decoder).ok_or_else(|| Error::custom("value is missing"))
    }
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.next_name() {
            Some(name) => seed.deserialize(Name(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match self.next() {
            Ok(value) => seed.deserialize(value),
            Err(error) => Err(error),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// Reads the name of a field, or the key of a map.
struct Name(String);

impl<'de> Deserializer<'de> for Name {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    /// Compares it with the names of a struct's fields, for which no visitor of its own for texts is compiled.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(&self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text: StringDeserializer<Error> = self.0.into_deserializer();
        text.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct ignored_any
    }
}

/// Reads the elements of a list.
struct Elements(vec::IntoIter<Value>);

impl<'de> SeqAccess<'de> for Elements {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.0.next() {
            Some(element) => seed.deserialize(Decoder(element)).map(Some),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
    use serde_json::json;

    use super::*;

    /// Compares the result and the error with those of `serde_json`.
    fn same<T: DeserializeOwned + PartialEq + std::fmt::Debug>(value: &Value) {
        let expected = serde_json::from_value::<T>(value.clone()).map_err(|error| error.to_string());
        assert_eq!(decode::<T>(value.clone()).map_err(|error| error.to_string()), expected, "{value}");
    }

    #[test]
    fn values_and_errors_are_those_of_serde_json_api_5() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"b": "c"},
            "creationTimestamp": "2026-01-02T03:04:05Z", "ownerReferences": []}, "unknown": [{"x": [1, null]}],
            "spec": {"hostNetwork": true, "overhead": {"cpu": "1"}, "priority": -3, "volumes": null, "containers": [
                {"name": "c", "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 3}},
                {"name": "d", "livenessProbe": {"httpGet": {"port": 80}}, "env": [{"name": "E", "value": ""}]}]}});
        same::<Pod>(&pod);
        for (path, wrong) in [
            ("/apiVersion", json!("v2")),
            ("/kind", json!(null)),
            ("/metadata", json!("a")),
            ("/metadata/name", json!(7)),
            ("/metadata/labels", json!([["b", "c"]])),
            ("/metadata/labels/b", json!(null)),
            ("/metadata/creationTimestamp", json!("yesterday")),
            ("/metadata/ownerReferences", json!({})),
            ("/spec", json!(1.5)),
            ("/spec", json!([])),
            ("/spec/hostNetwork", json!("true")),
            ("/spec/priority", json!(4_000_000_000_u64)),
            ("/spec/priority", json!(-1.5)),
            ("/spec/containers", json!(true)),
            ("/spec/containers", json!(null)),
            ("/spec/containers/0", json!(-1)),
            ("/spec/containers/0", json!([1, 2])),
            ("/spec/containers/0/livenessProbe/httpGet/port", json!({})),
            ("/spec/containers/1/env/0", json!("E=x")),
        ] {
            let mut pod = pod.clone();
            *pod.pointer_mut(path).unwrap() = wrong;
            same::<Pod>(&pod);
        }
        same::<ConfigMap>(
            &json!({"data": {"a": "b", "c": ""}, "binaryData": {"d": "AAE="}, "immutable": false}),
        );
        same::<Secret>(&json!({"data": {"d": "?"}, "type": "Opaque"}));
        same::<Service>(
            &json!({"spec": {"ports": [{"port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 1}]}}),
        );
        same::<Deployment>(
            &json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}}}),
        );
        same::<JSONSchemaProps>(
            &json!({"type": "object", "maximum": 2.5, "maxLength": 3, "default": {"a": [1.0, null]},
            "enum": ["a", 1], "items": {"type": "string"}, "additionalProperties": true,
            "x-kubernetes-preserve-unknown-fields": true, "properties": {"p": {"$ref": "#"}}}),
        );
        same::<Vec<Option<(u8, String)>>>(&json!([null, [1, "a"]]));
        same::<Vec<(u8, String)>>(&json!([[1, "a", 2]]));
        same::<Pod>(&Value::Null);
    }
}
