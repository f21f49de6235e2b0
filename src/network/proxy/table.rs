//! Where the proxy must listen for a service, and which endpoints are behind each place.
//!
//! Pure: a service with its slices in, its listeners out. The rules are kube-proxy's: ready endpoints, or, when
//! there is none, those that still serve while they terminate; no endpoint, no listener, so that a connection
//! is refused.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use crate::network::follow::Joined;
use crate::network::machine::Machine;
use crate::object::low_ports::LowPorts;

/// The label of services that another proxy serves.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// What the API gives node ports from; an endpoint there would be the proxy itself.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// A transport protocol; SCTP is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Protocol {
    fn of(text: Option<&str>) -> Option<Self> {
        match text.unwrap_or("TCP") {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            _ => None,
        }
    }
}

/// Where the proxy listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The address and port as bound.
    pub address: SocketAddr,
    /// For connections or datagrams.
    pub protocol: Protocol,
}

/// `127.32.1.0:80/TCP`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        write!(f, "{}/{protocol}", self.address)
    }
}

/// One endpoint as it is connected to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    /// Where it is really served.
    pub address: SocketAddr,
    /// Its node.
    pub node: Option<String>,
}

/// Which endpoints a client gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Those for new connections.
    pub ready: Vec<Backend>,
    /// Those that serve while they terminate: only when none is ready.
    pub draining: Vec<Backend>,
    /// A client of a node gets only that node's endpoints (internalTrafficPolicy Local).
    pub of_clients_node: bool,
    /// How long a client keeps its endpoint after its last connection (sessionAffinity ClientIP).
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

/// A place with what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Where.
    pub place: Place,
    /// The port as the service declares it; another than the place's where low ports are moved.
    pub declared: u16,
    /// What is behind it.
    pub balance: Balance,
}

/// Every place where a service must be served now; places on declared ports before moved ones.
pub fn listeners(joined: &Joined, machine: &Machine, low_ports: LowPorts) -> Vec<Listener> {
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
                all.push(Listener { place: Place { address, protocol }, declared, balance });
            }
        };
        for ip in &cluster_ips {
            add(*ip, Some(port.port), inside.clone());
        }
        for ip in &external_ips {
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
    // A port that is declared must not lose its place to one that only moved there.
    all.sort_by_key(|listener| listener.declared != listener.place.address.port());
    all
}

fn is_left_alone(service: &Service) -> bool {
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
    let mut balance = Balance { affinity: affinity(spec), ..Balance::default() };
    let mut seen = HashSet::new();
    for slice in joined.slices.values().filter(|slice| slice.address_type == "IPv4") {
        let Some(number) = port_in(slice, port.name.as_deref().unwrap_or_default(), protocol) else {
            continue;
        };
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

fn affinity(spec: &ServiceSpec) -> Option<Duration> {
    let config = spec.session_affinity_config.as_ref().and_then(|c| c.client_ip.as_ref());
    let seconds = config.and_then(|c| c.timeout_seconds).and_then(|s| u64::try_from(s).ok());
    (spec.session_affinity.as_deref() == Some("ClientIP"))
        .then(|| Duration::from_secs(seconds.unwrap_or(10_800)))
}

/// The number a slice has for a service's port: targetPort was resolved by whoever wrote the slice.
fn port_in(slice: &EndpointSlice, name: &str, protocol: Protocol) -> Option<u16> {
    let same = slice.ports.iter().flatten().find(|p| {
        p.name.as_deref().unwrap_or_default() == name && Protocol::of(p.protocol.as_deref()) == Some(protocol)
    });
    same?.port.and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0)
}

fn backend(endpoint: &Endpoint, number: u16, machine: &Machine) -> Option<Backend> {
    // The addresses of one endpoint are interchangeable.
    let ip: Ipv4Addr = endpoint.addresses.first()?.parse().ok()?;
    let is_pod = endpoint.target_ref.as_ref().is_some_and(|target| target.kind.as_deref() == Some("Pod"));
    // A pod of a hollow node: nobody listens there, and the address may be somebody's on a real network.
    if is_pod && !ip.is_loopback() {
        return None;
    }
    // Through the proxy once more would be a loop.
    if machine.services.contains(IpAddr::V4(ip)) || (NODE_PORTS.contains(&number) && is_of_node(ip, machine))
    {
        return None;
    }
    let port = machine.served(endpoint.node_name.as_deref().filter(|_| is_pod), number);
    Some(Backend { address: SocketAddr::new(ip.into(), port), node: endpoint.node_name.clone() })
}

fn is_of_node(ip: Ipv4Addr, machine: &Machine) -> bool {
    ip == Ipv4Addr::LOCALHOST || machine.node_addresses().any(|(address, _)| address == ip)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::AddressRange;
    use crate::network::machine::NodeFacts;
    use crate::object::{Key, Shared};

    /// Ports and endpoints of each slice.
    type Slices = Vec<(Value, Vec<Value>)>;

    fn machine() -> Machine {
        let node = |n: u8, start: u16| NodeFacts {
            ip: Some([127, 16, 0, n].into()),
            pods: Some(AddressRange { base: [127, 64, n, 0].into(), bits: 8 }),
            low_ports: LowPorts::below(start),
        };
        let nodes = [("n1", node(1, 0)), ("n2", node(2, 1024))].map(|(name, n)| (name.to_string(), n)).into();
        Machine { nodes, services: AddressRange { base: [127, 32, 0, 0].into(), bits: 16 } }
    }

    /// An endpoint of a node: `r`eady, `n`ot ready, `t`erminating but serving, or `g`one deaf.
    fn endpoint(node: u8, host: u8, state: char) -> Value {
        let (ready, serving, terminating) = match state {
            'r' => (true, true, false),
            't' => (false, true, true),
            'g' => (false, false, true),
            _ => (false, false, false),
        };
        json!({"addresses": [format!("127.64.{node}.{host}")], "nodeName": format!("n{node}"),
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            "targetRef": {"kind": "Pod", "name": format!("p{host}")}})
    }

    fn joined(spec: &Value, slices: &[(Value, Vec<Value>)]) -> Joined {
        let mut base = json!({"type": "ClusterIP", "clusterIP": "127.32.1.5",
            "ports": [{"port": 80, "protocol": "TCP"}]});
        json_patch::merge(&mut base, spec);
        let service = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": base});
        let slices = slices.iter().enumerate().map(|(n, (ports, endpoints))| {
            let value = json!({"metadata": {"name": format!("web-{n}"), "namespace": "default"},
                "addressType": "IPv4", "ports": ports, "endpoints": endpoints});
            let slice = Shared::from_value(serde_json::from_value(value).unwrap());
            (Key::new("default", format!("web-{n}")), slice)
        });
        let slices = slices.collect();
        Joined { service: Some(Shared::from_value(serde_json::from_value(service).unwrap())), slices }
    }

    /// `place -> ready | draining`, a line each.
    fn told(joined: &Joined, low_ports: LowPorts) -> Vec<String> {
        let list = |all: &[Backend]| all.iter().map(|b| b.address.to_string()).collect::<Vec<_>>().join(",");
        let line = |l: Listener| {
            let (ready, draining) = (list(&l.balance.ready), list(&l.balance.draining));
            let draining = if draining.is_empty() { draining } else { format!(" | {draining}") };
            format!("{} -> {ready}{draining}", l.place)
        };
        listeners(joined, &machine(), low_ports).into_iter().map(line).collect()
    }

    #[test]
    fn a_service_is_served_where_and_by_whom_kube_proxy_would_svc_1_net_2() {
        let http = json!([{"name": "", "port": 8080, "protocol": "TCP"}]);
        let two = vec![endpoint(1, 2, 'r'), endpoint(2, 2, 'r')];
        let cases: Vec<(&str, Value, Slices, &[&str])> = vec![
            (
                "ready endpoints",
                json!({}),
                vec![(http.clone(), two.clone())],
                &["127.32.1.5:80/TCP -> 127.64.1.2:8080,127.64.2.2:8080"],
            ),
            (
                "those of all slices, each once",
                json!({}),
                vec![
                    (http.clone(), two.clone()),
                    (http.clone(), vec![endpoint(1, 3, 'r'), endpoint(1, 2, 'r')]),
                ],
                &["127.32.1.5:80/TCP -> 127.64.1.2:8080,127.64.2.2:8080,127.64.1.3:8080"],
            ),
            (
                "terminating ones are kept apart",
                json!({}),
                vec![(http.clone(), vec![endpoint(1, 2, 't'), endpoint(1, 3, 'r'), endpoint(1, 4, 'g')])],
                &["127.32.1.5:80/TCP -> 127.64.1.3:8080 | 127.64.1.2:8080"],
            ),
            ("none that is of use", json!({}), vec![(http.clone(), vec![endpoint(1, 2, 'n')])], &[]),
            ("none at all", json!({}), vec![(json!([]), vec![])], &[]),
            ("headless", json!({"clusterIP": "None"}), vec![(http.clone(), two.clone())], &[]),
            ("ExternalName", json!({"type": "ExternalName", "clusterIP": null}), vec![], &[]),
            ("not on loopback", json!({"clusterIP": "10.96.0.5"}), vec![(http.clone(), two.clone())], &[]),
            (
                "by name and protocol",
                json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP"}, {"name": "s", "port": 9, "protocol": "SCTP"}]}),
                vec![(
                    json!([{"name": "dns", "port": 5353, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 5354, "protocol": "TCP"}]),
                    vec![endpoint(1, 2, 'r')],
                )],
                &["127.32.1.5:53/UDP -> 127.64.1.2:5353", "127.32.1.5:53/TCP -> 127.64.1.2:5354"],
            ),
            (
                "node ports",
                json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]}),
                vec![(http.clone(), vec![endpoint(1, 2, 'r')])],
                &[
                    "127.32.1.5:80/TCP -> 127.64.1.2:8080",
                    "127.0.0.1:30080/TCP -> 127.64.1.2:8080",
                    "127.16.0.1:30080/TCP -> 127.64.1.2:8080",
                    "127.16.0.2:30080/TCP -> 127.64.1.2:8080",
                ],
            ),
            (
                "node ports of the node's own",
                json!({"type": "NodePort", "externalTrafficPolicy": "Local",
                    "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]}),
                vec![(http.clone(), vec![endpoint(1, 2, 'r')])],
                &[
                    "127.32.1.5:80/TCP -> 127.64.1.2:8080",
                    "127.0.0.1:30080/TCP -> 127.64.1.2:8080",
                    "127.16.0.1:30080/TCP -> 127.64.1.2:8080",
                ],
            ),
            (
                "external addresses, of loopback only",
                json!({"externalIPs": ["127.9.9.9", "192.0.2.1"]}),
                vec![(http.clone(), vec![endpoint(1, 2, 'r')])],
                &["127.32.1.5:80/TCP -> 127.64.1.2:8080", "127.9.9.9:80/TCP -> 127.64.1.2:8080"],
            ),
            (
                "a pod's low port is where its node serves it",
                json!({}),
                vec![(json!([{"name": null, "port": 80, "protocol": null}]), two.clone())],
                &["127.32.1.5:80/TCP -> 127.64.1.2:80,127.64.2.2:8080"],
            ),
            (
                "never itself, never a hollow pod; what was written by hand is taken as it is",
                json!({}),
                vec![(
                    json!([{"name": "", "port": 30080, "protocol": "TCP"}]),
                    vec![
                        json!({"addresses": ["127.32.1.5"]}),
                        json!({"addresses": ["127.0.0.1"]}),
                        json!({"addresses": ["127.16.0.1"]}),
                        json!({"addresses": ["nonsense"]}),
                        json!({"addresses": []}),
                        json!({"addresses": ["10.64.0.5"], "targetRef": {"kind": "Pod"}}),
                        json!({"addresses": ["192.0.2.7"]}),
                    ],
                )],
                &["127.32.1.5:80/TCP -> 192.0.2.7:30080"],
            ),
        ];
        for (rule, spec, slices, expected) in cases {
            assert_eq!(told(&joined(&spec, &slices), LowPorts::default()), expected, "{rule}");
        }
        assert_eq!(told(&Joined::default(), LowPorts::default()), [""; 0], "gone");
    }

    #[test]
    fn a_declared_port_comes_before_one_that_moved_net_1() {
        let ports = json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 8080, "protocol": "TCP"}]);
        let targets = json!([{"name": "a", "port": 9001, "protocol": "TCP"}, {"name": "b", "port": 9002, "protocol": "TCP"}]);
        let joined = joined(&json!({"ports": ports}), &[(targets, vec![endpoint(1, 2, 'r')])]);
        assert_eq!(
            told(&joined, LowPorts::below(1024)),
            ["127.32.1.5:8080/TCP -> 127.64.1.2:9002", "127.32.1.5:8080/TCP -> 127.64.1.2:9001",]
        );
    }

    #[test]
    fn policies_and_affinity_are_read_svc_1() {
        let spec = json!({"internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 7}}});
        let slices = [(json!([{"name": "", "port": 1, "protocol": "TCP"}]), vec![endpoint(1, 2, 'r')])];
        let found = listeners(&joined(&spec, &slices), &machine(), LowPorts::default());
        assert!(found[0].balance.of_clients_node);
        assert_eq!(found[0].balance.affinity, Some(Duration::from_secs(7)));
    }
}
