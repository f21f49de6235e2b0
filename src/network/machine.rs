//! What the proxy knows of the nodes: their addresses, their pods' ranges, their low ports.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use k8s_openapi::api::core::v1::Node;

use object::low_ports::LowPorts;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    /// Its address on loopback; none for nodes that are not of this machine, or run no processes.
    pub(crate) ip: Option<Ipv4Addr>,
    /// Where its pods have their addresses.
    pub(crate) pods: Option<Ipv4Net>,
    /// Which ports its programs may not bind.
    pub(crate) low_ports: LowPorts,
}

impl NodeFacts {
    /// What a Node says of itself.
    pub(crate) fn of(node: &Node) -> Self {
        let addresses = node.status.as_ref().and_then(|s| s.addresses.as_ref());
        let internal = addresses.and_then(|all| all.iter().find(|a| a.type_ == "InternalIP"));
        let ip = internal.and_then(|a| a.address.parse().ok()).filter(Ipv4Addr::is_loopback);
        let cidr = node.spec.as_ref().and_then(|s| s.pod_cidr.as_deref());
        Self { ip, pods: cidr.and_then(|cidr| cidr.parse().ok()), low_ports: LowPorts::of_node(node) }
    }
}

/// All nodes, and what of the address plan concerns the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// By name.
    pub(crate) nodes: BTreeMap<String, NodeFacts>,
    /// Where services have their addresses.
    pub(crate) services: Ipv4Net,
    /// Where pods have theirs when these are of a network of their own, of each family.
    pub(crate) fabric: Vec<IpNet>,
}

impl Machine {
    /// The node that a client's address belongs to: its own, or one of its pods'.
    ///
    /// Programs that bind to no address come from 127.0.0.1, which is no node's.
    pub(crate) fn node_of(&self, client: IpAddr) -> Option<&str> {
        let IpAddr::V4(client) = client else { return None };
        let is_of = |facts: &NodeFacts| {
            facts.ip == Some(client) || facts.pods.is_some_and(|pods| pods.contains(&client))
        };
        self.nodes.iter().find(|(_, facts)| is_of(facts)).map(|(name, _)| name.as_str())
    }

    /// Where a port of an endpoint on this node is really served.
    pub(crate) fn served(&self, node: Option<&str>, port: u16) -> u16 {
        let facts = node.and_then(|node| self.nodes.get(node));
        facts.map_or(port, |facts| facts.low_ports.served(port))
    }

    /// The addresses that node ports are served at beside 127.0.0.1, each with its node.
    pub(crate) fn node_addresses(&self) -> impl Iterator<Item = (Ipv4Addr, &str)> {
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
        let machine = Machine { nodes, services, fabric: Vec::new() };
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
