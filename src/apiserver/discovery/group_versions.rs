//! The resources of the API by group and version: those of the Kind table, and those that are served but
//! never stored.

use crate::{component_statuses, controllers, metrics, verdicts};
use api::served_kinds::{Kinds, ServedResource};
use base::sort::SliceOrder;
use kinds::ServedSchema;
use object::{Kind, ServedKind, Subresource};

/// One group and version with all its resources.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServedGroupVersion {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resources: Vec<Resource>,
}

impl ServedGroupVersion {
    pub(crate) fn is_core(&self) -> bool {
        self.group.is_empty()
    }

    /// Returns `apps/v1`; `v1` for the core group.
    pub(crate) fn group_version(&self) -> String {
        if self.is_core() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the path prefix, without the leading slash: `apis/apps/v1`.
    pub(crate) fn path(&self) -> String {
        if self.is_core() {
            format!("api/{}", self.version)
        } else {
            format!("apis/{}", self.group_version())
        }
    }
}

/// A resource with a path of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) parts: Vec<ResourcePart>,
    /// A deletion returns the last state of the object, and not a Status.
    pub(crate) returns_deleted: bool,
    /// The kind of its list.
    pub(crate) list_kind: String,
    /// The schema in the resource's CustomResourceDefinition; `None` for built-in kinds.
    pub(crate) schema: Option<ServedSchema>,
}

/// A subresource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResourcePart {
    pub(crate) name: &'static str,
    /// The group, version and kind of its requests and responses.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) verbs: &'static [&'static str],
}

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Verbs of a kind whose definition is being deleted.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];
/// As in Kubernetes, namespaces are deleted one by one.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const CHANGE: &[&str] = &["get", "patch", "update"];
const READ: &[&str] = &["get", "list"];
const WATCH: &[&str] = &["get", "list", "watch"];

/// Returns true if a deletion returns the last state of the object, as for these kinds in Kubernetes, and not a Status.
pub(crate) fn returns_deleted(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::PersistentVolume
            | Kind::PersistentVolumeClaim
            | Kind::Pod
            | Kind::PodTemplate
            | Kind::ResourceQuota
            | Kind::Service
            | Kind::ServiceAccount
            | Kind::DeviceClass
            | Kind::DeviceTaintRule
            | Kind::ResourceClaim
            | Kind::ResourceClaimTemplate
            | Kind::ResourceSlice
            | Kind::CSIDriver
            | Kind::CSINode
            | Kind::StorageClass
            | Kind::VolumeAttachment
            | Kind::VolumeAttributesClass
    )
}

/// Returns the verbs that discovery offers for a stored kind, unless its definition is being deleted.
pub(crate) fn verbs(kind: Kind) -> &'static [&'static str] {
    if kind == Kind::Namespace { NAMESPACE_VERBS } else { VERBS }
}

/// A resource that is served and never stored: group, version, plural, kind, true if namespaced, short names, verbs.
type VirtualResource = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    bool,
    &'static [&'static str],
    &'static [&'static str],
);

/// Actions, and reports on the cluster.
#[rustfmt::skip]
const VIRTUAL_RESOURCES: &[VirtualResource] = &[
    ("", "v1", "bindings", "Binding", true, &[], CREATE),
    ("", "v1", component_statuses::PLURAL, component_statuses::KIND, false, &["cs"], READ),
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", false, &[], CREATE),
    ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false, &[], CREATE),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", true, &[], CREATE),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false, &[], CREATE),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false, &[], CREATE),
    ("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false, &[], CREATE),
    (metrics::GROUP, metrics::VERSION, "nodes", "NodeMetrics", false, &[], READ),
    (metrics::GROUP, metrics::VERSION, "pods", "PodMetrics", true, &[], READ),
    (verdicts::GROUP, verdicts::VERSION, verdicts::PLURAL, verdicts::KIND, true, &["verdict"], READ),
    (verdicts::GROUP, verdicts::VERSION, controllers::PLURAL, controllers::KIND, false, &["xc"], WATCH),
];

/// The group that is listed last: its kinds are in other groups too, and clients resolve a short name to the
/// first group that has it.
const LAST_GROUP: &str = "extensions";

/// Returns all groups and versions: the core group first, then by group name, the newest version of a group
/// first.
pub(crate) fn served(kinds: &Kinds) -> Vec<ServedGroupVersion> {
    let stored = kinds.served().map(|resource| stored(kinds, resource));
    let mut all: Vec<ServedGroupVersion> = Vec::new();
    for resource in stored.chain(virtual_resources()) {
        match all.iter_mut().find(|s| s.group == resource.group && s.version == resource.version) {
            Some(served) => served.resources.push(resource),
            None => all.push(ServedGroupVersion {
                group: resource.group,
                version: resource.version,
                resources: vec![resource],
            }),
        }
    }
    for served in &mut all {
        served.resources.order_by_key(|r| r.plural);
    }
    let is_last = |served: &ServedGroupVersion| served.group == LAST_GROUP;
    all.order_by(|a, b| {
        is_last(a)
            .cmp(&is_last(b))
            .then_with(|| a.group.cmp(b.group))
            .then_with(|| age(b.version).cmp(&age(a.version)))
    });
    all
}

fn virtual_resources() -> impl Iterator<Item = Resource> {
    VIRTUAL_RESOURCES.iter().map(|&(group, version, plural, kind, namespaced, short_names, verbs)| {
        let step = || ResourcePart {
            name: controllers::STEP,
            group,
            version,
            kind: controllers::STEP_KIND,
            verbs: CREATE,
        };
        Resource {
            group,
            version,
            kind,
            plural,
            // As in the metrics server.
            singular: if group == metrics::GROUP { String::new() } else { kind.to_lowercase() },
            namespaced,
            short_names: short_names.iter().copied().map(Into::into).collect(),
            categories: Vec::new(),
            verbs,
            parts: (kind == controllers::KIND).then(step).into_iter().collect(),
            returns_deleted: false,
            list_kind: format!("{kind}List"),
            schema: None,
        }
    })
}

fn stored(kinds: &Kinds, resource: ServedResource) -> Resource {
    let ServedResource { served, singular, short_names, categories, subresources, is_terminating } = resource;
    let info = served.kind().info();
    Resource {
        group: served.group(),
        version: served.version(),
        kind: info.name,
        plural: info.plural,
        singular,
        namespaced: info.namespaced(),
        short_names,
        categories,
        verbs: if is_terminating { TERMINATING_VERBS } else { verbs(info.kind) },
        returns_deleted: returns_deleted(info.kind),
        parts: subresources.iter().map(|part| subresource(served, *part)).collect(),
        list_kind: kinds.list_kind(info.kind),
        schema: kinds.schema(served).cloned(),
    }
}

fn subresource(of: ServedKind, part: Subresource) -> ResourcePart {
    const STREAM: &[&str] = &["create", "get"];
    const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
    let (group, version, kind, verbs): (_, _, _, &'static [&'static str]) = match part {
        Subresource::Status
        | Subresource::EphemeralContainers
        | Subresource::Resize
        | Subresource::Approval => (of.group(), of.version(), of.kind().info().name, CHANGE),
        Subresource::Scale => ("autoscaling", "v1", "Scale", CHANGE),
        Subresource::Eviction => ("policy", "v1", "Eviction", CREATE),
        Subresource::Binding => ("", "v1", "Binding", CREATE),
        Subresource::Token => ("authentication.k8s.io", "v1", "TokenRequest", CREATE),
        Subresource::Log => (of.group(), of.version(), of.kind().info().name, &["get"]),
        Subresource::Finalize => (of.group(), of.version(), of.kind().info().name, &["update"]),
        Subresource::Exec => ("", "v1", "PodExecOptions", STREAM),
        Subresource::Attach => ("", "v1", "PodAttachOptions", STREAM),
        Subresource::PortForward => ("", "v1", "PodPortForwardOptions", STREAM),
        Subresource::Proxy if of.kind() == Kind::Pod => ("", "v1", "PodProxyOptions", PROXY),
        Subresource::Proxy if of.kind() == Kind::Node => ("", "v1", "NodeProxyOptions", PROXY),
        Subresource::Proxy => ("", "v1", "ServiceProxyOptions", PROXY),
    };
    ResourcePart { name: part.path(), group, version, kind, verbs }
}

/// Returns a sort key: stable before beta before alpha, higher numbers before lower ones.
pub(super) fn age(version: &str) -> (u8, u32, u32) {
    let digits =
        |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    let text = version.trim_start_matches('v');
    let major = digits(text);
    match (text.split_once("alpha"), text.split_once("beta")) {
        (Some((_, minor)), _) => (0, major, digits(minor)),
        (_, Some((_, minor))) => (1, major, digits(minor)),
        _ => (2, major, 0),
    }
}
