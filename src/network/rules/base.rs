//! The part of the tables that does not depend on any object: base chains, and the sets to which services add elements.

use std::time::Duration;

use fabric::nft::{
    BaseChain, Element, Family, Field, Hook, Key, Kind, Reject, Rule, Set, Statement, Verdict,
};
use fabric::{DETOUR_LINK, DETOUR_MARK, SYN_DETOUR_SLOT};

use ipnet::IpNet;

use super::owner_rules::{FamilyRules, OwnerRules};
use egress::listener_addresses;

/// Map of the addresses at which services are served: address, protocol and port → chain.
pub(super) const SERVICES: &str = "services";
/// Map of service addresses without endpoints, with the same key → the verdict that rejects or drops.
pub(super) const REFUSED: &str = "refused";
/// Set of addresses outside the cluster's ranges at which services are served (`externalIPs`, load balancers that are
/// not Podium's), with the same key. Packets to these stay inside, although their destination looks like one of the
/// world.
pub(super) const SERVED_OUTSIDE: &str = "served-outside";
/// Set of endpoint addresses, each paired with itself: matches a pod that reaches itself through a service.
pub(super) const HAIRPIN: &str = "hairpin";
/// Map of pods with isolated egress: source address → number of their isolation.
pub(super) const EGRESS_OF: &str = "egress-of";
/// Map of pods with isolated ingress: destination address → number of their isolation.
pub(super) const INGRESS_OF: &str = "ingress-of";
/// Map of isolations: number → chain. Pods with the same isolation share one chain.
pub(super) const ISOLATIONS: &str = "isolations";
/// The maps with numbers as values, each with the map from these numbers to chains.
pub(super) const CHAINED_MAPS: [(&str, &str); 2] = [(EGRESS_OF, ISOLATIONS), (INGRESS_OF, ISOLATIONS)];
/// Set of nodes paired with their own pods, in both directions: policies do not isolate these from each other.
pub(super) const OWN_NODE: &str = "own-node";
/// The chain that rejects, so that the client gets an error at once.
pub(super) const REJECT: &str = "reject";

/// Connection states that policies accept: established and related, because the connection was accepted before; and
/// untracked, because packets that come back from a detour (`super::faults`) were accepted before it.
const ACCEPTED_STATES: u32 = 2 | 4 | 64;
/// The connection state of a new connection.
const NEW: u32 = 8;
/// The connection status bit of a connection whose destination was translated.
const TRANSLATED: u32 = 32;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// ICMPv6, which carries IPv6 neighbour discovery.
const ICMPV6: u8 = 58;

/// Returns the fields that identify a service's address.
fn service_fields() -> Vec<Field> {
    vec![Field::DestinationAddress, Field::Protocol, Field::DestinationPort]
}

/// Set of addresses that are not the world: the cluster's own, and those that belong to no network.
pub(super) const INSIDE: &str = "inside";
/// Set of connections that the destination refused; Podium rejects these with a TCP reset.
pub(super) const REFUSED_BY_PEER: &str = "refused-there";
/// Set of connections whose destination is unreachable; Podium rejects these with ICMP.
pub(super) const UNREACHED: &str = "unreached";
/// Lifetime of an element in these two sets: long enough for the SYN that was held back, and for immediate retries.
const REFUSAL_LIFETIME: Duration = Duration::from_millis(250);
/// Packet mark for egress: the fabric delivers the packet to its own sockets.
const EGRESS_MARK: u32 = 1;
/// Packet mark between the check of the sender's policies and the delivery or rejection.
const EGRESS_CHECKED_MARK: u32 = 2;

/// The way in which connections to the world are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressMode {
    /// Podium connects first: the SYN takes a detour and comes back once the destination has answered
    /// ([`fabric::SYN_DETOUR_SLOT`]).
    ConnectFirst,
    /// The connection is accepted first; then Podium connects to the destination.
    Accepted,
}

/// Builds the base rules for these families. `inside` are the cluster's own ranges; all other destinations use egress,
/// if there is any.
pub(super) fn base(families: &[Family], inside: &[IpNet], egress_mode: Option<EgressMode>) -> OwnerRules {
    let mut piece = OwnerRules::default();
    for family in families {
        half(piece.half(*family));
        if *family == Family::V6 {
            senders(piece.half(*family));
        }
        if let Some(way_out) = egress_mode {
            egress(piece.half(*family), *family, inside, way_out);
        }
    }
    piece
}

/// Set of link-local addresses.
const OF_LINKS: &str = "of-links";

/// Drops packets from a leaf with a source address that is not its own, because rules match on source addresses: in
/// IPv6 a sender can forge any, and the kernel has no `rp_filter`.
fn senders(half: &mut FamilyRules) {
    let sender = || vec![Field::SourceAddress];
    half.set(Set::new(OF_LINKS, &sender()).of_intervals());
    for range in ["::/128", "fe80::/10"].iter().filter_map(|text| text.parse::<IpNet>().ok()) {
        let (first, last) = (Key::new().ip(range.network()), Key::new().ip(range.broadcast()));
        half.element(OF_LINKS, Element::range(first, last));
    }
    let neighbours = Statement::Is(vec![Field::Protocol], Key::new().protocol(ICMPV6));
    let of_link = || Statement::In(sender(), OF_LINKS.to_owned());
    let rules = vec![
        // Packets that come back from a detour were checked before it.
        vec![
            Statement::Is(vec![Field::Link], Key::new().links(DETOUR_LINK)),
            Statement::Verdict(Verdict::Accept),
        ],
        vec![of_link(), neighbours, Statement::Verdict(Verdict::Accept)],
        // No rules cover link-local addresses.
        vec![of_link(), Statement::Verdict(Verdict::Drop)],
        vec![Statement::SpoofedSource, Statement::Verdict(Verdict::Drop)],
    ];
    half.base_chain(
        "senders",
        BaseChain { kind: Kind::Filter, hook: Hook::PreRouting, priority: -300 },
        rules,
    );
}

/// Returns rules that accept packets to a service at an address outside the cluster's ranges, and packets of its
/// connections, which outlive the service. For chains that run before address translation.
pub(super) fn accept_served_outside() -> [Rule; 2] {
    let accept = || Statement::Verdict(Verdict::Accept);
    [
        vec![Statement::HasBits(Field::ConnectionStatus, TRANSLATED), accept()],
        vec![Statement::In(service_fields(), SERVED_OUTSIDE.to_owned()), accept()],
    ]
}

/// Returns the fields that identify a refused connection.
fn refused() -> Vec<Field> {
    vec![Field::SourceAddress, Field::DestinationAddress, Field::Protocol, Field::DestinationPort]
}

/// Diverts packets to the world to the fabric's own sockets.
fn egress(half: &mut FamilyRules, family: Family, inside: &[IpNet], egress_mode: EgressMode) {
    let to = || vec![Field::DestinationAddress];
    half.set(Set::new(INSIDE, &to()).of_intervals());
    let nobodys: &[&str] = match family {
        Family::V4 => &["127.0.0.0/8", "169.254.1.1/32", "224.0.0.0/3"],
        // Includes IPv4-mapped addresses, which no packet on a network has.
        Family::V6 => &["::/96", "::ffff:0:0/96", "fe80::/10", "ff00::/8"],
    };
    let nobodys = nobodys.iter().filter_map(|text| text.parse().ok());
    let all = inside.iter().copied().chain(nobodys).filter(|range| Family::of(range.addr()) == family);
    let all: Vec<IpNet> = all.collect();
    for range in IpNet::aggregate(&all) {
        let (first, last) = (Key::new().ip(range.network()), Key::new().ip(range.broadcast()));
        half.element(INSIDE, Element::range(first, last));
    }
    for set in [REFUSED_BY_PEER, UNREACHED] {
        half.set(Set::new(set, &refused()).forgetting(REFUSAL_LIFETIME));
    }
    let is = |protocol| Statement::Is(vec![Field::Protocol], Key::new().protocol(protocol));
    let taken = |protocol, door| {
        vec![
            is(protocol),
            Statement::Tproxy(door),
            Statement::SetMark(EGRESS_MARK),
            Statement::Verdict(Verdict::Accept),
        ]
    };
    let [connections, datagrams] = listener_addresses(family);
    let base = |priority| BaseChain { kind: Kind::Filter, hook: Hook::PreRouting, priority };
    // Egress never reaches the forward hook, where other packets of pods meet policies.
    let mut egress_rules = vec![
        vec![Statement::In(to(), INSIDE.to_owned()), Statement::Verdict(Verdict::Accept)],
        // Packets that take a detour pass here a second time.
        vec![Statement::HasBits(Field::Mark, DETOUR_MARK), Statement::Verdict(Verdict::Accept)],
        // Packets of connections and flows that were diverted before.
        vec![
            Statement::OfTransparentSocket,
            Statement::SetMark(EGRESS_MARK),
            Statement::Verdict(Verdict::Accept),
        ],
    ];
    egress_rules.extend(accept_served_outside());
    egress_rules
        .push(vec![Statement::SetMark(EGRESS_CHECKED_MARK), isolated(Field::SourceAddress, EGRESS_OF)]);
    half.base_chain("egress-policies-out", base(-151), egress_rules);
    let leaving = Key::new().number(EGRESS_CHECKED_MARK);
    let mut rules = vec![
        vec![Statement::IsNot(vec![Field::Mark], leaving), Statement::Verdict(Verdict::Accept)],
        vec![is(TCP), Statement::In(refused(), REFUSED_BY_PEER.to_owned()), Statement::Reject(Reject::Reset)],
        vec![is(TCP), Statement::In(refused(), UNREACHED.to_owned()), Statement::Reject(Reject::Prohibited)],
    ];
    if egress_mode == EgressMode::ConnectFirst {
        let link_key = Key::new().link(&format!("{DETOUR_LINK}{SYN_DETOUR_SLOT}"));
        rules.push(vec![
            is(TCP),
            Statement::IsNot(vec![Field::Link], link_key),
            Statement::SetMark(DETOUR_MARK | u32::from(SYN_DETOUR_SLOT)),
            Statement::Verdict(Verdict::Accept),
        ]);
    }
    rules.extend([
        taken(TCP, connections),
        taken(UDP, datagrams),
        // Other protocols cannot be relayed.
        vec![Statement::Reject(Reject::Prohibited)],
    ]);
    half.base_chain("egress", base(-150), rules);
}

fn half(half: &mut FamilyRules) {
    let both = [Field::SourceAddress, Field::DestinationAddress];
    half.set(Set::new(SERVICES, &service_fields()).of_verdicts());
    half.set(Set::new(REFUSED, &service_fields()).of_verdicts());
    half.set(Set::new(SERVED_OUTSIDE, &service_fields()));
    half.set(Set::new(HAIRPIN, &both));
    let tcp = Statement::Is(vec![Field::Protocol], Key::new().protocol(TCP));
    half.chain(
        REJECT,
        vec![vec![tcp, Statement::Reject(Reject::Reset)], vec![Statement::Reject(Reject::PortUnreachable)]],
    );
    // Before address translation, so that packets to an address without endpoints are not routed on.
    let refuse = BaseChain { kind: Kind::Filter, hook: Hook::PreRouting, priority: -110 };
    let refused = Statement::Dispatch(service_fields(), REFUSED.to_owned());
    half.base_chain("refuse", refuse, vec![vec![Statement::HasBits(Field::ConnectionState, NEW), refused]]);
    let translate = BaseChain { kind: Kind::Nat, hook: Hook::PreRouting, priority: -100 };
    half.base_chain(
        "translate",
        translate,
        vec![vec![Statement::Dispatch(service_fields(), SERVICES.to_owned())]],
    );
    half.set(Set::new(EGRESS_OF, &[Field::SourceAddress]).of_numbers());
    half.set(Set::new(INGRESS_OF, &[Field::DestinationAddress]).of_numbers());
    half.set(Set::new(ISOLATIONS, &[Field::Mark]).of_verdicts());
    half.set(Set::new(OWN_NODE, &both).of_intervals());
    let accept = || Statement::Verdict(Verdict::Accept);
    // Egress and ingress have one base chain each: an accept verdict ends only its own chain, so that the other side's
    // policies still apply.
    for (name, priority, field, map) in [
        ("egress-policies", 0, Field::SourceAddress, EGRESS_OF),
        ("ingress-policies", 1, Field::DestinationAddress, INGRESS_OF),
    ] {
        let policies = vec![
            vec![Statement::HasBits(Field::ConnectionState, ACCEPTED_STATES), accept()],
            vec![Statement::In(both.to_vec(), HAIRPIN.to_owned()), accept()],
            vec![Statement::In(both.to_vec(), OWN_NODE.to_owned()), accept()],
            vec![isolated(field, map)],
        ];
        half.base_chain(name, BaseChain { kind: Kind::Filter, hook: Hook::Forward, priority }, policies);
    }
    let masquerade = BaseChain { kind: Kind::Nat, hook: Hook::PostRouting, priority: 100 };
    let to_itself = vec![
        Statement::HasBits(Field::ConnectionStatus, TRANSLATED),
        Statement::In(both.to_vec(), HAIRPIN.to_owned()),
        Statement::Masquerade,
    ];
    half.base_chain("masquerade", masquerade, vec![to_itself]);
}

/// Jumps to the isolation of the pod with this address.
fn isolated(of: Field, map: &str) -> Statement {
    Statement::DispatchBy(vec![of], map.to_owned(), ISOLATIONS.to_owned())
}

/// Returns the verdict that rejects.
pub(super) fn reject() -> Verdict {
    Verdict::Goto(REJECT.to_owned())
}
