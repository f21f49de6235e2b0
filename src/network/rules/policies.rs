//! Network policies as rules for the kernel (NET-8).
//!
//! Pure functions turn an isolation, a set of peers or a pod into rules. The isolation of a direction is a chain, in
//! parts if it is long ([`super::policy_parts`]), that accepts what is allowed and drops the rest; source and
//! destination are each checked by their own base chains. Pods refer to their chains by number, and peers or ports that
//! several rules refer to are a set of their own ([`super::policy_names`]).

use std::collections::BTreeSet;
use std::net::IpAddr;

use fabric::nft::{Element, Family, Field, Key, Rule, Set, Statement, Verdict};
use ipnet::IpNet;

use super::base::{EGRESS_OF, INGRESS_OF, ISOLATIONS, TCP, UDP};
use super::owner_rules::{Delta, FamilyRules, OwnerRules};
use super::policy_names::Names;
use super::policy_parts::Rules;
use base::sort::SliceOrder;
use network_policy::{Block, Direction, Isolation, Member, Peers, PortRange, Ports, Protocol, SetId};

const SCTP: u8 = 132;

/// Returns the kernel's set of peers with this number: a set of addresses, or of addresses with ports.
fn peers_set(id: &SetId, number: u32) -> Set {
    if id.is_of_endpoints() {
        Set::new(&format!("endpoints/{number}"), &of_endpoint())
    } else {
        Set::new(&format!("peers/{number}"), &[Field::SourceAddress])
    }
}

/// Returns the kernel's set of address ranges with this number.
fn block_set(number: u32) -> Set {
    Set::new(&format!("block/{number}"), &[Field::SourceAddress]).of_intervals()
}

/// Returns the kernel's set of ports with this number.
fn ports_set(number: u32) -> Set {
    Set::new(&format!("ports/{number}"), &of_port()).of_intervals()
}

/// Returns the fields that identify an endpoint.
fn of_endpoint() -> Vec<Field> {
    vec![Field::DestinationAddress, Field::Protocol, Field::DestinationPort]
}

/// Returns the fields that identify a port.
fn of_port() -> Vec<Field> {
    vec![Field::Protocol, Field::DestinationPort]
}

fn number_of(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => TCP,
        Protocol::Udp => UDP,
        Protocol::Sctp => SCTP,
    }
}

/// Converts a member to an element, with the member's family.
fn element_of(member: &Member) -> (Family, Element) {
    let (ip, key) = match member {
        Member::Address(ip) => (*ip, Key::new().ip(*ip)),
        Member::Endpoint(ip, protocol, port) => {
            (*ip, Key::new().ip(*ip).protocol(number_of(*protocol)).port(*port))
        }
    };
    (Family::of(ip), Element::new(key))
}

/// Returns the rules of a set of peers, which exists in every family because rules of each may refer to it.
pub(super) fn peers(id: &SetId, number: u32, members: &BTreeSet<Member>, families: &[Family]) -> OwnerRules {
    let mut piece = OwnerRules::default();
    let set = peers_set(id, number);
    for family in families {
        piece.half(*family).set(set.clone());
    }
    for (family, element) in members.iter().map(element_of) {
        if families.contains(&family) {
            piece.half(family).element(&set.name, element);
        }
    }
    piece
}

/// Returns the change of a set of peers.
pub(super) fn peers_change<'a>(
    id: &SetId,
    number: u32,
    (added, removed): (impl IntoIterator<Item = &'a Member>, impl IntoIterator<Item = &'a Member>),
    families: &[Family],
) -> Delta {
    let mut delta = Delta::default();
    let name = peers_set(id, number).name;
    let there = |(family, _): &(Family, Element)| families.contains(family);
    for (family, element) in removed.into_iter().map(element_of).filter(there) {
        delta.of(family, &name).take(element);
    }
    for (family, element) in added.into_iter().map(element_of).filter(there) {
        delta.of(family, &name).insert(element);
    }
    delta
}

/// Returns the rules of a set of address ranges.
pub(super) fn block(number: u32, block: &Block, families: &[Family]) -> OwnerRules {
    let mut piece = OwnerRules::default();
    let family = Family::of(block.cidr.addr());
    if families.contains(&family) {
        let (half, set) = (piece.half(family), block_set(number));
        for (first, last) in ranges(block) {
            half.element(&set.name, Element::range(Key::new().ip(first), Key::new().ip(last)));
        }
        half.set(set);
    }
    piece
}

/// Returns the rules of a set of ports, in every family.
pub(super) fn ports(number: u32, ranges: &BTreeSet<PortRange>, families: &[Family]) -> OwnerRules {
    let mut piece = OwnerRules::default();
    for family in families {
        let (half, set) = (piece.half(*family), ports_set(number));
        for range in ranges {
            let key = |port| Key::new().protocol(number_of(range.protocol)).port(port);
            half.element(&set.name, Element::range(key(range.first), key(range.last)));
        }
        half.set(set);
    }
    piece
}

/// Returns a match for ports that needs no set: a single port, or all ports of a protocol.
fn plain(ranges: &BTreeSet<PortRange>) -> Option<Statement> {
    let mut all = ranges.iter();
    let (Some(range), None) = (all.next(), all.next()) else { return None };
    let protocol = Key::new().protocol(number_of(range.protocol));
    match range {
        range if range.first == range.last => Some(Statement::Is(of_port(), protocol.port(range.first))),
        range if *range == PortRange::every(range.protocol) => {
            Some(Statement::Is(vec![Field::Protocol], protocol))
        }
        _ => None,
    }
}

/// Returns the rules of an isolation: its chain, which a number refers to, with parts of at most `max_rules` rules.
/// Each new version gets another generation, and thereby another name, so that the rules of a chain never change:
/// however large the chain is, it comes into force at once. Unchanged parts keep their names.
pub(super) fn chain(
    (number, turn): (u32, u64),
    (direction, isolation): (Direction, &Isolation),
    names: &Names,
    max_rules: usize,
    families: &[Family],
) -> OwnerRules {
    let mut piece = OwnerRules::default();
    let (word, peer) = match direction {
        Direction::Ingress => ("ingress", Field::SourceAddress),
        Direction::Egress => ("egress", Field::DestinationAddress),
    };
    let (name, parts) = (format!("{word}/{number}/{turn}"), format!("{word}/{number}"));
    for family in families {
        let half = piece.half(*family);
        rules_of(isolation, (*family, peer), names).write(half, (name.clone(), &parts), max_rules);
        let element = Element::new(Key::new().number(number));
        half.element(ISOLATIONS, element.to(Verdict::Jump(name.clone())));
    }
    piece
}

fn rules_of(isolation: &Isolation, (family, peer): (Family, Field), names: &Names) -> Rules {
    let mut rules = Rules::default();
    let mut rule = |peers: &Peers, mut rule: Rule, ports: Option<Statement>| {
        rule.extend(ports);
        rule.push(Statement::Verdict(Verdict::Accept));
        match peers {
            Peers::Any => rules.first(rule),
            peers => rules.of(peers, rule),
        }
    };
    for (peers, ports) in &isolation.peers {
        let from = match peers {
            Peers::Any => Vec::new(),
            Peers::Set(id) => {
                let Some(number) = names.sets.number(id) else { continue };
                vec![Statement::In(vec![peer], peers_set(id, number).name)]
            }
            Peers::Block(block) if Family::of(block.cidr.addr()) == family => {
                let Some(number) = names.blocks.number(block) else { continue };
                vec![Statement::In(vec![peer], block_set(number).name)]
            }
            // A block of the other family matches nothing in this one.
            Peers::Block(_) => continue,
        };
        let Ports::Some(all) = ports else {
            rule(peers, from, None);
            continue;
        };
        for ranges in all {
            let listed = || Some(Statement::In(of_port(), ports_set(names.ports.number(ranges)?).name));
            let Some(ports) = plain(ranges).or_else(listed) else { continue };
            rule(peers, from.clone(), Some(ports));
        }
    }
    for id in &isolation.endpoints {
        let Some(number) = names.sets.number(id) else { continue };
        let rule = vec![
            Statement::In(of_endpoint(), peers_set(id, number).name),
            Statement::Verdict(Verdict::Accept),
        ];
        rules.of(id, rule);
    }
    rules
}

/// Returns the rules of an isolated pod: each of its addresses refers to the isolations of its directions.
pub(super) fn isolated(
    ips: &[IpAddr],
    [ingress, egress]: [Option<u32>; 2],
    families: &[Family],
) -> OwnerRules {
    let mut piece = OwnerRules::default();
    for ip in ips.iter().filter(|ip| families.contains(&Family::of(**ip))) {
        let half: &mut FamilyRules = piece.half(Family::of(*ip));
        for (map, number) in [(INGRESS_OF, ingress), (EGRESS_OF, egress)] {
            if let Some(number) = number {
                half.element(map, Element::new(Key::new().ip(*ip)).to_number(number));
            }
        }
    }
    piece
}

/// Returns the addresses of a block without its exceptions, as ordered ranges with their first and last address.
fn ranges(block: &Block) -> Vec<(IpAddr, IpAddr)> {
    let mut all = Vec::new();
    let mut next = Some(block.cidr.network());
    let last = block.cidr.broadcast();
    let excepted = IpNet::aggregate(&block.except);
    let mut excepted: Vec<&IpNet> =
        excepted.iter().filter(|net| block.cidr.contains(&net.network())).collect();
    excepted.order();
    if block.except.iter().any(|net| net.contains(&block.cidr)) {
        return all;
    }
    for net in excepted {
        let Some(first) = next else { return all };
        if let Some(before) = step(net.network(), false).filter(|before| *before >= first) {
            all.push((first, before));
        }
        next = step(net.broadcast(), true);
    }
    all.extend(next.filter(|first| *first <= last).map(|first| (first, last)));
    all
}

/// Returns the next or the previous address.
fn step(ip: IpAddr, up: bool) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) => {
            let number = u32::from(ip);
            let next = if up { number.checked_add(1) } else { number.checked_sub(1) };
            next.map(|number| IpAddr::V4(number.into()))
        }
        IpAddr::V6(ip) => {
            let number = u128::from(ip);
            let next = if up { number.checked_add(1) } else { number.checked_sub(1) };
            next.map(|number| IpAddr::V6(number.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_the_ranges_that_are_left_of_it_net_8() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        for (cidr, except, left) in [
            ("10.0.0.0/8", &[][..], &["10.0.0.0-10.255.255.255"][..]),
            ("10.0.0.0/8", &["10.1.0.0/16"], &["10.0.0.0-10.0.255.255", "10.2.0.0-10.255.255.255"]),
            ("10.0.0.0/8", &["10.0.0.0/9"], &["10.128.0.0-10.255.255.255"]),
            ("10.0.0.0/8", &["10.128.0.0/9"], &["10.0.0.0-10.127.255.255"]),
            ("10.0.0.0/8", &["10.128.0.0/9", "10.0.0.0/9"], &[]),
            ("10.0.0.0/8", &["0.0.0.0/0"], &[]),
            ("0.0.0.0/0", &["255.255.255.255/32", "0.0.0.0/32"], &["0.0.0.1-255.255.255.254"]),
            (
                "10.0.0.0/8",
                &["10.1.2.0/24", "10.1.0.0/16"],
                &["10.0.0.0-10.0.255.255", "10.2.0.0-10.255.255.255"],
            ),
            ("fd00::/126", &["fd00::1/128"], &["fd00::-fd00::", "fd00::2-fd00::3"]),
        ] {
            let block = Block { cidr: net(cidr), except: except.iter().map(|text| net(text)).collect() };
            let shown: Vec<String> =
                ranges(&block).iter().map(|(first, last)| format!("{first}-{last}")).collect();
            assert_eq!(shown, left, "{cidr} without {except:?}");
        }
    }
}
