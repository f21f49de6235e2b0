//! Network policies as the kernel must have them (NET-8).
//!
//! Pure: a pod that is isolated, or a set of peers, in; a piece of the tables out. Each direction of an isolated pod is a
//! chain that returns what is allowed and drops the rest; both ends are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fabric::nft::{Element, Family, Field, Key, Part, Rule, Set, Verdict};
use ipnet::IpNet;

use super::base::{EGRESS_OF, INGRESS_OF, TCP, UDP};
use super::names::short;
use super::piece::{Half, Piece};
use crate::policy::{Block, Direction, IsolatedPod, Isolation, Member, Peers, Ports, Protocol, SetId};
use object::Key as ObjectKey;

/// SCTP.
const SCTP: u8 = 132;

/// Short names of sets: a number each, that no other set gets.
#[derive(Debug, Default)]
pub(super) struct SetNames {
    known: BTreeMap<SetId, u64>,
    next: u64,
}

impl SetNames {
    /// The number of a set, a new one if it has none.
    fn number(&mut self, id: &SetId) -> u64 {
        let next = &mut self.next;
        *self.known.entry(id.clone()).or_insert_with(|| {
            *next += 1;
            *next
        })
    }

    /// The set is gone.
    pub(super) fn forget(&mut self, id: &SetId) {
        self.known.remove(id);
    }
}

/// The set of a number's addresses.
fn addresses(number: u64) -> String {
    format!("peers/{number}")
}

/// The set of a number's addresses with ports.
fn endpoints(number: u64) -> String {
    format!("ports/{number}")
}

/// What is matched of an endpoint.
fn of_endpoint() -> Vec<Field> {
    vec![Field::DestinationAddress, Field::Protocol, Field::DestinationPort]
}

fn number_of(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => TCP,
        Protocol::Udp => UDP,
        Protocol::Sctp => SCTP,
    }
}

/// A set of peers, in every family: rules of any may name it.
pub(super) fn peers(
    id: &SetId,
    members: &BTreeSet<Member>,
    names: &mut SetNames,
    families: &[Family],
) -> Piece {
    let number = names.number(id);
    let mut piece = Piece::default();
    for family in families {
        let half = piece.half(*family);
        half.set(Set::new(&addresses(number), &[Field::SourceAddress]));
        half.set(Set::new(&endpoints(number), &of_endpoint()));
    }
    for member in members {
        let (ip, name, key) = match member {
            Member::Address(ip) => (*ip, addresses(number), Key::new().ip(*ip)),
            Member::Endpoint(ip, protocol, port) => {
                let key = Key::new().ip(*ip).protocol(number_of(*protocol)).port(*port);
                (*ip, endpoints(number), key)
            }
        };
        if families.contains(&Family::of(ip)) {
            piece.half(Family::of(ip)).element(&name, Element::new(key));
        }
    }
    piece
}

/// A pod that is isolated in a direction or in both.
pub(super) fn isolated(
    key: &ObjectKey,
    pod: &IsolatedPod,
    names: &mut SetNames,
    families: &[Family],
) -> Piece {
    let mut piece = Piece::default();
    for ip in pod.ips.iter().filter(|ip| families.contains(&Family::of(**ip))) {
        for direction in [Direction::Ingress, Direction::Egress] {
            if let Some(isolation) = pod.isolation(direction) {
                direction_of(piece.half(Family::of(*ip)), key, (*ip, direction), isolation, names);
            }
        }
    }
    piece
}

fn direction_of(
    half: &mut Half,
    key: &ObjectKey,
    (ip, direction): (IpAddr, Direction),
    isolation: &Isolation,
    names: &mut SetNames,
) {
    let (word, map, peer) = match direction {
        Direction::Ingress => ("ingress", INGRESS_OF, Field::SourceAddress),
        Direction::Egress => ("egress", EGRESS_OF, Field::DestinationAddress),
    };
    let chain = short(format!("{word}/{}/{}", key.namespace, key.name));
    let mut rules: Vec<Rule> = Vec::new();
    for (number, (peers, ports)) in isolation.peers.iter().enumerate() {
        let mut rule = match peers {
            Peers::Everybody => Vec::new(),
            Peers::Set(id) => vec![Part::In(vec![peer], addresses(names.number(id)))],
            Peers::Block(block) if Family::of(block.cidr.addr()) == Family::of(ip) => {
                let name = format!("{chain}/block/{number}");
                half.set(Set::new(&name, &[peer]).of_intervals());
                for (first, last) in ranges(block) {
                    half.element(&name, Element::range(Key::new().ip(first), Key::new().ip(last)));
                }
                vec![Part::In(vec![peer], name)]
            }
            // Of the other family: nobody here.
            Peers::Block(_) => continue,
        };
        if let Ports::Some(all) = ports {
            let name = format!("{chain}/ports/{number}");
            let fields = [Field::Protocol, Field::DestinationPort];
            half.set(Set::new(&name, &fields).of_intervals());
            for range in all {
                let key = |port| Key::new().protocol(number_of(range.protocol)).port(port);
                half.element(&name, Element::range(key(range.first), key(range.last)));
            }
            rule.push(Part::In(fields.to_vec(), name));
        }
        rule.push(Part::Verdict(Verdict::Return));
        rules.push(rule);
    }
    for id in &isolation.endpoints {
        rules
            .push(vec![Part::In(of_endpoint(), endpoints(names.number(id))), Part::Verdict(Verdict::Return)]);
    }
    rules.push(vec![Part::Verdict(Verdict::Drop)]);
    half.chain(chain.clone(), rules);
    half.element(map, Element::new(Key::new().ip(ip)).to(Verdict::Jump(chain)));
}

/// The addresses of a block without what is excepted: ranges from the first to the last, in order.
fn ranges(block: &Block) -> Vec<(IpAddr, IpAddr)> {
    let mut all = Vec::new();
    let mut next = Some(block.cidr.network());
    let last = block.cidr.broadcast();
    let excepted = IpNet::aggregate(&block.except);
    let mut excepted: Vec<&IpNet> =
        excepted.iter().filter(|net| block.cidr.contains(&net.network())).collect();
    excepted.sort_unstable();
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

/// The address after this one, or before it.
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
