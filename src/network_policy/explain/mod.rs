//! Explains why policies allow or refuse one connection, evaluating the policies themselves.

mod sentences;

use std::fmt;
use std::net::IpAddr;

use super::inputs::{PodFacts, PolicyInputs};
use super::port_range::Protocol;
use super::rule::{Direction, Peer, Policy, Port, Rule};
use object::Key;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// A pod, at its first address of a family that the other end has too.
    Pod(Key),
    /// An address: of a pod, or outside the cluster.
    Address(IpAddr),
    /// A node itself: its kubelet, and everything that uses the node's network.
    Node {
        /// The node's name.
        name: String,
        /// The address that it uses for the connection.
        address: IpAddr,
    },
}

/// Formats the end as `default/web`, `192.0.2.1` or `node n1`.
impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => key.fmt(f),
            Self::Address(ip) => ip.fmt(f),
            Self::Node { name, .. } => write!(f, "node {name}"),
        }
    }
}

/// A connection to evaluate. Both ends are as packets have them in the pods' network: for a Service, evaluate each of
/// its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionQuery {
    /// The end that opens the connection.
    pub source: ConnectionEnd,
    /// The end that accepts it.
    pub destination: ConnectionEnd,
    /// The protocol.
    pub protocol: Protocol,
    /// The destination's port.
    pub port: u16,
}

/// An end without a usable address, so that policies cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// The pod does not exist, has ended, or has no address yet.
    Pod(Key),
    /// One end has only IPv4 addresses, and the other only IPv6 addresses.
    OtherFamily {
        /// The end that would open the connection.
        source: ConnectionEnd,
        /// The end that would accept it.
        destination: ConnectionEnd,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => {
                write!(f, "pod {key} has no address: it does not exist, has ended or has not started")
            }
            Self::OtherFamily { source, destination } => {
                write!(f, "{source} and {destination} have no address family in common")
            }
        }
    }
}

impl std::error::Error for AddressError {}

/// The evaluation of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The connection; addresses of pods are replaced by these pods.
    pub question: ConnectionQuery,
    /// The ruling about the source: may it open the connection?
    pub egress: Ruling,
    /// The ruling about the destination: may it accept the connection?
    pub ingress: Ruling,
}

/// The ruling at one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The end is not a pod with a network of its own: policies do not apply.
    NoPod,
    /// No policy isolates the pod in this direction.
    NotIsolated,
    /// Policies can never refuse this connection.
    Always(ImplicitAllow),
    /// These rules allow it.
    Allowed(Vec<RuleName>),
    /// These policies isolate the pod in this direction, and none of their rules allows the connection.
    Refused {
        /// The policies, in order.
        policies: Vec<Key>,
        /// Rules that would allow it on other ports.
        on_other_ports: Vec<RuleName>,
    },
}

/// Connections that policies can never refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImplicitAllow {
    /// From a pod to itself.
    Itself,
    /// Between a pod and the node that it runs on.
    ItsNode,
}

/// Identifies a rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleName {
    /// The policy.
    pub policy: Key,
    /// The list that the rule is in.
    pub direction: Direction,
    /// Its index in that list, from 0.
    pub rule: usize,
}

/// Formats the name as `default/db-from-api, ingress[0]`.
impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}[{}]", self.policy, self.direction, self.rule)
    }
}

impl Ruling {
    /// Returns whether this ruling allows the connection.
    pub fn allows(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}

impl Explanation {
    /// Returns whether both ends allow the connection.
    pub fn is_allowed(&self) -> bool {
        self.egress.allows() && self.ingress.allows()
    }

    /// Returns the ruling for a direction.
    pub fn ruling(&self, direction: Direction) -> &Ruling {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    /// Returns sentences for users: one for the source and one for the destination, but none for an end that is not a
    /// pod. If the connection is refused, only the sentences that explain the refusal are returned. `world` must be the
    /// inputs that were evaluated.
    pub fn sentences(&self, world: &PolicyInputs) -> Vec<String> {
        sentences::sentences(self, world)
    }
}

impl PolicyInputs {
    /// Returns the policies that isolate a pod in a direction, in order.
    pub fn isolating_in(&self, key: &Key, direction: Direction) -> Vec<Key> {
        let Some((key, pod)) = self.pods.get_key_value(key) else { return Vec::new() };
        let all = self.isolating(key, pod).filter(|policy| policy.rules(direction).is_some());
        all.map(|policy| policy.key.clone()).collect()
    }

    /// Returns the pods that a policy selects, in order.
    pub fn selected_by(&self, policy: &Key) -> Vec<Key> {
        let Some(policy) = self.policies.get(policy) else { return Vec::new() };
        let own = self.pods.iter().filter(|(key, pod)| key.namespace == policy.key.namespace && !pod.of_host);
        own.filter(|(_, pod)| policy.pods.matches(Some(&pod.labels))).map(|(key, _)| key.clone()).collect()
    }

    /// Describes what one policy allows in a direction; `None` if it does not apply to that direction.
    pub fn accepted_by(&self, policy: &Key, direction: Direction) -> Option<String> {
        self.policies.get(policy)?.rules(direction)?;
        Some(self.accepted(direction, std::slice::from_ref(policy)))
    }

    /// Describes what policies allow together in a direction: `app=api on 5432 (policy default/db)`. Empty if they
    /// allow nothing.
    pub fn accepted(&self, direction: Direction, policies: &[Key]) -> String {
        sentences::accepted(self, direction, policies)
    }
}

/// One end of a connection, as its packets identify it.
struct PacketEnd<'a> {
    ip: IpAddr,
    /// The pod, if it has a network of its own.
    pod: Option<(&'a Key, &'a PodFacts)>,
    /// The node, if the address is a node's.
    node: Option<&'a str>,
}

/// Evaluates whether a connection may be opened, and which policies decide.
pub fn explain(world: &PolicyInputs, question: &ConnectionQuery) -> Result<Explanation, AddressError> {
    let (source, destination) = (&question.source, &question.destination);
    let (from, to) = (packet_ends(world, source)?, packet_ends(world, destination)?);
    let pairs = to.iter().flat_map(|to| from.iter().map(move |from| (from, to)));
    let Some((from, to)) = pairs.into_iter().find(|(from, to)| from.ip.is_ipv4() == to.ip.is_ipv4()) else {
        let (source, destination) = (source.clone(), destination.clone());
        return Err(AddressError::OtherFamily { source, destination });
    };
    let known = |end: &ConnectionEnd, place: &PacketEnd<'_>| match (end, place.pod) {
        (ConnectionEnd::Address(_), Some((key, _))) => ConnectionEnd::Pod(key.clone()),
        _ => end.clone(),
    };
    Ok(Explanation {
        egress: rule_on(world, Direction::Egress, from, to, to, question),
        ingress: rule_on(world, Direction::Ingress, to, from, to, question),
        question: ConnectionQuery {
            source: known(source, from),
            destination: known(destination, to),
            ..question.clone()
        },
    })
}

/// Returns the possible addresses of an end, the primary one first.
fn packet_ends<'a>(
    world: &'a PolicyInputs,
    end: &'a ConnectionEnd,
) -> Result<Vec<PacketEnd<'a>>, AddressError> {
    Ok(match end {
        ConnectionEnd::Node { name, address } => {
            vec![PacketEnd { ip: *address, pod: None, node: Some(name) }]
        }
        ConnectionEnd::Address(ip) => {
            let pod = world.pod_at(*ip).and_then(|key| world.pods.get_key_value(key));
            vec![PacketEnd { ip: *ip, pod, node: None }]
        }
        ConnectionEnd::Pod(key) => {
            let (key, pod) = world.pods.get_key_value(key).ok_or_else(|| AddressError::Pod(key.clone()))?;
            let node = pod.node.as_deref().filter(|_| pod.of_host);
            let own = (!pod.of_host).then_some((key, pod));
            pod.ips.iter().map(|ip| PacketEnd { ip: *ip, pod: own, node }).collect()
        }
    })
}

/// Evaluates the policies of one end.
fn rule_on(
    world: &PolicyInputs,
    direction: Direction,
    own: &PacketEnd<'_>,
    other: &PacketEnd<'_>,
    to: &PacketEnd<'_>,
    question: &ConnectionQuery,
) -> Ruling {
    let Some((key, pod)) = own.pod else { return Ruling::NoPod };
    if other.pod.is_some_and(|(other, _)| other == key) {
        return Ruling::Always(ImplicitAllow::Itself);
    }
    if other.node.is_some() && other.node == pod.node.as_deref() {
        return Ruling::Always(ImplicitAllow::ItsNode);
    }
    let isolating: Vec<&Policy> =
        world.isolating(key, pod).filter(|policy| policy.rules(direction).is_some()).collect();
    if isolating.is_empty() {
        return Ruling::NotIsolated;
    }
    let (mut allowing, mut on_other_ports) = (Vec::new(), Vec::new());
    for policy in &isolating {
        for (place, rule) in policy.rules(direction).unwrap_or_default().iter().enumerate() {
            if rule.peers.iter().any(|peer| matches_peer(world, peer, other)) {
                let name = RuleName { policy: policy.key.clone(), direction, rule: place };
                let is_open = allows_port(rule, to, question);
                if is_open { &mut allowing } else { &mut on_other_ports }.push(name);
            }
        }
    }
    if allowing.is_empty() {
        let policies = isolating.into_iter().map(|policy| policy.key.clone()).collect();
        Ruling::Refused { policies, on_other_ports }
    } else {
        Ruling::Allowed(allowing)
    }
}

/// Returns whether a peer matches an end.
fn matches_peer(world: &PolicyInputs, peer: &Peer, other: &PacketEnd<'_>) -> bool {
    match peer {
        Peer::Any => true,
        Peer::Block(block) => block.contains(other.ip),
        Peer::Pods(definition) => other.pod.is_some_and(|(key, pod)| world.selects(definition, key, pod)),
    }
}

/// Returns whether a rule allows the destination's port.
fn allows_port(rule: &Rule, to: &PacketEnd<'_>, question: &ConnectionQuery) -> bool {
    let Some(ports) = &rule.ports else { return true };
    ports.iter().any(|port| match port {
        Port::Range(range) => range.contains(question.protocol, question.port),
        Port::Named(protocol, name) => {
            let numbers = to.pod.map(|(_, pod)| pod.numbers(*protocol, name)).unwrap_or_default();
            *protocol == question.protocol && numbers.contains(&question.port)
        }
    })
}
