//! Where the proxy must listen for a service, and which endpoints are behind each bind address.
//!
//! Pure: a service with its slices in, its listeners out. The rules are kube-proxy's: ready endpoints, or, when
//! there is none, those that still serve while they terminate; no endpoint, no listener, so that a connection
//! is refused.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use crate::follow::Joined;
use crate::machine::Machine;
use object::low_ports::LowPorts;

/// The label of services that another proxy serves.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// What the API gives node ports from; an endpoint there would be the proxy itself.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// A transport protocol; SCTP is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Protocol {
    pub(crate) fn of(text: Option<&str>) -> Option<Self> {
        match text.unwrap_or("TCP") {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            _ => None,
        }
    }
}

/// In whose network the proxy listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The machine's.
    Machine,
    /// That of the node with this address, where nodes have networks of their own.
    Node(Ipv4Addr),
}

/// Where the proxy listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BindAddress {
    /// In this network.
    pub(crate) place: Place,
    /// The address and port as bound.
    pub(crate) address: SocketAddr,
    /// For connections or datagrams.
    pub(crate) protocol: Protocol,
}

/// `127.32.1.0:80/TCP`, `127.0.0.1:80/TCP of node 172.16.0.2`
impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        write!(f, "{}/{protocol}", self.address)?;
        match self.place {
            Place::Machine => Ok(()),
            Place::Node(node) => write!(f, " of node {node}"),
        }
    }
}

/// One endpoint as it is connected to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Backend {
    /// Where it is really served.
    pub(crate) address: SocketAddr,
    /// Its node.
    pub(crate) node: Option<String>,
}

/// Which endpoints a client gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    /// Those for new connections.
    pub(crate) ready: Vec<Backend>,
    /// Those that serve while they terminate: only when none is ready.
    pub(crate) draining: Vec<Backend>,
    /// A client of a node gets only that node's endpoints (internalTrafficPolicy Local).
    pub(crate) of_clients_node: bool,
    /// How long a client keeps its endpoint after its last connection (sessionAffinity ClientIP).
    pub(crate) affinity: Option<Duration>,
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

/// A bind address with what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// Where.
    pub(crate) bind_address: BindAddress,
    /// The port as the service declares it; another than the bind address's where low ports are moved.
    pub(crate) declared: u16,
    /// What is behind it.
    pub(crate) balance: Balance,
    /// Only once the program behind it listens: one that binds every address would find its port taken.
    pub(crate) program_first: bool,
    /// It may be another's instead, and that is nothing to tell.
    pub(crate) spare: bool,
}

/// Every bind address where a service must be served now; bind addresses on declared ports before moved ones.
pub(crate) fn listeners(joined: &Joined, machine: &Machine, low_ports: LowPorts) -> Vec<Listener> {
    let Some(spec) =
        joined.service.as_ref().filter(|service| !is_left_alone(service)).and_then(|s| s.spec.as_ref())
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
        let inside = Balance {
            of_clients_node: spec.internal_traffic_policy.as_deref() == Some("Local"),
            ..balance(spec, port, protocol, joined, machine)
        };
        let outside = Balance { of_clients_node: false, ..inside.clone() };
        let mut add = |ip: Ipv4Addr, number: Option<i32>, balance: Balance| {
            let Some(declared) = number.and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0) else {
                return;
            };
            if !balance.is_empty() {
                let address = SocketAddr::new(ip.into(), low_ports.served(declared));
                let bind_address = BindAddress { place: Place::Machine, address, protocol };
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
            // 127.0.0.1 is the machine that all nodes share.
            add(Ipv4Addr::LOCALHOST, port.node_port, outside.clone());
            for (ip, node) in machine.node_addresses() {
                let local = spec.external_traffic_policy.as_deref() == Some("Local");
                add(ip, port.node_port, if local { outside.only_of(node) } else { outside.clone() });
            }
        }
    }
    // A port that is declared must not lose its bind address to one that only moved there.
    all.sort_by_key(|listener| listener.declared != listener.bind_address.address.port());
    all
}

/// The addresses of a service's load balancer, where programs of this machine may come to it: who they are is not known
/// but that they are of 127.0.0.1.
pub(crate) fn balancers(service: &Service) -> Vec<Ipv4Addr> {
    let spec = service.spec.as_ref();
    if spec.is_none_or(|spec| spec.type_.as_deref() != Some("LoadBalancer")) {
        return Vec::new();
    }
    let ranges = spec.and_then(|spec| spec.load_balancer_source_ranges.as_deref()).unwrap_or_default();
    let machine = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let lets_in = |text: &String| text.trim().parse::<IpNet>().is_ok_and(|range| range.contains(&machine));
    if !ranges.is_empty() && !ranges.iter().any(lets_in) {
        return Vec::new();
    }
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let points = status.and_then(|status| status.ingress.as_ref()).into_iter().flatten();
    points.filter_map(|point| point.ip.as_ref()?.parse().ok()).collect()
}

pub(crate) fn is_left_alone(service: &Service) -> bool {
    let labels = service.metadata.labels.as_ref();
    service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("ExternalName"))
        || labels.is_some_and(|labels| labels.contains_key(OTHER_PROXY))
}

/// The addresses of this machine's loopback; others are not ours to listen on.
fn addresses(texts: &[String]) -> Vec<Ipv4Addr> {
    texts.iter().filter_map(|text| text.parse().ok()).filter(Ipv4Addr::is_loopback).collect()
}

/// The endpoints of one port of a service.
fn balance(
    spec: &ServiceSpec,
    port: &ServicePort,
    protocol: Protocol,
    joined: &Joined,
    machine: &Machine,
) -> Balance {
    let name = port.name.as_deref().unwrap_or_default();
    Balance { affinity: affinity(spec), ..endpoints(name, protocol, joined, machine) }
}

/// The endpoints behind a port of a service, by its name: those of IPv4, whose addresses are listened at here.
fn endpoints(name: &str, protocol: Protocol, joined: &Joined, machine: &Machine) -> Balance {
    endpoints_of("IPv4", name, protocol, joined, machine)
}

/// The endpoints behind a port of a service, by its name. Where a service has both families they are the same pods: those
/// of IPv6 are asked for only where there is none of IPv4.
pub(crate) fn endpoints_of_either_family(
    name: &str,
    protocol: Protocol,
    joined: &Joined,
    machine: &Machine,
) -> Balance {
    let first = endpoints(name, protocol, joined, machine);
    if first.is_empty() { endpoints_of("IPv6", name, protocol, joined, machine) } else { first }
}

fn endpoints_of(
    address_type: &str,
    name: &str,
    protocol: Protocol,
    joined: &Joined,
    machine: &Machine,
) -> Balance {
    let mut balance = Balance::default();
    let mut seen = HashSet::new();
    for slice in joined.slices.values().filter(|slice| slice.address_type == address_type) {
        let Some(number) = port_in(slice, name, protocol) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            let conditions = endpoint.conditions.clone().unwrap_or_default();
            let ready = conditions.ready.unwrap_or(true);
            let draining = conditions.terminating == Some(true) && conditions.serving.unwrap_or(ready);
            if (ready || draining)
                && let Some(backend) = backend(endpoint, number, machine)
                && seen.insert(backend.address)
            {
                if ready { &mut balance.ready } else { &mut balance.draining }.push(backend);
            }
        }
    }
    balance
}

pub(crate) fn affinity(spec: &ServiceSpec) -> Option<Duration> {
    let config = spec.session_affinity_config.as_ref().and_then(|c| c.client_ip.as_ref());
    let seconds = config.and_then(|c| c.timeout_seconds).and_then(|s| u64::try_from(s).ok());
    (spec.session_affinity.as_deref() == Some("ClientIP"))
        .then(|| Duration::from_secs(seconds.unwrap_or(10_800)))
}

/// The number a slice has for a service's port: targetPort was resolved by whoever wrote the slice.
pub(crate) fn port_in(slice: &EndpointSlice, name: &str, protocol: Protocol) -> Option<u16> {
    let same = slice.ports.iter().flatten().find(|p| {
        p.name.as_deref().unwrap_or_default() == name && Protocol::of(p.protocol.as_deref()) == Some(protocol)
    });
    same?.port.and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0)
}

fn backend(endpoint: &Endpoint, number: u16, machine: &Machine) -> Option<Backend> {
    // The addresses of one endpoint are interchangeable.
    let ip: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let is_pod = endpoint.target_ref.as_ref().is_some_and(|target| target.kind.as_deref() == Some("Pod"));
    // A pod of a hollow node: nobody listens there, and the address may be somebody's on a real network.
    if is_pod && !ip.is_loopback() && !machine.fabric.iter().any(|pods| pods.contains(&ip)) {
        return None;
    }
    // Through the proxy once more would be a loop.
    if IpNet::V4(machine.services).contains(&ip) || (NODE_PORTS.contains(&number) && is_of_node(ip, machine))
    {
        return None;
    }
    let port = machine.served(endpoint.node_name.as_deref().filter(|_| is_pod), number);
    Some(Backend { address: SocketAddr::new(ip, port), node: endpoint.node_name.clone() })
}

fn is_of_node(ip: IpAddr, machine: &Machine) -> bool {
    let is_localhost = ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST;
    is_localhost || machine.node_addresses().any(|(address, _)| address == ip)
}
