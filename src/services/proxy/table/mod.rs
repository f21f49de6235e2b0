//! The listeners of a service, and the endpoints behind each bind address.
//!
//! Pure: a service with its slices in, its listeners out. The rules are kube-proxy's: ready endpoints, or, if there are
//! none, those that still serve while they terminate. Without endpoints there is no listener, so that connections are
//! refused.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use crate::{NetworkTopology, ServiceEndpoints};
use base::sort::SliceOrder;
use object::endpoint::{self, EndpointState};
use object::low_ports::LowPorts;
use object::port_number;
use object::service::load_balancer_ips;

/// The label of services that another proxy serves.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// The API's range of node ports. An endpoint at one of these would be the proxy itself.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// A transport protocol; SCTP is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Parses the protocol of a port, which is TCP by default; `None` for SCTP.
    pub fn of(text: Option<&str>) -> Option<Self> {
        match text.unwrap_or("TCP") {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            _ => None,
        }
    }
}

/// The network that the proxy listens in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ListenNetwork {
    /// The machine's network.
    Machine,
    /// The network of the node with this address, in a fabric network.
    Node(Ipv4Addr),
}

/// An address that the proxy listens at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BindAddress {
    pub(crate) network: ListenNetwork,
    /// The address and port as bound.
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
}

/// Formats the address as `127.32.1.0:80/TCP` or `127.0.0.1:80/TCP of node 172.16.0.2`.
impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        write!(f, "{}/{protocol}", self.address)?;
        match self.network {
            ListenNetwork::Machine => Ok(()),
            ListenNetwork::Node(node) => write!(f, " of node {node}"),
        }
    }
}

/// An endpoint to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    /// The address at which it really listens.
    pub address: SocketAddr,
    /// The name of its node.
    pub node: Option<String>,
}

/// The endpoints behind a bind address, and the rules for choosing one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Endpoints for new connections.
    pub ready: Vec<Backend>,
    /// Endpoints that serve while they terminate; used only if none is ready.
    pub draining: Vec<Backend>,
    /// Clients on a node get only that node's endpoints (internalTrafficPolicy Local).
    pub of_clients_node: bool,
    /// A client keeps its endpoint for this long after its last connection (sessionAffinity ClientIP).
    pub affinity: Option<Duration>,
}

impl Balance {
    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.draining.is_empty()
    }

    fn only_of(&self, node: &str) -> Self {
        let keep =
            |all: &[Backend]| all.iter().filter(|b| b.node.as_deref() == Some(node)).cloned().collect();
        Self { ready: keep(&self.ready), draining: keep(&self.draining), ..self.clone() }
    }
}

/// A bind address with its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) bind_address: BindAddress,
    /// The port as the service declares it; differs from the bind address' port if a low port was moved.
    pub(crate) declared: u16,
    pub(crate) balance: Balance,
    /// Listen only once the program behind it listens: a program that binds every address would otherwise find its port
    /// taken.
    pub(crate) program_first: bool,
    /// Another owner may have the address instead; no event is recorded for that.
    pub(crate) spare: bool,
}

/// Returns the listeners of a service; those on declared ports come before moved ones.
pub(crate) fn listeners(
    joined: &ServiceEndpoints,
    machine: &NetworkTopology,
    low_ports: LowPorts,
) -> Vec<Listener> {
    let Some(spec) =
        joined.service.as_ref().filter(|service| !is_unmanaged(service)).and_then(|s| s.spec.as_ref())
    else {
        return Vec::new();
    };
    let cluster_ips = addresses(spec.cluster_ip.as_slice());
    if cluster_ips.is_empty() {
        return Vec::new();
    }
    let external_ips = addresses(spec.external_ips.as_deref().unwrap_or_default());
    let balancers = joined.service.as_ref().map(|service| balancers(service)).unwrap_or_default();
    let balancers: Vec<Ipv4Addr> = balancers.into_iter().filter(Ipv4Addr::is_loopback).collect();
    let mut all = Vec::new();
    for port in spec.ports.iter().flatten() {
        let Some(protocol) = Protocol::of(port.protocol.as_deref()) else { continue };
        let name = port.name.as_deref().unwrap_or_default();
        let inside = Balance {
            of_clients_node: spec.internal_traffic_policy.as_deref() == Some("Local"),
            affinity: affinity(spec),
            // The bind addresses are IPv4.
            ..endpoints_of("IPv4", name, protocol, joined, machine)
        };
        let outside = Balance { of_clients_node: false, ..inside.clone() };
        let mut add = |ip: Ipv4Addr, number: Option<i32>, balance: Balance| {
            let Some(declared) = number.and_then(port_number) else { return };
            if !balance.is_empty() {
                let address = SocketAddr::new(ip.into(), low_ports.served(declared));
                let bind_address = BindAddress { network: ListenNetwork::Machine, address, protocol };
                all.push(Listener { bind_address, declared, balance, program_first: false, spare: false });
            }
        };
        for ip in &cluster_ips {
            add(*ip, Some(port.port), inside.clone());
        }
        for ip in external_ips.iter().chain(&balancers) {
            add(*ip, Some(port.port), outside.clone());
        }
        if matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer")) {
            // 127.0.0.1 stands for the machine, which all nodes share.
            add(Ipv4Addr::LOCALHOST, port.node_port, outside.clone());
            for (ip, node) in machine.node_addresses() {
                let local = spec.external_traffic_policy.as_deref() == Some("Local");
                add(ip, port.node_port, if local { outside.only_of(node) } else { outside.clone() });
            }
        }
    }
    // A listener on a declared port must not lose its bind address to one that was moved there.
    all.order_by_key(|listener| listener.declared != listener.bind_address.address.port());
    all
}

/// Returns the addresses of a service's load balancer, unless its source ranges exclude 127.0.0.1: programs of this
/// machine connect from there, and nothing more is known about them.
pub(crate) fn balancers(service: &Service) -> Vec<Ipv4Addr> {
    let spec = service.spec.as_ref();
    let ranges = spec.and_then(|spec| spec.load_balancer_source_ranges.as_deref()).unwrap_or_default();
    let machine = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let lets_in = |text: &String| text.trim().parse::<IpNet>().is_ok_and(|range| range.contains(&machine));
    if !ranges.is_empty() && !ranges.iter().any(lets_in) {
        return Vec::new();
    }
    let v4 = |ip| match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    };
    load_balancer_ips(service).filter_map(v4).collect()
}

/// Returns whether the service needs no proxy of ours: it is of type ExternalName, or another proxy serves it.
pub fn is_unmanaged(service: &Service) -> bool {
    let labels = service.metadata.labels.as_ref();
    service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("ExternalName"))
        || labels.is_some_and(|labels| labels.contains_key(OTHER_PROXY))
}

/// Parses addresses and keeps those of this machine's loopback; the proxy does not listen at others.
fn addresses(texts: &[String]) -> Vec<Ipv4Addr> {
    texts.iter().filter_map(|text| text.parse().ok()).filter(Ipv4Addr::is_loopback).collect()
}

/// Returns the endpoints of a service port by its name. IPv6 endpoints are used only if there are no IPv4 ones, because
/// a service with both families has the same pods in both.
pub fn endpoints_of_either_family(
    name: &str,
    protocol: Protocol,
    joined: &ServiceEndpoints,
    machine: &NetworkTopology,
) -> Balance {
    let first = endpoints_of("IPv4", name, protocol, joined, machine);
    if first.is_empty() { endpoints_of("IPv6", name, protocol, joined, machine) } else { first }
}

fn endpoints_of(
    address_type: &str,
    name: &str,
    protocol: Protocol,
    joined: &ServiceEndpoints,
    machine: &NetworkTopology,
) -> Balance {
    let mut balance = Balance::default();
    let mut seen = HashSet::new();
    for slice in joined.slices.values().filter(|slice| slice.address_type == address_type) {
        let Some(number) = port_in(slice, name, protocol) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            if let Some(state) = endpoint::state(endpoint)
                && let Some(backend) = backend(endpoint, number, machine)
                && seen.insert(backend.address)
            {
                match state {
                    EndpointState::Ready => balance.ready.push(backend),
                    EndpointState::Draining => balance.draining.push(backend),
                }
            }
        }
    }
    balance
}

/// Returns how long a client of the service keeps its endpoint; `None` without session affinity.
pub fn affinity(spec: &ServiceSpec) -> Option<Duration> {
    let config = spec.session_affinity_config.as_ref().and_then(|c| c.client_ip.as_ref());
    let seconds = config.and_then(|c| c.timeout_seconds).and_then(|s| u64::try_from(s).ok());
    (spec.session_affinity.as_deref() == Some("ClientIP"))
        .then(|| Duration::from_secs(seconds.unwrap_or(10_800)))
}

/// Returns the number of a service's port in a slice; the slice's controller has resolved `targetPort`.
pub fn port_in(slice: &EndpointSlice, name: &str, protocol: Protocol) -> Option<u16> {
    let same = slice.ports.iter().flatten().find(|p| {
        p.name.as_deref().unwrap_or_default() == name && Protocol::of(p.protocol.as_deref()) == Some(protocol)
    });
    same?.port.and_then(port_number)
}

fn backend(endpoint: &Endpoint, number: u16, machine: &NetworkTopology) -> Option<Backend> {
    // The addresses of one endpoint are interchangeable.
    let ip: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let is_pod = endpoint::pod(endpoint).is_some();
    // A pod of a hollow node has no processes, and its address may belong to a host on a real network.
    if is_pod && !ip.is_loopback() && !machine.fabric.iter().any(|pods| pods.contains(&ip)) {
        return None;
    }
    // An endpoint at a service's address would be a loop.
    if IpNet::V4(machine.services).contains(&ip) || (NODE_PORTS.contains(&number) && is_of_node(ip, machine))
    {
        return None;
    }
    let port = machine.served(endpoint.node_name.as_deref().filter(|_| is_pod), number);
    Some(Backend { address: SocketAddr::new(ip, port), node: endpoint.node_name.clone() })
}

fn is_of_node(ip: IpAddr, machine: &NetworkTopology) -> bool {
    let is_localhost = ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST;
    is_localhost || machine.node_addresses().any(|(address, _)| address == ip)
}
