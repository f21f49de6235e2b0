//! The model: which pods are isolated and what still reaches them, for whoever writes it into a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::peers::{Member, Peers, SetId};
use super::ports::{PortRange, Ports};
use super::rule::{Direction, Policy};
use super::world::{PodFacts, World};
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
    /// What is left in a direction; none: everything.
    pub fn isolation(&self, direction: Direction) -> Option<&Isolation> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }
}

/// What is allowed in one direction of an isolated pod: any of these. Nothing, where both are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Isolation {
    /// Peers, each with the ports allowed to it: the pod's own of ingress, the peer's of egress. None are empty.
    pub peers: BTreeMap<Peers, Ports>,
    /// Sets of [`Member::Endpoint`]: what egress by a port's name leads to. Empty of ingress.
    pub endpoints: BTreeSet<SetId>,
}

impl Isolation {
    fn allow(&mut self, peers: Peers, ports: &Ports) {
        if !ports.is_empty() {
            let known = self.peers.entry(peers).or_insert_with(|| ports.clone());
            *known = known.or(ports);
        }
    }

    /// What these policies leave of a direction; none when none of them isolates in it.
    fn of(policies: &[&Policy], direction: Direction, pod: &PodFacts) -> Option<Self> {
        let mut isolation = None;
        for rules in policies.iter().filter_map(|policy| policy.rules(direction)) {
            let isolation = isolation.get_or_insert_with(Self::default);
            for rule in rules {
                let ports = if rule.ports.is_none() {
                    Ports::All
                } else {
                    let own = rule.named().filter(|_| direction == Direction::Ingress);
                    let own = own.flat_map(|(protocol, name)| {
                        let numbers = pod.numbers(protocol, name).into_iter();
                        numbers.map(move |number| PortRange::one(protocol, number))
                    });
                    Ports::of(rule.ranges().chain(own))
                };
                for peer in &rule.peers {
                    isolation.allow(peer.peers(), &ports);
                    if direction == Direction::Egress {
                        let named = rule.named().map(|(protocol, name)| peer.endpoints(protocol, name).id);
                        isolation.endpoints.extend(named);
                    }
                }
            }
        }
        isolation
    }
}

/// Both directions of all pods that the same policies select and that have the same named ports.
#[derive(Clone)]
pub(super) struct Isolations {
    ingress: Option<Arc<Isolation>>,
    egress: Option<Arc<Isolation>>,
}

impl Isolations {
    /// What these policies, which select it, leave of a pod's connections.
    pub(super) fn of(policies: &[&Policy], pod: &PodFacts) -> Self {
        let of = |direction| Isolation::of(policies, direction, pod).map(Arc::new);
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
    let mut model = Model::default();
    for (key, pod) in &world.pods {
        let policies: Vec<&Policy> = world.isolating(key, pod).collect();
        if let Some(isolated) = Isolations::of(&policies, pod).isolate(pod) {
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
