//! Identifiers of kinds and objects, without their content.
//!
//! Kinds are open: they come from discovery, so that custom resources work as well as pods.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client, Resource};

use base::sort::CollectMap;
use console_toolkit::text::clean;
use object::names::path_segment;
use object::{Subresource, TypedKind};

/// The uid of an object; the key of every selection and mark.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(pub Arc<str>);

impl Uid {
    /// Returns the uid as text.
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

/// Identifies a shown cluster while the console runs: never saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(u16);

impl ClusterId {
    /// The console's own cluster, which is in front between two messages.
    pub const HOME: Self = Self(0);

    /// Returns the id of the cluster that was joined under this number, counted from one.
    pub const fn joined(number: u16) -> Self {
        Self(number)
    }
}

/// The name of a resource in discovery, paths and stores: client-go's GroupVersionResource.
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
    /// Returns the key of an API type.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self { group: K::group(&()), version: K::version(&()), plural: K::plural(&()) }
    }
}

/// The facts from discovery about a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KindFacts {
    /// Group, version and plural name.
    pub resource: ResourceKey,
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Singular name.
    pub singular: String,
    /// Its objects are namespaced.
    pub namespaced: bool,
    /// Short names of the server.
    pub short_names: Vec<String>,
    /// The verbs of its objects: `get`, `list`, `patch` …
    pub verbs: BTreeSet<String>,
    /// Its subresources (`scale`, `log` …), each with its verbs.
    pub subresources: BTreeMap<String, BTreeSet<String>>,
}

/// The verbs of every kind that is known before discovery answers.
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// Returns the verbs of a subresource; `None` if the console does not use it.
fn verbs(subresource: Subresource) -> Option<&'static [&'static str]> {
    let verbs: &[&str] = match subresource {
        Subresource::Log => &["get"],
        Subresource::Exec | Subresource::Attach | Subresource::PortForward => &["create", "get"],
        Subresource::Eviction => &["create"],
        Subresource::EphemeralContainers | Subresource::Scale => &["get", "patch", "update"],
        _ => return None,
    };
    Some(verbs)
}

/// One resource of the server. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind(Arc<KindFacts>);

impl Kind {
    /// Creates a kind from its facts.
    pub fn new(facts: KindFacts) -> Self {
        Self(Arc::new(facts))
    }

    /// Returns the kind of a type, as known before discovery answers; only Podium serves its own kinds.
    pub fn of_type<K: TypedKind>() -> Self {
        Self::built_in(K::kind(), K::version())
    }

    /// Returns a kind in a version, with the subresources that the console uses.
    pub(crate) fn built_in(kind: object::Kind, version: &'static str) -> Self {
        let info = kind.info();
        let set = |verbs: &[&str]| verbs.iter().map(ToString::to_string).collect();
        let subresources = info.subresources.iter();
        let subresources = subresources.filter_map(|one| Some((one.path().to_owned(), set(verbs(*one)?))));
        Self::new(KindFacts {
            resource: ResourceKey {
                group: info.group.into(),
                version: version.into(),
                plural: info.plural.into(),
            },
            kind: info.name.to_owned(),
            singular: info.singular.to_owned(),
            namespaced: info.namespaced(),
            short_names: info.short_names.iter().map(ToString::to_string).collect(),
            verbs: set(&VERBS),
            subresources: subresources.collect_map(),
        })
    }

    /// Returns the description that `kube` needs to build paths.
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

    /// Returns the plural of the kind as a heading: `ReplicaSets`, `NetworkPolicies`. Podium's snapshots and restores
    /// are `Snapshots` and `Restores`, as their commands are called.
    pub fn heading(&self) -> String {
        let is_own = self.resource.group == extension::GROUP;
        let kind = self.kind.strip_prefix("Cluster").filter(|_| is_own).unwrap_or(&self.kind);
        match () {
            () if kind.to_lowercase() == self.resource.plural || kind.ends_with("ics") => kind.to_owned(),
            () if kind.ends_with('s') => format!("{kind}es"),
            () if kind.ends_with("cy") || kind.ends_with("ry") || kind.ends_with("ty") => {
                format!("{}ies", &kind[..kind.len() - 1])
            }
            () => format!("{kind}s"),
        }
    }

    /// Returns `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        let ResourceKey { group, version, .. } = &self.resource;
        if group.is_empty() { version.to_string() } else { format!("{group}/{version}") }
    }

    /// Returns kubectl's name for the kind on a command line: `pod`, `deployment`, `widget.example.com`.
    pub fn kubectl_name(&self) -> String {
        let group = &self.resource.group;
        if group.is_empty() || group.ends_with(".k8s.io") || !group.contains('.') {
            self.singular.clone()
        } else {
            format!("{}.{group}", self.singular)
        }
    }

    /// Returns whether it is the kind of this type.
    pub fn is<K: Resource<DynamicType = ()>>(&self) -> bool {
        self.resource == ResourceKey::of::<K>()
    }

    /// Reports whether the server has this verb for objects of the kind.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(verb)
    }

    /// Reports whether objects of the kind have this subresource, with this verb.
    pub fn has_subresource(&self, name: &str, verb: &str) -> bool {
        self.subresources.get(name).is_some_and(|verbs| verbs.contains(verb))
    }

    /// Returns a client for the objects of one namespace, or for cluster-wide ones.
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

/// One object by name. The uid, if known, distinguishes a new object of the same name from the old one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// The kind of the object.
    pub kind: Kind,
    /// The namespace, for namespaced kinds.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The uid, if the object has been seen.
    pub uid: Option<Uid>,
}

impl ObjectRef {
    /// Creates a reference to an object of this kind.
    pub fn of<K: Resource>(kind: Kind, object: &K) -> Self {
        Self::named(kind, object.meta())
    }

    /// Creates a reference to the object of this kind that has this metadata.
    pub fn named(kind: Kind, meta: &ObjectMeta) -> Self {
        Self {
            kind,
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.as_deref().map(Uid::from),
        }
    }

    /// Returns `Deployment default/web`, for toasts and the journal.
    pub fn describe(&self) -> String {
        let text = match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        };
        clean(&text).into_owned()
    }

    /// Returns `deployment/web -n default`, for a kubectl command line.
    pub fn kubectl_object(&self) -> String {
        format!("{}/{}{}", self.kind.kubectl_name(), self.name, self.kubectl_namespace())
    }

    /// Returns ` -n NAMESPACE` for a kubectl command line, or nothing.
    pub fn kubectl_namespace(&self) -> String {
        self.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default()
    }

    /// Returns the name as a client's methods take it: `kube` puts names into paths as they are.
    pub fn path_name(&self) -> Cow<'_, str> {
        path_segment(&self.name)
    }

    /// Returns a client for objects of the same kind in the same namespace.
    pub fn api(&self, client: Client) -> Api<DynamicObject> {
        self.kind.api(client, self.namespace.as_deref())
    }
}
