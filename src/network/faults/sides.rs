//! The sides of a fault: their addresses and descriptions. Pure.

use std::net::IpAddr;

use base::sort::SliceOrder;
use extension::fault::FaultPeer;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use object::selector::Selector;
use object::{Kind, SharedObject, pod};

use crate::rules::NodeAddresses;

/// Maximum number of names in a description; the others are counted.
const NAMED: usize = 3;

/// The objects that sides may refer to.
#[derive(Default)]
pub(super) struct ClusterState {
    pub(super) pods: Vec<SharedObject<Pod>>,
    pub(super) nodes: Vec<SharedObject<Node>>,
    pub(super) namespaces: Vec<SharedObject<Namespace>>,
}

/// One side of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FaultSide {
    pub(super) nets: Vec<IpNet>,
    /// Its description.
    pub(super) description: String,
}

/// Returns the kinds of objects that a side depends on, so that changes of other kinds can be ignored.
pub(super) fn required_kinds(peer: &FaultPeer) -> impl Iterator<Item = Kind> {
    let has_namespaces = peer.namespace_selector.is_some();
    let has_pods = peer.pod.is_some() || peer.pod_selector.is_some() || has_namespaces;
    let has_nodes = peer.node.is_some() || peer.node_selector.is_some();
    let all = [(has_pods, Kind::Pod), (has_nodes, Kind::Node), (has_namespaces, Kind::Namespace)];
    all.into_iter().filter_map(|(is_required, kind)| is_required.then_some(kind))
}

impl ClusterState {
    /// Returns a side in its current state. Pods with their node's address are not included, as with network policies:
    /// the node stands for them.
    pub(super) fn side(&self, peer: &FaultPeer) -> FaultSide {
        if let Some(cidr) = &peer.cidr {
            let nets = cidr.parse::<IpNet>().map(|net| net.trunc()).into_iter().collect();
            return FaultSide { nets, description: cidr.clone() };
        }
        if peer.node.is_some() || peer.node_selector.is_some() {
            return self.of_nodes(peer);
        }
        self.of_pods(peer)
    }

    fn of_nodes(&self, peer: &FaultPeer) -> FaultSide {
        let selector = peer.node_selector.as_ref().map(Selector::from_field);
        let is_meant = |node: &&SharedObject<Node>| match (&peer.node, &selector) {
            (Some(name), _) => node.name() == name,
            (None, Some(selector)) => selector.matches(node.metadata.labels.as_ref()),
            (None, None) => false,
        };
        let mut nets = Vec::new();
        let mut names = Vec::new();
        for node in self.nodes.iter().filter(is_meant) {
            let Some(place) = NodeAddresses::of(node) else { continue };
            nets.extend(place.ips.into_iter().map(IpNet::from).chain(place.pods));
            names.push(node.name().to_owned());
        }
        FaultSide { nets, description: format_names("node", names) }
    }

    fn of_pods(&self, peer: &FaultPeer) -> FaultSide {
        let own = peer.namespace.as_deref().unwrap_or("default");
        let namespaces = peer.namespace_selector.as_ref().map(Selector::from_field);
        let pods = peer.pod_selector.as_ref().map(Selector::from_field);
        let is_in = |namespace: &str| match &namespaces {
            None => namespace == own,
            Some(selector) => {
                let labels = self.namespaces.iter().find(|one| one.name() == namespace);
                labels.is_some_and(|one| selector.matches(one.metadata.labels.as_ref()))
            }
        };
        let is_meant = |pod: &&SharedObject<Pod>| match &peer.pod {
            Some(name) => pod.name() == name,
            None => pods.as_ref().is_none_or(|pods| pods.matches(pod.metadata.labels.as_ref())),
        };
        let mut nets = Vec::new();
        let mut names = Vec::new();
        for pod in self.pods.iter().filter(is_meant).filter(|pod| is_in(pod.namespace())) {
            let addresses = addresses(pod);
            if !addresses.is_empty() {
                nets.extend(addresses.into_iter().map(IpNet::from));
                names.push(format!("{}/{}", pod.namespace(), pod.name()));
            }
        }
        FaultSide { nets, description: format_names("pod", names) }
    }
}

/// Returns the addresses that only this pod has.
fn addresses(pod: &Pod) -> Vec<IpAddr> {
    if pod::is_on_host_network(pod) || pod::is_terminal(pod) { Vec::new() } else { pod::addresses(pod) }
}

/// Formats names as `pod a/b`, `pods a/b, a/c`, `pods a/b, a/c, a/d and 7 more`, `no pod`.
fn format_names(kind: &str, mut names: Vec<String>) -> String {
    names.order();
    match names.len() {
        0 => format!("no {kind}"),
        1 => format!("{kind} {}", names[0]),
        count if count <= NAMED => format!("{kind}s {}", names.join(", ")),
        count => format!("{kind}s {} and {} more", names[..NAMED].join(", "), count - NAMED),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn world() -> ClusterState {
        let pod = |namespace: &str, name: &str, labels: Value, more: Value| {
            let mut pod = json!({"metadata": {"namespace": namespace, "name": name, "labels": labels},
                "spec": {"containers": []}, "status": {}});
            json_patch::merge(&mut pod, &more);
            SharedObject::from_value(serde_json::from_value(pod).unwrap())
        };
        let at = |ips: &[&str]| json!({"status": {"podIP": ips[0], "podIPs": ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>()}});
        let mut host = at(&["172.20.0.1"]);
        host["spec"] = json!({"hostNetwork": true});
        let mut ended = at(&["10.244.1.9"]);
        ended["status"]["phase"] = json!("Succeeded");
        let node = |number: u8, zone: &str, network: &str| {
            let node = json!({"metadata": {"name": format!("node-{number}"), "labels": {"zone": zone},
                "annotations": {"podium.dev/network": network}}, "spec": {"podCIDRs": [format!("10.244.{number}.0/24")]},
                "status": {"addresses": [{"type": "InternalIP", "address": format!("172.20.0.{number}")}]}});
            SharedObject::from_value(serde_json::from_value(node).unwrap())
        };
        let namespace = |name: &str, team: &str| {
            let namespace = json!({"metadata": {"name": name, "labels": {"team": team}}});
            SharedObject::from_value(serde_json::from_value(namespace).unwrap())
        };
        ClusterState {
            pods: vec![
                pod("default", "web-0", json!({"app": "web"}), at(&["10.244.1.1", "fd00::1"])),
                pod("default", "web-1", json!({"app": "web"}), at(&["10.244.2.1"])),
                pod("default", "new", json!({"app": "web"}), json!({})),
                pod("default", "host", json!({"app": "web"}), host),
                pod("default", "ended", json!({"app": "web"}), ended),
                pod("a", "web-0", json!({"app": "web"}), at(&["10.244.2.2"])),
                pod("a", "db-0", json!({"app": "db"}), at(&["10.244.2.3"])),
            ],
            nodes: vec![node(1, "x", "fabric"), node(2, "y", "fabric"), node(3, "y", "loopback")],
            namespaces: vec![namespace("default", "one"), namespace("a", "two")],
        }
    }

    #[test]
    fn a_side_is_who_it_says_net_10() {
        let world = world();
        for (peer, nets, words) in [
            (json!({"node": "node-1"}), "172.20.0.1/32 10.244.1.0/24", "node node-1"),
            (json!({"node": "gone"}), "", "no node"),
            // A node of another network is left out.
            (
                json!({"nodeSelector": {"matchLabels": {"zone": "y"}}}),
                "172.20.0.2/32 10.244.2.0/24",
                "node node-2",
            ),
            (json!({"pod": "web-0"}), "10.244.1.1/32 fd00::1/128", "pod default/web-0"),
            (json!({"pod": "web-0", "namespace": "a"}), "10.244.2.2/32", "pod a/web-0"),
            // Pods without an address of their own are left out.
            (
                json!({"podSelector": {"matchLabels": {"app": "web"}}}),
                "10.244.1.1/32 fd00::1/128 10.244.2.1/32",
                "pods default/web-0, default/web-1",
            ),
            (json!({"podSelector": {"matchLabels": {"app": "none"}}}), "", "no pod"),
            (
                json!({"namespaceSelector": {"matchLabels": {"team": "two"}}}),
                "10.244.2.2/32 10.244.2.3/32",
                "pods a/db-0, a/web-0",
            ),
            (
                json!({"namespaceSelector": {}, "podSelector": {}}),
                "10.244.1.1/32 fd00::1/128 10.244.2.1/32 10.244.2.2/32 10.244.2.3/32",
                "pods a/db-0, a/web-0, default/web-0 and 1 more",
            ),
            (json!({"cidr": "10.0.0.7/8"}), "10.0.0.0/8", "10.0.0.7/8"),
        ] {
            let peer: FaultPeer = serde_json::from_value(peer).unwrap();
            let side = world.side(&peer);
            let shown: Vec<String> = side.nets.iter().map(ToString::to_string).collect();
            assert_eq!((shown.join(" ").as_str(), side.description.as_str()), (nets, words), "{peer:?}");
        }
    }
}
