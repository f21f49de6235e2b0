//! The kinds that the feed watches as typed objects, and their objects as the watcher reads them.
//!
//! The watcher reads all kinds as JSON, so that it is compiled once and not for each kind.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::resource::ResourceKey;
use crate::store::{Object, ObjectPacker};
use object::TypedKind;

/// A kind that the feed watches.
#[derive(Clone, Debug)]
pub(super) struct WatchedKind {
    pub(super) resource: ResourceKey,
    api: ApiResource,
    /// Turns JSON into the store's form.
    pub(super) decode: fn(&mut ObjectPacker, Value) -> serde_json::Result<Arc<dyn Object>>,
}

impl WatchedKind {
    pub(super) fn of<K: Resource<DynamicType = ()> + Object + TypedKind>() -> Self {
        Self { resource: ResourceKey::of::<K>(), api: ApiResource::erase::<K>(&()), decode: decode::<K> }
    }

    /// Returns the API of all objects, or of those in a namespace.
    pub(super) fn api(&self, client: Client, namespace: Option<&str>) -> Api<WatchedJson> {
        match namespace {
            None => Api::all_with(client, &self.api),
            Some(namespace) => Api::namespaced_with(client, namespace, &self.api),
        }
    }
}

/// An object that is not packed is cloned, because the clone is smaller than the parsed original.
fn decode<K: Object + TypedKind>(
    packer: &mut ObjectPacker,
    json: Value,
) -> serde_json::Result<Arc<dyn Object>> {
    let object = K::decode(json)?;
    Ok(packer.keep(Arc::new(if ObjectPacker::packs::<K>() { object } else { object.clone() })))
}

/// An object without managedFields, which are half of an object and which no table shows.
#[derive(Clone, Debug)]
pub(super) struct WatchedJson {
    pub(super) json: Value,
    /// Only the revision, which the watcher needs.
    metadata: ObjectMeta,
}

impl<'de> Deserialize<'de> for WatchedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut json = Value::deserialize(deserializer)?;
        let mut metadata = ObjectMeta::default();
        if let Some(Value::Object(fields)) = json.get_mut("metadata") {
            fields.shift_remove("managedFields");
            let revision = fields.get("resourceVersion").and_then(Value::as_str);
            metadata.resource_version = revision.map(str::to_owned);
        }
        Ok(Self { json, metadata })
    }
}

impl Resource for WatchedJson {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
