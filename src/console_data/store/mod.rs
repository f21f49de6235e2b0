//! The console's copy of the cluster: one indexed store per resource, fed with changes.
//!
//! A store holds objects of any kind under the name that discovery has for the resource. Views that know a type read it
//! through [`TypedStore`]; resources listed as the server's Table are stored as its rows. Reads never wait and never
//! use the network. Invariant: every index has only uids that are in `objects`, and counts are updated with each
//! change, never by iterating over all objects during a draw.

mod any_object;
mod change;
pub mod event;
mod heartbeat;
mod interner;
mod objects;
mod packed_object;
pub(crate) mod pod;
mod pod_references;
mod text;
mod usage;

use extension::fault::Fault;
use extension::node_fence::NodeFence;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;

pub use any_object::{Identity, Object};
pub use change::{Change, Delta, TouchedObjects};
pub(crate) use interner::Labels;
pub(crate) use objects::TypedStore;
pub use objects::{Store, StoredObject, controller_of, uid_of};
pub use packed_object::ObjectPacker;
pub(crate) use packed_object::{PackedKind, PackedObject};
pub(crate) use usage::ContainerUsages;
pub use usage::{PodUsages, ResourceUsage};

use super::resource::{ResourceKey, Uid};
use console_toolkit::health::Health;
use heartbeat::is_heartbeat;

/// The effect of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchResult {
    /// The resource of the batch.
    pub resource: ResourceKey,
    /// The affected objects.
    pub touched: TouchedObjects,
    /// The change is visible in tables, not only where a whole object is shown.
    pub shows: bool,
}

/// Every store, and the counts for the overview.
#[derive(Debug, Default)]
pub struct Stores {
    by_resource: HashMap<ResourceKey, Store>,
    used: Option<HashMap<String, ResourceUsage>>,
    used_by_pods: PodUsages,
    by_node: HashMap<String, BTreeSet<Uid>>,
    health_counts: BTreeMap<Health, usize>,
    latest_revision: u64,
}

macro_rules! typed {
    ($( $(#[$about:meta])* $name:ident: $kind:ty; )*) => {
        $( $(#[$about])*
        pub fn $name(&self) -> TypedStore<'_, $kind> {
            self.of()
        } )*
    };
}

impl Stores {
    typed! {
        /// Pods of all watched namespaces.
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
        /// Faults, if the server is Podium.
        faults: Fault;
        /// Fenced nodes, if the server is Podium.
        node_fences: NodeFence;
    }

    /// Returns the objects of a type.
    pub fn of<K: Object + Resource<DynamicType = ()>>(&self) -> TypedStore<'_, K> {
        TypedStore::new(self.get(&ResourceKey::of::<K>()))
    }

    /// Returns the store of a resource, if it is watched.
    pub fn get(&self, resource: &ResourceKey) -> Option<&Store> {
        self.by_resource.get(resource)
    }

    /// Returns an object of a watched resource.
    pub fn object(&self, resource: &ResourceKey, uid: &Uid) -> Option<&Arc<dyn Object>> {
        let store = self.get(resource)?;
        let object = store.get(uid)?;
        // The caller may read the whole object, which unpacks it.
        store.note(&**object);
        Some(object)
    }

    /// Reports whether the first list of a resource has arrived.
    pub fn synced(&self, resource: &ResourceKey) -> bool {
        self.get(resource).is_some_and(Store::synced)
    }

    /// Returns all stores; a resource has one from its first batch of changes on.
    pub fn all(&self) -> impl Iterator<Item = (&ResourceKey, &Store)> {
        self.by_resource.iter()
    }

    /// Applies a batch and returns its effect.
    pub fn apply(&mut self, delta: Delta) -> BatchResult {
        let Delta { resource, columns, changes } = delta;
        let store = self.by_resource.entry(resource.clone()).or_default();
        if let Some(columns) = columns {
            store.set_columns(columns);
        }
        let (by_node, health_counts, latest) =
            (&mut self.by_node, &mut self.health_counts, &mut self.latest_revision);
        let counts = resource == ResourceKey::of::<Pod>();
        let revises = counts || resource == ResourceKey::of::<Event>();
        let was_synced = store.synced();
        let (nodes, mut shows) = (resource == ResourceKey::of::<Node>(), false);
        let touched = store.apply(changes, |before, after| {
            let both = || before.and_then(as_node).zip(after.and_then(as_node));
            shows |= !nodes || !both().is_some_and(|(before, after)| is_heartbeat(before, after));
            if counts {
                if let Some(pod) = before.and_then(open::<Pod>) {
                    forget_pod(by_node, health_counts, pod);
                }
                if let Some(pod) = after.and_then(open::<Pod>) {
                    count_pod(by_node, health_counts, pod);
                }
            }
            if let Some(object) = after.filter(|_| revises) {
                let of_pod = open::<Pod>(object).map(|pod| pod.revision);
                let revision = of_pod.or_else(|| open::<Event>(object).map(|event| event.revision));
                *latest = (*latest).max(revision.unwrap_or(0));
            }
        });
        let shows = shows || touched == TouchedObjects::All || was_synced != store.synced();
        BatchResult { resource, touched, shows }
    }

    /// Packs objects again that were unpacked for reading, if there are many.
    pub fn tidy(&mut self) {
        self.by_resource.values_mut().for_each(Store::tidy);
    }

    /// Drops a resource that is no longer watched.
    pub fn forget(&mut self, resource: &ResourceKey) {
        self.by_resource.remove(resource);
    }

    /// Stores the usage of nodes; returns whether it changed.
    pub fn set_node_usage(&mut self, used: Option<HashMap<String, ResourceUsage>>) -> bool {
        let news = self.used != used;
        self.used = used;
        news
    }

    /// Stores the usage of pods; returns whether it changed.
    pub fn measure_pods(&mut self, used: Option<PodUsages>) -> bool {
        let used = used.unwrap_or_default();
        let news = self.used_by_pods != used;
        self.used_by_pods = used;
        news
    }

    /// Returns the usage of a pod's containers, if it was measured.
    pub fn used_by_pod(&self, namespace: &str, name: &str) -> Option<&ContainerUsages> {
        self.used_by_pods.of(namespace, name)
    }

    /// Reports whether metrics are available.
    pub fn measures(&self) -> bool {
        self.used.is_some()
    }

    /// Returns the usage of a node, if it was measured.
    pub(crate) fn used_by(&self, node: &str) -> Option<ResourceUsage> {
        self.used.as_ref()?.get(node).copied()
    }

    /// Returns the pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Pod> {
        let pods = self.pods();
        self.by_node.get(node).into_iter().flatten().filter_map(move |uid| pods.get(uid))
    }

    /// Returns the unpacked parts of the pods bound to a node.
    pub fn entries_on(&self, node: &str) -> impl Iterator<Item = StoredObject<'_, Pod>> {
        let pods = self.pods();
        self.by_node.get(node).into_iter().flatten().filter_map(move |uid| pods.entry(uid))
    }

    /// Returns the number of pods bound to a node.
    pub fn pod_count_on(&self, node: &str) -> usize {
        self.by_node.get(node).map_or(0, BTreeSet::len)
    }

    /// Returns the number of pods per health, over all namespaces.
    pub fn pod_health_counts(&self) -> &BTreeMap<Health, usize> {
        &self.health_counts
    }

    /// Returns the highest resource version of a pod or event; 0 if the server's resource versions are no numbers.
    pub fn latest_revision(&self) -> u64 {
        self.latest_revision
    }
}

fn count_pod(
    by_node: &mut HashMap<String, BTreeSet<Uid>>,
    health_counts: &mut BTreeMap<Health, usize>,
    pod: &PackedObject<Pod>,
) {
    *health_counts.entry(pod.summary.health).or_default() += 1;
    if let Some(node) = pod.summary.node.as_deref() {
        match by_node.get_mut(node) {
            Some(pods) => drop(pods.insert(pod.uid.clone())),
            None => drop(by_node.insert(node.to_owned(), BTreeSet::from([pod.uid.clone()]))),
        }
    }
}

fn forget_pod(
    by_node: &mut HashMap<String, BTreeSet<Uid>>,
    health_counts: &mut BTreeMap<Health, usize>,
    pod: &PackedObject<Pod>,
) {
    if let Some(count) = health_counts.get_mut(&pod.summary.health) {
        *count = count.saturating_sub(1);
    }
    health_counts.retain(|_, count| *count > 0);
    if let Some(pods) = pod.summary.node.as_deref().and_then(|node| by_node.get_mut(node)) {
        pods.remove(&pod.uid);
    }
}

fn as_node(object: &dyn Object) -> Option<&Node> {
    (object as &dyn Any).downcast_ref()
}

fn open<K: PackedKind>(object: &dyn Object) -> Option<&PackedObject<K>> {
    (object as &dyn Any).downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, phase: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "7",
                "labels": {"app": "web"}, "creationTimestamp": "2026-05-01T12:00:00Z",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-set",
                    "controller": true}]},
            "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "nginx:1.27",
                "env": [{"name": "A", "value": "b"}],
                "resources": {"requests": {"cpu": "500m", "memory": "1Mi"}, "limits": {"cpu": "1"}}}]},
            "status": {"phase": phase, "podIP": "10.0.0.7", "qosClass": "Burstable"}})
    }

    fn packed(objects: &[Value]) -> Vec<Arc<dyn Object>> {
        let mut keeper = ObjectPacker::default();
        let object = |value: &Value| Arc::new(serde_json::from_value::<Pod>(value.clone()).unwrap());
        objects.iter().map(|value| keeper.keep(object(value))).collect()
    }

    fn uids(names: &[&str]) -> Vec<Uid> {
        names.iter().map(|name| Uid::from(*name)).collect()
    }

    #[test]
    fn a_packed_pod_is_found_and_read_as_any_other_con_1() {
        let mut stores = Stores::default();
        let value = pod("web-1", "Running");
        stores.apply(Delta::from_packed(
            ResourceKey::of::<Pod>(),
            vec![Change::Reset(packed(&[value.clone(), pod("web-2", "Failed")]))],
        ));
        let whole: Pod = serde_json::from_value(value).unwrap();
        let pods = stores.pods();
        let uid = Uid::from("web-1");
        let open = pods.entry(&uid).unwrap().open();
        assert!(open.is_packed(), "the counts and the indexes unpack nothing");
        assert_eq!((open.namespace(), open.name(), open.revision), (Some("default"), "web-1", 7));
        assert_eq!(
            (open.summary.container_requests, open.summary.limits),
            ((500, 1 << 20), (Some(1000), None))
        );
        assert_eq!(open.summary.node.as_deref(), Some("node-1"));
        assert_eq!(open.controller.as_ref().map(|owner| owner.uid.as_str()), Some("web-set"));
        assert_eq!(pods.get(&uid), Some(&whole));
        assert_eq!(pods.by_name("default", "web-1"), Some(&whole));
        assert_eq!(pods.owned_by(&Uid::from("web-set")).count(), 2);
        assert_eq!(
            stores.object(&ResourceKey::of::<Pod>(), &uid).unwrap().to_json(),
            serde_json::to_value(&whole).unwrap()
        );
        assert_eq!(stores.entries_on("node-1").filter(|pod| !pod.summary.is_over).count(), 1);
        assert_eq!(stores.latest_revision(), 7);
    }

    #[test]
    fn a_released_pod_leaves_its_former_owner_con_1() {
        let mut stores = Stores::default();
        let mut apply = |change| stores.apply(Delta::from_packed(ResourceKey::of::<Pod>(), vec![change]));
        apply(Change::Reset(packed(&[pod("a", "Running"), pod("b", "Running")])));
        let mut released = pod("a", "Running");
        released["metadata"]["ownerReferences"] = json!([]);
        apply(Change::Applied(packed(&[released]).remove(0)));
        let owned: Vec<_> = stores.pods().owned_by(&Uid::from("web-set")).collect();
        assert_eq!(owned.iter().map(|pod| pod.metadata.name.as_deref()).collect::<Vec<_>>(), [Some("b")]);
    }

    #[test]
    fn the_end_of_a_list_touches_only_what_is_gone_con_1() {
        let mut stores = Stores::default();
        let phase = |name: &str| pod(name, "Running");
        stores.apply(Delta::from_packed(
            ResourceKey::of::<Pod>(),
            vec![Change::Reset(packed(&[phase("a"), phase("b"), phase("c")]))],
        ));
        let listed = packed(&[pod("b", "Failed"), phase("d")]);
        let BatchResult { touched, .. } =
            stores.apply(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Listed(listed.clone())]));
        assert_eq!(touched, TouchedObjects::Some(uids(&["b", "d"])));
        assert_eq!(stores.pods().len(), 4, "nothing is gone by a part of a list");
        let BatchResult { touched, .. } =
            stores.apply(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(listed.clone())]));
        let TouchedObjects::Some(mut gone) = touched else { panic!("all was touched") };
        gone.sort();
        assert_eq!(gone, uids(&["a", "c"]));
        let counts: Vec<_> =
            stores.pod_health_counts().iter().map(|(health, count)| (*health, *count)).collect();
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<usize>(), 2, "{counts:?}");
        assert_eq!(stores.pod_count_on("node-1"), 2);
        assert!(stores.pods().by_name("default", "a").is_none());
        // An object that changed after it was listed must be replaced to match the list.
        stores.apply(Delta::from_packed(
            ResourceKey::of::<Pod>(),
            vec![Change::Applied(packed(&[phase("b")]).remove(0))],
        ));
        let BatchResult { touched, .. } =
            stores.apply(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(listed)]));
        assert_eq!(touched, TouchedObjects::All);
        // An empty list deletes everything.
        let BatchResult { touched, .. } =
            stores.apply(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(Vec::new())]));
        assert_eq!((touched, stores.pods().len()), (TouchedObjects::All, 0));
    }

    #[test]
    fn a_list_is_known_to_be_whole_only_at_its_end_con_1() {
        let mut stores = Stores::default();
        let listed = packed(&[pod("a", "Running")]);
        stores.apply(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Listed(listed.clone())]));
        assert!(!stores.pods().synced() && stores.pods().len() == 1);
        let BatchResult { touched, .. } =
            stores.apply(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(listed)]));
        assert!(stores.pods().synced());
        assert_eq!(touched, TouchedObjects::Some(Vec::new()));
    }

    #[test]
    fn a_heartbeat_touches_a_node_and_causes_no_redraw_con_1() {
        let mut stores = Stores::default();
        let node = |revision: &str, beat: u32, status: &str| -> Arc<Node> {
            Arc::new(
                serde_json::from_value(
                    json!({"metadata": {"name": "n", "uid": "n", "resourceVersion": revision},
                    "status": {"conditions": [{"type": "Ready", "status": status,
                        "lastHeartbeatTime": format!("2026-05-01T12:00:{beat:02}Z")}]}}),
                )
                .unwrap(),
            )
        };
        let mut apply = |change| stores.apply(Delta::of::<Node>(vec![change]));
        assert!(apply(Change::Reset(vec![node("1", 0, "True")])).shows);
        let beat = apply(Change::Applied(node("2", 10, "True")));
        assert_eq!((beat.touched, beat.shows), (TouchedObjects::Some(uids(&["n"])), false));
        assert!(apply(Change::Applied(node("3", 20, "Unknown"))).shows);
        assert!(apply(Change::Deleted(node("3", 20, "Unknown"))).shows);
    }

    #[test]
    fn unpacked_objects_are_packed_again_con_1() {
        let mut stores = Stores::default();
        let all: Vec<Value> = (0..1100).map(|n| pod(&format!("p-{n}"), "Running")).collect();
        stores.apply(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(packed(&all))]));
        let unpacked = |stores: &Stores| stores.pods().entries().filter(|pod| !pod.is_packed()).count();
        assert_eq!(stores.pods().iter().take(100).count(), 100);
        stores.tidy();
        assert_eq!(unpacked(&stores), 100, "objects that were read since the last tidying stay unpacked");
        assert_eq!(stores.pods().iter().count(), 1100);
        assert_eq!(unpacked(&stores), 1100);
        stores.tidy();
        assert_eq!(unpacked(&stores), 0);
    }
}
