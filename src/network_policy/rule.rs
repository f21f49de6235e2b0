//! A parsed NetworkPolicy: with defaults and selectors, and without invalid parts.

use std::fmt;

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::peers::{Block, Definition, Namespaces, Peers};
use super::port_range::{PortRange, Protocol};
use object::selector::Selector;
use object::{Key, port_number};

/// The direction of connections, as seen from a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Connections to the pod.
    Ingress,
    /// Connections from the pod.
    Egress,
}

impl Direction {
    /// Both directions.
    pub const ALL: [Self; 2] = [Self::Ingress, Self::Egress];
}

/// Formats the direction as in `policyTypes`, but in lower case.
impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

/// A parsed policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The policy's name; the policy applies only to pods of its namespace.
    pub(super) key: Key,
    /// The pods that it isolates.
    pub(super) pods: Selector,
    ingress: Option<Vec<Rule>>,
    egress: Option<Vec<Rule>>,
}

/// A rule: it allows each of the peers on each of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) peers: Vec<Peer>,
    /// `None` means all ports.
    pub(super) ports: Option<Vec<Port>>,
}

/// A peer of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Any,
    Pods(Definition),
    Block(Block),
}

impl Peer {
    /// Returns the peer as it appears in the model.
    pub(super) fn peers(&self) -> Peers {
        match self {
            Self::Any => Peers::Any,
            Self::Pods(definition) => Peers::Set(definition.id.clone()),
            Self::Block(block) => Peers::Block(block.clone()),
        }
    }

    /// Returns the set of endpoints of this peer's pods for a named port.
    pub(super) fn endpoints(&self, protocol: Protocol, name: &str) -> Definition {
        let port = Some((protocol, name.to_owned()));
        match self {
            Self::Any => Definition::new(Namespaces::All, Selector::everything(), None, port),
            Self::Block(block) => {
                Definition::new(Namespaces::All, Selector::everything(), Some(block.clone()), port)
            }
            Self::Pods(Definition { namespaces, pods, .. }) => {
                Definition::new(namespaces.clone(), pods.clone(), None, port)
            }
        }
    }
}

/// A port of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Range(PortRange),
    /// The port of this name in the destination pod.
    Named(Protocol, String),
}

impl Policy {
    /// Parses a policy. Invalid parts never allow anything.
    pub fn read(key: &Key, policy: &NetworkPolicy) -> Self {
        let spec = policy.spec.clone().unwrap_or_default();
        let ingress = spec.ingress.unwrap_or_default();
        let egress = spec.egress.unwrap_or_default();
        let types = spec.policy_types.unwrap_or_default();
        let is_meant = |name: &str, by_default: bool| {
            if types.is_empty() { by_default } else { types.iter().any(|one| one == name) }
        };
        let isolates = (is_meant("Ingress", true), is_meant("Egress", !egress.is_empty()));
        let read = |peers: Option<Vec<NetworkPolicyPeer>>, ports: Option<Vec<NetworkPolicyPort>>| Rule {
            // A missing or empty list means all peers; a list with only invalid peers means none.
            peers: match peers.filter(|peers| !peers.is_empty()) {
                None => vec![Peer::Any],
                Some(peers) => peers.iter().filter_map(|one| peer(one, &key.namespace)).collect(),
            },
            ports: ports
                .filter(|ports| !ports.is_empty())
                .map(|ports| ports.iter().filter_map(port).collect()),
        };
        let ingress = ingress.into_iter().map(|rule| read(rule.from, rule.ports)).collect();
        let egress = egress.into_iter().map(|rule| read(rule.to, rule.ports)).collect();
        Self {
            key: key.clone(),
            pods: Selector::from_field(&spec.pod_selector.unwrap_or_default()),
            ingress: isolates.0.then_some(ingress),
            egress: isolates.1.then_some(egress),
        }
    }

    /// Returns its rules in a direction; `None` if it does not isolate in that direction.
    pub(super) fn rules(&self, direction: Direction) -> Option<&[Rule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }

    /// Returns the sets that its rules refer to, some of them more than once.
    pub(super) fn sets(&self) -> impl Iterator<Item = Definition> + '_ {
        Direction::ALL.into_iter().flat_map(move |direction| {
            let rules = self.rules(direction).unwrap_or_default();
            rules.iter().flat_map(move |rule| rule.sets(direction))
        })
    }
}

impl Rule {
    /// Returns its named ports.
    pub(super) fn named(&self) -> impl Iterator<Item = (Protocol, &str)> {
        self.ports.iter().flatten().filter_map(|port| match port {
            Port::Named(protocol, name) => Some((*protocol, name.as_str())),
            Port::Range(_) => None,
        })
    }

    /// Returns its numbered ports.
    pub(super) fn ranges(&self) -> impl Iterator<Item = PortRange> {
        self.ports.iter().flatten().filter_map(|port| match port {
            Port::Range(range) => Some(*range),
            Port::Named(..) => None,
        })
    }

    /// Returns whether the rule needs its peers as a set of addresses, besides the endpoints of named ports.
    pub(super) fn needs_peers(&self, direction: Direction) -> bool {
        direction == Direction::Ingress || self.ports.is_none() || self.ranges().next().is_some()
    }

    fn sets(&self, direction: Direction) -> Vec<Definition> {
        let mut all = Vec::new();
        for peer in &self.peers {
            if let (Peer::Pods(definition), true) = (peer, self.needs_peers(direction)) {
                all.push(definition.clone());
            }
            if direction == Direction::Egress {
                all.extend(self.named().map(|(protocol, name)| peer.endpoints(protocol, name)));
            }
        }
        all
    }
}

fn peer(peer: &NetworkPolicyPeer, own: &str) -> Option<Peer> {
    let pods = peer.pod_selector.as_ref().map(Selector::from_field);
    let namespaces = peer.namespace_selector.as_ref().map(Selector::from_field);
    match (&peer.ip_block, pods, namespaces) {
        (Some(block), None, None) => Block::read(block).map(Peer::Block),
        (None, Some(pods), None) => {
            Some(Peer::Pods(Definition::new(Namespaces::Named(own.into()), pods, None, None)))
        }
        (None, pods, Some(namespaces)) => {
            let pods = pods.unwrap_or_else(Selector::everything);
            Some(Peer::Pods(Definition::new(Namespaces::Selected(namespaces), pods, None, None)))
        }
        // Validation rejects both forms.
        (None, None, None) | (Some(_), ..) => None,
    }
}

fn port(port: &NetworkPolicyPort) -> Option<Port> {
    let protocol = Protocol::read(port.protocol.as_deref())?;
    match &port.port {
        None => Some(Port::Range(PortRange::every(protocol))),
        Some(IntOrString::String(name)) => Some(Port::Named(protocol, name.clone())),
        Some(IntOrString::Int(first)) => {
            let (first, last) = (port_number(*first)?, port_number(port.end_port.unwrap_or(*first))?);
            (first <= last).then_some(Port::Range(PortRange { protocol, first, last }))
        }
    }
}
