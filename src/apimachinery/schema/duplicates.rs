//! Finds duplicate fields of a JSON document, which JSON libraries accept silently.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use base::quote::quote;

/// The limit on reported paths; a hostile document could have any number.
const MAX_REPORTED: usize = 32;

/// The fields that a request body sets more than once; the last value counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DuplicateFields {
    /// Their paths in a JSON document.
    Json(Vec<String>),
    /// The YAML decoder's texts: `line 7: key "replicas" already set in map`.
    Yaml(Vec<String>),
}

impl Default for DuplicateFields {
    fn default() -> Self {
        Self::Json(Vec::new())
    }
}

impl DuplicateFields {
    /// Returns one text per field, for `Warning` headers.
    pub fn findings(&self) -> Vec<String> {
        match self {
            Self::Json(paths) => {
                paths.iter().map(|path| format!("duplicate field {}", quote(path))).collect()
            }
            Self::Yaml(texts) => texts.clone(),
        }
    }

    /// Returns the texts of strict decoding, as Kubernetes joins them.
    pub fn strict_errors(&self) -> Vec<String> {
        match self {
            Self::Yaml(texts) if !texts.is_empty() => {
                vec![format!("yaml: unmarshal errors:\n  {}", texts.join("\n  "))]
            }
            _ => self.findings(),
        }
    }
}

/// Returns the paths of all fields that occur more than once in their object, like `spec.replicas`, without
/// repetition. `value` is the document as it was decoded.
pub fn duplicate_fields(document: &[u8], value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if count_keys(document) == count_fields(value) {
        return found;
    }
    let mut path = String::new();
    let mut deserializer = serde_json::Deserializer::from_slice(document);
    let walk = DuplicateFinder { path: &mut path, duplicates: &mut found };
    // An error ends the walk early; earlier findings still count.
    let _ = walk.deserialize(&mut deserializer);
    found
}

/// Counts the keys of all objects in a well-formed JSON document: each is followed by a colon, as no other text outside
/// of strings is.
fn count_keys(document: &[u8]) -> usize {
    let (mut keys, mut in_string, mut is_escaped) = (0, false, false);
    for byte in document {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b':' if !in_string => keys += 1,
            _ => {}
        }
    }
    keys
}

/// Counts the fields of all objects in a value.
fn count_fields(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.len() + fields.values().map(count_fields).sum::<usize>(),
        Value::Array(elements) => elements.iter().map(count_fields).sum(),
        _ => 0,
    }
}

struct DuplicateFinder<'a> {
    path: &'a mut String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for DuplicateFinder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateFinder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let length = self.path.len();
        for index in 0.. {
            let _ = write!(self.path, "[{index}]");
            let walk = DuplicateFinder { path: self.path, duplicates: self.duplicates };
            let element = elements.next_element_seed(walk)?;
            self.path.truncate(length);
            if element.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let length = self.path.len();
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            if !seen.insert(key)
                && self.duplicates.len() < MAX_REPORTED
                && !self.duplicates.contains(self.path)
            {
                self.duplicates.push(self.path.clone());
            }
            entries.next_value_seed(DuplicateFinder { path: self.path, duplicates: self.duplicates })?;
            self.path.truncate(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_repeated_field_once_api_2() {
        let cases: &[(&str, &[&str])] = &[
            (r#"{"a":1,"b":2}"#, &[]),
            (r#"{"a":1,"a":2,"a":3}"#, &["a"]),
            (r#"{"a:\"":":","b":[":",{"\\":{}}]}"#, &[]),
            (r#"{"a\"": ":" , "a\u0022" : "\\"}"#, &["a\""]),
            (
                r#"{"spec":{"replicas":1,"x":[{"y":1},{"y":1,"y":2}],"replicas":2}}"#,
                &["spec.x[1].y", "spec.replicas"],
            ),
        ];
        for (document, expect) in cases {
            let value = serde_json::from_str(document).unwrap();
            assert_eq!(duplicate_fields(document.as_bytes(), &value), *expect, "{document}");
        }
    }

    proptest::proptest! {
        /// The text and the value agree on the number of fields for any JSON without duplicate ones.
        #[test]
        fn keys_are_counted_in_any_text_api_2(keys in proptest::collection::btree_set(".{0,4}", 0..8), pretty: bool) {
            let inner: Value = keys.iter().map(|key| (key.clone(), Value::from(key.as_str()))).collect();
            let value: Value = keys.into_iter().map(|key| (key, Value::from(vec![inner.clone()]))).collect();
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            assert_eq!(count_keys(text.as_bytes()), count_fields(&value), "{text}");
        }
    }
}
