//! Host ports: serves pods at addresses of their node (`containers[].ports[].hostPort`), like the portmap plugin.
//!
//! A pod without a `hostIP` is served at its node's address, and at 127.0.0.1 unless another pod is served there: all
//! nodes share this machine, so pods on different nodes may have the same port. [`HostPorts`] tracks changed pods as
//! [`Follower`](crate::Follower) does for services; the listeners are computed purely.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerPort, Pod};

use super::table::{Backend, Balance, BindAddress, ListenNetwork, Listener, Protocol};
use crate::{ChangeFollower, NetworkTopology};
use api::ChangeKind;
use base::sort::SliceOrder;
use object::low_ports::LowPorts;
use object::pod::{is_on_host_network, is_terminal, node_name};
use object::{Kind, SharedObject, host_ports, port_number};
use reconcile::Caches;

/// Follows pods with ports; the value of a deleted pod is `None`.
pub type HostPorts = ChangeFollower<Option<SharedObject<Pod>>>;

impl HostPorts {
    /// Starts following the pods that `has_ports` selects; each of them counts as changed.
    pub fn start(caches: &Caches, has_ports: fn(&Pod) -> bool) -> Arc<Self> {
        Self::follow(caches, &[Kind::Pod], move |pods, change| {
            let pod = SharedObject::<Pod>::from_object(&change.object);
            let pod = pod.filter(|pod| change.kind != ChangeKind::Deleted && has_ports(pod));
            pods.update(change.object.key(), |_| pod.map(Some));
        })
    }
}

/// Returns whether the proxy has to serve host ports for the pod; a pod on its node's network serves them itself.
pub fn has_host_ports(pod: &Pod) -> bool {
    !is_on_host_network(pod) && host_ports::ports(pod).next().is_some()
}

/// Returns whether a `hostIP` includes an address of the node: 0.0.0.0 stands for all IPv4 addresses, `::` for all.
pub fn includes(host_ip: IpAddr, address: IpAddr) -> bool {
    host_ip == address || (host_ip.is_unspecified() && (host_ip.is_ipv6() || address.is_ipv4()))
}

/// Returns the listeners of a pod, and messages about host ports that cannot be served.
pub(super) fn listeners(
    pod: &Pod,
    machine: &NetworkTopology,
    low_ports: LowPorts,
) -> (Vec<Listener>, Vec<String>) {
    let node = node_name(pod);
    let own = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()?.parse().ok());
    let facts = node.and_then(|node| machine.nodes.get(node));
    // A pod of a hollow node or of another machine: no process of this machine listens.
    let (Some(own), Some(node_ip)) = (own.filter(Ipv4Addr::is_loopback), facts.and_then(|facts| facts.ip))
    else {
        return (Vec::new(), Vec::new());
    };
    if is_terminal(pod) {
        return (Vec::new(), Vec::new());
    }
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for port in host_ports::ports(pod) {
        let numbers = (port.host_port.and_then(port_number), port_number(port.container_port));
        let (Some(declared), Some(inside)) = numbers else { continue };
        let Some(protocol) = Protocol::of(port.protocol.as_deref()) else {
            refused.push(format!("host port {declared}: SCTP is not supported"));
            continue;
        };
        let Some(addresses) = addresses(port, node_ip) else {
            let address = port.host_ip.as_deref().unwrap_or_default();
            refused.push(format!("host port {declared}: hostIP {address} is not in 127.0.0.0/8"));
            continue;
        };
        let address = SocketAddr::new(own.into(), machine.served(node, inside));
        let ready = vec![Backend { address, node: node.map(str::to_owned) }];
        let balance = Balance { ready, ..Balance::default() };
        for (ip, spare) in addresses {
            let address = SocketAddr::new(ip.into(), low_ports.served(declared));
            let bind_address = BindAddress { network: ListenNetwork::Machine, address, protocol };
            all.push(Listener {
                bind_address,
                declared,
                balance: balance.clone(),
                program_first: true,
                spare,
            });
        }
    }
    all.order_by_key(|listener| listener.declared != listener.bind_address.address.port());
    (all, refused)
}

/// Returns the addresses for a host port, and for each whether another pod may have it instead; `None` if this machine
/// cannot serve it.
fn addresses(port: &ContainerPort, node: Ipv4Addr) -> Option<Vec<(Ipv4Addr, bool)>> {
    let everywhere = vec![(node, false), (Ipv4Addr::LOCALHOST, true)];
    match port.host_ip.as_deref().filter(|text| !text.is_empty()).map(str::parse::<IpAddr>) {
        None => Some(everywhere),
        Some(Ok(ip)) if ip.is_unspecified() => Some(everywhere),
        Some(Ok(IpAddr::V4(ip))) if ip.is_loopback() => Some(vec![(ip, false)]),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::NodeFacts;
    use ipnet::Ipv4Net;

    fn describe_listeners(ports: &Value, status: &Value, low_ports: LowPorts) -> (Vec<String>, Vec<String>) {
        let node = NodeFacts { ip: Some([127, 16, 0, 1].into()), pods: None, low_ports };
        let services = Ipv4Net::new_assert([127, 32, 0, 0].into(), 16);
        let machine =
            NetworkTopology { nodes: [("n1".to_owned(), node)].into(), services, fabric: Vec::new() };
        let pod: Pod = serde_json::from_value(json!({"spec": {"nodeName": "n1",
            "containers": [{"name": "c", "ports": ports}]}, "status": status}))
        .unwrap();
        let (listeners, refused) = listeners(&pod, &machine, low_ports);
        let line = |l: Listener| {
            let spare = if l.spare { " (spare)" } else { "" };
            format!("{} -> {}{spare}", l.bind_address, l.balance.ready[0].address)
        };
        (listeners.into_iter().map(line).collect(), refused)
    }

    /// The conformance test "no conflict between pods with same hostPort but different hostIP and protocol" needs this
    /// (NET-2).
    #[test]
    fn a_host_port_is_served_at_its_address_or_its_nodes() {
        let runs = json!({"phase": "Running", "podIP": "127.64.1.7"});
        let of = |ports: Value, status: &Value| describe_listeners(&ports, status, LowPorts::default());
        let plain = json!([{"containerPort": 80, "hostPort": 8080}]);
        assert_eq!(
            of(plain.clone(), &runs).0,
            ["127.16.0.1:8080/TCP -> 127.64.1.7:80", "127.0.0.1:8080/TCP -> 127.64.1.7:80 (spare)"]
        );
        let bind_addresses = json!([{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1", "protocol": "UDP"},
            {"containerPort": 81}, {"containerPort": 82, "hostPort": 0}]);
        assert_eq!(of(bind_addresses, &runs).0, ["127.0.0.1:8080/UDP -> 127.64.1.7:80"]);
        let unserved = json!([{"containerPort": 80, "hostPort": 80, "hostIP": "192.0.2.1"},
            {"containerPort": 80, "hostPort": 81, "protocol": "SCTP"}]);
        let (served, refused) = of(unserved, &runs);
        assert!(served.is_empty());
        assert_eq!(
            refused,
            ["host port 80: hostIP 192.0.2.1 is not in 127.0.0.0/8", "host port 81: SCTP is not supported"]
        );
        for status in [
            json!({"phase": "Pending"}),
            json!({"phase": "Succeeded", "podIP": "127.64.1.7"}),
            json!({"phase": "Running", "podIP": "10.0.0.7"}),
        ] {
            assert_eq!(of(plain.clone(), &status).0, [""; 0], "{status}");
        }
        let low =
            describe_listeners(&json!([{"containerPort": 80, "hostPort": 81}]), &runs, LowPorts::below(1024));
        assert_eq!(low.0[0], "127.16.0.1:8081/TCP -> 127.64.1.7:8080");
    }
}
