//! The schema of a served version. It is held compressed, and decompressed when an object of the version is written.
//!
//! A bounded number of schemas stays decompressed: a cluster with hundreds of definitions uses few of them at a time.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::compiled_schema::CompiledSchema;
use object::definition_schemas::VersionSchema;

/// The approximate limit on the memory of all decompressed schemas together, in bytes. The most recently used one
/// always stays.
const MAX_READ_BYTES: usize = 16 << 20;

/// The decompressed schemas, most recently used first.
static READ: Mutex<VecDeque<Arc<CompiledSchema>>> = Mutex::new(VecDeque::new());

/// The schema of a version.
#[derive(Clone)]
pub struct ServedSchema(Arc<CachedSchema>);

struct CachedSchema {
    /// None if the version has no schema.
    compressed: Option<Arc<VersionSchema>>,
    read: Mutex<Weak<CompiledSchema>>,
}

impl ServedSchema {
    pub(super) fn new(schema: Option<&Arc<VersionSchema>>) -> Self {
        Self(Arc::new(CachedSchema { compressed: schema.cloned(), read: Mutex::default() }))
    }

    /// Returns the decompressed schema, ready for use.
    pub(super) fn load(&self) -> Arc<CompiledSchema> {
        let known = self.0.read.lock().upgrade();
        let loaded = known.unwrap_or_else(|| {
            // Reading happens outside of the lock; two threads that read the same schema do no harm.
            let root = self.0.compressed.as_ref().map(|schema| schema.read()).unwrap_or_default();
            let compiled = Arc::new(CompiledSchema::new(root));
            *self.0.read.lock() = Arc::downgrade(&compiled);
            compiled
        });
        keep_read(&loaded);
        loaded
    }

    /// Returns a copy of the decompressed schema.
    pub fn root(&self) -> JSONSchemaProps {
        self.load().root.clone()
    }

    /// Returns the schema as JSON, as in the definition.
    pub fn json(&self) -> Value {
        let json = self.0.compressed.as_ref().map(|schema| schema.json());
        json.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// Removes the fields that the schema does not cover, and returns their paths.
    pub fn prune(&self, fields: &mut Map<String, Value>) -> Vec<String> {
        self.load().prune(fields)
    }

    /// Returns whether filling in defaults would add a field.
    pub fn lacks_defaults(&self, fields: &Map<String, Value>) -> bool {
        let has_defaults = self.0.compressed.as_ref().is_some_and(|schema| schema.has_defaults());
        has_defaults && self.load().lacks_defaults(fields)
    }

    /// Returns whether the schema has rules in CEL.
    pub(super) fn has_rules(&self) -> bool {
        self.0.compressed.as_ref().is_some_and(|schema| schema.has_rules())
    }
}

impl PartialEq for ServedSchema {
    /// Compares pointers: equal schemas share their memory.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0.compressed, &other.0.compressed) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others),
            (own, others) => own.is_none() && others.is_none(),
        }
    }
}

impl Eq for ServedSchema {}

impl fmt::Debug for ServedSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.compressed.fmt(f)
    }
}

/// Retains a decompressed schema, and evicts the least recently used ones beyond the limit.
fn keep_read(schema: &Arc<CompiledSchema>) {
    let mut read = READ.lock();
    if let Some(place) = read.iter().position(|known| Arc::ptr_eq(known, schema)) {
        if place == 0 {
            return;
        }
        drop(read.remove(place));
    }
    read.push_front(schema.clone());
    let mut bytes = 0;
    let fits = read.iter().take_while(|schema| {
        bytes += schema.memory();
        bytes <= MAX_READ_BYTES
    });
    let fits = fits.count().max(1);
    read.truncate(fits);
}

/// The schemas of a kind's versions, each decompressed on first use.
#[derive(Default)]
pub struct KindSchemas {
    versions: Vec<(&'static str, ServedSchema, OnceCell<Arc<CompiledSchema>>)>,
    stored: &'static str,
}

impl KindSchemas {
    /// Returns the schemas of these versions; `stored` is the name of the storage version.
    pub fn new(versions: Vec<(&'static str, ServedSchema)>, stored: &'static str) -> Self {
        let versions = versions.into_iter().map(|(name, schema)| (name, schema, OnceCell::new()));
        Self { versions: versions.collect(), stored }
    }

    /// Returns the schema of the version with this name.
    pub fn named(&self, version: &str) -> Option<&JSONSchemaProps> {
        let (_, schema, loaded) = self.versions.iter().find(|(name, ..)| *name == version)?;
        Some(&loaded.get_or_init(|| schema.load()).root)
    }

    /// Returns the schema of the version with this name, or else of the storage version.
    pub fn named_or_stored(&self, version: &str) -> Option<&JSONSchemaProps> {
        self.named(version).or_else(|| self.named(self.stored))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served(pattern: &str) -> ServedSchema {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "pattern": pattern, "default": "b"}}});
        ServedSchema::new(Some(&VersionSchema::of(&serde_json::from_value(schema).unwrap())))
    }

    #[test]
    fn a_schema_in_use_is_read_once_and_a_bounded_number_stays_read_perf_1() {
        let first = served("^first$");
        assert!(Arc::ptr_eq(&first.load(), &first.load()));
        let mut fields = Map::from_iter([("x".to_string(), json!(1))]);
        assert!(first.lacks_defaults(&fields) && first.prune(&mut fields) == ["x"]);
        let read = Arc::downgrade(&first.load());
        let most = MAX_READ_BYTES / first.load().memory() + 1;
        for n in 0..=most {
            served(&format!("^{n}$")).load();
        }
        assert!(read.upgrade().is_none(), "it was not used for longest");
        assert!(READ.lock().iter().map(|schema| schema.memory()).sum::<usize>() <= MAX_READ_BYTES);
        assert_eq!(first.json()["properties"]["a"]["pattern"], "^first$");
    }
}
