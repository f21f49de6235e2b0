//! The console's copy of the cluster: one indexed store a watched kind, fed with changes.
//!
//! Reads never wait and never touch the network. Invariant: every index names only uids that are in
//! `objects`, and counts are kept with each change, never by walking all objects on a draw.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;

use super::resource::{Uid, Watched};
use super::rows::pod_status::{self, Look};

/// A change of one kind, as a watcher saw it.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// The whole list; everything not in it is gone.
    Reset(Vec<Arc<K>>),
    /// Created or changed.
    Applied(Arc<K>),
    /// Deleted.
    Deleted(Arc<K>),
}

/// Which objects a change touched; `All` after a new list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Anything may differ.
    All,
    /// These differ, appeared or went.
    Some(Vec<Uid>),
}

/// All objects of one kind.
#[derive(Debug)]
pub struct Store<K> {
    objects: HashMap<Uid, Arc<K>>,
    names: HashMap<(String, String), Uid>,
    owned: HashMap<Uid, BTreeSet<Uid>>,
    revision: u64,
    synced: bool,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            objects: HashMap::new(),
            names: HashMap::new(),
            owned: HashMap::new(),
            revision: 0,
            synced: false,
        }
    }
}

impl<K: Resource<DynamicType = ()>> Store<K> {
    /// The object with this uid.
    pub fn get(&self, uid: &Uid) -> Option<&Arc<K>> {
        self.objects.get(uid)
    }

    /// The object of this name; the namespace is empty for cluster-wide kinds.
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        let uid = self.names.get(&(namespace.to_owned(), name.to_owned()))?;
        self.objects.get(uid)
    }

    /// Every object, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Uid, &Arc<K>)> {
        self.objects.iter()
    }

    /// The objects whose controller has this uid, by uid.
    pub fn owned_by(&self, owner: &Uid) -> impl Iterator<Item = &Arc<K>> {
        self.owned.get(owner).into_iter().flatten().filter_map(|uid| self.objects.get(uid))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether the first list has arrived; before that an empty store means nothing.
    pub fn synced(&self) -> bool {
        self.synced
    }

    /// Grows with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    fn put(&mut self, object: Arc<K>) -> Option<(Uid, Option<Arc<K>>)> {
        let uid = uid_of(&*object)?;
        let meta = object.meta();
        let key = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        if let Some(owner) = controller_of(&*object) {
            self.owned.entry(owner).or_default().insert(uid.clone());
        }
        self.names.insert(key, uid.clone());
        let before = self.objects.insert(uid.clone(), object);
        Some((uid, before))
    }

    fn take(&mut self, object: &K) -> Option<(Uid, Option<Arc<K>>)> {
        let uid = uid_of(object)?;
        let before = self.objects.remove(&uid);
        if let Some(owner) = controller_of(object)
            && let Some(owned) = self.owned.get_mut(&owner)
        {
            owned.remove(&uid);
            if owned.is_empty() {
                self.owned.remove(&owner);
            }
        }
        let meta = object.meta();
        let key = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        // A new object of the same name may have come first; its entry stays.
        if self.names.get(&key) == Some(&uid) {
            self.names.remove(&key);
        }
        Some((uid, before))
    }

    /// Applies a batch; `seen` hears of every object that went and came, for counts kept elsewhere.
    fn apply(&mut self, batch: Vec<Change<K>>, mut seen: impl FnMut(Option<&K>, Option<&K>)) -> Touched {
        let mut touched = Vec::new();
        let mut all = false;
        for change in batch {
            self.revision += 1;
            match change {
                Change::Reset(objects) => {
                    for object in self.objects.values() {
                        seen(Some(object), None);
                    }
                    self.objects.clear();
                    self.names.clear();
                    self.owned.clear();
                    for object in objects {
                        seen(None, Some(&object));
                        self.put(object);
                    }
                    self.synced = true;
                    all = true;
                }
                Change::Applied(object) => {
                    if let Some((uid, before)) = self.put(object.clone()) {
                        seen(before.as_deref(), Some(&object));
                        touched.push(uid);
                    }
                }
                Change::Deleted(object) => {
                    if let Some((uid, before)) = self.take(&object) {
                        seen(before.as_deref(), None);
                        touched.push(uid);
                    }
                }
            }
        }
        if all { Touched::All } else { Touched::Some(touched) }
    }
}

/// The uid of a typed object.
pub fn uid_of<K: Resource<DynamicType = ()>>(object: &K) -> Option<Uid> {
    object.meta().uid.as_deref().map(Uid::from)
}

/// The uid of the owner with `controller: true`.
pub fn controller_of<K: Resource<DynamicType = ()>>(object: &K) -> Option<Uid> {
    let owners = object.meta().owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| Uid::from(owner.uid.as_str()))
}

/// A batch of changes of one kind.
#[derive(Clone, Debug)]
pub enum Delta {
    /// Pods.
    Pods(Vec<Change<Pod>>),
    /// Deployments.
    Deployments(Vec<Change<Deployment>>),
    /// Replica sets.
    ReplicaSets(Vec<Change<ReplicaSet>>),
    /// Nodes.
    Nodes(Vec<Change<Node>>),
    /// Events.
    Events(Vec<Change<Event>>),
    /// Services.
    Services(Vec<Change<Service>>),
    /// Namespaces.
    Namespaces(Vec<Change<Namespace>>),
    /// Pod disruption budgets.
    Budgets(Vec<Change<PodDisruptionBudget>>),
}

/// What a node really uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// In thousandths of a CPU.
    pub cpu_millis: i64,
    /// In bytes.
    pub memory_bytes: i64,
}

/// Every store, and the counts the overview shows.
#[derive(Debug, Default)]
pub struct Stores {
    /// Pods of all namespaces watched.
    pub pods: Store<Pod>,
    /// Deployments.
    pub deployments: Store<Deployment>,
    /// Replica sets.
    pub replica_sets: Store<ReplicaSet>,
    /// Nodes.
    pub nodes: Store<Node>,
    /// Events.
    pub events: Store<Event>,
    /// Services.
    pub services: Store<Service>,
    /// Namespaces.
    pub namespaces: Store<Namespace>,
    /// Pod disruption budgets.
    pub budgets: Store<PodDisruptionBudget>,
    used: Option<HashMap<String, Used>>,
    by_node: HashMap<String, BTreeSet<Uid>>,
    looks: BTreeMap<Look, usize>,
    latest_revision: u64,
}

impl Stores {
    /// Takes a batch in and says what it touched.
    pub fn apply(&mut self, delta: Delta) -> (Watched, Touched) {
        match delta {
            Delta::Pods(batch) => {
                let (by_node, looks) = (&mut self.by_node, &mut self.looks);
                let latest = &mut self.latest_revision;
                let touched = self.pods.apply(batch, |before, after| {
                    if let Some(pod) = before {
                        forget_pod(by_node, looks, pod);
                    }
                    if let Some(pod) = after {
                        count_pod(by_node, looks, pod);
                        note_revision(latest, pod);
                    }
                });
                (Watched::Pods, touched)
            }
            Delta::Deployments(batch) => (Watched::Deployments, self.deployments.apply(batch, |_, _| ())),
            Delta::ReplicaSets(batch) => (Watched::ReplicaSets, self.replica_sets.apply(batch, |_, _| ())),
            Delta::Nodes(batch) => (Watched::Nodes, self.nodes.apply(batch, |_, _| ())),
            Delta::Events(batch) => {
                let latest = &mut self.latest_revision;
                let touched = self.events.apply(batch, |_, after| {
                    if let Some(event) = after {
                        note_revision(latest, event);
                    }
                });
                (Watched::Events, touched)
            }
            Delta::Services(batch) => (Watched::Services, self.services.apply(batch, |_, _| ())),
            Delta::Namespaces(batch) => (Watched::Namespaces, self.namespaces.apply(batch, |_, _| ())),
            Delta::Budgets(batch) => (Watched::Budgets, self.budgets.apply(batch, |_, _| ())),
        }
    }

    /// Takes what the nodes use now; whether that is news.
    pub fn measure(&mut self, used: Option<HashMap<String, Used>>) -> bool {
        let news = self.used != used;
        self.used = used;
        news
    }

    /// Whether somebody measures what is used.
    pub fn measures(&self) -> bool {
        self.used.is_some()
    }

    /// What a node uses, where that was measured.
    pub fn used_by(&self, node: &str) -> Option<Used> {
        self.used.as_ref()?.get(node).copied()
    }

    /// The pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_node.get(node).into_iter().flatten().filter_map(|uid| self.pods.get(uid))
    }

    /// How many pods are bound to a node.
    pub fn pod_count_on(&self, node: &str) -> usize {
        self.by_node.get(node).map_or(0, BTreeSet::len)
    }

    /// How many pods look how, over all namespaces.
    pub fn looks(&self) -> &BTreeMap<Look, usize> {
        &self.looks
    }

    /// The highest resource version seen on a pod or an event, where the server's are numbers.
    pub fn latest_revision(&self) -> u64 {
        self.latest_revision
    }
}

fn count_pod(by_node: &mut HashMap<String, BTreeSet<Uid>>, looks: &mut BTreeMap<Look, usize>, pod: &Pod) {
    *looks.entry(pod_status::of(pod).look).or_default() += 1;
    if let (Some(uid), Some(node)) = (uid_of(pod), node_of(pod)) {
        by_node.entry(node.to_owned()).or_default().insert(uid);
    }
}

fn forget_pod(by_node: &mut HashMap<String, BTreeSet<Uid>>, looks: &mut BTreeMap<Look, usize>, pod: &Pod) {
    let look = pod_status::of(pod).look;
    if let Some(count) = looks.get_mut(&look) {
        *count = count.saturating_sub(1);
    }
    looks.retain(|_, count| *count > 0);
    if let (Some(uid), Some(node)) = (uid_of(pod), node_of(pod))
        && let Some(pods) = by_node.get_mut(node)
    {
        pods.remove(&uid);
    }
}

fn note_revision<K: Resource<DynamicType = ()>>(latest: &mut u64, object: &K) {
    if let Some(revision) = object.meta().resource_version.as_deref().and_then(|text| text.parse().ok()) {
        *latest = (*latest).max(revision);
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}
