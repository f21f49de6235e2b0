//! The model: which pods are isolated and what still reaches them, for whoever writes it into a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::peers::{Member, Peers, SetId};
use super::port_range::PortRange;
use super::ports::Ports;
use super::ranges::{KnownRanges, Ranges};
use super::rule::{Direction, Policy};
use super::world::{NamedPort, PodFacts, World, numbers_of};
use object::Key;

/// What all policies say of all pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// The pods that a policy isolates in a direction; all others are open in both.
    pub pods: BTreeMap<Key, IsolatedPod>,
    /// Every set that a policy names, also when it isolates nobody, and when nobody is in it.
    pub sets: BTreeMap<SetId, BTreeSet<Member>>,
}

/// A pod that a policy isolates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolatedPod {
    /// Its addresses, IPv4 and IPv6; at least one.
    pub ips: Vec<IpAddr>,
    /// Its node, which is never cut off from it.
    pub node: Option<String>,
    /// What may connect to it; none: whatever likes. Pods of one replica set mostly share it.
    pub ingress: Option<Arc<Isolation>>,
    /// What it may connect to; none: whatever it likes.
    pub egress: Option<Arc<Isolation>>,
}

impl IsolatedPod {
    /// Whether it is the same pod as far as can be told without a look at what is left of its connections: what is the same
    /// is one, where [`Index`](super::Index) makes it.
    pub(super) fn shares_all_with(&self, other: &Self) -> bool {
        let is_one = |one: &Option<Arc<Isolation>>, other: &Option<Arc<Isolation>>| match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        self.ips == other.ips
            && self.node == other.node
            && is_one(&self.ingress, &other.ingress)
            && is_one(&self.egress, &other.egress)
    }

    /// What is left in a direction; none: everything.
    pub fn isolation(&self, direction: Direction) -> Option<&Isolation> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }
}

/// What is allowed in one direction of an isolated pod: any of these. Nothing, where both are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Isolation {
    /// Peers, each with the ports allowed to it: the pod's own of ingress, the peer's of egress. None are empty.
    pub peers: BTreeMap<Peers, Ports>,
    /// Sets of [`Member::Endpoint`]: what egress by a port's name leads to. Empty of ingress.
    pub endpoints: BTreeSet<SetId>,
}

/// What the rules that name a peer allow it.
#[derive(Default)]
struct Allowed {
    /// Every port.
    all: bool,
    /// Ports of rules with few of them: put together.
    few: Vec<PortRange>,
    /// Those of rules with many of them, as all peers of the rule have them.
    many: Vec<Ranges>,
}

/// So many ranges of a rule are few: put together with those of others, a peer costs no more than so many for each rule that
/// names it.
const FEW: usize = 16;

impl Isolation {
    /// What these policies leave of a direction of pods with these named ports; none when none of them isolates in it.
    fn of(
        policies: &[&Policy],
        direction: Direction,
        named: &[NamedPort],
        known: &mut KnownRanges,
    ) -> Option<Self> {
        let mut is_isolated = false;
        // Gathered first and put in order once: a thousand policies may allow the same peer a port each.
        let mut allowed: BTreeMap<Peers, Allowed> = BTreeMap::new();
        let mut endpoints = BTreeSet::new();
        for rules in policies.iter().filter_map(|policy| policy.rules(direction)) {
            is_isolated = true;
            for rule in rules {
                let own = rule.named().filter(|_| direction == Direction::Ingress);
                let own = own.flat_map(|(protocol, name)| {
                    let numbers = numbers_of(named, protocol, name);
                    numbers.map(move |number| PortRange::one(protocol, number))
                });
                let ranges: Vec<PortRange> = rule.ranges().chain(own).collect();
                let many = (ranges.len() > FEW).then(|| known.shared(Ranges::of(ranges.iter().copied())));
                for peer in &rule.peers {
                    let allowed = allowed.entry(peer.peers()).or_default();
                    match &many {
                        _ if rule.ports.is_none() => allowed.all = true,
                        None => allowed.few.extend(&ranges),
                        Some(many) => allowed.many.push(many.clone()),
                    }
                    if direction == Direction::Egress {
                        let named = rule.named().map(|(protocol, name)| peer.endpoints(protocol, name).id);
                        endpoints.extend(named);
                    }
                }
            }
        }
        let ports = |Allowed { all, few, mut many }| {
            if all {
                return Ports::All;
            }
            many.push(Ranges::of(few));
            Ports::any_of(many)
        };
        let peers = allowed.into_iter().map(|(peers, allowed)| (peers, ports(allowed)));
        let peers = peers.filter(|(_, ports)| !ports.is_empty()).collect();
        is_isolated.then_some(Self { peers, endpoints })
    }
}

/// Both directions of all pods that the same policies select and that have the same named ports.
#[derive(Clone, Debug)]
pub(super) struct Isolations {
    pub(super) ingress: Option<Arc<Isolation>>,
    pub(super) egress: Option<Arc<Isolation>>,
}

impl Isolations {
    /// What these policies leave of the connections of pods that they select and that have these named ports.
    pub(super) fn of(policies: &[&Policy], named: &[NamedPort], known: &mut KnownRanges) -> Self {
        let mut of = |direction| Isolation::of(policies, direction, named, known).map(Arc::new);
        Self { ingress: of(Direction::Ingress), egress: of(Direction::Egress) }
    }

    /// One of those pods; none when it stays open.
    pub(super) fn isolate(self, pod: &PodFacts) -> Option<IsolatedPod> {
        let Self { ingress, egress } = self;
        let is_isolated = ingress.is_some() || egress.is_some();
        let (ips, node) = (pod.ips.clone(), pod.node.clone());
        is_isolated.then_some(IsolatedPod { ips, node, ingress, egress })
    }
}

/// The model of a whole world, made anew: each policy asked of each pod. [`Index`](super::Index) does the same by single changes.
pub fn compile(world: &World) -> Model {
    let (mut model, mut known) = (Model::default(), KnownRanges::default());
    for (key, pod) in &world.pods {
        let policies: Vec<&Policy> = world.isolating(key, pod).collect();
        if let Some(isolated) = Isolations::of(&policies, &pod.ports, &mut known).isolate(pod) {
            model.pods.insert(key.clone(), isolated);
        }
    }
    for definition in world.policies().flat_map(Policy::sets) {
        if model.sets.contains_key(&definition.id) {
            continue;
        }
        let pods = world.pods.iter().filter(|(key, pod)| world.selects(&definition, key, pod));
        let members = pods
            .flat_map(|(_, pod)| definition.members(&pod.ips, |protocol, name| pod.numbers(protocol, name)));
        let members = members.collect();
        model.sets.insert(definition.id.clone(), members);
    }
    model
}
