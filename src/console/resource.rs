//! What the console calls a kind and an object: names to address them by, never their content.
//!
//! Kinds are open: they come from the server's discovery, so that a custom resource is as good as a Pod.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client, Resource};

use super::text::clean;

/// The uid of an object; what every selection and mark is held by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(pub Arc<str>);

impl Uid {
    /// The uid as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names one of the clusters that are looked at, for as long as the console runs: never written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(u16);

impl ClusterId {
    /// The one that the console is on.
    pub const HOME: Self = Self(0);

    /// The cluster that was joined as the one of this number, counted from one.
    pub const fn joined(number: u16) -> Self {
        Self(number)
    }
}

/// What discovery, paths and stores call a resource: client-go's GroupVersionResource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Version, such as `v1`.
    pub version: Cow<'static, str>,
    /// Plural name in paths.
    pub plural: Cow<'static, str>,
}

impl ResourceKey {
    /// Of a type of the API.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self { group: K::group(&()), version: K::version(&()), plural: K::plural(&()) }
    }
}

/// What discovery tells of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KindFacts {
    /// Group, version and plural name.
    pub resource: ResourceKey,
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Singular name.
    pub singular: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Short names of the server.
    pub short_names: Vec<String>,
    /// What can be done with its objects: `get`, `list`, `patch` …
    pub verbs: BTreeSet<String>,
    /// Its subresources (`scale`, `log` …), each with its verbs.
    pub subresources: BTreeMap<String, BTreeSet<String>>,
}

/// One resource of the server. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind(Arc<KindFacts>);

impl Kind {
    /// A kind from its facts.
    pub fn new(facts: KindFacts) -> Self {
        Self(Arc::new(facts))
    }

    /// What `kube` needs to build paths.
    pub(crate) fn api_resource(&self) -> ApiResource {
        let api_version = self.api_version();
        ApiResource {
            group: self.resource.group.to_string(),
            version: self.resource.version.to_string(),
            api_version,
            kind: self.kind.clone(),
            plural: self.resource.plural.to_string(),
        }
    }

    /// The kind in the plural, as a heading: `ReplicaSets`, `NetworkPolicies`.
    pub(crate) fn heading(&self) -> String {
        let kind = &self.kind;
        match () {
            () if kind.to_lowercase() == self.resource.plural || kind.ends_with("ics") => kind.clone(),
            () if kind.ends_with('s') => format!("{kind}es"),
            () if kind.ends_with("cy") || kind.ends_with("ry") || kind.ends_with("ty") => {
                format!("{}ies", &kind[..kind.len() - 1])
            }
            () => format!("{kind}s"),
        }
    }

    /// `group/version`, or `version` for the core group.
    pub(crate) fn api_version(&self) -> String {
        let ResourceKey { group, version, .. } = &self.resource;
        if group.is_empty() { version.to_string() } else { format!("{group}/{version}") }
    }

    /// How kubectl names it on a command line: `pod`, `deployment`, `widget.example.com`.
    pub(crate) fn kubectl_name(&self) -> String {
        let group = &self.resource.group;
        if group.is_empty() || group.ends_with(".k8s.io") || !group.contains('.') {
            self.singular.clone()
        } else {
            format!("{}.{group}", self.singular)
        }
    }

    /// Whether it is the resource of this type.
    pub(crate) fn is<K: Resource<DynamicType = ()>>(&self) -> bool {
        self.resource == ResourceKey::of::<K>()
    }

    /// Whether the server has this verb for its objects.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(verb)
    }

    /// Whether the server has this subresource of its objects, with this verb.
    pub(crate) fn has_subresource(&self, name: &str, verb: &str) -> bool {
        self.subresources.get(name).is_some_and(|verbs| verbs.contains(verb))
    }

    /// A handle on the objects of one namespace, or on the cluster-wide ones.
    pub(crate) fn api(&self, client: Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) if self.namespaced => {
                Api::namespaced_with(client, namespace, &self.api_resource())
            }
            _ => Api::all_with(client, &self.api_resource()),
        }
    }
}

impl std::ops::Deref for Kind {
    type Target = KindFacts;
    fn deref(&self) -> &KindFacts {
        &self.0
    }
}

/// One object by name. The uid, where known, tells a new object of the same name from the old one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, for namespaced kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid, when the object has been seen.
    pub uid: Option<Uid>,
}

impl ObjectRef {
    /// A reference to an object of this kind.
    pub fn of<K: Resource>(kind: Kind, object: &K) -> Self {
        Self::named(kind, object.meta())
    }

    /// A reference to the object of this kind that has this metadata.
    pub(crate) fn named(kind: Kind, meta: &ObjectMeta) -> Self {
        Self {
            kind,
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.as_deref().map(Uid::from),
        }
    }

    /// `Deployment default/web`, as toasts and the journal say it.
    pub(crate) fn describe(&self) -> String {
        let text = match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        };
        clean(&text).into_owned()
    }

    /// ` -n NAMESPACE` for a kubectl command line, or nothing.
    pub(crate) fn kubectl_namespace(&self) -> String {
        self.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default()
    }

    /// A handle on the objects around it.
    pub(crate) fn api(&self, client: Client) -> Api<DynamicObject> {
        self.kind.api(client, self.namespace.as_deref())
    }
}
