//! The Kubernetes API, the only way to read and write the cluster's objects.
//!
//! [`Api`] is a cheap handle whose calls are synchronous and in memory: admission, defaulting, validation,
//! the write. `apiserver` serves the same handle over HTTP and waits for durability before it responds.
//!
//! Architecture Invariant: objects are read and written through this crate alone. The store itself is also
//! handled by `cluster`, which opens and checks it and injects disk faults, and by the simulator and the
//! benchmarks, which create stores.

mod addresses;
pub mod admission;
pub mod aggregation;
pub mod authorization;
pub mod controller_changes;
mod controller_probes;
pub mod controller_status;
pub mod conversion;
pub mod deadline;
pub mod definitions;
mod deletion;
pub mod endpoints;
mod flow_defaults;
mod generated_name;
pub mod history;
pub mod identity;
mod managed_fields;
pub mod metrics;
pub mod node_access;
mod node_ports;
pub mod object_checks;
mod options;
mod quota;
mod rewrite;
pub mod select;
pub mod served_kinds;
mod store_limits;
pub mod subresource;
#[cfg(test)]
mod test_api;
pub mod usage;
pub mod verdicts;
pub mod warning_recorder;
pub mod warnings;
pub mod webhook_client;
mod write;
mod write_refusal;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ipnet::{Ipv4Net, Ipv6Net};
use parking_lot::{Mutex, RwLock};

use apimachinery::certificates::FrontProxy;
pub use apimachinery::{ApiError, Cause, PolicyDenial, Propagation};
use base::clock::Clock;
use base::dial::{Dialer, LocalDialer};
pub use deletion::{DeleteOutcome, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, PERMANENT_NAMESPACES};
use node_access::NodeAccess;
use object::config::{Limits, Timings};
use object::{ClusterDomain, Key, Kind, Object, Revision, SharedObject, TypedKind};
pub use options::{Apply, DeleteOptions, Part, Selection, WriteOptions};
use store::Store;
pub use store::{Change, ChangeKind, Rewrite, Snapshot, StoreError, Visibility, WatchExpired, Watcher};
pub use warnings::unmountable;
pub use write::ApplyResult;

/// Configuration of the API for one cluster.
#[derive(Clone)]
pub struct ApiConfig {
    /// The cluster's intervals and timeouts.
    pub timings: Timings,
    /// The cluster's DNS domain; the API's own names and the issuer of its tokens derive from it.
    pub cluster_domain: ClusterDomain,
    /// The range of services' IPv4 cluster addresses.
    pub service_range: Ipv4Net,
    /// The range of services' IPv6 cluster addresses; `None`: services are IPv4 only.
    pub service_range_v6: Option<Ipv6Net>,
    /// The cluster's limits on load.
    pub limits: Limits,
    /// Admission plugins that are switched off, by name.
    pub disabled_admission: Vec<String>,
    /// True if discovery lists API versions that Kubernetes has removed; the API accepts them in any case.
    pub legacy_versions: bool,
    /// Signs the tokens of service accounts; `None`: a key that ends with the process.
    pub token_signer: Option<Arc<identity::Signer>>,
    /// Vouches for requests that are proxied to extension API servers; `None`: an authority that ends with
    /// the process.
    pub front_proxy: Option<Arc<FrontProxy>>,
    /// True if another component enforces network policies.
    pub network_policies: bool,
    /// Opens the connections to pods and services: for the proxy, webhooks and extension API servers.
    pub dialer: Dialer,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            timings: Timings::default(),
            cluster_domain: ClusterDomain::default(),
            service_range: Ipv4Net::new_assert(Ipv4Addr::new(127, 32, 0, 0), 16),
            service_range_v6: None,
            limits: Limits::default(),
            disabled_admission: Vec::new(),
            legacy_versions: false,
            token_signer: None,
            front_proxy: None,
            network_policies: false,
            dialer: Arc::new(LocalDialer),
        }
    }
}

/// A cheap handle to the API.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
    /// The field manager of writes that name none.
    manager: &'static str,
    /// The clock that [`Api::clock`] returns; `None`: the cluster's.
    clock: Option<Clock>,
}

/// The field manager of objects that the API creates by itself.
const API_SERVER: &str = "kube-apiserver";

struct Inner {
    store: Store,
    clock: Clock,
    config: ApiConfig,
    nodes: RwLock<HashMap<String, Arc<dyn NodeAccess>>>,
    /// Nodes on which processes of pods may run.
    held_nodes: RwLock<HashSet<String>>,
    addresses: addresses::Allocators,
    node_ports: node_ports::NodePorts,
    quotas: quota::QuotaLock,
    kinds: served_kinds::Registry,
    /// The served state of the stored CustomResourceDefinitions, by name.
    definitions: Mutex<HashMap<String, definitions::ServedDefinition>>,
    policies: admission::policy::Policies,
    pod_budget: admission::active_pods::PodBudget,
    signer: Arc<identity::Signer>,
    bindings: authorization::Bindings,
    webhooks: admission::Webhooks,
    api_services: aggregation::ApiServices,
    /// Counts the writes of flow schemas and priority levels.
    flow_generation: AtomicU64,
    metrics: metrics::Metrics,
    contained: base::panics::PanicLog,
    caller: webhook_client::Caller,
    converted: conversion::Cache,
    // Single map operations, never held across an await.
    usage: RwLock<HashMap<String, Arc<usage::NodeUsage>>>,
    verdicts: RwLock<Option<Arc<dyn verdicts::SchedulingVerdicts>>>,
    probes: controller_probes::Probes,
    observed_controllers: controller_changes::ControllerHistory,
    revision_times: history::RevisionTimes,
    /// Webhook configurations whose calls hang on purpose.
    hung_webhooks: RwLock<BTreeSet<String>>,
}

impl Api {
    /// Opens connections to pods and services.
    pub fn dialer(&self) -> Dialer {
        self.inner.config.dialer.clone()
    }

    /// Creates the API of this store.
    pub fn new(store: Store, clock: Clock, config: ApiConfig) -> Self {
        let addresses = addresses::Allocators::new(config.service_range, config.service_range_v6);
        let kinds = served_kinds::Registry::new(config.legacy_versions);
        let signer = config.token_signer.clone().unwrap_or_else(|| Arc::new(identity::Signer::ephemeral()));
        let inner = Inner {
            store,
            clock,
            config,
            nodes: RwLock::default(),
            held_nodes: RwLock::default(),
            addresses,
            node_ports: node_ports::NodePorts::default(),
            quotas: quota::QuotaLock::default(),
            kinds,
            definitions: Mutex::default(),
            policies: admission::policy::Policies::default(),
            pod_budget: admission::active_pods::PodBudget::default(),
            signer,
            bindings: authorization::Bindings::default(),
            webhooks: admission::Webhooks::default(),
            api_services: aggregation::ApiServices::default(),
            metrics: metrics::Metrics::default(),
            contained: base::panics::PanicLog::default(),
            flow_generation: AtomicU64::default(),
            caller: webhook_client::Caller::default(),
            converted: conversion::Cache::default(),
            usage: RwLock::default(),
            verdicts: RwLock::default(),
            probes: controller_probes::Probes::default(),
            observed_controllers: controller_changes::ControllerHistory::default(),
            revision_times: history::RevisionTimes::default(),
            hung_webhooks: RwLock::default(),
        };
        let api = Self { inner: Arc::new(inner), manager: API_SERVER, clock: None };
        api.mark_existing_addresses();
        api.serve_stored_definitions();
        api.follow_stored_api_services();
        api
    }

    /// Returns the same API for an actor: it owns the fields that it writes, under the name `manager`.
    #[must_use]
    pub fn acting_as(&self, manager: &'static str) -> Self {
        Self { inner: self.inner.clone(), manager, clock: self.clock.clone() }
    }

    /// Returns the same API with another clock, which [`Api::clock`] then returns. Times that the API itself
    /// writes follow its own clock.
    #[must_use]
    pub fn with_clock(&self, clock: &Clock) -> Self {
        Self { clock: Some(clock.clone()), ..self.clone() }
    }

    /// Replaces the set of webhook configurations, mutating or validating, whose calls hang until they time
    /// out (FAULT-1).
    pub fn hang_webhooks(&self, configurations: BTreeSet<String>) {
        *self.inner.hung_webhooks.write() = configurations;
    }

    /// Returns the caller of other servers: webhooks and extension API servers.
    pub fn caller(&self) -> &webhook_client::Caller {
        &self.inner.caller
    }

    /// Returns true if calls of a configuration's webhooks are to hang.
    pub(crate) fn is_webhook_hung(&self, configuration: &str) -> bool {
        self.inner.hung_webhooks.read().contains(configuration)
    }

    /// Returns the generation of the flow schemas and priority levels; each write of one increases it.
    pub fn flow_generation(&self) -> u64 {
        self.inner.flow_generation.load(Ordering::Acquire)
    }

    /// Returns the handle's clock: the cluster's, or [its own](Api::with_clock).
    pub fn clock(&self) -> &Clock {
        self.clock.as_ref().unwrap_or(&self.inner.clock)
    }

    /// Returns the clock that the API itself uses, independent of the handle's.
    pub fn server_clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Returns the cluster's timings.
    pub fn timings(&self) -> &Timings {
        &self.inner.config.timings
    }

    /// Returns the API's configuration.
    pub fn config(&self) -> &ApiConfig {
        &self.inner.config
    }

    /// Returns the author of a request: this user, or the actor that owns the handle.
    fn requester<'a>(&self, user: Option<&'a identity::User>) -> admission::Requester<'a> {
        user.map_or(admission::Requester::Actor(self.manager), admission::Requester::User)
    }

    /// Applies the effects of a written or deleted object on definitions, API services and admission
    /// configurations, at once.
    fn object_stored(&self, object: &Object) {
        self.inner.revision_times.record(object.revision(), self.inner.clock.now());
        self.definition_stored(object);
        self.api_service_stored(object);
        self.inner.webhooks.object_stored(object);
        self.inner.policies.object_stored(object);
        if matches!(object.kind(), Kind::FlowSchema | Kind::PriorityLevelConfiguration) {
            self.inner.flow_generation.fetch_add(1, Ordering::Release);
        }
        self.end_series_of(object);
    }

    fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> Revision {
        self.store().revision()
    }

    /// Waits until everything up to `revision` survives a crash.
    pub async fn durable(&self, revision: Revision) -> Result<(), StoreError> {
        self.store().durable(revision).await
    }

    /// Returns the reason why writes are refused at present, if they are: the disk is full or fails.
    pub fn refuses_writes(&self) -> Option<String> {
        self.store().refuses_writes()
    }

    /// Returns the object with this key.
    pub fn get(&self, kind: Kind, key: &Key) -> Result<Arc<Object>, ApiError> {
        self.store().get(kind, key).ok_or_else(|| ApiError::not_found(kind, key))
    }

    /// Returns the `T` with this key.
    pub fn get_as<T: TypedKind>(&self, key: &Key) -> Result<SharedObject<T>, ApiError> {
        let object = self.get(T::kind(), key)?;
        SharedObject::from_object(&object).ok_or_else(|| ApiError::not_found(T::kind(), key))
    }

    /// Returns all objects of a kind, or of one namespace, consistent at one revision.
    pub fn list(&self, kind: Kind, namespace: Option<&str>) -> Snapshot {
        self.store().list(kind, namespace)
    }

    /// Returns all `T`s, or those of one namespace.
    pub fn list_as<T: TypedKind>(&self, namespace: Option<&str>) -> Vec<SharedObject<T>> {
        self.list(T::kind(), namespace).objects.iter().filter_map(SharedObject::from_object).collect()
    }

    /// Returns the number of objects of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.store().count(kind)
    }

    /// Follows the changes of a kind after `after`.
    pub fn watch(&self, kind: Kind, after: Revision, visibility: Visibility) -> Watcher {
        self.store().watch(kind, after, visibility)
    }

    /// Drops watch history up to `revision`.
    pub fn compact(&self, revision: Revision) {
        self.store().compact(revision);
    }

    /// Registers a node's kubelet as the access to its pods.
    pub fn set_node_access(&self, node: &str, access: Arc<dyn NodeAccess>) {
        self.inner.nodes.write().insert(node.to_string(), access);
    }

    /// Removes the access to a node's pods, once its kubelet has ended.
    pub fn remove_node_access(&self, node: &str) {
        self.inner.nodes.write().remove(node);
    }

    /// Records that processes of pods may run on this node from now on, even if its Node object is deleted:
    /// only the node itself may then declare its pods ended (SAFE-1).
    pub fn hold_node(&self, node: &str) {
        self.inner.held_nodes.write().insert(node.to_string());
    }

    /// Records that nothing runs on the node any more; call it only after confirmation.
    pub fn release_node(&self, node: &str) {
        self.inner.held_nodes.write().remove(node);
    }

    /// Returns true if processes of pods may run on the node.
    pub fn is_node_held(&self, node: &str) -> bool {
        self.inner.held_nodes.read().contains(node)
    }

    /// Returns the kubelet of a node.
    pub fn node_access(&self, node: &str) -> Option<Arc<dyn NodeAccess>> {
        self.inner.nodes.read().get(node).cloned()
    }
}
