//! The console's special knowledge of kinds, beyond the server's Table: one [`KindView`] per kind, none for most.
//!
//! A kind without a view is listed by the server's Table and has the operations that discovery offers. A kind with rows
//! of its own is also in `builtin_kinds.rs`, has a store, and is watched from the start.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;

use super::resource::{Kind, ResourceKey, Uid};
use super::rows::column_cells::headings;
use super::rows::{Column, Row, controller, event, fault, network, node, pod, workload};
use super::store::{Object, Stores};
use super::workloads;
use console_toolkit::command::KeyContext;
use extension::fault::Fault;
use extension::node_fence::NodeFence;

/// Columns and rows with more information than the server's Table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) columns: fn() -> Vec<Column>,
    /// Builds the row of a stored object.
    pub(crate) row: fn(&Stores, &Uid) -> Option<Row>,
}

/// The pods that belong to an object of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// The object is a pod.
    Itself,
    /// Pods that it controls, directly or through its ReplicaSets.
    Owned,
    /// Pods that its selector matches.
    Selected,
    /// Pods bound to it.
    OnNode,
    /// Pods in it.
    InNamespace,
    /// No pods.
    None,
}

/// The operations on a kind's pod template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// There is no template, or it is immutable.
    None,
    /// Its images can be changed; existing pods are not replaced.
    Images,
    /// Its images can be changed, and a change rolls out to the pods: `kubectl rollout restart`.
    Rolls,
}

/// The special knowledge of one kind.
#[derive(Clone, Copy, Debug)]
pub struct KindView {
    /// API group.
    group: &'static str,
    /// Plural name in paths.
    plural: &'static str,
    /// Its own rows; `None` to use the server's Table.
    pub(crate) rows: Option<Rows>,
    /// Key contexts that only this kind has.
    pub(crate) key_contexts: &'static [KeyContext],
    /// The pods that belong to an object.
    pub pods: Pods,
    /// The operations on its pod template.
    pub template: Template,
    /// Rows need whole objects, not only their metadata.
    pub needs_whole_objects: bool,
}

macro_rules! rows {
    ($kind:ty, $columns:path, $row:expr) => {
        Some(Rows {
            columns: || headings($columns()),
            row: |stores, uid| {
                let row: fn(&$kind, &Stores) -> Option<Row> = $row;
                row(stores.of::<$kind>().get(uid)?, stores)
            },
        })
    };
}

const fn view(group: &'static str, plural: &'static str, rows: Option<Rows>) -> KindView {
    KindView {
        group,
        plural,
        rows,
        key_contexts: &[],
        pods: Pods::None,
        template: Template::None,
        needs_whole_objects: false,
    }
}

/// Returns a kind that controls pods through a template.
const fn workload(group: &'static str, plural: &'static str, template: Template) -> KindView {
    KindView { pods: Pods::Owned, template, ..view(group, plural, None) }
}

const VIEWS: &[KindView] = &[
    KindView {
        key_contexts: &[KeyContext::Pods, KeyContext::ConnectionEnds, KeyContext::Forwardable],
        pods: Pods::Itself,
        ..view(
            "",
            "pods",
            Some(Rows {
                columns: || headings(pod::columns()),
                row: |stores, uid| {
                    let pod = stores.pods().entry(uid)?;
                    Some(pod::row(pod, stores))
                },
            }),
        )
    },
    KindView {
        rows: rows!(Deployment, workload::deployment_columns, |object, _| workload::deployment_row(object)),
        key_contexts: &[KeyContext::Deployments],
        ..workload("apps", "deployments", Template::Rolls)
    },
    KindView {
        rows: rows!(ReplicaSet, workload::replica_set_columns, |object, _| workload::replica_set_row(object)),
        key_contexts: &[KeyContext::ReplicaSets],
        // The template of a ReplicaSet belongs to its Deployment.
        ..workload("apps", "replicasets", Template::Images)
    },
    workload("apps", "statefulsets", Template::Rolls),
    workload("apps", "daemonsets", Template::Rolls),
    workload("", "replicationcontrollers", Template::Images),
    // Their rows have times that the server's Table contains only as ages.
    KindView { needs_whole_objects: true, ..workload("batch", "jobs", Template::None) },
    KindView {
        key_contexts: &[KeyContext::CronJobs],
        needs_whole_objects: true,
        ..view("batch", "cronjobs", None)
    },
    KindView { key_contexts: &[KeyContext::Secrets, KeyContext::Referenced], ..view("", "secrets", None) },
    KindView { key_contexts: &[KeyContext::Referenced], ..view("", "configmaps", None) },
    KindView { key_contexts: &[KeyContext::Referenced], ..view("", "serviceaccounts", None) },
    KindView { key_contexts: &[KeyContext::Referenced], ..view("", "persistentvolumeclaims", None) },
    KindView {
        key_contexts: &[KeyContext::Nodes],
        pods: Pods::OnNode,
        ..view("", "nodes", rows!(Node, node::columns, node::row))
    },
    KindView {
        key_contexts: &[KeyContext::Namespaces],
        pods: Pods::InNamespace,
        ..view(
            "",
            "namespaces",
            rows!(Namespace, network::namespace_columns, |object, _| network::namespace_row(object)),
        )
    },
    KindView {
        key_contexts: &[KeyContext::Events],
        ..view(
            "",
            "events",
            Some(Rows {
                columns: || headings(event::columns()),
                row: |stores, uid| Some(event::row(stores.events().entry(uid)?)),
            }),
        )
    },
    KindView {
        pods: Pods::Selected,
        key_contexts: &[KeyContext::Services, KeyContext::ConnectionEnds, KeyContext::Forwardable],
        ..view(
            "",
            "services",
            rows!(Service, network::service_columns, |object, _| network::service_row(object)),
        )
    },
    KindView {
        pods: Pods::Selected,
        ..view(
            "policy",
            "poddisruptionbudgets",
            rows!(PodDisruptionBudget, network::budget_columns, |object, _| network::budget_row(object)),
        )
    },
    KindView {
        key_contexts: &[KeyContext::Faults],
        ..view(
            "podium.dev",
            "faults",
            rows!(Fault, fault::fault_columns, |object, _| fault::fault_row(object)),
        )
    },
    KindView { key_contexts: &[KeyContext::Snapshots], ..view("podium.dev", "clustersnapshots", None) },
    KindView {
        key_contexts: &[KeyContext::Controllers],
        needs_whole_objects: true,
        ..view(
            controller::GROUP,
            controller::PLURAL,
            Some(Rows { columns: || headings(controller::columns()), row: controller::row }),
        )
    },
    KindView {
        key_contexts: &[KeyContext::Fences],
        ..view(
            "podium.dev",
            "nodefences",
            rows!(NodeFence, fault::fence_columns, |object, _| fault::fence_row(object)),
        )
    },
];

/// The view of all other kinds.
const ANY: KindView = view("", "", None);

/// Returns the view of a kind; that of an unknown kind adds nothing to the server's Table.
pub fn of(resource: &ResourceKey) -> &'static KindView {
    let is = |view: &&KindView| view.plural == resource.plural && view.group == resource.group;
    VIEWS.iter().find(is).unwrap_or(&ANY)
}

/// Returns the key contexts of a kind, the most specific first.
pub fn key_contexts(kind: &Kind) -> Vec<KeyContext> {
    let view = of(&kind.resource);
    let mut key_contexts = view.key_contexts.to_vec();
    if kind.subresources.contains_key("scale") || view.pods == Pods::Owned {
        key_contexts.push(KeyContext::Workloads);
    }
    if view.pods == Pods::Owned {
        key_contexts.push(KeyContext::Forwardable);
    }
    key_contexts
}

/// Returns the columns of a resource: its own, else those of the server's Table.
pub fn columns(stores: &Stores, resource: &ResourceKey) -> Vec<Column> {
    match of(resource).rows {
        _ if workloads::is(resource) => headings(super::rows::workloads::columns()),
        Some(rows) => (rows.columns)(),
        None => stores
            .get(resource)
            .map(|store| super::rows::server_table::columns(store.columns()))
            .unwrap_or_default(),
    }
}

/// Returns the row of an object, if it (still) exists.
pub fn row(stores: &Stores, resource: &ResourceKey, uid: &Uid) -> Option<Row> {
    if workloads::is(resource) {
        return super::rows::workloads::row(stores, uid);
    }
    if let Some(rows) = of(resource).rows {
        return (rows.row)(stores, uid);
    }
    let store = stores.get(resource)?;
    super::rows::server_table::row(store.columns(), store.row(uid)?)
}

/// Returns the row of an object of a Rust type, if it (still) exists.
pub fn row_of<K: Object + Resource<DynamicType = ()>>(stores: &Stores, uid: &Uid) -> Option<Row> {
    row(stores, &ResourceKey::of::<K>(), uid)
}

/// Returns the uids of a resource's objects; for the table of all workloads, only of those that are rows.
pub fn uids(stores: &Stores, resource: &ResourceKey) -> Vec<Uid> {
    if workloads::is(resource) {
        return super::rows::workloads::uids(stores);
    }
    stores.get(resource).into_iter().flat_map(|store| store.iter().map(|(uid, _)| uid.clone())).collect()
}
