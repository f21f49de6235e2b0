//! Mirrors (NET-7): loopback addresses at which programs of the machine reach services and pods in the fabric.
//!
//! Each address of the cluster has a mirror in 127.0.0.0/8: in another range, at the same offset. The proxy forwards
//! connections to a mirror to the address that it stands for, through a socket inside the fabric, where the kernel
//! chooses the endpoint. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpAdd, IpSub, Ipv4Net};
use k8s_openapi::api::core::v1::Pod;

use super::host_ports::includes;
use super::table::{
    Backend, Balance, BindAddress, ListenNetwork, Listener, Protocol, balancers, is_unmanaged,
};
use crate::ServiceEndpoints;
use object::host_ports::declared_ports;
use object::low_ports::LowPorts;
use object::pod::{addresses, is_on_host_network, is_terminal};
use object::service::cluster_ips;
use object::well_known::annotation::{
    PODIUM_MACHINE_ADDRESSES, PODIUM_MACHINE_IPV6, PODIUM_MACHINE_LOW_PORTS,
};
use object::{endpoint, port_number};

/// Maps addresses of the cluster to their mirrors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrors {
    /// Ranges of the cluster, with the ranges of their mirrors.
    pub ranges: Vec<(Ipv4Net, Ipv4Net)>,
    /// Ports that this process may not bind: they are served 8000 higher.
    pub low_ports: LowPorts,
    /// The machine has ::1.
    pub has_ipv6: bool,
}

impl Mirrors {
    /// Returns the mirrors in a loopback network: every address is its own mirror.
    pub fn of_loopback(low_ports: LowPorts) -> Self {
        Self { ranges: Vec::new(), low_ports, has_ipv6: false }
    }

    /// Returns annotations for the Service `default/kubernetes`, from which clients learn the mirrors, such as
    /// `10.96.0.0/16=127.33.0.0/16`. An annotation without a value does not apply.
    pub fn annotations(&self) -> [(&'static str, Option<String>); 3] {
        let ranges = self.ranges.iter().map(|(inside, machine)| format!("{inside}={machine}"));
        [
            (PODIUM_MACHINE_ADDRESSES, Some(ranges.collect::<Vec<_>>().join(" "))),
            (PODIUM_MACHINE_LOW_PORTS, Some(self.low_ports.text())),
            (PODIUM_MACHINE_IPV6, self.has_ipv6.then(|| "true".to_owned())),
        ]
    }

    /// Parses [`Mirrors::annotations`]; `None` if they are missing or invalid.
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let pair = |text: &str| {
            let (inside, machine) = text.split_once('=')?;
            Some((inside.parse().ok()?, machine.parse().ok()?))
        };
        let ranges = annotations
            .get(PODIUM_MACHINE_ADDRESSES)?
            .split_ascii_whitespace()
            .map(pair)
            .collect::<Option<_>>()?;
        let low_ports = LowPorts::read(annotations.get(PODIUM_MACHINE_LOW_PORTS).map(String::as_str));
        let has_ipv6 = annotations.get(PODIUM_MACHINE_IPV6).is_some_and(|value| value == "true");
        Some(Self { ranges, low_ports, has_ipv6 })
    }

    /// Returns the machine's address for a port of an address of the cluster; `None` if programs of the machine cannot
    /// reach it.
    pub fn on_machine(&self, ip: Ipv4Addr, port: u16) -> Option<SocketAddr> {
        let ip = if self.ranges.is_empty() { Some(ip).filter(Ipv4Addr::is_loopback) } else { self.of(ip) };
        Some(SocketAddr::new(ip?.into(), self.low_ports.served(port)))
    }

    /// Returns an address' mirror; `None` if it is in no range, or its mirror would be outside the mirror range.
    pub(crate) fn of(&self, ip: Ipv4Addr) -> Option<Ipv4Addr> {
        let (inside, outside) = self.ranges.iter().find(|(inside, _)| inside.contains(&ip))?;
        let mirror = outside.network().saturating_add(ip.saturating_sub(inside.network()));
        outside.contains(&mirror).then_some(mirror)
    }

    fn listener(&self, at: IpAddr, to: Target, port: u16, spare: bool) -> Listener {
        let address = SocketAddr::new(at, self.low_ports.served(port));
        listener(BindAddress { network: ListenNetwork::Machine, address, protocol: to.protocol }, to, spare)
    }

    /// Returns the machine's own addresses that lead to these addresses of the cluster, each with its target. 127.0.0.1
    /// also leads to targets that have only an IPv6 address; otherwise IPv4 clients could not reach them.
    pub fn of_machine(&self, own: &[IpAddr]) -> Vec<(IpAddr, IpAddr)> {
        let [v4, v6] = [first(own, IpAddr::is_ipv4), first(own, IpAddr::is_ipv6)];
        let localhost = v4.or(v6).map(|own| (Ipv4Addr::LOCALHOST.into(), own));
        let second = v6.filter(|_| self.has_ipv6).map(|own| (Ipv6Addr::LOCALHOST.into(), own));
        localhost.into_iter().chain(second).collect()
    }
}

/// The target of a listener.
#[derive(Clone, Copy)]
struct Target {
    address: SocketAddr,
    protocol: Protocol,
}

impl Target {
    fn new(ip: IpAddr, port: u16, protocol: Protocol) -> Self {
        Self { address: SocketAddr::new(ip, port), protocol }
    }
}

fn listener(bind_address: BindAddress, to: Target, spare: bool) -> Listener {
    let balance = Balance { ready: vec![Backend { address: to.address, node: None }], ..Balance::default() };
    // The mirror's address already tells users about a moved port; an event for every pod would be noise.
    let declared = bind_address.address.port();
    Listener { bind_address, declared, balance, program_first: false, spare }
}

fn first(all: &[IpAddr], family: fn(&IpAddr) -> bool) -> Option<IpAddr> {
    all.iter().copied().find(family)
}

/// Returns the listeners of a service: at the mirrors of its addresses, and at the machine's own addresses for node
/// ports. A service without endpoints has no listeners, so that connections are refused.
pub(super) fn of_service(joined: &ServiceEndpoints, mirrors: &Mirrors) -> Vec<Listener> {
    let service = joined.service.as_ref().filter(|service| !is_unmanaged(service));
    let Some(spec) = service.and_then(|service| service.spec.as_ref()) else { return Vec::new() };
    let own: Vec<IpAddr> = cluster_ips(spec).collect();
    if own.is_empty() || !is_served(joined) {
        return Vec::new();
    }
    let balancers = service.map(|service| balancers(service)).unwrap_or_default();
    let mut all = Vec::new();
    for port in spec.ports.iter().flatten() {
        let Some((declared, protocol)) = port_number(port.port).zip(Protocol::of(port.protocol.as_deref()))
        else {
            continue;
        };
        if let Some(IpAddr::V4(ip)) = first(&own, IpAddr::is_ipv4) {
            let to = Target::new(ip.into(), declared, protocol);
            let at = [ip].into_iter().chain(balancers.iter().copied()).filter_map(|ip| mirrors.of(ip));
            all.extend(at.map(|mirror| mirrors.listener(mirror.into(), to, declared, false)));
        }
        if let Some(node_port) = port.node_port.and_then(port_number) {
            let of_machine = mirrors.of_machine(&own).into_iter();
            all.extend(
                of_machine.map(|(at, ip)| {
                    mirrors.listener(at, Target::new(ip, declared, protocol), node_port, false)
                }),
            );
        }
    }
    all
}

fn is_served(joined: &ServiceEndpoints) -> bool {
    let mut endpoints = joined.slices.values().flat_map(|slice| slice.endpoints.iter().flatten());
    endpoints.any(|endpoint| endpoint::state(endpoint).is_some())
}

/// Returns the listeners of a pod: at the mirror of its address for each port that it declares, and for host ports at
/// the mirror of its node and at 127.0.0.1 and ::1 of the machine, unless another pod has these. The host ports of a
/// pod with a network of its own are also served at 127.0.0.1 and ::1 of its node; the kernel serves the node's other
/// addresses (`network::rules`).
pub(super) fn of_pod(pod: &Pod, mirrors: &Mirrors) -> Vec<Listener> {
    let Some(status) = pod.status.as_ref().filter(|_| !is_terminal(pod)) else { return Vec::new() };
    let own = addresses(pod);
    let node = status.host_ip.as_ref().and_then(|ip| ip.parse::<Ipv4Addr>().ok());
    // A pod on its node's network listens there itself, including at 127.0.0.1, and needs the port.
    let in_node = node.filter(|_| !is_on_host_network(pod));
    let mut all: Vec<Listener> = Vec::new();
    for port in declared_ports(pod) {
        let Some((inside, protocol)) =
            port_number(port.container_port).zip(Protocol::of(port.protocol.as_deref()))
        else {
            continue;
        };
        let v4 = first(&own, IpAddr::is_ipv4);
        let at_mirror = v4.and_then(|ip| match ip {
            IpAddr::V4(v4) => Some((IpAddr::V4(mirrors.of(v4)?), ip)),
            IpAddr::V6(_) => None,
        });
        let target = |ip| Target::new(ip, inside, protocol);
        let at_mirror = at_mirror.map(|(at, ip)| mirrors.listener(at, target(ip), inside, true));
        let mut desired: Vec<Listener> = at_mirror.into_iter().collect();
        if let Some(host) = port.host_port.and_then(port_number) {
            let host_ip = port.host_ip.as_deref().and_then(|ip| ip.parse().ok());
            let mirror = node.and_then(|node| mirrors.of(node)).map(IpAddr::V4);
            let of_machine = mirror.zip(v4).into_iter().chain(mirrors.of_machine(&own));
            let of_machine = of_machine.filter(|(at, _)| is_requested(*at, host_ip, node));
            desired.extend(of_machine.map(|(at, ip)| mirrors.listener(at, target(ip), host, true)));
            let place = in_node.map(ListenNetwork::Node).into_iter();
            desired.extend(place.flat_map(|place| {
                let localhost = mirrors.of_machine(&own).into_iter();
                localhost.filter(|(at, _)| is_requested(*at, host_ip, node)).map(move |(at, ip)| {
                    let address = SocketAddr::new(at, host);
                    listener(BindAddress { network: place, address, protocol }, target(ip), true)
                })
            }));
        }
        for listener in desired {
            if !all.iter().any(|known| known.bind_address == listener.bind_address) {
                all.push(listener);
            }
        }
    }
    all
}

/// Returns whether a host port is served at an address of the machine, given the pod's `hostIP`: loopback addresses
/// stand for themselves, and the mirror stands for the node's address.
fn is_requested(at: IpAddr, host_ip: Option<IpAddr>, node: Option<Ipv4Addr>) -> bool {
    let is_localhost = at == Ipv4Addr::LOCALHOST || at == Ipv6Addr::LOCALHOST;
    match host_ip {
        None => true,
        Some(host_ip) if host_ip.is_unspecified() => includes(host_ip, at),
        Some(host_ip) if host_ip.is_loopback() => is_localhost && host_ip.is_ipv4() == at.is_ipv4(),
        Some(host_ip) => !is_localhost && node.is_some_and(|node| host_ip == node),
    }
}

/// Returns whether the proxy may have to listen for a pod.
pub(super) fn has_ports(pod: &Pod) -> bool {
    declared_ports(pod).next().is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use object::{Key, SharedObject};

    fn mirrors(low: u16) -> Mirrors {
        let net = |text: &str| text.parse().unwrap();
        let ranges = vec![
            (net("10.96.0.0/16"), net("127.33.0.0/16")),
            (net("10.244.0.0/14"), net("127.68.0.0/14")),
            (net("172.20.0.0/12"), net("127.17.0.0/16")),
        ];
        Mirrors { ranges, low_ports: LowPorts::below(low), has_ipv6: true }
    }

    #[test]
    fn an_address_has_one_that_stands_for_it_net_7() {
        for (ip, mirror) in [
            ("10.96.0.1", Some("127.33.0.1")),
            ("10.245.3.7", Some("127.69.3.7")),
            ("172.16.0.2", Some("127.17.0.2")),
            ("172.20.0.2", None),
            ("192.168.0.1", None),
        ] {
            let expected = mirror.map(|text| text.parse().unwrap());
            assert_eq!(mirrors(0).of(ip.parse().unwrap()), expected, "{ip}");
        }
    }

    #[test]
    fn clients_read_mirrors_from_annotations_net_7() {
        let annotations_of = |mirrors: &Mirrors| -> BTreeMap<String, String> {
            let all = mirrors.annotations().into_iter();
            all.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
        };
        for has_ipv6 in [true, false] {
            let written = Mirrors { has_ipv6, ..mirrors(1024) };
            assert_eq!(Mirrors::read(&annotations_of(&written)), Some(written));
        }
        let read = Mirrors::read(&annotations_of(&mirrors(1024))).unwrap();
        let at = |mirrors: &Mirrors, ip: [u8; 4]| {
            mirrors.on_machine(ip.into(), 80).map(|address| address.to_string())
        };
        assert_eq!(at(&read, [10, 96, 0, 9]).as_deref(), Some("127.33.0.9:8080"));
        assert_eq!(at(&read, [192, 0, 2, 1]), None);
        let loopback = Mirrors::of_loopback(LowPorts::default());
        let read = Mirrors::read(&annotations_of(&loopback)).unwrap();
        assert_eq!(at(&read, [127, 32, 0, 9]).as_deref(), Some("127.32.0.9:80"));
        assert_eq!(at(&read, [10, 64, 0, 9]), None, "a hollow node's pod");
        for wrong in ["10.96.0.0/16", "10.96.0.0/16=x", "10.96.0.0/99=127.33.0.0/16"] {
            assert_eq!(
                Mirrors::read(&[(PODIUM_MACHINE_ADDRESSES.to_owned(), wrong.to_owned())].into()),
                None,
                "{wrong}"
            );
        }
        assert_eq!(Mirrors::read(&BTreeMap::new()), None);
    }

    fn listeners(all: &[Listener]) -> Vec<String> {
        let shown = |listener: &Listener| {
            let to =
                listener.balance.ready.iter().map(|backend| backend.address.to_string()).collect::<Vec<_>>();
            format!("{} → {}", listener.bind_address, to.join(" "))
        };
        all.iter().map(shown).collect()
    }

    fn service(spec: &Value, endpoints: &Value) -> ServiceEndpoints {
        let service = json!({"metadata": {"name": "web", "namespace": "d"}, "spec": spec});
        let slice = json!({"metadata": {"name": "web-1", "namespace": "d"}, "addressType": "IPv4",
            "endpoints": endpoints, "ports": [{"port": 80}]});
        let (service, slice) =
            (serde_json::from_value(service).unwrap(), serde_json::from_value(slice).unwrap());
        ServiceEndpoints {
            service: Some(SharedObject::from_value(service)),
            slices: BTreeMap::from([(Key::new("d", "web-1"), SharedObject::from_value(slice))]),
        }
    }

    #[test]
    fn services_are_met_at_their_mirrors_net_7() {
        let endpoints = json!([{"addresses": ["10.244.0.2"]}]);
        let spec = json!({"clusterIP": "10.96.0.9", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30080},
            {"port": 53, "nodePort": 30053, "protocol": "UDP"}, {"port": 99, "protocol": "SCTP"}]});
        let served = service(&spec, &endpoints);
        let expected = [
            "127.33.0.9:80/TCP → 10.96.0.9:80", "127.0.0.1:30080/TCP → 10.96.0.9:80",
            "127.33.0.9:53/UDP → 10.96.0.9:53", "127.0.0.1:30053/UDP → 10.96.0.9:53",
        ];
        assert_eq!(listeners(&of_service(&served, &mirrors(0))), expected);
        let low = listeners(&of_service(&served, &mirrors(1024)));
        assert_eq!(
            [&low[0], &low[2]],
            ["127.33.0.9:8080/TCP → 10.96.0.9:80", "127.33.0.9:8053/UDP → 10.96.0.9:53"]
        );
        for conditions in [json!({"ready": false}), json!({"ready": false, "serving": true})] {
            let unready = json!([{"addresses": ["10.244.0.2"], "conditions": conditions}]);
            assert_eq!(listeners(&of_service(&service(&spec, &unready), &mirrors(0))), [""; 0]);
        }

        let without = Mirrors { has_ipv6: false, ..mirrors(0) };
        for (ips, with_v6, without_v6) in [
            (
                vec!["fd00::9", "10.96.0.9"],
                vec![
                    "127.33.0.9:80/TCP → 10.96.0.9:80", "127.0.0.1:30080/TCP → 10.96.0.9:80",
                    "[::1]:30080/TCP → [fd00::9]:80",
                ],
                vec!["127.33.0.9:80/TCP → 10.96.0.9:80", "127.0.0.1:30080/TCP → 10.96.0.9:80"],
            ),
            (
                vec!["fd00::9"],
                vec!["127.0.0.1:30080/TCP → [fd00::9]:80", "[::1]:30080/TCP → [fd00::9]:80"],
                vec!["127.0.0.1:30080/TCP → [fd00::9]:80"],
            ),
            (vec!["None"], vec![], vec![]),
        ] {
            let spec = json!({"clusterIP": ips[0], "clusterIPs": ips, "type": "NodePort",
                "ports": [{"port": 80, "nodePort": 30080}]});
            let joined = service(&spec, &endpoints);
            assert_eq!(listeners(&of_service(&joined, &mirrors(0))), with_v6, "{ips:?}");
            assert_eq!(listeners(&of_service(&joined, &without)), without_v6, "{ips:?}");
        }
    }

    #[test]
    fn pods_are_met_at_their_mirrors_net_7() {
        let pod = |phase: &str, host_ip: &str, ips: &[&str]| -> Pod {
            let ips: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
            let pod = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80},
                {"containerPort": 9000, "hostPort": 9090, "hostIP": host_ip},
                {"containerPort": 53, "protocol": "UDP"}]}]},
                "status": {"podIP": ips[0]["ip"], "podIPs": ips, "hostIP": "172.16.0.2", "phase": phase}});
            serde_json::from_value(pod).unwrap()
        };
        let both = ["10.244.1.2", "fd00::2"];
        assert_eq!(
            listeners(&of_pod(&pod("Running", "", &both[..1]), &mirrors(0))),
            [
                "127.68.1.2:80/TCP → 10.244.1.2:80",
                "127.68.1.2:9000/TCP → 10.244.1.2:9000",
                "127.17.0.2:9090/TCP → 10.244.1.2:9000",
                "127.0.0.1:9090/TCP → 10.244.1.2:9000",
                "127.0.0.1:9090/TCP of node 172.16.0.2 → 10.244.1.2:9000",
                "127.68.1.2:53/UDP → 10.244.1.2:53",
            ]
        );
        let (node, localhost, second) = (
            "127.17.0.2:9090/TCP → 10.244.1.2:9000",
            "127.0.0.1:9090/TCP → 10.244.1.2:9000",
            "[::1]:9090/TCP → [fd00::2]:9000",
        );
        let (in_node, second_in_node) = (
            "127.0.0.1:9090/TCP of node 172.16.0.2 → 10.244.1.2:9000",
            "[::1]:9090/TCP of node 172.16.0.2 → [fd00::2]:9000",
        );
        for (host_ip, expected) in [
            ("", vec![node, localhost, second, in_node, second_in_node]),
            ("0.0.0.0", vec![node, localhost, in_node]),
            ("::", vec![node, localhost, second, in_node, second_in_node]),
            ("172.16.0.2", vec![node]),
            ("127.0.0.1", vec![localhost, in_node]),
            ("172.16.0.3", vec![]),
            ("::1", vec![second, second_in_node]),
        ] {
            let all = listeners(&of_pod(&pod("Running", host_ip, &both), &mirrors(0)));
            let of_host: Vec<_> = all.iter().filter(|listener| listener.contains(":9090/")).collect();
            assert_eq!(of_host, expected.iter().collect::<Vec<_>>(), "{host_ip}");
        }
        assert_eq!(listeners(&of_pod(&pod("Succeeded", "", &both), &mirrors(0))), [""; 0]);
    }

    #[test]
    fn nothing_listens_in_a_node_for_a_pod_on_the_host_network_net_6() {
        let pod: Pod = serde_json::from_value(json!({
            "spec": {"hostNetwork": true,
                "containers": [{"name": "c", "ports": [{"containerPort": 19100, "hostPort": 19100}]}]},
            "status": {"podIP": "172.16.0.2", "hostIP": "172.16.0.2", "phase": "Running"}}))
        .unwrap();
        assert_eq!(
            listeners(&of_pod(&pod, &mirrors(0))),
            ["127.17.0.2:19100/TCP → 172.16.0.2:19100", "127.0.0.1:19100/TCP → 172.16.0.2:19100"]
        );
    }

    #[test]
    fn ports_of_sidecars_are_served_like_those_of_containers_net_7() {
        let pod: Pod = serde_json::from_value(json!({
            "spec": {"containers": [{"name": "c"}], "initContainers": [
                {"name": "proxy", "restartPolicy": "Always", "ports": [{"containerPort": 15001}]},
                {"name": "once", "ports": [{"containerPort": 99}]}]},
            "status": {"podIP": "10.244.1.2", "hostIP": "172.16.0.2", "phase": "Running"}}))
        .unwrap();
        assert!(has_ports(&pod));
        assert_eq!(listeners(&of_pod(&pod, &mirrors(0))), ["127.68.1.2:15001/TCP → 10.244.1.2:15001"]);
    }
}
