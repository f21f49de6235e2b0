//! The proxy's view of the nodes: their addresses, their pods' ranges, and the low ports they remap.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use k8s_openapi::api::core::v1::Node;

use object::low_ports::LowPorts;
use object::node::internal_ips;

/// The facts about a node that the proxy needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node's loopback address; `None` for nodes on other machines and for hollow nodes.
    pub ip: Option<Ipv4Addr>,
    /// The range of its pods' addresses (`spec.podCIDR`).
    pub pods: Option<Ipv4Net>,
    /// The ports that its programs may not bind, and the ports they bind instead.
    pub low_ports: LowPorts,
}

impl NodeFacts {
    /// Reads these facts from a Node object.
    pub fn of(node: &Node) -> Self {
        let ip = internal_ipv4(node).filter(Ipv4Addr::is_loopback);
        let cidr = node.spec.as_ref().and_then(|s| s.pod_cidr.as_deref());
        Self { ip, pods: cidr.and_then(|cidr| cidr.parse().ok()), low_ports: LowPorts::of_node(node) }
    }
}

/// Returns a node's IPv4 address inside the cluster.
pub(crate) fn internal_ipv4(node: &Node) -> Option<Ipv4Addr> {
    internal_ips(node).find_map(|ip| match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    })
}

/// All nodes, and the ranges of the address plan that the proxy needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkTopology {
    /// Nodes by name.
    pub nodes: BTreeMap<String, NodeFacts>,
    /// The range of services' cluster IPs.
    pub services: Ipv4Net,
    /// The ranges of pods' addresses, one for each family, in a fabric network; empty in a loopback network.
    pub fabric: Vec<IpNet>,
}

impl NetworkTopology {
    /// Returns the name of the node that a client belongs to: the client's address is the node's own or one of its
    /// pods'.
    ///
    /// Programs that do not bind to an address connect from 127.0.0.1, which belongs to no node.
    pub fn node_of(&self, client: IpAddr) -> Option<&str> {
        let IpAddr::V4(client) = client else { return None };
        let is_of = |facts: &NodeFacts| {
            facts.ip == Some(client) || facts.pods.is_some_and(|pods| pods.contains(&client))
        };
        self.nodes.iter().find(|(_, facts)| is_of(facts)).map(|(name, _)| name.as_str())
    }

    /// Returns the port at which an endpoint on this node really listens; it differs only for a low port that the
    /// endpoint may not bind.
    pub fn served(&self, node: Option<&str>, port: u16) -> u16 {
        let facts = node.and_then(|node| self.nodes.get(node));
        facts.map_or(port, |facts| facts.low_ports.served(port))
    }

    /// Returns the addresses that serve node ports besides 127.0.0.1, each with its node.
    pub fn node_addresses(&self) -> impl Iterator<Item = (Ipv4Addr, &str)> {
        self.nodes.iter().filter_map(|(name, facts)| Some((facts.ip?, name.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_clients_address_tells_its_node_net_2() {
        let node = |ip: &str, cidr: &str, start: &str| {
            let value = json!({"metadata": {"annotations": {LowPorts::ANNOTATION: start}},
                "spec": {"podCIDR": cidr},
                "status": {"addresses": [{"type": "InternalIP", "address": ip}]}});
            NodeFacts::of(&serde_json::from_value(value).unwrap())
        };
        let nodes = [
            ("a", node("127.16.0.1", "127.64.0.0/24", "1024")),
            ("b", node("127.16.0.2", "127.64.1.0/24", "0")),
            ("hollow", node("10.0.0.1", "10.64.0.0/24", "0")),
        ];
        let nodes = nodes.map(|(name, facts)| (name.to_string(), facts)).into();
        let services = Ipv4Net::new_assert([127, 32, 0, 0].into(), 16);
        let machine = NetworkTopology { nodes, services, fabric: Vec::new() };
        for (client, expected) in [
            ("127.64.1.7", Some("b")),
            ("127.16.0.1", Some("a")),
            ("127.0.0.1", None),
            ("10.64.0.9", Some("hollow")),
            ("::1", None),
        ] {
            assert_eq!(machine.node_of(client.parse().unwrap()), expected, "{client}");
        }
        assert_eq!([Some("a"), Some("b"), None].map(|node| machine.served(node, 80)), [8080, 80, 80]);
        assert_eq!(machine.node_addresses().count(), 2);
        assert_eq!(node("127.16.0.1", "127.64.0.0/99", "0").pods, None);
    }
}
