//! The kinds that the feed watches as typed objects. The watcher reads all of them as JSON.

use std::sync::Arc;

use kube::{Api, Client, Resource};
use serde_json::Value;

use crate::decoded::{JsonObject, api_of_version};
use crate::resource::ResourceKey;
use crate::store::{Object, ObjectPacker};
use object::{Kind, TypedKind};

/// A kind that the feed watches.
#[derive(Clone, Debug)]
pub(super) struct WatchedKind {
    pub(super) resource: ResourceKey,
    kind: Kind,
    version: &'static str,
    /// Turns JSON into the store's form.
    pub(super) decode: fn(&mut ObjectPacker, Value) -> serde_json::Result<Arc<dyn Object>>,
}

impl WatchedKind {
    pub(super) fn of<K: Resource<DynamicType = ()> + Object + TypedKind>() -> Self {
        Self {
            resource: ResourceKey::of::<K>(),
            kind: <K as TypedKind>::kind(),
            version: <K as TypedKind>::version(),
            decode: decode::<K>,
        }
    }

    /// Returns the API of all objects, or of those in a namespace.
    pub(super) fn api(&self, client: Client, namespace: Option<&str>) -> Api<JsonObject> {
        api_of_version(client, self.kind, self.version, namespace)
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
