//! The only door to the state: the Kubernetes API.
//!
//! [`Api`] is a cheap handle whose calls are synchronous and in memory: admission, defaulting, validation,
//! the write. `http` is a thin face over the same handle that waits for durability before it answers.
//!
//! Architecture Invariant: objects are read and written through this crate alone. The store itself is handled by `cluster` as well,
//! which opens and checks it and injects disk faults, and by the simulator and the benchmarks, which create stores.

mod addresses;
pub mod admission;
pub mod aggregation;
pub mod audit;
mod authorization;
mod cel;
pub mod certificates;
mod context;
mod controller_changes;
mod controller_probes;
pub mod controller_status;
mod conversion;
mod default;
pub mod definitions;
mod deletion;
mod endpoints;
mod error;
pub mod expression;
mod flow_control;
mod formats;
mod generated_name;
mod history;
pub mod http;
pub mod identity;
pub mod kinds;
mod managed_fields;
pub mod metrics;
pub mod node_access;
mod node_ports;
mod options;
pub mod patch;
mod pattern;
mod quota;
mod remarks;
mod rewrite;
mod room;
mod rules;
pub mod schema;
mod select;
mod subresource;
pub mod usage;
pub mod validate;
pub mod verdicts;
mod warnings;
mod webhook_client;
mod write;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use ipnet::{Ipv4Net, Ipv6Net};
use parking_lot::{Mutex, RwLock};

use base::clock::Clock;
use base::dial::{Dialer, OwnNetwork};
pub use deletion::{Deleted, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, PERMANENT_NAMESPACES};
pub use error::{ApiError, Cause, PolicyDenial};
use node_access::NodeAccess;
use object::config::{Limits, Timings};
use object::{ClusterDomain, Key, Kind, Object, Revision, Shared, Typed};
pub(crate) use options::Apply;
pub use options::{DeleteOptions, Part, Propagation, Selection, WriteOptions};
pub use store::{Change, ChangeKind, Expired, Rewrite, Snapshot, Visibility, Watcher};
use store::{Store, StoreError};
pub use warnings::unmountable;

/// What the API needs to know of its cluster.
#[derive(Clone)]
pub struct ApiConfig {
    /// The timings.
    pub timings: Timings,
    /// The end of services' names, by which the API knows its own names and the issuer of its tokens.
    pub cluster_domain: ClusterDomain,
    /// Where services get their cluster addresses.
    pub service_range: Ipv4Net,
    /// Where they get those of IPv6; none = services are of IPv4 alone.
    pub service_range_v6: Option<Ipv6Net>,
    /// How much the cluster takes.
    pub limits: Limits,
    /// Admission plugins that are switched off, by name.
    pub disabled_admission: Vec<String>,
    /// Discovery tells of the versions that Kubernetes has given up, which are taken anyway.
    pub legacy_versions: bool,
    /// Signs the tokens of service accounts; none = by a key that ends with the process.
    pub token_signer: Option<Arc<identity::Signer>>,
    /// Vouches for requests that are passed on to servers that extend the API; none = one that ends with the process.
    pub front_proxy: Option<Arc<certificates::FrontProxy>>,
    /// Network policies are enforced, by somebody else.
    pub network_policies: bool,
    /// Opens the connections to pods and services: those of the proxy, to webhooks and to servers that extend the API.
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
            dialer: Arc::new(OwnNetwork),
        }
    }
}

/// A cheap handle to the API.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
    /// Who writes through this handle, when a write does not say.
    manager: &'static str,
    /// What whoever uses this handle goes by; none = the cluster's.
    clock: Option<Clock>,
}

/// Who makes what the API makes by itself.
const API_SERVER: &str = "kube-apiserver";

struct Inner {
    store: Store,
    clock: Clock,
    config: ApiConfig,
    nodes: RwLock<HashMap<String, Arc<dyn NodeAccess>>>,
    /// Nodes on which processes of pods may run.
    held: RwLock<HashSet<String>>,
    addresses: addresses::Allocators,
    node_ports: node_ports::NodePorts,
    quotas: quota::Books,
    kinds: kinds::Registry,
    /// What is served of the stored definitions, by their names.
    definitions: Mutex<HashMap<String, definitions::Followed>>,
    policies: admission::policy::Policies,
    pod_budget: admission::active_pods::PodBudget,
    signer: Arc<identity::Signer>,
    bindings: authorization::Bindings,
    webhooks: admission::Webhooks,
    api_services: aggregation::ApiServices,
    flows: flow_control::Flows,
    metrics: metrics::Metrics,
    contained: base::contained::Contained,
    caller: webhook_client::Caller,
    converted: conversion::Cache,
    // Single map operations, never held across an await.
    usage: RwLock<HashMap<String, Arc<usage::NodeUsage>>>,
    verdicts: RwLock<Option<Arc<dyn verdicts::SchedulingVerdicts>>>,
    probes: controller_probes::Probes,
    seen_controllers: controller_changes::SeenControllers,
    moments: history::Moments,
    /// Configurations of webhooks that do not answer, on purpose.
    hung_webhooks: RwLock<BTreeSet<String>>,
}

impl Api {
    /// Opens connections to pods and services.
    pub(crate) fn dialer(&self) -> Dialer {
        self.inner.config.dialer.clone()
    }

    /// The API of this state.
    pub fn new(store: Store, clock: Clock, config: ApiConfig) -> Self {
        let addresses = addresses::Allocators::new(config.service_range, config.service_range_v6);
        let kinds = kinds::Registry::new(config.legacy_versions);
        let signer = config.token_signer.clone().unwrap_or_else(|| Arc::new(identity::Signer::ephemeral()));
        let metrics = metrics::Metrics::default();
        let flows =
            flow_control::Flows::new(config.limits.requests_in_flight, clock.clone(), metrics.flows.clone());
        let inner = Inner {
            store,
            clock,
            config,
            nodes: RwLock::default(),
            held: RwLock::default(),
            addresses,
            node_ports: node_ports::NodePorts::default(),
            quotas: quota::Books::default(),
            kinds,
            definitions: Mutex::default(),
            policies: admission::policy::Policies::default(),
            pod_budget: admission::active_pods::PodBudget::default(),
            signer,
            bindings: authorization::Bindings::default(),
            webhooks: admission::Webhooks::default(),
            api_services: aggregation::ApiServices::default(),
            metrics,
            contained: base::contained::Contained::default(),
            flows,
            caller: webhook_client::Caller::default(),
            converted: conversion::Cache::default(),
            usage: RwLock::default(),
            verdicts: RwLock::default(),
            probes: controller_probes::Probes::default(),
            seen_controllers: controller_changes::SeenControllers::default(),
            moments: history::Moments::default(),
            hung_webhooks: RwLock::default(),
        };
        let api = Self { inner: Arc::new(inner), manager: API_SERVER, clock: None };
        api.take_existing_addresses();
        api.serve_stored_definitions();
        api.follow_stored_api_services();
        api
    }

    /// The same API for an actor: it owns the fields that it writes under this name.
    #[must_use]
    pub fn acting_as(&self, manager: &'static str) -> Self {
        Self { inner: self.inner.clone(), manager, clock: self.clock.clone() }
    }

    /// The same API for an actor that goes by another clock: it is what [`Api::clock`] gives. What the API itself writes
    /// of times goes by its own.
    #[must_use]
    pub fn going_by(&self, clock: &Clock) -> Self {
        Self { clock: Some(clock.clone()), ..self.clone() }
    }

    /// From now on calls of the webhooks of these configurations, mutating or validating, hang until their time-outs, and
    /// of no others (FAULT-1).
    pub fn hang_webhooks(&self, configurations: BTreeSet<String>) {
        *self.inner.hung_webhooks.write() = configurations;
    }

    /// Whether calls of a configuration's webhooks are to hang.
    pub(crate) fn hangs_webhooks_of(&self, configuration: &str) -> bool {
        self.inner.hung_webhooks.read().contains(configuration)
    }

    /// The seats of requests.
    pub(crate) fn flows(&self) -> &flow_control::Flows {
        &self.inner.flows
    }

    /// The clock to go by: the cluster's, or [this handle's own](Api::going_by).
    pub fn clock(&self) -> &Clock {
        self.clock.as_ref().unwrap_or(&self.inner.clock)
    }

    /// What the API goes by itself, whoever asks.
    pub(crate) fn server_clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// The cluster's timings.
    pub fn timings(&self) -> &Timings {
        &self.inner.config.timings
    }

    /// The API's configuration.
    pub fn config(&self) -> &ApiConfig {
        &self.inner.config
    }

    /// Who asks: this user, or the actor whose handle this is.
    fn requester<'a>(&self, user: Option<&'a identity::User>) -> admission::Requester<'a> {
        user.map_or(admission::Requester::Actor(self.manager), admission::Requester::User)
    }

    /// An object was written, or is gone: what follows from definitions, API services and configurations of admission does so from
    /// now on.
    fn object_stored(&self, object: &Object) {
        self.inner.moments.note(object.revision(), self.inner.clock.now());
        self.definition_stored(object);
        self.api_service_stored(object);
        self.inner.webhooks.object_stored(object);
        self.inner.policies.object_stored(object);
        self.inner.flows.object_stored(object);
        self.end_series_of(object);
    }

    fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The revision of the last write.
    pub fn revision(&self) -> Revision {
        self.store().revision()
    }

    /// Waits until everything up to `revision` survives a crash.
    pub async fn durable(&self, revision: Revision) -> Result<(), StoreError> {
        self.store().durable(revision).await
    }

    /// Why no write is accepted now, if so: the disk is full or fails.
    pub(crate) fn refuses_writes(&self) -> Option<String> {
        self.store().refuses_writes()
    }

    /// The object with this key.
    pub fn get(&self, kind: Kind, key: &Key) -> Result<Arc<Object>, ApiError> {
        self.store().get(kind, key).ok_or_else(|| ApiError::not_found(kind, key))
    }

    /// The `T` with this key.
    pub fn get_as<T: Typed>(&self, key: &Key) -> Result<Shared<T>, ApiError> {
        let object = self.get(T::kind(), key)?;
        Shared::from_object(&object).ok_or_else(|| ApiError::not_found(T::kind(), key))
    }

    /// All objects of a kind, or of one namespace, as they are together at one revision.
    pub fn list(&self, kind: Kind, namespace: Option<&str>) -> Snapshot {
        self.store().list(kind, namespace)
    }

    /// All `T`s, or those of one namespace.
    pub fn list_as<T: Typed>(&self, namespace: Option<&str>) -> Vec<Shared<T>> {
        self.list(T::kind(), namespace).objects.iter().filter_map(Shared::from_object).collect()
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.store().count(kind)
    }

    /// Follows the changes of a kind after `after`.
    pub fn watch(&self, kind: Kind, after: Revision, visibility: Visibility) -> Watcher {
        self.store().watch(kind, after, visibility)
    }

    /// Forgets watch history up to `revision`.
    pub fn compact(&self, revision: Revision) {
        self.store().compact(revision);
    }

    /// Registers the kubelet of a node as the door to its pods.
    pub fn set_node_access(&self, node: &str, access: Arc<dyn NodeAccess>) {
        self.inner.nodes.write().insert(node.to_string(), access);
    }

    /// The kubelet of a node is no more.
    pub fn remove_node_access(&self, node: &str) {
        self.inner.nodes.write().remove(node);
    }

    /// From now on processes of pods may run on this node, whatever becomes of its object: nobody but the node itself
    /// may take its pods for ended (SAFE-1).
    pub fn hold_node(&self, node: &str) {
        self.inner.held.write().insert(node.to_string());
    }

    /// Nothing runs on the node any more: that was confirmed.
    pub fn release_node(&self, node: &str) {
        self.inner.held.write().remove(node);
    }

    /// Whether processes of pods may run on the node.
    pub fn is_node_held(&self, node: &str) -> bool {
        self.inner.held.read().contains(node)
    }

    /// The kubelet of a node.
    pub fn node_access(&self, node: &str) -> Option<Arc<dyn NodeAccess>> {
        self.inner.nodes.read().get(node).cloned()
    }
}
