//! Objects of custom resources: metadata as every object has it, and a JSON tree.

use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{Kind, part};
use base::json;

/// The field that controllers report in.
const STATUS: &str = "status";

/// One object of a custom resource.
#[derive(Clone, Debug)]
pub struct CustomObject {
    kind: Kind,
    /// The group and version in which it is stored.
    api_version: String,
    pub(crate) metadata: ObjectMeta,
    /// Everything beside `apiVersion`, `kind` and `metadata`.
    pub fields: Map<String, Value>,
    typed: TypedValue,
}

/// The typed value of an object: empty before its first use, and `None` if the object does not fit the type. A copy of
/// the object decodes its own.
#[derive(Default)]
struct TypedValue(OnceLock<Option<Box<dyn Any + Send + Sync>>>);

impl Clone for TypedValue {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for TypedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "decoded" } else { "not decoded" })
    }
}

impl PartialEq for CustomObject {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.api_version, &self.metadata, &self.fields)
            == (other.kind, &other.api_version, &other.metadata, &other.fields)
    }
}

impl CustomObject {
    /// Reads an object of this kind.
    pub(super) fn decode(kind: Kind, value: Value) -> serde_json::Result<Self> {
        let Value::Object(mut fields) = value else {
            return Err(serde_json::Error::custom("not an object"));
        };
        let Some(Value::String(api_version)) = fields.remove("apiVersion") else {
            return Err(serde_json::Error::custom("apiVersion is not set"));
        };
        fields.remove("kind");
        let metadata = match fields.remove("metadata") {
            None | Some(Value::Null) => ObjectMeta::default(),
            Some(metadata) => json::from_value(metadata)?,
        };
        Ok(Self { kind, api_version, metadata, fields, typed: TypedValue::default() })
    }

    /// Returns the typed value; `None` if the object does not fit the type.
    pub(super) fn typed<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Option<&T> {
        let typed = self.typed.0.get_or_init(|| {
            json::from_value::<T>(part::to_value(self))
                .ok()
                .map(|typed| Box::new(typed) as Box<dyn Any + Send + Sync>)
        });
        typed.as_ref()?.downcast_ref()
    }

    /// Takes the metadata of `after`, and its fields that differ from those of `before`.
    pub(super) fn set_changes(&mut self, before: &Self, mut after: Self) {
        for name in before.fields.keys() {
            if !after.fields.contains_key(name) {
                self.fields.remove(name);
            }
        }
        after.fields.retain(|name, value| before.fields.get(name) != Some(value));
        self.fields.extend(after.fields);
        self.metadata = after.metadata;
        self.forget_typed();
    }

    /// Drops the typed value before a change.
    pub(super) fn forget_typed(&mut self) {
        self.typed = TypedValue::default();
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the group and version in which it is stored, as `example.com/v1`.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Sets the version in which it is stored; its fields are the same in all versions.
    pub fn set_api_version(&mut self, api_version: String) {
        self.api_version = api_version;
    }

    /// Returns true if both have the same content, metadata aside.
    pub fn same_content(&self, other: &Self) -> bool {
        self.fields == other.fields
    }

    /// Returns true if both have the same content, metadata and status aside.
    pub(super) fn same_spec(&self, other: &Self) -> bool {
        let spec = |object: &'_ Self| object.fields.iter().filter(|(name, _)| *name != STATUS).count();
        spec(self) == spec(other)
            && self.fields.iter().all(|(name, value)| name == STATUS || other.fields.get(name) == Some(value))
    }

    pub(super) fn copy_status_from(&mut self, other: &Self) {
        match other.fields.get(STATUS) {
            Some(status) => drop(self.fields.insert(STATUS.into(), status.clone())),
            None => drop(self.fields.remove(STATUS)),
        }
    }

    /// Copies everything but the status, the field managers and the resource version. The labels are copied, too: as
    /// in Kubernetes, a write of a custom resource's status cannot change them.
    pub(super) fn copy_spec_from(&mut self, other: &Self) {
        let status = self.fields.remove(STATUS);
        let managed_fields = self.metadata.managed_fields.take();
        let revision = self.metadata.resource_version.take();
        *self = other.clone();
        self.metadata.managed_fields = managed_fields;
        self.metadata.resource_version = revision;
        self.fields.remove(STATUS);
        if let Some(status) = status {
            self.fields.insert(STATUS.into(), status);
        }
    }

    pub(super) fn clear_status(&mut self) {
        self.fields.remove(STATUS);
    }
}

impl Serialize for CustomObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len() + 3))?;
        map.serialize_entry("apiVersion", &self.api_version)?;
        map.serialize_entry("kind", self.kind.info().name)?;
        map.serialize_entry("metadata", &self.metadata)?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Object, Scope};

    fn widget(value: Value) -> Object {
        let kind = Kind::custom("custom.test", "widgets", "Widget", Scope::Namespaced).unwrap();
        Object::from_value(kind, value).unwrap()
    }

    #[test]
    fn a_custom_object_is_what_was_written_in_order_api_7() {
        let object = widget(json!({"spec": {"b": 1, "a": [{"z": null, "y": 2}]}, "metadata": {"name": "w"},
            "apiVersion": "custom.test/v1", "kind": "Widget", "data": true}));
        assert_eq!(
            String::from_utf8(object.json().to_vec()).unwrap(),
            r#"{"apiVersion":"custom.test/v1","kind":"Widget","metadata":{"name":"w"},"data":true,"spec":{"a":[{"y":2,"z":null}],"b":1}}"#
        );
        assert_eq!((object.name(), object.api_version().as_ref()), ("w", "custom.test/v1"));
        assert_eq!(object.kind().info().qualified_plural(), "widgets.custom.test");
    }

    #[test]
    fn spec_and_status_are_copied_separately_api_7() {
        let (old, new) = (
            widget(
                json!({"apiVersion": "custom.test/v1", "metadata": {"labels": {"a": "1"}}, "spec": 1, "status": 2}),
            ),
            widget(
                json!({"apiVersion": "custom.test/v1", "metadata": {"labels": {"a": "2"}}, "spec": 3, "status": 4}),
            ),
        );
        let mut main = new.clone();
        main.copy_status_from(&old);
        assert_eq!((&main.to_value()["spec"], &main.to_value()["status"]), (&json!(3), &json!(2)));
        let mut status = new.clone();
        status.copy_spec_from(&old);
        let value = status.to_value();
        assert_eq!(
            (&value["spec"], &value["status"], &value["metadata"]["labels"]["a"]),
            (&json!(1), &json!(4), &json!("1"))
        );
        assert!(status.same_spec(&old) && !status.same_spec(&new));
        status.clear_status();
        assert_eq!(status.to_value().get("status"), None);
    }
}
