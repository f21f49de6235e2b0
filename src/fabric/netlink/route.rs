//! Links, addresses, routes and neighbours of a network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeader, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkHeader, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourHeader, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleHeader, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Family, Netlink};
use crate::FabricError;

/// An Ethernet address.
pub(crate) type MacAddress = [u8; 6];

/// The maximum size of a TCP segment that the kernel passes on whole (BIG TCP, Linux 6.3; before, 64 KiB): the cost is
/// per segment, so that the MTU does not matter. Only packet captures show segments of this size.
const HANDED_OVER: u32 = 256 << 10;

/// The kernel's table of ordinary routes.
const MAIN_TABLE: u8 = 254;

/// The kernel's local table.
const LOCAL_TABLE: u8 = 255;

/// Requests to one network namespace, collected and then sent at once; each has a description for errors.
#[derive(Default)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    steps: Vec<String>,
}

impl Requests {
    /// Sends the requests; an error names the failed step.
    pub(crate) fn send(self, socket: &Netlink) -> Result<(), FabricError> {
        socket.send(&self.bytes, self.steps.len()).map_err(|failed| {
            FabricError::new(self.steps.get(failed.request).map_or("netlink", String::as_str), failed.error)
        })
    }

    fn add(mut self, step: impl Into<String>, message: RouteNetlinkMessage, flags: u16) -> Self {
        self.steps.push(step.into());
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.steps.len() as u32;
        let mut message = NetlinkMessage::new(header, message.into());
        message.finalize();
        let start = self.bytes.len();
        self.bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
        message.serialize(&mut self.bytes[start..]);
        self
    }

    /// Creates a pair of connected links: one in this namespace, the other in another namespace. Both are down: the
    /// kernel brings neither up before the other exists. Each gets one queue explicitly: by default the kernel first
    /// creates a queue for every processor, and then waits until all but one are unused. A TCP connection over IPv4
    /// passes [`HANDED_OVER`] bytes at a time between the links.
    pub(crate) fn pair(
        self,
        local: (&str, MacAddress),
        remote: (&str, MacAddress, BorrowedFd<'_>),
        mtu: u32,
    ) -> Self {
        let mut peer = LinkMessage::default();
        peer.attributes = vec![
            LinkAttribute::IfName(remote.0.into()),
            LinkAttribute::Address(remote.1.into()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::NetNsFd(remote.2.as_raw_fd()),
            LinkAttribute::NumTxQueues(1),
            LinkAttribute::NumRxQueues(1),
            LinkAttribute::GsoIpv4MaxSize(HANDED_OVER),
        ];
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName(local.0.into()),
            LinkAttribute::Address(local.1.into()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::NumTxQueues(1),
            LinkAttribute::NumRxQueues(1),
            LinkAttribute::GsoIpv4MaxSize(HANDED_OVER),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        let step = format!("veth pair {} and {}", local.0, remote.0);
        self.add(step, RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Brings a link up.
    pub(crate) fn up(self, index: u32) -> Self {
        let mut link = LinkMessage::default();
        let mut header = LinkHeader::default();
        (header.index, header.flags, header.change_mask) = (index, LinkFlags::Up, LinkFlags::Up);
        link.header = header;
        self.add(format!("link {index} up"), RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Disables ARP on a link: all packets sent over it already have an Ethernet address.
    pub(crate) fn disable_arp(self, index: u32) -> Self {
        let mut link = LinkMessage::default();
        let mut header = LinkHeader::default();
        (header.index, header.flags, header.change_mask) = (index, LinkFlags::Noarp, LinkFlags::Noarp);
        link.header = header;
        self.add(format!("link {index} without ARP"), RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Makes a link that has come up accept packets from now on: the kernel drops them until it processes the change,
    /// unless the link is queried (rtnl_getlink, Linux 6.8 and later; before, it may take a moment more).
    pub(crate) fn start_forwarding(self, index: u32) -> Self {
        let mut link = LinkMessage::default();
        link.header.index = index;
        self.add(format!("link {index}"), RouteNetlinkMessage::GetLink(link), 0)
    }

    /// Removes a link by its name, and its peer with it.
    pub(crate) fn remove_link(self, name: &str) -> Self {
        let mut link = LinkMessage::default();
        link.attributes = vec![LinkAttribute::IfName(name.into())];
        self.add(format!("remove link {name}"), RouteNetlinkMessage::DelLink(link), 0)
    }

    /// Adds a unique address to a link. An IPv6 address is usable at once, without duplicate address detection, because
    /// no other link can have it.
    pub(crate) fn address(self, index: u32, ip: IpAddr) -> Self {
        let mut message = AddressMessage::default();
        let mut header = AddressHeader::default();
        (header.family, header.prefix_len, header.index) = (family(ip), host_bits(ip), index);
        header.scope = AddressScope::Universe;
        message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
        if ip.is_ipv6() {
            header.flags = AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        message.header = header;
        let step = format!("address {ip}");
        self.add(step, RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Routes these destinations to this link.
    pub(crate) fn route(self, to: IpNet, index: u32) -> Self {
        let scope = if to.addr().is_ipv4() { RouteScope::Link } else { RouteScope::Universe };
        let attributes = vec![RouteAttribute::Oif(index)];
        self.add_route(to, MAIN_TABLE, RouteType::Unicast, scope, attributes)
    }

    /// Routes all other packets by this gateway, from this address.
    pub(crate) fn default_route(self, gateway: IpAddr, from: IpAddr, index: u32) -> Self {
        self.default_route_of(MAIN_TABLE, gateway, from, index)
    }

    /// Routes all other packets by this gateway, from this address, in this table.
    pub(crate) fn default_route_of(self, table: u8, gateway: IpAddr, from: IpAddr, index: u32) -> Self {
        let attributes = vec![
            RouteAttribute::Gateway(address(gateway)),
            RouteAttribute::PrefSource(address(from)),
            RouteAttribute::Oif(index),
        ];
        let to = everywhere(gateway);
        self.add_route(to, table, RouteType::Unicast, RouteScope::Universe, attributes)
    }

    /// Rejects packets to these destinations, unless a narrower route matches.
    pub(crate) fn unreachable(self, to: IpNet) -> Self {
        self.add_route(to, MAIN_TABLE, RouteType::Unreachable, RouteScope::Universe, Vec::new())
    }

    /// Delivers packets that are routed by this table locally, for any destination.
    pub(crate) fn everything_is_local(self, table: u8, of: IpAddr) -> Self {
        const LOOPBACK: u32 = 1;
        let attributes = vec![RouteAttribute::Oif(LOOPBACK)];
        self.add_route(everywhere(of), table, RouteType::Local, RouteScope::Host, attributes)
    }

    /// Sends packets that are routed by this table out by a link without ARP.
    pub(crate) fn everything_leaves(self, table: u8, index: u32, of: IpAddr) -> Self {
        let scope = if of.is_ipv4() { RouteScope::Link } else { RouteScope::Universe };
        let attributes = vec![RouteAttribute::Oif(index)];
        self.add_route(everywhere(of), table, RouteType::Unicast, scope, attributes)
    }

    /// Silently drops packets that are routed by this table and match none of its other routes.
    pub(crate) fn add_blackhole_route(self, table: u8, of: IpAddr) -> Self {
        const LAST: u32 = 1 << 20;
        let attributes = vec![RouteAttribute::Priority(LAST)];
        self.add_route(everywhere(of), table, RouteType::BlackHole, RouteScope::Universe, attributes)
    }

    fn add_route(
        self,
        to: IpNet,
        table: u8,
        kind: RouteType,
        scope: RouteScope,
        mut attributes: Vec<RouteAttribute>,
    ) -> Self {
        let header = RouteHeader {
            address_family: family(to.addr()),
            destination_prefix_length: to.prefix_len(),
            table,
            protocol: RouteProtocol::Static,
            kind,
            scope,
            ..RouteHeader::default()
        };
        if to.prefix_len() > 0 {
            attributes.push(RouteAttribute::Destination(address(to.addr())));
        }
        let mut message = RouteMessage::default();
        (message.header, message.attributes) = (header, attributes);
        self.add(
            format!("route to {to}"),
            RouteNetlinkMessage::NewRoute(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }

    /// Routes marked packets of a family by this table; fails if the rule exists.
    pub(crate) fn add_mark_rule(self, mark: u32, table: u8, of: IpAddr) -> Self {
        let message = RouteNetlinkMessage::NewRule(rule_of_mark(mark, table, of));
        self.add(format!("rule for mark {mark}"), message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes the rule that [`Self::add_mark_rule`] added; fails if it does not exist.
    pub(crate) fn remove_mark_rule(self, mark: u32, table: u8, of: IpAddr) -> Self {
        let message = RouteNetlinkMessage::DelRule(rule_of_mark(mark, table, of));
        self.add(format!("delete rule for mark {mark}"), message, 0)
    }

    /// Routes packets that programs in this namespace send to this address, which is their own, by this table. Rules
    /// apply in ascending `order`.
    pub(crate) fn add_local_rule(self, ip: IpAddr, table: u8, order: u32) -> Self {
        let mut message = rule_of(table, order, ip);
        message.header.dst_len = host_bits(ip);
        message.attributes.extend([RuleAttribute::Destination(ip), RuleAttribute::Iifname("lo".into())]);
        let step = format!("rule for packets to {ip}");
        self.add(step, RouteNetlinkMessage::NewRule(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Moves the rule of the kernel's local table to `order`, from priority 0, before which no other rule can be.
    pub(crate) fn local_later(self, of: IpAddr, order: u32) -> Self {
        const FIRST: u32 = 0;
        let later = RouteNetlinkMessage::NewRule(rule_of(LOCAL_TABLE, order, of));
        let first = RouteNetlinkMessage::DelRule(rule_of(LOCAL_TABLE, FIRST, of));
        self.add("rule for the local table", later, NLM_F_CREATE | NLM_F_EXCL).add(
            "delete the first rule",
            first,
            0,
        )
    }

    /// Adds a permanent neighbour entry, so that the address is never resolved.
    pub(crate) fn neighbour(self, ip: IpAddr, mac: MacAddress, index: u32) -> Self {
        let mut header = NeighbourHeader::default();
        (header.family, header.ifindex, header.state) = (family(ip), index, NeighbourState::Permanent);
        let of_ip = match ip {
            IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
            IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
        };
        let mut message = NeighbourMessage::default();
        message.header = header;
        message.attributes =
            vec![NeighbourAttribute::Destination(of_ip), NeighbourAttribute::LinkLayerAddress(mac.into())];
        let step = format!("neighbour {ip}");
        self.add(step, RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }
}

fn rule_of_mark(mark: u32, table: u8, of: IpAddr) -> RuleMessage {
    let mut message = rule_of(table, u32::from(table), of);
    message.attributes.push(RuleAttribute::FwMark(mark));
    message
}

fn rule_of(table: u8, order: u32, of: IpAddr) -> RuleMessage {
    let mut header = RuleHeader::default();
    (header.family, header.table, header.action) = (family(of), table, RuleAction::ToTable);
    let mut message = RuleMessage::default();
    message.header = header;
    message.attributes = vec![RuleAttribute::Priority(order)];
    message
}

/// Returns the number of a link of this namespace.
pub(crate) fn index_of(socket: &Netlink, name: &str) -> Result<u32, FabricError> {
    rustix::net::netdevice::name_to_index(socket, name)
        .map_err(|error| FabricError::new(format!("link {name}"), error.into()))
}

/// Opens a route socket in the network namespace of this thread.
pub(crate) fn open() -> Result<Netlink, FabricError> {
    Netlink::open(Family::Route).map_err(|error| FabricError::new("netlink socket", error))
}

/// Returns the prefix that contains only this address.
pub(crate) fn alone(ip: IpAddr) -> IpNet {
    IpNet::from(ip)
}

fn everywhere(of: IpAddr) -> IpNet {
    match of {
        IpAddr::V4(_) => IpNet::new_assert(Ipv4Addr::UNSPECIFIED.into(), 0),
        IpAddr::V6(_) => IpNet::new_assert(Ipv6Addr::UNSPECIFIED.into(), 0),
    }
}

fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn host_bits(ip: IpAddr) -> u8 {
    alone(ip).prefix_len()
}

fn address(ip: IpAddr) -> RouteAddress {
    match ip {
        IpAddr::V4(ip) => RouteAddress::Inet(ip),
        IpAddr::V6(ip) => RouteAddress::Inet6(ip),
    }
}
