//! The resources that the console's own views are made of, as every Kubernetes has them: what is known of them
//! before discovery answers, and where it cannot.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

use super::resource::{Kind, KindFacts, ResourceKey};
use super::store::{Change, Delta, Object};
use object::fault::Fault;
use object::node_fence::NodeFence;

/// Verbs of every resource here.
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// A resource before discovery.
struct Builtin {
    resource: fn() -> ResourceKey,
    kind: fn() -> String,
    namespaced: bool,
    short_names: &'static [&'static str],
    subresources: &'static [(&'static str, &'static [&'static str])],
    /// Reads a list of its objects.
    read: ReadList,
}

/// Reads the text of a list as all that is there.
pub(crate) type ReadList = fn(&str) -> serde_json::Result<Delta>;

fn read<K>(text: &str) -> serde_json::Result<Delta>
where
    K: Resource<DynamicType = ()> + Object + DeserializeOwned,
{
    #[derive(Deserialize)]
    struct List<K> {
        items: Vec<K>,
    }
    let list: List<K> = serde_json::from_str(text)?;
    let slim = |mut object: K| {
        object.meta_mut().managed_fields = None;
        Arc::new(object)
    };
    Ok(Delta::of(vec![Change::Reset(list.items.into_iter().map(slim).collect())]))
}

const SCALE: (&str, &[&str]) = ("scale", &["get", "patch", "update"]);

const fn builtin<K: Resource<DynamicType = ()> + Object + DeserializeOwned>(
    namespaced: bool,
    short_names: &'static [&'static str],
    subresources: &'static [(&'static str, &'static [&'static str])],
) -> Builtin {
    Builtin {
        resource: ResourceKey::of::<K>,
        kind: || K::kind(&()).into_owned(),
        namespaced,
        short_names,
        subresources,
        read: read::<K>,
    }
}

/// All of them, in the order they are asked for.
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

/// Kinds of ours that the console has views of: where the server has them, it keeps a live copy of their objects, too.
const OURS: [Builtin; 2] = [builtin::<Fault>(false, &[], &[]), builtin::<NodeFence>(false, &[], &[])];

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
                .collect(),
        })
    }
}

/// All of them as kinds, but for those of ours, which another server does not have.
pub fn kinds() -> Vec<Kind> {
    ALL.iter().map(Builtin::kind).collect()
}

/// Their names; the console keeps a live copy of their objects all the time.
pub fn resources() -> Vec<ResourceKey> {
    ALL.iter().map(|known| (known.resource)()).collect()
}

/// Their names with those of ours: all that the console's own views are made of.
pub(crate) fn all_resources() -> Vec<ResourceKey> {
    ALL.iter().chain(&OURS).map(|known| (known.resource)()).collect()
}

/// How a list of its objects is read as the type that the console's own views of it know; none of other resources.
pub(crate) fn reader(resource: &ResourceKey) -> Option<ReadList> {
    let known = ALL.iter().chain(&OURS).find(|known| (known.resource)() == *resource)?;
    Some(known.read)
}

/// Whether it is one of them, or of ours.
pub(crate) fn contains(resource: &ResourceKey) -> bool {
    ALL.iter().chain(&OURS).any(|known| (known.resource)() == *resource)
}

/// Whether it is a kind of ours, which other servers do not have.
pub(crate) fn is_ours(resource: &ResourceKey) -> bool {
    OURS.iter().any(|known| (known.resource)() == *resource)
}

/// The kind of this type.
///
/// # Panics
/// Where the console has no such view: a mistake in it, which its first use shows.
pub fn kind<K: Resource<DynamicType = ()>>() -> Kind {
    let resource = ResourceKey::of::<K>();
    let known = ALL.iter().chain(&OURS).find(|known| (known.resource)() == resource);
    known.expect("only types of the table above are asked for").kind()
}
