//! Why a connection is allowed or refused: asked of the policies themselves, for one connection.

mod sentences;

use std::fmt;
use std::net::IpAddr;

use super::port_range::Protocol;
use super::rule::{Direction, Peer, Policy, Port, Rule};
use super::world::{PodFacts, World};
use object::Key;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A pod, at its first address that the other end has a way to.
    Pod(Key),
    /// Whoever has this address: a pod, or somebody outside.
    Address(IpAddr),
    /// A node itself: its kubelet, and all that uses its network.
    Node {
        /// Its name.
        name: String,
        /// The address that it uses for this.
        address: IpAddr,
    },
}

/// `default/web`, `192.0.2.1`, `node n1`
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => key.fmt(f),
            Self::Address(ip) => ip.fmt(f),
            Self::Node { name, .. } => write!(f, "node {name}"),
        }
    }
}

/// May this end open a connection to that one? Both are what packets have in the pods' network: of a Service, ask for each
/// endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who opens it.
    pub source: End,
    /// Who is connected to.
    pub destination: End,
    /// By which protocol.
    pub protocol: Protocol,
    /// The destination's port.
    pub port: u16,
}

/// Nothing can be said of a connection from or to an end without an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// The pod is not there, has ended, or has not got its address yet.
    Pod(Key),
    /// One has IPv4 addresses and the other one IPv6 addresses only.
    OtherFamily {
        /// Who would open the connection.
        source: End,
        /// Who would be connected to.
        destination: End,
    },
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => {
                write!(f, "pod {key} has no address: it is not there, has ended or has not started")
            }
            Self::OtherFamily { source, destination } => {
                write!(f, "{source} has no address of {destination}'s family")
            }
        }
    }
}

impl std::error::Error for NoAddress {}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The question; ends given as addresses of pods are those pods.
    pub question: Question,
    /// Whether the source may open it.
    pub egress: Ruling,
    /// Whether the destination takes it.
    pub ingress: Ruling,
}

/// What is said at one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The end is no pod with a network of its own: policies have nothing to say.
    NoPod,
    /// No policy isolates the pod in this direction.
    NotIsolated,
    /// No policy can refuse it.
    Always(Always),
    /// These rules allow it.
    Allowed(Vec<RuleName>),
    /// These policies isolate the pod in this direction, and no rule of theirs allows it.
    Refused {
        /// In order.
        policies: Vec<Key>,
        /// The rules that would allow it on other ports.
        on_other_ports: Vec<RuleName>,
    },
}

/// What policies cannot refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Always {
    /// A pod and itself.
    Itself,
    /// A pod and the node that it runs on.
    ItsNode,
}

/// A rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleName {
    /// The policy.
    pub policy: Key,
    /// Which list of its rules.
    pub direction: Direction,
    /// Its place in there, from 0.
    pub rule: usize,
}

/// `default/db-from-api, ingress[0]`
impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}[{}]", self.policy, self.direction, self.rule)
    }
}

impl Ruling {
    /// Whether the connection may pass here.
    pub fn allows(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}

impl Explanation {
    /// Whether the connection may be opened: both ends agree.
    pub fn is_allowed(&self) -> bool {
        self.egress.allows() && self.ingress.allows()
    }

    /// What is said at an end.
    pub fn ruling(&self, direction: Direction) -> &Ruling {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    /// For people: a sentence for what the source may do and one for what the destination takes, of this same world. When the
    /// connection is refused, only sentences that say why. An end that is no pod has nothing to say.
    pub fn sentences(&self, world: &World) -> Vec<String> {
        sentences::sentences(self, world)
    }
}

impl World {
    /// The policies that isolate a pod in a direction, in order.
    pub fn isolating_in(&self, key: &Key, direction: Direction) -> Vec<Key> {
        let Some((key, pod)) = self.pods.get_key_value(key) else { return Vec::new() };
        let all = self.isolating(key, pod).filter(|policy| policy.rules(direction).is_some());
        all.map(|policy| policy.key.clone()).collect()
    }

    /// The pods that a policy selects, in order.
    pub fn selected_by(&self, policy: &Key) -> Vec<Key> {
        let Some(policy) = self.policies.get(policy) else { return Vec::new() };
        let own = self.pods.iter().filter(|(key, pod)| key.namespace == policy.key.namespace && !pod.of_host);
        own.filter(|(_, pod)| policy.pods.matches(Some(&pod.labels))).map(|(key, _)| key.clone()).collect()
    }

    /// What one policy lets through in a direction, in words; none where it is not about that direction.
    pub fn accepted_by(&self, policy: &Key, direction: Direction) -> Option<String> {
        self.policies.get(policy)?.rules(direction)?;
        Some(self.accepted(direction, std::slice::from_ref(policy)))
    }

    /// What policies let through together in a direction, in words: `app=api on 5432 (policy default/db)`. Empty where it is
    /// nothing.
    pub fn accepted(&self, direction: Direction, policies: &[Key]) -> String {
        sentences::accepted(self, direction, policies)
    }
}

/// An end as the packets have it.
struct Place<'a> {
    ip: IpAddr,
    /// A pod with a network of its own.
    pod: Option<(&'a Key, &'a PodFacts)>,
    /// The node whose address it is.
    node: Option<&'a str>,
}

/// Whether a connection may be opened, and who says so.
pub fn explain(world: &World, question: &Question) -> Result<Explanation, NoAddress> {
    let (source, destination) = (&question.source, &question.destination);
    let (from, to) = (places(world, source)?, places(world, destination)?);
    let pairs = to.iter().flat_map(|to| from.iter().map(move |from| (from, to)));
    let Some((from, to)) = pairs.into_iter().find(|(from, to)| from.ip.is_ipv4() == to.ip.is_ipv4()) else {
        let (source, destination) = (source.clone(), destination.clone());
        return Err(NoAddress::OtherFamily { source, destination });
    };
    let known = |end: &End, place: &Place<'_>| match (end, place.pod) {
        (End::Address(_), Some((key, _))) => End::Pod(key.clone()),
        _ => end.clone(),
    };
    Ok(Explanation {
        egress: rule_on(world, Direction::Egress, from, to, to, question),
        ingress: rule_on(world, Direction::Ingress, to, from, to, question),
        question: Question {
            source: known(source, from),
            destination: known(destination, to),
            ..question.clone()
        },
    })
}

/// Where an end may be, the address that it is known by first.
fn places<'a>(world: &'a World, end: &'a End) -> Result<Vec<Place<'a>>, NoAddress> {
    Ok(match end {
        End::Node { name, address } => vec![Place { ip: *address, pod: None, node: Some(name) }],
        End::Address(ip) => {
            let pod = world.pod_at(*ip).and_then(|key| world.pods.get_key_value(key));
            vec![Place { ip: *ip, pod, node: None }]
        }
        End::Pod(key) => {
            let (key, pod) = world.pods.get_key_value(key).ok_or_else(|| NoAddress::Pod(key.clone()))?;
            let node = pod.node.as_deref().filter(|_| pod.of_host);
            let own = (!pod.of_host).then_some((key, pod));
            pod.ips.iter().map(|ip| Place { ip: *ip, pod: own, node }).collect()
        }
    })
}

/// What is said at one end of what the other one is and where the connection goes.
fn rule_on(
    world: &World,
    direction: Direction,
    own: &Place<'_>,
    other: &Place<'_>,
    to: &Place<'_>,
    question: &Question,
) -> Ruling {
    let Some((key, pod)) = own.pod else { return Ruling::NoPod };
    if other.pod.is_some_and(|(other, _)| other == key) {
        return Ruling::Always(Always::Itself);
    }
    if other.node.is_some() && other.node == pod.node.as_deref() {
        return Ruling::Always(Always::ItsNode);
    }
    let isolating: Vec<&Policy> =
        world.isolating(key, pod).filter(|policy| policy.rules(direction).is_some()).collect();
    if isolating.is_empty() {
        return Ruling::NotIsolated;
    }
    let (mut allowing, mut on_other_ports) = (Vec::new(), Vec::new());
    for policy in &isolating {
        for (place, rule) in policy.rules(direction).unwrap_or_default().iter().enumerate() {
            if rule.peers.iter().any(|peer| means(world, peer, other)) {
                let name = RuleName { policy: policy.key.clone(), direction, rule: place };
                let is_open = opens(rule, to, question);
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

/// Whether a rule means somebody.
fn means(world: &World, peer: &Peer, other: &Place<'_>) -> bool {
    match peer {
        Peer::Everybody => true,
        Peer::Block(block) => block.contains(other.ip),
        Peer::Pods(definition) => other.pod.is_some_and(|(key, pod)| world.selects(definition, key, pod)),
    }
}

/// Whether a rule opens the port of whoever is connected to.
fn opens(rule: &Rule, to: &Place<'_>, question: &Question) -> bool {
    let Some(ports) = &rule.ports else { return true };
    ports.iter().any(|port| match port {
        Port::Range(range) => range.contains(question.protocol, question.port),
        Port::Named(protocol, name) => {
            let numbers = to.pod.map(|(_, pod)| pod.numbers(*protocol, name)).unwrap_or_default();
            *protocol == question.protocol && numbers.contains(&question.port)
        }
    })
}
