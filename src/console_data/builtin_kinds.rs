//! The resources behind the console's own views, as every Kubernetes serves them: used before discovery answers, and if
//! it fails.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use std::sync::Arc;

use super::decoded;
use super::resource::{Kind, KindFacts, ResourceKey};
use super::store::{Change, Delta, Object};
use base::sort::CollectMap;
use extension::fault::Fault;
use extension::node_fence::NodeFence;
use object::TypedKind;

/// Verbs of every resource here.
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// A resource as known before discovery.
struct Builtin {
    resource: fn() -> ResourceKey,
    kind: fn() -> String,
    namespaced: bool,
    short_names: &'static [&'static str],
    subresources: &'static [(&'static str, &'static [&'static str])],
    read: ReadList,
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

const SCALE: (&str, &[&str]) = ("scale", &["get", "patch", "update"]);

const fn builtin<K: Resource<DynamicType = ()> + Object + TypedKind>(
    namespaced: bool,
    short_names: &'static [&'static str],
    subresources: &'static [(&'static str, &'static [&'static str])],
) -> Builtin {
    Builtin {
        resource: ResourceKey::of::<K>,
        kind: || <K as Resource>::kind(&()).into_owned(),
        namespaced,
        short_names,
        subresources,
        read: read::<K>,
    }
}

/// The resources in the order in which the console lists them.
const ALL: [Builtin; 8] = [
    builtin::<Namespace>(false, &["ns"], &[]),
    builtin::<Node>(false, &["no"], &[]),
    builtin::<Pod>(
        true,
        &["po"],
        &[
            ("log", &["get"]),
            ("exec", &["create", "get"]),
            ("attach", &["create", "get"]),
            ("portforward", &["create", "get"]),
            ("ephemeralcontainers", &["get", "patch", "update"]),
            ("eviction", &["create"]),
        ],
    ),
    builtin::<Deployment>(true, &["deploy", "dp"], &[SCALE]),
    builtin::<ReplicaSet>(true, &["rs"], &[SCALE]),
    builtin::<Event>(true, &["ev"], &[]),
    builtin::<Service>(true, &["svc"], &[]),
    builtin::<PodDisruptionBudget>(true, &["pdb"], &[]),
];

/// Podium's own kinds that have views; if the server serves them, the console watches their objects, too.
const PODIUM_KINDS: [Builtin; 2] = [builtin::<Fault>(false, &[], &[]), builtin::<NodeFence>(false, &[], &[])];

impl Builtin {
    fn kind(&self) -> Kind {
        let kind = (self.kind)();
        let set = |verbs: &[&str]| verbs.iter().map(ToString::to_string).collect();
        Kind::new(KindFacts {
            resource: (self.resource)(),
            singular: kind.to_lowercase(),
            kind,
            namespaced: self.namespaced,
            short_names: self.short_names.iter().map(ToString::to_string).collect(),
            verbs: set(&VERBS),
            subresources: self
                .subresources
                .iter()
                .map(|(name, verbs)| ((*name).to_owned(), set(verbs)))
                .collect_map(),
        })
    }
}

/// Returns the built-in kinds, without Podium's own, which other servers do not have.
pub fn kinds() -> Vec<Kind> {
    ALL.iter().map(Builtin::kind).collect()
}

/// Returns the resources of the built-in kinds, without Podium's own; the console always watches them.
pub fn resources() -> Vec<ResourceKey> {
    ALL.iter().map(|known| (known.resource)()).collect()
}

/// Returns the resources of the built-in kinds, including Podium's own.
pub fn all_resources() -> Vec<ResourceKey> {
    ALL.iter().chain(&PODIUM_KINDS).map(|known| (known.resource)()).collect()
}

/// Returns the function that reads a list of this resource as the console's own type; `None` for other resources.
pub(crate) fn reader(resource: &ResourceKey) -> Option<ReadList> {
    let known = ALL.iter().chain(&PODIUM_KINDS).find(|known| (known.resource)() == *resource)?;
    Some(known.read)
}

/// Reports whether the resource is a built-in one or one of Podium's own.
pub fn contains(resource: &ResourceKey) -> bool {
    ALL.iter().chain(&PODIUM_KINDS).any(|known| (known.resource)() == *resource)
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
    let resource = ResourceKey::of::<K>();
    let known = ALL.iter().chain(&PODIUM_KINDS).find(|known| (known.resource)() == resource);
    known.expect("the table above has the type").kind()
}
