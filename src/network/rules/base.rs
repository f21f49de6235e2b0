//! What is in the tables from the start: where packets are asked about, and the sets that services' elements go into.

use std::time::Duration;

use fabric::nft::{Base, Element, Family, Field, Hook, Key, Kind, Part, Reject, Rule, Set, Verdict};
use fabric::{DETOUR_LINK, DETOUR_MARK, OF_BEGINNINGS};

use ipnet::IpNet;

use super::piece::{Half, Piece};
use crate::egress::door_addresses;

/// Where services are served: address, protocol and port → their chain.
pub(super) const SERVICES: &str = "services";
/// Where nobody serves, in the same way → a chain that refuses.
pub(super) const REFUSED: &str = "refused";
/// Addresses outside the cluster's ranges at which services are served (`externalIPs`, load balancers of others), in the
/// same way. Packets to these stay inside, although their destination looks like the world's.
pub(super) const SERVED_OUTSIDE: &str = "served-outside";
/// Endpoints, twice each: who reaches itself through a service.
pub(super) const HAIRPIN: &str = "hairpin";
/// Pods that policies isolate, by who sends → the number of what they may send.
pub(super) const EGRESS_OF: &str = "egress-of";
/// The same by who is sent to.
pub(super) const INGRESS_OF: &str = "ingress-of";
/// What is left of pods that policies isolate, by number → its chain. Many pods share one.
pub(super) const ISOLATIONS: &str = "isolations";
/// Maps to numbers, each with the map that these are looked up in.
pub(super) const LEADS_ON: [(&str, &str); 2] = [(EGRESS_OF, ISOLATIONS), (INGRESS_OF, ISOLATIONS)];
/// Nodes and their own pods, both ways: nothing isolates these from each other.
pub(super) const OWN_NODE: &str = "own-node";
/// The chain that refuses, so that the client hears of it.
pub(super) const REJECT: &str = "reject";

/// A connection that has been let through, or what belongs to one: established, related. And what comes back from a detour
/// (`super::faults`), and was let through before it took it: untracked.
const KNOWN: u32 = 2 | 4 | 64;
/// A connection that begins.
const NEW: u32 = 8;
/// A connection whose destination was changed.
const TRANSLATED: u32 = 32;
/// TCP.
pub(super) const TCP: u8 = 6;
/// UDP.
pub(super) const UDP: u8 = 17;
/// What neighbours find each other by in IPv6.
const ICMPV6: u8 = 58;

/// What a service is found by.
fn place() -> Vec<Field> {
    vec![Field::DestinationAddress, Field::Protocol, Field::DestinationPort]
}

/// Addresses that are not the world: those of the cluster, and those that belong to no network.
pub(super) const INSIDE: &str = "inside";
/// Who was refused by the world, and where: told by a reset.
pub(super) const REFUSED_THERE: &str = "refused-there";
/// The same of whom there is no way to: told by ICMP.
pub(super) const UNREACHED: &str = "unreached";
/// For how long: until the packet that has waited for it has come, and those that a program sends at once.
const REFUSED_FOR: Duration = Duration::from_millis(250);
/// What a packet of the way out is marked with: the fabric takes it itself.
const OUT: u32 = 1;
/// What one is marked with from when its sender's policies are asked until it is taken, or refused.
const LEAVING: u32 = 2;

/// How connections to the world begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// Their first packet takes a detour, and comes back when the world has been asked ([`fabric::OF_BEGINNINGS`]).
    Asked,
    /// They are accepted, and then the world is asked.
    Accepted,
}

/// For these families; `inside` are the cluster's own ranges, beyond which the way out is taken, if there is one.
pub(super) fn base(families: &[Family], inside: &[IpNet], way_out: Option<WayOut>) -> Piece {
    let mut piece = Piece::default();
    for family in families {
        half(piece.half(*family));
        if *family == Family::V6 {
            senders(piece.half(*family));
        }
        if let Some(way_out) = way_out {
            egress(piece.half(*family), *family, inside, way_out);
        }
    }
    piece
}

/// Addresses that are good on one link only.
const OF_LINKS: &str = "of-links";

/// What comes from a leaf must be its own, as rules go by who sends: in IPv6 anybody may write any sender, and the
/// kernel has no `rp_filter`.
fn senders(half: &mut Half) {
    let sender = || vec![Field::SourceAddress];
    half.set(Set::new(OF_LINKS, &sender()).of_intervals());
    for range in ["::/128", "fe80::/10"].iter().filter_map(|text| text.parse::<IpNet>().ok()) {
        let (first, last) = (Key::new().ip(range.network()), Key::new().ip(range.broadcast()));
        half.element(OF_LINKS, Element::range(first, last));
    }
    let neighbours = Part::Is(vec![Field::Protocol], Key::new().protocol(ICMPV6));
    let of_link = || Part::In(sender(), OF_LINKS.to_owned());
    let rules = vec![
        // What comes back from a detour was asked before it took it.
        vec![Part::Is(vec![Field::Link], Key::new().links(DETOUR_LINK)), Part::Verdict(Verdict::Accept)],
        vec![of_link(), neighbours, Part::Verdict(Verdict::Accept)],
        // Nobody's rules know these.
        vec![of_link(), Part::Verdict(Verdict::Drop)],
        vec![Part::OfFalseSender, Part::Verdict(Verdict::Drop)],
    ];
    half.base_chain("senders", Base { kind: Kind::Filter, hook: Hook::PreRouting, priority: -300 }, rules);
}

/// Rules that accept packets to a service at an address outside the cluster's ranges, and those of its connections, which
/// outlive the service. For chains that are asked before addresses are translated.
pub(super) fn accept_served_outside() -> [Rule; 2] {
    let accept = || Part::Verdict(Verdict::Accept);
    [
        vec![Part::HasBits(Field::ConnectionStatus, TRANSLATED), accept()],
        vec![Part::In(place(), SERVED_OUTSIDE.to_owned()), accept()],
    ]
}

/// What is matched of who connects to where.
fn refused() -> Vec<Field> {
    vec![Field::SourceAddress, Field::DestinationAddress, Field::Protocol, Field::DestinationPort]
}

/// What leaves the cluster is taken by the fabric.
fn egress(half: &mut Half, family: Family, inside: &[IpNet], way_out: WayOut) {
    let to = || vec![Field::DestinationAddress];
    half.set(Set::new(INSIDE, &to()).of_intervals());
    let nobodys: &[&str] = match family {
        Family::V4 => &["127.0.0.0/8", "169.254.1.1/32", "224.0.0.0/3"],
        // Those of IPv4 in other clothes too: no packet has one.
        Family::V6 => &["::/96", "::ffff:0:0/96", "fe80::/10", "ff00::/8"],
    };
    let nobodys = nobodys.iter().filter_map(|text| text.parse().ok());
    let all = inside.iter().copied().chain(nobodys).filter(|range| Family::of(range.addr()) == family);
    let all: Vec<IpNet> = all.collect();
    for range in IpNet::aggregate(&all) {
        let (first, last) = (Key::new().ip(range.network()), Key::new().ip(range.broadcast()));
        half.element(INSIDE, Element::range(first, last));
    }
    for set in [REFUSED_THERE, UNREACHED] {
        half.set(Set::new(set, &refused()).forgetting(REFUSED_FOR));
    }
    let is = |protocol| Part::Is(vec![Field::Protocol], Key::new().protocol(protocol));
    let taken = |protocol, door| {
        vec![is(protocol), Part::Tproxy(door), Part::SetMark(OUT), Part::Verdict(Verdict::Accept)]
    };
    let [connections, datagrams] = door_addresses(family);
    let base = |priority| Base { kind: Kind::Filter, hook: Hook::PreRouting, priority };
    // What goes out never comes to where pods' packets are judged.
    let mut judged = vec![
        vec![Part::In(to(), INSIDE.to_owned()), Part::Verdict(Verdict::Accept)],
        // What takes a detour first comes here once more.
        vec![Part::HasBits(Field::Mark, DETOUR_MARK), Part::Verdict(Verdict::Accept)],
        // Of connections and flows that have been taken already.
        vec![Part::OfTransparentSocket, Part::SetMark(OUT), Part::Verdict(Verdict::Accept)],
    ];
    judged.extend(accept_served_outside());
    judged.push(vec![Part::SetMark(LEAVING), isolated(Field::SourceAddress, EGRESS_OF)]);
    half.base_chain("egress-policies-out", base(-151), judged);
    let leaving = Key::new().number(LEAVING);
    let mut rules = vec![
        vec![Part::IsNot(vec![Field::Mark], leaving), Part::Verdict(Verdict::Accept)],
        vec![is(TCP), Part::In(refused(), REFUSED_THERE.to_owned()), Part::Reject(Reject::Reset)],
        vec![is(TCP), Part::In(refused(), UNREACHED.to_owned()), Part::Reject(Reject::Prohibited)],
    ];
    if way_out == WayOut::Asked {
        let asked = Key::new().link(&format!("{DETOUR_LINK}{OF_BEGINNINGS}"));
        rules.push(vec![
            is(TCP),
            Part::IsNot(vec![Field::Link], asked),
            Part::SetMark(DETOUR_MARK | u32::from(OF_BEGINNINGS)),
            Part::Verdict(Verdict::Accept),
        ]);
    }
    rules.extend([
        taken(TCP, connections),
        taken(UDP, datagrams),
        // Nothing carries anything else.
        vec![Part::Reject(Reject::Prohibited)],
    ]);
    half.base_chain("egress", base(-150), rules);
}

fn half(half: &mut Half) {
    let both = [Field::SourceAddress, Field::DestinationAddress];
    half.set(Set::new(SERVICES, &place()).of_verdicts());
    half.set(Set::new(REFUSED, &place()).of_verdicts());
    half.set(Set::new(SERVED_OUTSIDE, &place()));
    half.set(Set::new(HAIRPIN, &both));
    let tcp = Part::Is(vec![Field::Protocol], Key::new().protocol(TCP));
    half.chain(
        REJECT,
        vec![vec![tcp, Part::Reject(Reject::Reset)], vec![Part::Reject(Reject::PortUnreachable)]],
    );
    // Before addresses are changed: one that nobody serves leads nowhere else.
    let refuse = Base { kind: Kind::Filter, hook: Hook::PreRouting, priority: -110 };
    let refused = Part::Dispatch(place(), REFUSED.to_owned());
    half.base_chain("refuse", refuse, vec![vec![Part::HasBits(Field::ConnectionState, NEW), refused]]);
    let translate = Base { kind: Kind::Nat, hook: Hook::PreRouting, priority: -100 };
    half.base_chain("translate", translate, vec![vec![Part::Dispatch(place(), SERVICES.to_owned())]]);
    half.set(Set::new(EGRESS_OF, &[Field::SourceAddress]).of_numbers());
    half.set(Set::new(INGRESS_OF, &[Field::DestinationAddress]).of_numbers());
    half.set(Set::new(ISOLATIONS, &[Field::Mark]).of_verdicts());
    half.set(Set::new(OWN_NODE, &both).of_intervals());
    let accept = || Part::Verdict(Verdict::Accept);
    // Each end has a chain of its own to be asked by: what accepts ends one of them, and the other is still asked.
    for (name, priority, field, map) in [
        ("egress-policies", 0, Field::SourceAddress, EGRESS_OF),
        ("ingress-policies", 1, Field::DestinationAddress, INGRESS_OF),
    ] {
        let policies = vec![
            vec![Part::HasBits(Field::ConnectionState, KNOWN), accept()],
            vec![Part::In(both.to_vec(), HAIRPIN.to_owned()), accept()],
            vec![Part::In(both.to_vec(), OWN_NODE.to_owned()), accept()],
            vec![isolated(field, map)],
        ];
        half.base_chain(name, Base { kind: Kind::Filter, hook: Hook::Forward, priority }, policies);
    }
    let masquerade = Base { kind: Kind::Nat, hook: Hook::PostRouting, priority: 100 };
    let to_itself = vec![
        Part::HasBits(Field::ConnectionStatus, TRANSLATED),
        Part::In(both.to_vec(), HAIRPIN.to_owned()),
        Part::Masquerade,
    ];
    half.base_chain("masquerade", masquerade, vec![to_itself]);
}

/// What is left of the one that has this address.
fn isolated(of: Field, map: &str) -> Part {
    Part::DispatchBy(vec![of], map.to_owned(), ISOLATIONS.to_owned())
}

/// The verdict that refuses.
pub(super) fn reject() -> Verdict {
    Verdict::Goto(REJECT.to_owned())
}
