//! The model: isolated pods and the connections that they may still have, to be written into a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::inputs::{NamedPort, PodFacts, PolicyInputs, numbers_of};
use super::peers::{Member, Peers, SetId};
use super::port_range::PortRange;
use super::ports::Ports;
use super::ranges::{KnownRanges, Ranges};
use super::rule::{Direction, Policy};
use base::sort::CollectMap;
use object::Key;

/// The effect of all policies on all pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// The pods that a policy isolates in a direction; all others are open in both.
    pub pods: BTreeMap<Key, IsolatedPod>,
    /// Every set that a policy refers to, even if the policy selects no pod, and even if the set is empty.
    pub sets: BTreeMap<SetId, BTreeSet<Member>>,
}

/// A pod that a policy isolates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolatedPod {
    /// Its addresses, IPv4 and IPv6; at least one.
    pub ips: Vec<IpAddr>,
    /// Its node, from which it is never isolated.
    pub node: Option<String>,
    /// The connections that it may accept; `None` means all. Pods of one replica set usually share it.
    pub ingress: Option<Arc<Isolation>>,
    /// The connections that it may open; `None` means all.
    pub egress: Option<Arc<Isolation>>,
}

impl IsolatedPod {
    /// Returns whether two pods are equal, comparing isolations only by their addresses in memory:
    /// [`Index`](super::Index) stores equal isolations once.
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

    /// Returns the isolation in a direction; `None` means open.
    pub fn isolation(&self, direction: Direction) -> Option<&Isolation> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }
}

/// The connections that an isolated pod may have in one direction: any that one entry allows, and none if both fields
/// are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Isolation {
    /// Peers, each with its allowed ports: the pod's own for ingress, the peer's for egress. Entries without ports are
    /// left out.
    pub peers: BTreeMap<Peers, Ports>,
    /// Sets of [`Member::Endpoint`]: destinations of egress to named ports. Empty for ingress.
    pub endpoints: BTreeSet<SetId>,
}

/// The ports that rules allow for one peer.
#[derive(Default)]
struct AllowedPorts {
    /// Every port.
    all: bool,
    /// Ports of rules with few port ranges, merged.
    few: Vec<PortRange>,
    /// Ports of rules with many port ranges, shared by all peers of the rule.
    many: Vec<Ranges>,
}

/// Maximum number of a rule's ranges that are merged with those of other rules: a peer costs at most so many for each
/// rule that refers to it.
const FEW: usize = 16;

impl Isolation {
    /// Returns the isolation by these policies, in one direction, of pods with these named ports; `None` if none of the
    /// policies applies to that direction.
    fn of(
        policies: &[&Policy],
        direction: Direction,
        named: &[NamedPort],
        shared_ranges: &mut KnownRanges,
    ) -> Option<Self> {
        let mut is_isolated = false;
        // Collect first and sort once: a thousand policies may each allow the same peer one port.
        let mut allowed: BTreeMap<Peers, AllowedPorts> = BTreeMap::new();
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
                let many =
                    (ranges.len() > FEW).then(|| shared_ranges.shared(Ranges::of(ranges.iter().copied())));
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
        let ports = |AllowedPorts { all, few, mut many }| {
            if all {
                return Ports::All;
            }
            many.push(Ranges::of(few));
            Ports::any_of(many)
        };
        let peers = allowed.into_iter().map(|(peers, allowed)| (peers, ports(allowed)));
        let peers = peers.filter(|(_, ports)| !ports.is_empty()).collect_map();
        is_isolated.then_some(Self { peers, endpoints })
    }
}

/// Both directions for all pods that the same policies select and that have the same named ports.
#[derive(Clone, Debug)]
pub(super) struct Isolations {
    pub(super) ingress: Option<Arc<Isolation>>,
    pub(super) egress: Option<Arc<Isolation>>,
}

impl Isolations {
    /// Returns the isolation of pods that these policies select and that have these named ports.
    pub(super) fn of(policies: &[&Policy], named: &[NamedPort], known: &mut KnownRanges) -> Self {
        let mut of = |direction| Isolation::of(policies, direction, named, known).map(Arc::new);
        Self { ingress: of(Direction::Ingress), egress: of(Direction::Egress) }
    }

    /// Applies this isolation to one of the pods; `None` if it isolates in neither direction.
    pub(super) fn isolate(self, pod: &PodFacts) -> Option<IsolatedPod> {
        let Self { ingress, egress } = self;
        let is_isolated = ingress.is_some() || egress.is_some();
        let (ips, node) = (pod.ips.clone(), pod.node.clone());
        is_isolated.then_some(IsolatedPod { ips, node, ingress, egress })
    }
}

/// Computes the model of all inputs, matching each policy with each pod. [`Index`](super::Index) does the same
/// incrementally.
pub fn compile(world: &PolicyInputs) -> Model {
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
