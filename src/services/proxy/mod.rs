//! The service proxy, the counterpart of kube-proxy in user space (NET-2).
//!
//! [`table`] computes the listeners of services, `host_ports` those of pods with host ports, [`balance`] chooses
//! endpoints; the rest opens and closes sockets. A change of endpoints replaces the endpoints of an open listener;
//! existing connections keep theirs. A bind address that cannot be bound (another program has the port) is recorded in
//! an event on the Service or Pod and retried.

pub mod balance;
mod health;
pub mod host_ports;
mod listeners;
mod mirror;
mod node_networks;
mod owner;
mod sockets;
pub mod table;
mod tcp;
mod udp;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::{Follower, NetworkTopology, NodeFacts};
use api::controller_status::Subsystem;
use api::{Api, Change, ChangeKind};
use balance::Balancer;
use base::clock::{Clock, if_some};
use base::dial::Dialer;
use base::task::Tasks;
use host_ports::HostPorts;
use ipnet::Ipv4Net;
use listeners::ListenerSet;
pub use mirror::Mirrors;
pub use node_networks::NodeNetworks;
use object::low_ports::LowPorts;
use owner::OwnerSources;
use reconcile::{Caches, Recorder, WorkLoop};

/// Configuration of the proxy.
#[derive(Clone)]
pub struct ProxyConfig {
    /// The range of services' cluster IPs.
    pub services: Ipv4Net,
    /// Ports that the proxy itself may not bind.
    pub low_ports: LowPorts,
    /// Maximum number of concurrent connections and flows, each of which needs two file descriptors. Further
    /// connections wait.
    pub connections: usize,
    /// The fabric, if services and pods are in a fabric network.
    pub inside: Option<FabricNetwork>,
}

/// The fabric network that services and pods are in.
#[derive(Clone)]
pub struct FabricNetwork {
    /// The mirrors of its addresses on the machine.
    pub mirrors: Mirrors,
    /// Connects to its addresses.
    pub dialer: Dialer,
    /// The networks of its nodes.
    pub nodes: Arc<dyn NodeNetworks>,
}

/// State shared by all listeners and connections.
struct ProxyState {
    clock: Clock,
    machine: RwLock<Arc<NetworkTopology>>,
    /// The fabric, if endpoints are in a fabric network.
    inside: Option<FabricNetwork>,
    /// The tasks of connections, which outlive the listener that accepted them.
    connections: Tasks,
    /// Limits connections, so that descriptors are left for the API's own.
    permits: Arc<Semaphore>,
}

/// The endpoints of a bind address, shared by its listener and its connections.
type SharedBalancer = Arc<Mutex<Balancer>>;

/// Starts the proxy; it ends with `tasks`.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, config: ProxyConfig) {
    let machine = NetworkTopology {
        nodes: std::collections::BTreeMap::new(),
        services: config.services,
        fabric: Vec::new(),
    };
    let inside = config.inside;
    health::start(api, caches, tasks, inside.as_ref().map(|inside| inside.mirrors.clone()));
    let followed_pods = if inside.is_some() { mirror::has_ports } else { host_ports::has_host_ports };
    let nodes = inside.as_ref().map(|inside| inside.nodes.clone());
    let shared = Arc::new(ProxyState {
        inside,
        clock: api.clock().clone(),
        machine: RwLock::new(Arc::new(machine)),
        connections: tasks.clone(),
        permits: Arc::new(Semaphore::new(config.connections)),
    });
    let followed = Arc::new(OwnerSources {
        services: Follower::start(caches),
        pods: HostPorts::start(caches, followed_pods),
    });
    let (of_nodes, marked) = (Arc::downgrade(&shared), Arc::downgrade(&followed));
    caches.of::<Node>().on_change(move |change| {
        if let (Some(shared), Some(followed)) = (of_nodes.upgrade(), marked.upgrade())
            && shared.node_changed(change)
        {
            followed.services.mark_all();
            followed.pods.mark_all();
        }
    });
    let (caches, recorder) = (caches.clone(), Recorder::new(api, "kube-proxy"));
    let rounds = WorkLoop::start(api, "service-proxy", Subsystem::Network, tasks);
    tasks.spawn("service proxy", async move {
        // Incomplete caches would refuse connections to services that exist.
        tokio::join!(
            caches.synced(object::Kind::Node),
            caches.synced(object::Kind::Service),
            caches.synced(object::Kind::EndpointSlice)
        );
        let mut listening = ListenerSet::new(shared, recorder, config.low_ports);
        loop {
            let retry = listening.next_retry();
            tokio::select! {
                changed = followed.take() => {
                    let round = rounds.begin("services and their endpoints");
                    listening.apply(changed, &followed).await;
                    round.ends(match listening.next_retry() {
                        Some(_) => Err("a port could not be opened; retrying"),
                        None => Ok(()),
                    });
                }
                node = if_some(nodes.as_deref().map(NodeNetworks::renewed)) => listening.leave(node, &followed).await,
                () = if_some(retry.map(tokio::time::sleep)) => followed.mark(listening.due()),
            }
        }
    });
}

impl ProxyState {
    /// Applies the change of a node; returns false if it does not affect services, like a heartbeat.
    fn node_changed(&self, change: &Change) -> bool {
        let Some(node) = change.object.get::<Node>() else { return false };
        let name = change.object.name();
        let facts = (change.kind != ChangeKind::Deleted).then(|| NodeFacts::of(node));
        let mut machine = self.machine.write();
        if machine.nodes.get(name) == facts.as_ref() {
            return false;
        }
        let mut next = NetworkTopology::clone(&machine);
        match facts {
            Some(facts) => drop(next.nodes.insert(name.to_string(), facts)),
            None => drop(next.nodes.remove(name)),
        }
        *machine = Arc::new(next);
        true
    }

    fn machine(&self) -> Arc<NetworkTopology> {
        self.machine.read().clone()
    }
}
