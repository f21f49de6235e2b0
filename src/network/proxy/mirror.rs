//! Mirrors (NET-7): where programs of the machine meet services and pods that are in a network of their own.
//!
//! An address of the cluster has one of 127.0.0.0/8 that stands for it: in another range, at the same place. What connects
//! there is passed on to the address that it stands for, by a socket of inside; the kernel deals out endpoints. Pure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::{IpAdd, IpSub, Ipv4Net};
use k8s_openapi::api::core::v1::Pod;

use super::table::{Backend, Balance, BindAddress, Listener, Protocol, balancers, is_left_alone};
use crate::follow::Joined;
use object::low_ports::LowPorts;
use object::pod::is_terminal;

/// Which loopback addresses stand for which of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrors {
    /// Ranges inside, and those that stand for them.
    pub ranges: Vec<(Ipv4Net, Ipv4Net)>,
    /// Which ports this process may not bind: they are served 8000 higher.
    pub low_ports: LowPorts,
}

impl Mirrors {
    /// The address that stands for this one; none where there is no room for it.
    pub(crate) fn of(&self, ip: Ipv4Addr) -> Option<Ipv4Addr> {
        let (inside, outside) = self.ranges.iter().find(|(inside, _)| inside.contains(&ip))?;
        let mirror = outside.network().saturating_add(ip.saturating_sub(inside.network()));
        outside.contains(&mirror).then_some(mirror)
    }

    fn listener(&self, at: Ipv4Addr, port: u16, to: SocketAddr, spare: bool) -> Listener {
        let address = SocketAddr::new(at.into(), self.low_ports.served(port));
        let bind_address = BindAddress { address, protocol: Protocol::Tcp };
        let balance = Balance { ready: vec![Backend { address: to, node: None }], ..Balance::default() };
        // That it is moved is told by the address that users look up, not by an event of every pod.
        let declared = address.port();
        Listener { bind_address, declared, balance, program_first: false, spare }
    }
}

fn number(port: Option<i32>) -> Option<u16> {
    port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

fn is_tcp(protocol: Option<&str>) -> bool {
    Protocol::of(protocol) == Some(Protocol::Tcp)
}

/// Where a service is met: at its address' mirror, and at 127.0.0.1 for ports of the nodes. One that nobody serves is
/// nowhere, so that it is refused.
pub(super) fn of_service(joined: &Joined, mirrors: &Mirrors) -> Vec<Listener> {
    let service = joined.service.as_ref().filter(|service| !is_left_alone(service));
    let Some(spec) = service.and_then(|service| service.spec.as_ref()) else { return Vec::new() };
    let Some(ip) = spec.cluster_ip.as_ref().and_then(|ip| ip.parse::<Ipv4Addr>().ok()) else {
        return Vec::new();
    };
    let endpoints = joined.slices.values().flat_map(|slice| slice.endpoints.iter().flatten());
    let serves = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
        endpoint.conditions.as_ref().is_none_or(|now| now.ready != Some(false) || now.serving == Some(true))
    };
    if !endpoints.into_iter().any(serves) {
        return Vec::new();
    }
    let balancers = service.map(|service| balancers(service)).unwrap_or_default();
    let mut all = Vec::new();
    for port in spec.ports.iter().flatten().filter(|port| is_tcp(port.protocol.as_deref())) {
        let Some(own) = number(Some(port.port)) else { continue };
        let to = SocketAddr::new(ip.into(), own);
        let at = [ip].into_iter().chain(balancers.iter().copied()).filter_map(|ip| mirrors.of(ip));
        all.extend(at.map(|mirror| mirrors.listener(mirror, own, to, false)));
        if let Some(node_port) = number(port.node_port) {
            all.push(mirrors.listener(Ipv4Addr::LOCALHOST, node_port, to, false));
        }
    }
    all
}

/// Where a pod is met: at its address' mirror for the ports that it declares, and at its node's and at 127.0.0.1 for those
/// of its node, unless another has them.
pub(super) fn of_pod(pod: &Pod, mirrors: &Mirrors) -> Vec<Listener> {
    let status = pod.status.as_ref();
    let own = status.and_then(|status| status.pod_ip.as_ref()?.parse::<IpAddr>().ok());
    let (Some(IpAddr::V4(ip)), false) = (own, is_terminal(pod)) else { return Vec::new() };
    let node = status.and_then(|status| status.host_ip.as_ref()?.parse::<Ipv4Addr>().ok());
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut all: Vec<Listener> = Vec::new();
    for port in containers.flat_map(|container| container.ports.iter().flatten()) {
        let Some(inside) = number(Some(port.container_port)).filter(|_| is_tcp(port.protocol.as_deref()))
        else {
            continue;
        };
        let to = SocketAddr::new(ip.into(), inside);
        let at_mirror = mirrors.of(ip).map(|mirror| mirrors.listener(mirror, inside, to, true));
        let host = number(port.host_port).into_iter().flat_map(|host| {
            let at = at_node(node, port.host_ip.as_deref(), mirrors);
            at.into_iter().map(move |at| mirrors.listener(at, host, to, true))
        });
        for listener in at_mirror.into_iter().chain(host) {
            if !all.iter().any(|known| known.bind_address == listener.bind_address) {
                all.push(listener);
            }
        }
    }
    all
}

/// Where a port of a node is met: at the mirror of its address and at 127.0.0.1, or at one of them where the pod says which
/// of the node's addresses it wants.
fn at_node(node: Option<Ipv4Addr>, asked: Option<&str>, mirrors: &Mirrors) -> Vec<Ipv4Addr> {
    let mirror = node.and_then(|node| mirrors.of(node));
    let all = mirror.into_iter().chain([Ipv4Addr::LOCALHOST]);
    match asked.and_then(|ip| ip.parse::<IpAddr>().ok()).filter(|ip| !ip.is_unspecified()) {
        None => all.collect(),
        Some(IpAddr::V4(ip)) if ip.is_loopback() => vec![Ipv4Addr::LOCALHOST],
        Some(ip) => mirror.filter(|_| node.is_some_and(|node| ip == node)).into_iter().collect(),
    }
}

/// Whether a pod is met anywhere at all.
pub(super) fn has_ports(pod: &Pod) -> bool {
    pod.spec.iter().flat_map(|spec| &spec.containers).any(|container| container.ports.is_some())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use object::{Key, Shared};

    fn mirrors(low: u16) -> Mirrors {
        let net = |text: &str| text.parse().unwrap();
        let ranges = vec![
            (net("10.96.0.0/16"), net("127.33.0.0/16")),
            (net("10.244.0.0/14"), net("127.68.0.0/14")),
            (net("172.20.0.0/12"), net("127.17.0.0/16")),
        ];
        Mirrors { ranges, low_ports: LowPorts::below(low) }
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

    fn listeners(all: &[Listener]) -> Vec<String> {
        let shown = |listener: &Listener| {
            let to =
                listener.balance.ready.iter().map(|backend| backend.address.to_string()).collect::<Vec<_>>();
            format!("{} → {}", listener.bind_address, to.join(" "))
        };
        all.iter().map(shown).collect()
    }

    #[test]
    fn services_and_pods_are_met_at_their_mirrors_net_7() {
        let service = |endpoints: Value| {
            let service = json!({"metadata": {"name": "web", "namespace": "d"}, "spec": {"clusterIP": "10.96.0.9",
                "type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]}});
            let slice = json!({"metadata": {"name": "web-1", "namespace": "d"}, "addressType": "IPv4",
                "endpoints": endpoints, "ports": [{"port": 80}]});
            let (service, slice) =
                (serde_json::from_value(service).unwrap(), serde_json::from_value(slice).unwrap());
            let slice = Shared::from_value(slice);
            Joined {
                service: Some(Shared::from_value(service)),
                slices: BTreeMap::from([(Key::new("d", "web-1"), slice)]),
            }
        };
        let served = service(json!([{"addresses": ["10.244.0.2"]}]));
        assert_eq!(
            listeners(&of_service(&served, &mirrors(0))),
            ["127.33.0.9:80/TCP → 10.96.0.9:80", "127.0.0.1:30080/TCP → 10.96.0.9:80"]
        );
        assert_eq!(listeners(&of_service(&served, &mirrors(1024)))[0], "127.33.0.9:8080/TCP → 10.96.0.9:80");
        let nobody = service(json!([{"addresses": ["10.244.0.2"], "conditions": {"ready": false}}]));
        assert_eq!(listeners(&of_service(&nobody, &mirrors(0))), [""; 0]);

        let pod_at = |phase: &str, host_ip: &str| -> Pod {
            let pod = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80},
                {"containerPort": 9000, "hostPort": 9090, "hostIP": host_ip},
                {"containerPort": 53, "protocol": "UDP"}]}]},
                "status": {"podIP": "10.244.1.2", "hostIP": "172.16.0.2", "phase": phase}});
            serde_json::from_value(pod).unwrap()
        };
        let pod = |phase: &str| pod_at(phase, "");
        assert_eq!(
            listeners(&of_pod(&pod("Running"), &mirrors(0))),
            [
                "127.68.1.2:80/TCP → 10.244.1.2:80",
                "127.68.1.2:9000/TCP → 10.244.1.2:9000",
                "127.17.0.2:9090/TCP → 10.244.1.2:9000",
                "127.0.0.1:9090/TCP → 10.244.1.2:9000"
            ]
        );
        for (host_ip, at) in [
            ("0.0.0.0", vec!["127.17.0.2", "127.0.0.1"]),
            ("::", vec!["127.17.0.2", "127.0.0.1"]),
            ("172.16.0.2", vec!["127.17.0.2"]),
            ("127.0.0.1", vec!["127.0.0.1"]),
            ("172.16.0.3", vec![]),
            ("::1", vec![]),
        ] {
            let all = listeners(&of_pod(&pod_at("Running", host_ip), &mirrors(0)));
            let expected: Vec<_> = at.iter().map(|at| format!("{at}:9090/TCP → 10.244.1.2:9000")).collect();
            assert_eq!(all[2..], expected, "{host_ip}");
        }
        assert_eq!(listeners(&of_pod(&pod("Succeeded"), &mirrors(0))), [""; 0]);
    }
}
