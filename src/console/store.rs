//! The console's copy of the cluster: one indexed store a resource, fed with changes.
//!
//! A store holds objects of any kind under the name that discovery has for the resource. Views that know a type
//! read it through [`Typed`]; what the server sends as a Table is kept as its rows.
//! Reads never wait and never touch the network. Invariant: every index names only uids that are in
//! `objects`, and counts are kept with each change, never by walking all objects on a draw.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use super::health::{self, Health};
use super::resource::{ResourceKey, Uid};
use super::server_table::{ColumnDefinition, TableRow};

/// An object of any kind.
pub trait Object: Any + Debug + Send + Sync {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// All of it that is known, as JSON; costs a copy.
    fn to_json(&self) -> Value;
}

impl<K: Resource<DynamicType = ()> + Serialize + Debug + Send + Sync + 'static> Object for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Object for TableRow {
    fn metadata(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    fn to_json(&self) -> Value {
        serde_json::to_value(&self.object).unwrap_or_default()
    }
}

/// A change of one kind, as a watcher saw it.
#[derive(Debug)]
pub enum Change<K: ?Sized = dyn Object> {
    /// The whole list; everything not in it is gone.
    Reset(Vec<Arc<K>>),
    /// Created or changed.
    Applied(Arc<K>),
    /// Deleted.
    Deleted(Arc<K>),
}

impl<K: ?Sized> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Reset(objects) => Self::Reset(objects.clone()),
            Self::Applied(object) => Self::Applied(object.clone()),
            Self::Deleted(object) => Self::Deleted(object.clone()),
        }
    }
}

impl<K: Object> Change<K> {
    fn of_any_kind(self) -> Change {
        let any = |object: Arc<K>| -> Arc<dyn Object> { object };
        match self {
            Self::Reset(objects) => Change::Reset(objects.into_iter().map(any).collect()),
            Self::Applied(object) => Change::Applied(object),
            Self::Deleted(object) => Change::Deleted(object),
        }
    }
}

/// A batch of changes of one resource.
#[derive(Clone, Debug)]
pub struct Delta {
    /// Which.
    pub resource: ResourceKey,
    /// The columns of the server's Table, with a list that came as one.
    pub columns: Option<Vec<ColumnDefinition>>,
    /// In order.
    pub changes: Vec<Change>,
}

impl Delta {
    /// Changes of a type that the console knows.
    pub fn of<K: Object + Resource<DynamicType = ()>>(changes: Vec<Change<K>>) -> Self {
        let changes = changes.into_iter().map(Change::of_any_kind).collect();
        Self { resource: ResourceKey::of::<K>(), columns: None, changes }
    }

    /// Changes of any resource as rows of the server's Table; the columns come with a list.
    pub fn of_table(
        resource: ResourceKey,
        columns: Option<Vec<ColumnDefinition>>,
        changes: Vec<Change<TableRow>>,
    ) -> Self {
        Self { resource, columns, changes: changes.into_iter().map(Change::of_any_kind).collect() }
    }
}

/// Which objects a change touched; `All` after a new list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Anything may differ.
    All,
    /// These differ, appeared or went.
    Some(Vec<Uid>),
}

/// All objects of one resource.
#[derive(Debug, Default)]
pub struct Store {
    objects: HashMap<Uid, Arc<dyn Object>>,
    names: HashMap<(String, String), Uid>,
    owned: HashMap<Uid, BTreeSet<Uid>>,
    columns: Vec<ColumnDefinition>,
    synced: bool,
}

impl Store {
    /// The object with this uid.
    pub fn get(&self, uid: &Uid) -> Option<&Arc<dyn Object>> {
        self.objects.get(uid)
    }

    /// The object of this name; the namespace is empty for cluster-wide kinds.
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<&Arc<dyn Object>> {
        let uid = self.names.get(&(namespace.to_owned(), name.to_owned()))?;
        self.objects.get(uid)
    }

    /// Every object, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Uid, &Arc<dyn Object>)> {
        self.objects.iter()
    }

    /// The objects whose controller has this uid, by uid.
    pub fn owned_by(&self, owner: &Uid) -> impl Iterator<Item = &Arc<dyn Object>> {
        self.owned.get(owner).into_iter().flatten().filter_map(|uid| self.objects.get(uid))
    }

    /// The columns of the server's Table; none where the objects did not come as one.
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    /// The row of the server's Table, where the objects came as one.
    pub fn row(&self, uid: &Uid) -> Option<&TableRow> {
        (&**self.objects.get(uid)? as &dyn Any).downcast_ref()
    }

    /// Whether the first list has arrived; before that an empty store means nothing.
    pub fn synced(&self) -> bool {
        self.synced
    }

    fn put(&mut self, object: Arc<dyn Object>) -> Option<(Uid, Option<Arc<dyn Object>>)> {
        let meta = object.metadata();
        let uid = Uid::from(meta.uid.as_deref()?);
        let key = name_key(meta);
        if let Some(owner) = controller(meta) {
            self.owned.entry(owner).or_default().insert(uid.clone());
        }
        self.names.insert(key, uid.clone());
        let before = self.objects.insert(uid.clone(), object);
        Some((uid, before))
    }

    fn take(&mut self, object: &dyn Object) -> Option<(Uid, Option<Arc<dyn Object>>)> {
        let meta = object.metadata();
        let uid = Uid::from(meta.uid.as_deref()?);
        let before = self.objects.remove(&uid);
        if let Some(owner) = controller(meta)
            && let Some(owned) = self.owned.get_mut(&owner)
        {
            owned.remove(&uid);
            if owned.is_empty() {
                self.owned.remove(&owner);
            }
        }
        let key = name_key(meta);
        // A new object of the same name may have come first; its entry stays.
        if self.names.get(&key) == Some(&uid) {
            self.names.remove(&key);
        }
        Some((uid, before))
    }

    /// Applies a batch; `seen` is called for every object that went and came, for counts kept elsewhere.
    fn apply(
        &mut self,
        batch: Vec<Change>,
        mut seen: impl FnMut(Option<&dyn Object>, Option<&dyn Object>),
    ) -> Touched {
        let mut touched = Vec::new();
        let mut all = false;
        for change in batch {
            match change {
                Change::Reset(objects) => {
                    for object in self.objects.values() {
                        seen(Some(&**object), None);
                    }
                    self.objects.clear();
                    self.names.clear();
                    self.owned.clear();
                    for object in objects {
                        seen(None, Some(&*object));
                        self.put(object);
                    }
                    self.synced = true;
                    all = true;
                }
                Change::Applied(object) => {
                    if let Some((uid, before)) = self.put(object.clone()) {
                        seen(before.as_deref(), Some(&*object));
                        touched.push(uid);
                    }
                }
                Change::Deleted(object) => {
                    if let Some((uid, before)) = self.take(&*object) {
                        seen(before.as_deref(), None);
                        touched.push(uid);
                    }
                }
            }
        }
        if all { Touched::All } else { Touched::Some(touched) }
    }
}

fn name_key(meta: &ObjectMeta) -> (String, String) {
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// The uid of the owner with `controller: true` in an object's metadata.
pub fn controller(meta: &ObjectMeta) -> Option<Uid> {
    let owners = meta.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| Uid::from(owner.uid.as_str()))
}

/// The uid of a typed object.
pub fn uid_of<K: Resource>(object: &K) -> Option<Uid> {
    object.meta().uid.as_deref().map(Uid::from)
}

/// The uid of the owner with `controller: true`.
pub fn controller_of<K: Resource>(object: &K) -> Option<Uid> {
    controller(object.meta())
}

/// A store read as objects of the type that is in it.
#[derive(Debug)]
pub struct Typed<'a, K> {
    store: Option<&'a Store>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Typed<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Typed<'_, K> {}

impl<'a, K: Object> Typed<'a, K> {
    fn cast(object: &'a Arc<dyn Object>) -> Option<&'a K> {
        (&**object as &dyn Any).downcast_ref()
    }

    /// The object with this uid.
    pub fn get(self, uid: &Uid) -> Option<&'a K> {
        Self::cast(self.store?.get(uid)?)
    }

    /// The object of this name; the namespace is empty for cluster-wide kinds.
    pub fn by_name(self, namespace: &str, name: &str) -> Option<&'a K> {
        Self::cast(self.store?.by_name(namespace, name)?)
    }

    /// Every object, in no order.
    pub fn iter(self) -> impl Iterator<Item = (&'a Uid, &'a K)> {
        let objects = self.store.into_iter().flat_map(Store::iter);
        objects.filter_map(|(uid, object)| Some((uid, Self::cast(object)?)))
    }

    /// The objects whose controller has this uid, by uid.
    pub fn owned_by(self, owner: &Uid) -> impl Iterator<Item = &'a K> + use<'a, K> {
        let owned = self.store.and_then(|store| Some((store, store.owned.get(owner)?)));
        owned.into_iter().flat_map(|(store, owned)| {
            owned.iter().filter_map(|uid| store.objects.get(uid)).filter_map(Self::cast)
        })
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.store.map_or(0, |store| store.objects.len())
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the first list has arrived; before that an empty store means nothing.
    pub fn synced(self) -> bool {
        self.store.is_some_and(Store::synced)
    }
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
    stores: HashMap<ResourceKey, Store>,
    used: Option<HashMap<String, Used>>,
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
    }

    /// The objects of a type.
    pub fn of<K: Object + Resource<DynamicType = ()>>(&self) -> Typed<'_, K> {
        Typed { store: self.get(&ResourceKey::of::<K>()), kind: PhantomData }
    }

    /// The objects of a resource, where it is watched.
    pub fn get(&self, resource: &ResourceKey) -> Option<&Store> {
        self.stores.get(resource)
    }

    /// An object of a resource that is watched.
    pub fn object(&self, resource: &ResourceKey, uid: &Uid) -> Option<&Arc<dyn Object>> {
        self.get(resource)?.get(uid)
    }

    /// Whether the first list of a resource has arrived.
    pub fn synced(&self, resource: &ResourceKey) -> bool {
        self.get(resource).is_some_and(Store::synced)
    }

    /// The stores of all resources that have arrived.
    pub fn all(&self) -> impl Iterator<Item = (&ResourceKey, &Store)> {
        self.stores.iter()
    }

    /// Takes a batch in and says what it touched.
    pub fn apply(&mut self, delta: Delta) -> (ResourceKey, Touched) {
        let Delta { resource, columns, changes } = delta;
        let store = self.stores.entry(resource.clone()).or_default();
        if let Some(columns) = columns {
            store.columns = columns;
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
    pub fn forget(&mut self, resource: &ResourceKey) {
        self.stores.remove(resource);
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
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Pod> {
        let pods = self.pods();
        self.by_node.get(node).into_iter().flatten().filter_map(move |uid| pods.get(uid))
    }

    /// How many pods are bound to a node.
    pub fn pod_count_on(&self, node: &str) -> usize {
        self.by_node.get(node).map_or(0, BTreeSet::len)
    }

    /// How many pods have which health, over all namespaces.
    pub fn pod_health_counts(&self) -> &BTreeMap<Health, usize> {
        &self.health_counts
    }

    /// The highest resource version seen on a pod or an event, where the server's are numbers.
    pub fn latest_revision(&self) -> u64 {
        self.latest_revision
    }
}

fn count_pod(
    by_node: &mut HashMap<String, BTreeSet<Uid>>,
    health_counts: &mut BTreeMap<Health, usize>,
    pod: &Pod,
) {
    *health_counts.entry(health::of(pod).health).or_default() += 1;
    if let (Some(uid), Some(node)) = (uid_of(pod), node_of(pod)) {
        by_node.entry(node.to_owned()).or_default().insert(uid);
    }
}

fn forget_pod(
    by_node: &mut HashMap<String, BTreeSet<Uid>>,
    health_counts: &mut BTreeMap<Health, usize>,
    pod: &Pod,
) {
    let health = health::of(pod).health;
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
