//! The console's copy of the cluster: one indexed store a resource, fed with changes.
//!
//! A store holds objects of any kind under the name that discovery has for the resource. Views that know a type
//! read it through [`Typed`]; what the server sends as a Table is kept as its rows.
//! Reads never wait and never touch the network. Invariant: every index names only uids that are in
//! `objects`, and counts are kept with each change, never by walking all objects on a draw.

mod change;
mod objects;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

pub use change::{Change, Delta, Object, Touched};
pub(crate) use objects::{Store, Typed, controller, controller_of, uid_of};

use super::health::Health;
use super::pod_status;
use super::resource::{ResourceKey, Uid};
use object::fault::Fault;
use object::node_fence::NodeFence;

/// What a node really uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// In thousandths of a CPU.
    pub cpu_millis: i64,
    /// In bytes.
    pub memory_bytes: i64,
}

/// What each pod really uses, by namespace and name, container by container.
pub type PodsUsed = HashMap<(String, String), BTreeMap<String, Used>>;

/// Every store, and the counts the overview shows.
#[derive(Debug, Default)]
pub struct Stores {
    by_resource: HashMap<ResourceKey, Store>,
    used: Option<HashMap<String, Used>>,
    used_by_pods: PodsUsed,
    by_node: HashMap<String, BTreeSet<Uid>>,
    health_counts: BTreeMap<Health, usize>,
    latest_revision: u64,
}

macro_rules! typed {
    ($( $(#[$about:meta])* $name:ident: $kind:ty; )*) => {
        $( $(#[$about])*
        pub fn $name(&self) -> Typed<'_, $kind> {
            self.of()
        } )*
    };
}

impl Stores {
    typed! {
        /// Pods of all namespaces watched.
        pods: Pod;
        /// Deployments.
        deployments: Deployment;
        /// Replica sets.
        replica_sets: ReplicaSet;
        /// Nodes.
        nodes: Node;
        /// Events.
        events: Event;
        /// Services.
        services: Service;
        /// Namespaces.
        namespaces: Namespace;
        /// Pod disruption budgets.
        budgets: PodDisruptionBudget;
        /// What is broken on purpose, where the server is ours.
        faults: Fault;
        /// Nodes that are fenced, where the server is ours.
        node_fences: NodeFence;
    }

    /// The objects of a type.
    pub(crate) fn of<K: Object + Resource<DynamicType = ()>>(&self) -> Typed<'_, K> {
        Typed::new(self.get(&ResourceKey::of::<K>()))
    }

    /// The objects of a resource, where it is watched.
    pub(crate) fn get(&self, resource: &ResourceKey) -> Option<&Store> {
        self.by_resource.get(resource)
    }

    /// An object of a resource that is watched.
    pub(crate) fn object(&self, resource: &ResourceKey, uid: &Uid) -> Option<&Arc<dyn Object>> {
        self.get(resource)?.get(uid)
    }

    /// Whether the first list of a resource has arrived.
    pub(crate) fn synced(&self, resource: &ResourceKey) -> bool {
        self.get(resource).is_some_and(Store::synced)
    }

    /// The stores of all resources that have arrived.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&ResourceKey, &Store)> {
        self.by_resource.iter()
    }

    /// Takes a batch in and says what it touched.
    pub(crate) fn apply(&mut self, delta: Delta) -> (ResourceKey, Touched) {
        let Delta { resource, columns, changes } = delta;
        let store = self.by_resource.entry(resource.clone()).or_default();
        if let Some(columns) = columns {
            store.set_columns(columns);
        }
        let (by_node, health_counts, latest) =
            (&mut self.by_node, &mut self.health_counts, &mut self.latest_revision);
        let counts = resource == ResourceKey::of::<Pod>();
        let revises = counts || resource == ResourceKey::of::<Event>();
        let touched = store.apply(changes, |before, after| {
            if counts {
                if let Some(pod) = before.and_then(as_pod) {
                    forget_pod(by_node, health_counts, pod);
                }
                if let Some(pod) = after.and_then(as_pod) {
                    count_pod(by_node, health_counts, pod);
                }
            }
            if let Some(object) = after.filter(|_| revises) {
                note_revision(latest, object.metadata());
            }
        });
        (resource, touched)
    }

    /// Lets go of what is not watched any more.
    pub(crate) fn forget(&mut self, resource: &ResourceKey) {
        self.by_resource.remove(resource);
    }

    /// Takes what the nodes use now; whether that is news.
    pub(crate) fn measure(&mut self, used: Option<HashMap<String, Used>>) -> bool {
        let news = self.used != used;
        self.used = used;
        news
    }

    /// Takes what the pods use now; whether that is news.
    pub(crate) fn measure_pods(&mut self, used: Option<PodsUsed>) -> bool {
        let used = used.unwrap_or_default();
        let news = self.used_by_pods != used;
        self.used_by_pods = used;
        news
    }

    /// What the containers of a pod use, where that was measured.
    pub(crate) fn used_by_pod(&self, namespace: &str, name: &str) -> Option<&BTreeMap<String, Used>> {
        self.used_by_pods.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Whether somebody measures what is used.
    pub(crate) fn measures(&self) -> bool {
        self.used.is_some()
    }

    /// What a node uses, where that was measured.
    pub(crate) fn used_by(&self, node: &str) -> Option<Used> {
        self.used.as_ref()?.get(node).copied()
    }

    /// The pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Pod> {
        let pods = self.pods();
        self.by_node.get(node).into_iter().flatten().filter_map(move |uid| pods.get(uid))
    }

    /// How many pods are bound to a node.
    pub(crate) fn pod_count_on(&self, node: &str) -> usize {
        self.by_node.get(node).map_or(0, BTreeSet::len)
    }

    /// How many pods have which health, over all namespaces.
    pub(crate) fn pod_health_counts(&self) -> &BTreeMap<Health, usize> {
        &self.health_counts
    }

    /// The highest resource version seen on a pod or an event, where the server's are numbers.
    pub(crate) fn latest_revision(&self) -> u64 {
        self.latest_revision
    }
}

fn count_pod(
    by_node: &mut HashMap<String, BTreeSet<Uid>>,
    health_counts: &mut BTreeMap<Health, usize>,
    pod: &Pod,
) {
    *health_counts.entry(pod_status::of(pod).health).or_default() += 1;
    if let (Some(uid), Some(node)) = (uid_of(pod), node_of(pod)) {
        by_node.entry(node.to_owned()).or_default().insert(uid);
    }
}

fn forget_pod(
    by_node: &mut HashMap<String, BTreeSet<Uid>>,
    health_counts: &mut BTreeMap<Health, usize>,
    pod: &Pod,
) {
    let health = pod_status::of(pod).health;
    if let Some(count) = health_counts.get_mut(&health) {
        *count = count.saturating_sub(1);
    }
    health_counts.retain(|_, count| *count > 0);
    if let (Some(uid), Some(node)) = (uid_of(pod), node_of(pod))
        && let Some(pods) = by_node.get_mut(node)
    {
        pods.remove(&uid);
    }
}

fn note_revision(latest: &mut u64, meta: &ObjectMeta) {
    if let Some(revision) = meta.resource_version.as_deref().and_then(|text| text.parse().ok()) {
        *latest = (*latest).max(revision);
    }
}

fn as_pod(object: &dyn Object) -> Option<&Pod> {
    (object as &dyn Any).downcast_ref()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}
