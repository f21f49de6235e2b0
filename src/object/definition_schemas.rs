//! The schemas of a stored CustomResourceDefinition, compressed.
//!
//! A schema takes about twenty times as much memory in Rust values as its JSON does, and the JSON takes eight times as
//! much as its compressed form. A schema is decompressed only when an object of its kind is written, or when the
//! definition is shown.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::sync::{Arc, LazyLock, Weak};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionSpec, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use parking_lot::Mutex;

use super::encode::whole_numbers;

/// The schema of one version.
#[derive(PartialEq, Eq)]
pub struct VersionSchema {
    deflated: Box<[u8]>,
    /// The length of the uncompressed JSON in bytes.
    length: usize,
    has_defaults: bool,
    has_rules: bool,
}

/// Schemas in use, by the hash of their compressed form: the versions of a definition often have equal schemas.
static SCHEMAS: LazyLock<Mutex<HashMap<u64, Weak<VersionSchema>>>> = LazyLock::new(Mutex::default);

impl VersionSchema {
    /// Compresses a schema. Equal schemas share one value.
    pub fn of(schema: &JSONSchemaProps) -> Arc<Self> {
        let mut value = serde_json::to_value(schema).expect("schemas have string keys");
        whole_numbers(&mut value);
        let json = value.to_string();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(json.as_bytes()).expect("writing to memory cannot fail");
        let deflated = encoder.finish().expect("writing to memory cannot fail").into_boxed_slice();
        let (mut has_defaults, mut has_rules) = (false, false);
        each_schema(schema, &mut |schema| {
            has_defaults |= schema.default.is_some();
            has_rules |= schema.x_kubernetes_validations.as_ref().is_some_and(|rules| !rules.is_empty());
        });
        Self { deflated, length: json.len(), has_defaults, has_rules }.shared()
    }

    fn shared(self) -> Arc<Self> {
        let mut hasher = DefaultHasher::new();
        self.deflated.hash(&mut hasher);
        let mut known = SCHEMAS.lock();
        if known.len() == known.capacity() {
            known.retain(|_, schema| schema.strong_count() > 0);
        }
        let key = hasher.finish();
        match known.get(&key).and_then(Weak::upgrade) {
            Some(same) if *same == self => same,
            _ => {
                let schema = Arc::new(self);
                known.insert(key, Arc::downgrade(&schema));
                schema
            }
        }
    }

    /// Returns the schema's JSON.
    pub fn json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.length);
        DeflateDecoder::new(&*self.deflated)
            .read_to_end(&mut json)
            .expect("the data was compressed by this module");
        json
    }

    /// Decompresses and decodes the schema.
    pub fn read(&self) -> JSONSchemaProps {
        serde_json::from_slice(&self.json()).expect("the compressed data is a schema")
    }

    /// Returns the length of the schema's JSON in bytes.
    pub fn json_length(&self) -> usize {
        self.length
    }

    /// Returns whether a field somewhere in the schema has a default.
    pub fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    /// Returns whether the schema has rules in CEL.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }
}

impl fmt::Debug for VersionSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schema of {} bytes", self.length)
    }
}

/// Calls `visit` with a schema and all schemas below it.
pub fn each_schema(schema: &JSONSchemaProps, visit: &mut impl FnMut(&JSONSchemaProps)) {
    visit(schema);
    let items = match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(one)) => std::slice::from_ref(&**one),
        Some(JSONSchemaPropsOrArray::Schemas(many)) => many,
        None => &[],
    };
    let additional = match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(any)) => Some(&**any),
        _ => None,
    };
    let junctors = [&schema.all_of, &schema.any_of, &schema.one_of];
    let properties = schema.properties.iter().flat_map(|properties| properties.values());
    for below in properties
        .chain(items)
        .chain(additional)
        .chain(junctors.into_iter().flatten().flatten())
        .chain(schema.not.as_deref())
    {
        each_schema(below, visit);
    }
}

/// The schemas of a definition's versions, in the order of the versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionSchemas(Arc<[Option<Arc<VersionSchema>>]>);

impl DefinitionSchemas {
    /// Compresses the schemas of a definition's versions.
    pub fn of(spec: &CustomResourceDefinitionSpec) -> Self {
        let schemas = spec.versions.iter().map(|version| {
            let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
            Some(VersionSchema::of(schema))
        });
        Self(schemas.collect())
    }

    /// Moves the schemas out of a spec.
    pub(super) fn take_from(spec: &mut CustomResourceDefinitionSpec) -> Self {
        let schemas = Self::of(spec);
        for version in &mut spec.versions {
            if let Some(validation) = &mut version.schema {
                validation.open_api_v3_schema = None;
            }
        }
        schemas
    }

    /// Puts the schemas back into the spec that they were taken from.
    pub(super) fn put_into(&self, spec: &mut CustomResourceDefinitionSpec) {
        for (version, schema) in spec.versions.iter_mut().zip(&*self.0) {
            if let (Some(validation), Some(schema)) = (&mut version.schema, schema) {
                validation.open_api_v3_schema = Some(schema.read());
            }
        }
    }

    /// Returns the schema of the version at this index.
    pub fn of_version(&self, place: usize) -> Option<&Arc<VersionSchema>> {
        self.0.get(place)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_read_as_it_was_and_held_once_api_14() {
        let schema: JSONSchemaProps = serde_json::from_value(json!({"type": "object", "properties": {
            "a": {"type": "number", "maximum": 5, "default": 1.5},
            "b": {"type": "array", "items": {"type": "string", "description": "b".repeat(5000)}}}}))
        .unwrap();
        let held = VersionSchema::of(&schema);
        assert_eq!(held.read(), schema);
        assert!(held.has_defaults() && !held.has_rules());
        assert!(held.deflated.len() < held.json_length() / 8);
        assert!(String::from_utf8(held.json()).unwrap().contains("\"maximum\":5,"));
        assert!(Arc::ptr_eq(&held, &VersionSchema::of(&schema.clone())));
    }
}
