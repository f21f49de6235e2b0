//! Objects of any kind: typed inside, shared by `Arc`, encoded once.
//!
//! An [`Object`] is never mutated once stored.

mod encoding;
mod stored_body;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use encoding::Encoding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use stored_body::StoredBody;

use super::body::{Body, BuiltinKind, TypedKind};
use super::custom::CustomObject;
use super::definition_schemas::DefinitionSchemas;
use super::encode::{self, ObjectText, whole_numbers};
use super::managed::ManagedFields;
use super::part;
use super::{Key, Kind, Revision, numeric_quantities};

/// An object could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The JSON does not fit the kind's type.
    #[error("cannot decode {kind}: {message}")]
    Shape {
        /// The kind it was read as.
        kind: Kind,
        /// The decoder's message.
        message: String,
    },
    /// `apiVersion` or `kind` is missing or unknown.
    #[error("no kind \"{name}\" in version \"{api_version}\"")]
    UnknownKind {
        /// The given `apiVersion`.
        api_version: String,
        /// The given `kind`.
        name: String,
    },
}

/// One version of one object, of any kind.
#[derive(Clone)]
pub struct Object {
    /// The body; that of a packed CustomResourceDefinition has no schemas.
    body: StoredBody,
    /// The schemas of a packed CustomResourceDefinition.
    schemas: Option<DefinitionSchemas>,
    /// The field managers, stored apart from the metadata: only the JSON that clients send and get has them in the
    /// metadata.
    managed: ManagedFields,
    encoding: Encoding,
}

impl Object {
    /// Wraps a typed value.
    pub fn new<T: TypedKind>(value: T) -> Self {
        value.into_body().into()
    }

    /// Decodes an object of a known kind from JSON, in which quantities may be numbers.
    pub fn from_value(kind: Kind, mut value: Value) -> Result<Self, DecodeError> {
        if !kind.is_custom() {
            numeric_quantities::quantities_as_text(kind, &mut value);
        }
        Body::decode(kind, value)
            .map(Self::from)
            .map_err(|error| DecodeError::Shape { kind, message: error.to_string() })
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.body.kind()
    }

    /// Returns the group and version in which it is stored: `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> Cow<'_, str> {
        match &*self.body {
            Body::Custom(object) => object.api_version().into(),
            body => body.kind().info().api_version().into(),
        }
    }

    /// Returns the content if the object is a custom resource.
    pub fn custom(&self) -> Option<&CustomObject> {
        match &*self.body {
            Body::Custom(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the content if the object is a custom resource, for changes to an object that is not stored yet.
    pub fn custom_mut(&mut self) -> Option<&mut CustomObject> {
        self.forget_encoding();
        match &mut *self.body {
            Body::Custom(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the metadata.
    pub fn meta(&self) -> &ObjectMeta {
        self.body.meta()
    }

    /// Returns the metadata, for changes to an object that is not stored yet.
    pub fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.forget_encoding();
        self.body.meta_mut()
    }

    /// Compresses the schemas of a CustomResourceDefinition, which then take a hundredth of the memory. [`Object::get`]
    /// returns a packed definition without its schemas; its JSON, comparisons and changes include them.
    #[must_use]
    pub fn packed(mut self) -> Self {
        if let (None, Body::CustomResourceDefinition(definition)) = (&self.schemas, &mut *self.body) {
            self.schemas = Some(DefinitionSchemas::take_from(&mut definition.spec));
            self.encoding.forget_shared();
        }
        self
    }

    /// Returns the object with the schemas that [`Object::packed`] compressed.
    pub fn unpacked(&self) -> Cow<'_, Self> {
        if self.schemas.is_none() {
            return Cow::Borrowed(self);
        }
        let mut object = Self {
            body: self.body.clone(),
            schemas: self.schemas.clone(),
            managed: self.managed.clone(),
            encoding: Encoding::default(),
        };
        object.unpack();
        Cow::Owned(object)
    }

    /// Returns the schemas of a CustomResourceDefinition's versions; none for another kind.
    pub fn definition_schemas(&self) -> DefinitionSchemas {
        match (&self.schemas, &*self.body) {
            (Some(schemas), _) => schemas.clone(),
            (None, Body::CustomResourceDefinition(definition)) => DefinitionSchemas::of(&definition.spec),
            _ => DefinitionSchemas::default(),
        }
    }

    fn unpack(&mut self) {
        if let (Some(schemas), Body::CustomResourceDefinition(definition)) =
            (self.schemas.take(), &mut *self.body)
        {
            schemas.put_into(&mut definition.spec);
        }
    }

    /// Returns the body with its schemas, decompressed if necessary.
    fn whole_body(&self) -> Cow<'_, StoredBody> {
        match self.unpacked() {
            Cow::Borrowed(object) => Cow::Borrowed(&object.body),
            Cow::Owned(object) => Cow::Owned(object.body),
        }
    }

    fn bodies_are(&self, other: &Self, same: impl FnOnce(&Body, &Body) -> bool) -> bool {
        match (&self.schemas, &other.schemas) {
            (None, None) => same(&self.body, &other.body),
            (Some(own), Some(others)) => own == others && same(&self.body, &other.body),
            _ => same(&self.whole_body(), &other.whole_body()),
        }
    }

    /// Returns the typed content.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Returns the typed value if it is a `T`.
    pub fn get<T: TypedKind>(&self) -> Option<&T> {
        T::from_body(&self.body)
    }

    /// Returns the typed value if it is a `T`, for changes to an object that is not stored yet.
    pub fn get_mut<T: BuiltinKind>(&mut self) -> Option<&mut T> {
        self.forget_encoding();
        self.unpack();
        T::from_body_mut(&mut self.body)
    }

    /// Changes the typed value of an object that is not stored yet, and returns the result of `change`; `None` if the
    /// object is no `T`.
    pub fn change<T: TypedKind, R>(&mut self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.forget_encoding();
        self.unpack();
        T::change_body(&mut self.body, change)
    }

    /// Copies the status from another version, if the kind has one.
    pub fn copy_status_from(&mut self, other: &Self) {
        self.forget_encoding();
        self.body.copy_status_from(&other.body);
    }

    /// Copies the spec from another version; for a kind without a spec, everything but the metadata.
    pub fn copy_spec_from(&mut self, other: &Self) {
        self.forget_encoding();
        self.body.copy_spec_from(&other.body);
        self.schemas.clone_from(&other.schemas);
    }

    /// Returns true if both versions have the same spec, or if the kind has none.
    pub fn same_spec(&self, other: &Self) -> bool {
        self.bodies_are(other, Body::same_spec)
    }

    /// Removes the status, if the kind has one.
    pub fn clear_status(&mut self) {
        self.forget_encoding();
        self.body.clear_status();
    }

    /// Returns the key within the kind.
    pub fn key(&self) -> Key {
        Key::of(self.meta())
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// Returns `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    /// Returns the revision at which it was stored.
    pub fn revision(&self) -> Revision {
        Revision::of(self.meta())
    }

    /// Returns the managers of the object's fields.
    pub fn managed_fields(&self) -> &ManagedFields {
        &self.managed
    }

    /// Sets the managers of the object's fields, and removes any that the metadata has.
    pub fn set_managed_fields(&mut self, managed: ManagedFields) {
        self.meta_mut().managed_fields = None;
        self.managed = managed;
    }

    /// Moves the field managers out of the metadata, where an object that was read from storage has them.
    #[must_use]
    pub fn with_stored_managers(mut self) -> Self {
        if let Some(entries) = self.meta_mut().managed_fields.take() {
            // Stored objects were validated; an older version's entries that cannot be read own nothing.
            self.managed = ManagedFields::read(&entries).unwrap_or_else(|_| ManagedFields::default());
        }
        self
    }

    /// Returns the metadata as clients get it.
    pub fn client_metadata(&self) -> Value {
        let mut meta = part::to_value(self.meta());
        if !self.managed.is_empty() {
            meta["managedFields"] = self.managed.to_value();
        }
        meta
    }

    /// Returns true if both have the same content, regardless of field managers.
    pub fn same_content(&self, other: &Self) -> bool {
        self.bodies_are(other, Body::eq)
    }

    /// Returns the JSON. It is encoded once and cached, but encoded at each call for a packed object.
    pub fn json(&self) -> Bytes {
        if self.schemas.is_none() {
            return self.encoding.shared(|json| _ = self.encode(json));
        }
        let mut json = Vec::new();
        self.write_json(&mut json);
        json.into()
    }

    /// Returns the length of [`Object::json`] in bytes. Encodes and caches the JSON, except for a packed object.
    pub fn json_length(&self) -> usize {
        if self.schemas.is_some() { self.size() } else { self.json().len() }
    }

    /// Appends the JSON, and returns where its revision is.
    fn encode(&self, json: &mut Vec<u8>) -> Option<Range<usize>> {
        encode::write_object(self.whole_body().erased(), &self.managed, json)
    }

    /// Encodes the JSON and holds it until [`Object::release_json`], so that an object that is about to be stored is encoded
    /// once for its size and its record.
    pub fn hold_json(&self) {
        self.encoding.hold(|| {
            let mut json = Vec::new();
            let revision = self.encode(&mut json);
            ObjectText { json, revision }
        });
    }

    /// Drops the JSON that [`Object::hold_json`] encoded, unless [`Object::json`] was called meanwhile.
    pub fn release_json(&self) {
        self.encoding.release();
    }

    /// Appends the JSON, without caching it if it is not cached already. For objects that are written once and rarely
    /// read: a cached encoding would hold them in memory twice.
    pub fn write_json(&self, json: &mut Vec<u8>) {
        self.encoding.append_to(json, |json| _ = self.encode(json));
    }

    /// Returns the length of the object's JSON in bytes; computed once for each revision.
    pub fn size(&self) -> usize {
        self.encoding.length(|json| _ = self.encode(json))
    }

    /// Sets the revision at which the object is stored, also in a JSON that [`Object::hold_json`] encoded.
    pub fn set_revision(&mut self, revision: Revision) {
        let encoding = self.encoding.at_revision(revision);
        self.meta_mut().resource_version = Some(revision.to_string());
        self.encoding = encoding;
    }

    /// Drops the cached encoding, and the cached typed value of a custom resource, before a change.
    fn forget_encoding(&mut self) {
        self.encoding.forget();
        if let Body::Custom(object) = &mut *self.body {
            object.forget_typed();
        }
    }

    /// Returns the object's JSON as a value, for patching and for reading fields by path.
    pub fn to_value(&self) -> Value {
        let mut value = self.content();
        if !self.managed.is_empty() {
            value["metadata"]["managedFields"] = self.managed.to_value();
        }
        value
    }

    /// Serializes the object without its field managers.
    pub fn serialize_content<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(self.whole_body().erased(), serializer)
    }

    /// Returns the object's JSON as a value, without field managers.
    pub fn content(&self) -> Value {
        self.as_written(part::to_value(self.whole_body().erased()))
    }

    /// Turns whole floats of a CustomResourceDefinition into integers. The bounds in its schemas are the only floats in
    /// the API, and users write them mostly as whole numbers.
    fn as_written(&self, mut value: Value) -> Value {
        if matches!(*self.body, Body::CustomResourceDefinition(_)) {
            whole_numbers(&mut value);
        }
        value
    }
}

impl From<Body> for Object {
    fn from(body: Body) -> Self {
        Self {
            body: StoredBody::new(body),
            schemas: None,
            managed: ManagedFields::default(),
            encoding: Encoding::default(),
        }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.managed == other.managed && self.same_content(other)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}@{}", self.kind(), self.key(), self.revision())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_names_its_kind_in_its_encoding() {
        let object = Object::from_any_value(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}}))
        .unwrap();
        assert_eq!((object.kind(), object.key().to_string()), (Kind::ConfigMap, "n/a".to_string()));
        let text = String::from_utf8(object.json().to_vec()).unwrap();
        assert!(text.contains(r#""apiVersion":"v1""#) && text.contains(r#""kind":"ConfigMap""#), "{text}");
        assert!(object.get::<Pod>().is_none());
        assert_eq!(object.get::<ConfigMap>().unwrap().data.as_ref().unwrap()["k"], "v");
    }

    #[test]
    fn unknown_kinds_and_wrong_shapes_are_errors() {
        let unknown = Object::from_any_value(json!({"apiVersion": "v9", "kind": "Pod"})).unwrap_err();
        assert_eq!(unknown.to_string(), "no kind \"Pod\" in version \"v9\"");
        let shape = Object::from_value(Kind::Pod, json!({"spec": []})).unwrap_err();
        assert!(matches!(shape, DecodeError::Shape { kind: Kind::Pod, .. }), "{shape}");
    }

    #[test]
    fn owners_are_written_with_the_metadata_alone_api_13() {
        let owned = |text: &str| {
            let value: Value = serde_json::from_str(text).unwrap();
            let object = Object::from_any_value(value.clone()).unwrap().with_stored_managers();
            assert!(object.meta().managed_fields.is_none() && !object.managed_fields().is_empty());
            let written: Value = serde_json::from_slice(&object.json()).unwrap();
            assert_eq!((&written, &object.to_value()), (&value, &value));
            assert_eq!(object.clone().size(), object.json().len());
        };
        let entry = r#"[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-11-21T03:26:25Z",
            "fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:metadata":{}}}}]"#;
        for metadata in ["", r#","name":"a","labels":{"metadata":"metadata"}"#] {
            owned(&format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"managedFields":{entry}{metadata}}},
                    "data":{{"metadata":"x","a":"metadata"}}}}"#
            ));
        }
        let template = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        owned(&format!(
            r#"{{"apiVersion":"v1","kind":"PodTemplate","metadata":{{"managedFields":{entry},"name":"a"}},
                "template":{template}}}"#
        ));
    }

    #[test]
    fn a_size_is_that_of_the_text_safe_10() {
        let all: String = (0..=0x7f_u8).map(char::from).chain("é€😀\u{7f}\u{2028}".chars()).collect();
        let texts = json!(["", "plain", all, {"a\"b": "c\\d\ne\u{1}"}]);
        let numbers = json!([0, 9, 10, -1, -10, i64::MIN, i64::MAX, u64::MAX, 1.5, -0.25, 1e300]);
        let nested = json!({"a": [], "b": {}, "c": [[1, {"d": null}], true, false], "e": {"f": {"g": "h"}}});
        // Whole floats as Go writes them.
        let floats = json!([2.0, -3.0]);
        let tests = [texts, numbers, nested].map(|value| (value.to_string(), value));
        for (text, data) in tests.into_iter().chain([("[2,-3]".to_owned(), floats)]) {
            let object =
                Object::from_any_value(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
                "metadata": {"name": "a"}, "data": data, "revision": 1}))
                .unwrap();
            let size = object.size();
            assert_eq!(size, object.json().len(), "{text}");
            assert!(str::from_utf8(&object.json()).unwrap().contains(&text), "{text}");
        }
    }

    #[test]
    fn a_revision_changes_the_json_that_is_stored_safe_10() {
        let managers = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}}}]);
        let before = [
            json!({}),
            json!({"name": "a"}),
            json!({"resourceVersion": "9"}),
            json!({"uid": "u"}),
            json!({"name": "resourceVersion", "resourceVersion": "9", "uid": "u"}),
            json!({"resourceVersion": "\n\"", "selfLink": "uid", "uid": ""}),
            json!({"labels": {"uid": "x", "resourceVersion": "y"}, "managedFields": managers, "resourceVersion": "",
                "ownerReferences": [{"uid": "o"}], "uid": "u"}),
            json!({"managedFields": managers, "uid": "u"}),
        ];
        for (metadata, revision) in before.into_iter().flat_map(|meta| [(meta.clone(), 7), (meta, u64::MAX)])
        {
            let map =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"uid": "z"}});
            let mut object = Object::from_any_value(map).unwrap().with_stored_managers();
            object.hold_json();
            object.set_revision(Revision(revision));
            let mut stored = Vec::new();
            object.write_json(&mut stored);
            let again = object.clone().json();
            assert_eq!(str::from_utf8(&stored), str::from_utf8(&again), "{metadata}");
            assert_eq!((object.size(), object.revision()), (again.len(), Revision(revision)));
            assert!(str::from_utf8(&again).unwrap().contains(&format!(r#""resourceVersion":"{revision}""#)));
        }
    }

    #[test]
    fn changing_an_object_changes_its_encoding() {
        let mut object = Object::new(ConfigMap::default());
        assert!(!object.json().windows(3).any(|w| w == b"xyz"));
        object.meta_mut().name = Some("xyz".into());
        let mut text = b"before ".to_vec();
        object.write_json(&mut text);
        assert_eq!(text.strip_prefix(b"before ".as_slice()), Some(&object.clone().json()[..]));
        assert!(object.json().windows(3).any(|w| w == b"xyz"));
    }

    #[test]
    fn a_packed_definition_is_the_same_but_for_its_memory_api_14() {
        let value = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "a.b.c"}, "spec": {"group": "b.c", "scope": "Cluster", "names": {"plural": "a", "kind": "A"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"n": {"type": "number", "maximum": 2.5, "minimum": 1}}}}},
                {"name": "v2", "served": true, "storage": false}]}});
        let plain = Object::from_any_value(value.clone()).unwrap();
        let packed = plain.clone().packed();
        let schema_of = |object: &Object| {
            let definition = object.get::<apiextensions::v1::CustomResourceDefinition>().unwrap();
            definition.spec.versions[0].schema.clone().unwrap().open_api_v3_schema
        };
        assert_eq!((schema_of(&packed), schema_of(&packed.unpacked())), (None, schema_of(&plain)));
        assert_eq!((packed.json(), packed.json_length()), (plain.json(), plain.json().len()));
        assert_eq!((packed.to_value(), packed.definition_schemas()), (value, plain.definition_schemas()));
        assert!(packed == plain);
        assert!(plain == packed);
        assert!(packed.same_spec(&plain));
        let copy = packed.clone();
        assert!(packed == copy);
        let mut changed = packed.clone();
        let definition = changed.get_mut::<apiextensions::v1::CustomResourceDefinition>().unwrap();
        let schema =
            definition.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
        schema.description = Some("d".into());
        assert!(changed != packed && !changed.clone().packed().same_spec(&packed));
        let mut copied = packed.clone();
        copied.copy_spec_from(&changed);
        assert_eq!(copied.to_value()["spec"], changed.to_value()["spec"]);
    }
}
