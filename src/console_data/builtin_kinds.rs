//! The resources behind the console's own views, as every Kubernetes serves them: used before discovery answers, and if
//! it fails.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Api, Client, Resource};
use serde_json::Value;
use std::sync::Arc;

use super::decoded::{self, JsonObject, api_of_version};
use super::resource::{Kind, ResourceKey};
use super::store::{Change, Delta, Object, ObjectPacker};
use extension::fault::Fault;
use extension::node_fence::NodeFence;
use object::TypedKind;

/// A resource with a type in the console, as known before discovery.
pub(crate) struct Builtin {
    pub(crate) resource: fn() -> ResourceKey,
    pub(crate) kind: fn() -> Kind,
    read: ReadList,
    /// Turns an object of a watch into the store's form. The watcher reads all kinds as JSON.
    pub(crate) decode: fn(&mut ObjectPacker, Value) -> serde_json::Result<Arc<dyn Object>>,
    /// Returns the API of all objects, or of those in a namespace.
    pub(crate) api: fn(Client, Option<&str>) -> Api<JsonObject>,
}

/// Reads the JSON text of a list as a delta that replaces all objects.
pub(crate) type ReadList = fn(&str) -> serde_json::Result<Delta>;

fn read<K>(text: &str) -> serde_json::Result<Delta>
where
    K: Resource<DynamicType = ()> + Object + TypedKind,
{
    let slim = |mut object: K| {
        object.meta_mut().managed_fields = None;
        Arc::new(object)
    };
    let objects = decoded::list_from_str(text)?.into_iter().map(slim).collect();
    Ok(Delta::of(vec![Change::Reset(objects)]))
}

/// An object that is not packed is cloned, because the clone is smaller than the parsed original.
fn decode<K: Object + TypedKind>(
    packer: &mut ObjectPacker,
    json: Value,
) -> serde_json::Result<Arc<dyn Object>> {
    let object = K::decode(json)?;
    Ok(packer.keep(Arc::new(if ObjectPacker::packs::<K>() { object } else { object.clone() })))
}

fn api<K: TypedKind>(client: Client, namespace: Option<&str>) -> Api<JsonObject> {
    api_of_version(client, K::kind(), K::version(), namespace)
}

const fn builtin<K: Resource<DynamicType = ()> + Object + TypedKind>() -> Builtin {
    Builtin {
        resource: ResourceKey::of::<K>,
        kind: Kind::of_type::<K>,
        read: read::<K>,
        decode: decode::<K>,
        api: api::<K>,
    }
}

/// Returns the kind of Deployments, with k9s' short name besides the server's.
fn deployment() -> Kind {
    let mut facts = (*Kind::of_type::<Deployment>()).clone();
    facts.short_names.push("dp".to_owned());
    Kind::new(facts)
}

/// The resources in the order in which the console lists them.
static ALL: [Builtin; 8] = [
    builtin::<Namespace>(),
    builtin::<Node>(),
    builtin::<Pod>(),
    Builtin { kind: deployment, ..builtin::<Deployment>() },
    builtin::<ReplicaSet>(),
    builtin::<Event>(),
    builtin::<Service>(),
    builtin::<PodDisruptionBudget>(),
];

/// Podium's own kinds that have views; if the server serves them, the console watches their objects, too.
static PODIUM_KINDS: [Builtin; 2] = [builtin::<Fault>(), builtin::<NodeFence>()];

/// Returns the built-in kinds, without Podium's own, which other servers do not have.
pub fn kinds() -> Vec<Kind> {
    ALL.iter().map(|known| (known.kind)()).collect()
}

/// Returns the resources of the built-in kinds, without Podium's own; the console always watches them.
pub fn resources() -> Vec<ResourceKey> {
    ALL.iter().map(|known| (known.resource)()).collect()
}

/// Returns the resources of the built-in kinds, including Podium's own.
pub fn all_resources() -> Vec<ResourceKey> {
    ALL.iter().chain(&PODIUM_KINDS).map(|known| (known.resource)()).collect()
}

/// Returns the built-in resource, or the one of Podium's own, with this key.
pub(crate) fn find(resource: &ResourceKey) -> Option<&'static Builtin> {
    ALL.iter().chain(&PODIUM_KINDS).find(|known| (known.resource)() == *resource)
}

/// Returns the function that reads a list of this resource as the console's own type; `None` for other resources.
pub(crate) fn reader(resource: &ResourceKey) -> Option<ReadList> {
    Some(find(resource)?.read)
}

/// Reports whether the resource is a built-in one or one of Podium's own.
pub fn contains(resource: &ResourceKey) -> bool {
    find(resource).is_some()
}

/// Reports whether this is a kind of Podium's own, which other servers do not have.
pub fn is_podium_kind(resource: &ResourceKey) -> bool {
    PODIUM_KINDS.iter().any(|known| (known.resource)() == *resource)
}

/// Returns the kind of this type.
///
/// # Panics
/// If the console has no view of the type. This is a bug, and the first use reveals it.
pub fn kind<K: Resource<DynamicType = ()>>() -> Kind {
    let known = find(&ResourceKey::of::<K>()).expect("the table above has the type");
    (known.kind)()
}
