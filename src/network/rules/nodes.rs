//! The rules' view of the nodes: which node a client or an endpoint belongs to.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabric::nft::{Element, Family, Field, Key, Set};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use super::base::OWN_NODE;
use super::names::short;
use super::owner_rules::OwnerRules;
use object::node::internal_ips;
use object::well_known::annotation::PODIUM_NETWORK;
use object::well_known::label::ZONE;

/// The addresses of a node whose pods are in the fabric network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeAddresses {
    pub(crate) ips: Vec<IpAddr>,
    /// The ranges of its pods.
    pub(crate) pods: Vec<IpNet>,
    pub(crate) zone: Option<String>,
}

/// All nodes by name.
pub(crate) type NodesByName = BTreeMap<String, NodeAddresses>;

impl NodeAddresses {
    /// Reads the addresses from a Node; `None` if its pods are not in the fabric network.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let annotations = node.metadata.annotations.as_ref();
        annotations?.get(PODIUM_NETWORK).filter(|network| *network == "fabric")?;
        let ips = internal_ips(node).collect();
        let spec = node.spec.clone().unwrap_or_default();
        let ranges =
            spec.pod_cidrs.filter(|all| !all.is_empty()).or_else(|| spec.pod_cidr.map(|cidr| vec![cidr]));
        let pods = ranges.into_iter().flatten().filter_map(|cidr| cidr.parse().ok()).collect();
        let zone = node.metadata.labels.as_ref().and_then(|labels| labels.get(ZONE).cloned());
        Some(Self { ips, pods, zone })
    }

    /// Returns whether it has addresses of a family.
    pub(super) fn is_in(&self, family: Family) -> bool {
        let pods = self.pods.iter().map(IpNet::addr);
        self.ips.iter().copied().chain(pods).any(|ip| Family::of(ip) == family)
    }
}

/// Returns the name of the set with the addresses of a node's clients: its own, and its pods'.
pub(super) fn clients_of(node: &str) -> String {
    short(format!("from/{node}"))
}

/// Returns a node's rules: its clients' set, and the exception for its own pods.
pub(super) fn rules_of(name: &str, place: &NodeAddresses) -> OwnerRules {
    let mut piece = OwnerRules::default();
    let set = clients_of(name);
    let ranges = place.pods.iter().copied().chain(place.ips.iter().copied().map(IpNet::from));
    for range in ranges {
        let half = piece.half(Family::of(range.addr()));
        half.set(Set::new(&set, &[Field::SourceAddress]).of_intervals());
        let (first, last) = (Key::new().ip(range.network()), Key::new().ip(range.broadcast()));
        half.element(&set, Element::range(first, last));
    }
    for ip in &place.ips {
        for pods in place.pods.iter().filter(|pods| Family::of(pods.addr()) == Family::of(*ip)) {
            let half = piece.half(Family::of(*ip));
            let (first, last) = (pods.network(), pods.broadcast());
            let both = [(*ip, *ip, first, last), (first, last, *ip, *ip)];
            for (from_first, from_last, to_first, to_last) in both {
                let key = |from, to| Key::new().ip(from).ip(to);
                half.element(OWN_NODE, Element::range(key(from_first, to_first), key(from_last, to_last)));
            }
        }
    }
    piece
}
