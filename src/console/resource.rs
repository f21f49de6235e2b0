//! What the console calls a kind and an object: names to address them by, never their content.
//!
//! Kinds are open: the eight the console watches itself are constants here, all others come from the
//! server's discovery, so that a custom resource is as good as a Pod.

use std::fmt;
use std::sync::Arc;

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

/// The kinds the console keeps a live typed store of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Watched {
    /// v1 Pod.
    Pods,
    /// apps/v1 Deployment.
    Deployments,
    /// apps/v1 ReplicaSet.
    ReplicaSets,
    /// v1 Node.
    Nodes,
    /// v1 Event.
    Events,
    /// v1 Service.
    Services,
    /// v1 Namespace.
    Namespaces,
    /// policy/v1 PodDisruptionBudget.
    Budgets,
}

impl Watched {
    /// All of them, in the order they are asked for.
    pub const ALL: [Self; 8] = [
        Self::Namespaces,
        Self::Nodes,
        Self::Pods,
        Self::Deployments,
        Self::ReplicaSets,
        Self::Events,
        Self::Services,
        Self::Budgets,
    ];

    /// The kind it is.
    pub fn kind(self) -> Kind {
        let (group, kind, plural, singular, namespaced, short): (_, _, _, _, _, &[&str]) = match self {
            Self::Pods => ("", "Pod", "pods", "pod", true, &["po"]),
            Self::Deployments => ("apps", "Deployment", "deployments", "deployment", true, &["deploy", "dp"]),
            Self::ReplicaSets => ("apps", "ReplicaSet", "replicasets", "replicaset", true, &["rs"]),
            Self::Nodes => ("", "Node", "nodes", "node", false, &["no"]),
            Self::Events => ("", "Event", "events", "event", true, &["ev"]),
            Self::Services => ("", "Service", "services", "service", true, &["svc"]),
            Self::Namespaces => ("", "Namespace", "namespaces", "namespace", false, &["ns"]),
            Self::Budgets => (
                "policy",
                "PodDisruptionBudget",
                "poddisruptionbudgets",
                "poddisruptionbudget",
                true,
                &["pdb"],
            ),
        };
        Kind::new(KindFacts {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: singular.into(),
            namespaced,
            short_names: short.iter().map(ToString::to_string).collect(),
            scalable: matches!(self, Self::Deployments | Self::ReplicaSets),
            watched: Some(self),
        })
    }
}

/// The facts behind a [`Kind`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KindFacts {
    /// API group; empty for the core group.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Plural name in paths.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Short names of the server.
    pub short_names: Vec<String>,
    /// Whether the server has its `scale` subresource.
    pub scalable: bool,
    /// The typed store that holds it, when there is one.
    pub watched: Option<Watched>,
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
    pub fn api_resource(&self) -> ApiResource {
        let api_version = self.api_version();
        ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version,
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }

    /// The kind in the plural, as a heading: `ReplicaSets`, `NetworkPolicies`.
    pub fn heading(&self) -> String {
        let kind = &self.kind;
        match () {
            () if kind.to_lowercase() == self.plural => kind.clone(),
            () if kind.ends_with('s') => format!("{kind}es"),
            () if kind.ends_with("cy") || kind.ends_with("ry") || kind.ends_with("ty") => {
                format!("{}ies", &kind[..kind.len() - 1])
            }
            () => format!("{kind}s"),
        }
    }

    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// How kubectl names it on a command line: `pod`, `deployment`, `widget.example.com`.
    pub fn kubectl_name(&self) -> String {
        if self.watched.is_some()
            || self.group.is_empty()
            || self.group.ends_with(".k8s.io")
            || !self.group.contains('.')
        {
            self.singular.clone()
        } else {
            format!("{}.{}", self.singular, self.group)
        }
    }

    /// A handle on the objects of one namespace, or on the cluster-wide ones.
    pub fn api(&self, client: Client, namespace: Option<&str>) -> Api<DynamicObject> {
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
    /// A reference to a typed object held in a store.
    pub fn of<K: Resource<DynamicType = ()>>(watched: Watched, object: &K) -> Self {
        let meta = object.meta();
        Self {
            kind: watched.kind(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.as_deref().map(Uid::from),
        }
    }

    /// `Deployment default/web`, as toasts and the journal say it.
    pub fn describe(&self) -> String {
        let text = match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        };
        clean(&text).into_owned()
    }

    /// ` -n NAMESPACE` for a kubectl command line, or nothing.
    pub fn kubectl_namespace(&self) -> String {
        self.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default()
    }

    /// A handle on the objects around it.
    pub fn api(&self, client: Client) -> Api<DynamicObject> {
        self.kind.api(client, self.namespace.as_deref())
    }
}
