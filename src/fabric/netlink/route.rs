//! Links, addresses, routes and neighbours of a network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use ipnet::IpNet;
use libc::{
    IFA_ADDRESS, IFA_F_NODAD, IFA_FLAGS, IFA_LOCAL, IFLA_ADDRESS, IFLA_IFNAME, IFLA_INFO_DATA,
    IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MTU, IFLA_NET_NS_FD, IFLA_NUM_RX_QUEUES, IFLA_NUM_TX_QUEUES, NDA_DST,
    NDA_LLADDR, NUD_PERMANENT, RT_SCOPE_HOST, RT_SCOPE_LINK, RT_SCOPE_UNIVERSE, RT_TABLE_LOCAL,
    RT_TABLE_MAIN, RTA_DST, RTA_GATEWAY, RTA_OIF, RTA_PREFSRC, RTA_PRIORITY, RTM_DELLINK, RTM_DELRULE,
    RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWNEIGH, RTM_NEWROUTE, RTM_NEWRULE, RTM_SETLINK,
    RTN_BLACKHOLE, RTN_LOCAL, RTN_UNICAST, RTN_UNREACHABLE, RTPROT_STATIC,
};
use netlink_packet_core::{DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};

use super::message::{self, address, attribute, encode, text, u32_ne};
use super::{Family, Netlink};
use crate::FabricError;

/// An Ethernet address.
pub(crate) type MacAddress = [u8; 6];

/// The index of the loopback link, which every namespace has.
pub(crate) const LOOPBACK: u32 = 1;

/// The maximum size of a TCP segment that the kernel passes on whole (BIG TCP, Linux 6.3; before, 64 KiB): the cost is
/// per segment, so that the MTU does not matter. Only packet captures show segments of this size.
const HANDED_OVER: u32 = 256 << 10;

// From linux/if_link.h, linux/veth.h and linux/fib_rules.h; libc lacks them.
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const VETH_INFO_PEER: u16 = 1;
const FRA_DST: u16 = 1;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FR_ACT_TO_TBL: u8 = 1;

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

    fn add(
        mut self,
        step: impl Into<String>,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        attributes: &[DefaultNla],
    ) -> Self {
        self.steps.push(step.into());
        let number = self.steps.len() as u32;
        self.bytes.extend(message::request(kind, NLM_F_ACK | flags, number, fixed, attributes));
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
        let identity = |name, mac: MacAddress| {
            vec![text(IFLA_IFNAME, name), attribute(IFLA_ADDRESS, mac), u32_ne(IFLA_MTU, mtu)]
        };
        let limits = [
            u32_ne(IFLA_NUM_TX_QUEUES, 1),
            u32_ne(IFLA_NUM_RX_QUEUES, 1),
            u32_ne(IFLA_GSO_IPV4_MAX_SIZE, HANDED_OVER),
        ];
        let mut peer = identity(remote.0, remote.1);
        peer.push(u32_ne(IFLA_NET_NS_FD, remote.2.as_raw_fd().cast_unsigned()));
        peer.extend_from_slice(&limits);
        let peer = attribute(VETH_INFO_PEER, [link_header(0, 0), encode(&peer)].concat());
        let info = [text(IFLA_INFO_KIND, "veth"), attribute(IFLA_INFO_DATA, encode(&[peer]))];
        let mut link = identity(local.0, local.1);
        link.extend(limits);
        link.push(attribute(IFLA_LINKINFO, encode(&info)));
        let step = format!("veth pair {} and {}", local.0, remote.0);
        self.add(step, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link_header(0, 0), &link)
    }

    /// Brings a link up.
    pub(crate) fn up(self, index: u32) -> Self {
        let fixed = link_header(index, libc::IFF_UP);
        self.add(format!("link {index} up"), RTM_SETLINK, 0, &fixed, &[])
    }

    /// Disables ARP on a link: all packets sent over it already have an Ethernet address.
    pub(crate) fn disable_arp(self, index: u32) -> Self {
        let fixed = link_header(index, libc::IFF_NOARP);
        self.add(format!("link {index} without ARP"), RTM_SETLINK, 0, &fixed, &[])
    }

    /// Makes a link that has come up accept packets from now on: the kernel drops them until it processes the change,
    /// unless the link is queried (rtnl_getlink, Linux 6.8 and later; before, it may take a moment more).
    pub(crate) fn start_forwarding(self, index: u32) -> Self {
        self.add(format!("link {index}"), RTM_GETLINK, 0, &link_header(index, 0), &[])
    }

    /// Removes a link by its name, and its peer with it.
    pub(crate) fn remove_link(self, name: &str) -> Self {
        let attributes = [text(IFLA_IFNAME, name)];
        self.add(format!("remove link {name}"), RTM_DELLINK, 0, &link_header(0, 0), &attributes)
    }

    /// Adds a unique address to a link. An IPv6 address is usable at once, without duplicate address detection, because
    /// no other link can have it.
    pub(crate) fn address(self, index: u32, ip: IpAddr) -> Self {
        let flags = if ip.is_ipv6() { IFA_F_NODAD } else { 0 };
        // `struct ifaddrmsg` of linux/if_addr.h.
        let fixed = [[family(ip), host_bits(ip), flags as u8, RT_SCOPE_UNIVERSE], index.to_ne_bytes()];
        let mut attributes = vec![address(IFA_LOCAL, ip), address(IFA_ADDRESS, ip)];
        if flags != 0 {
            attributes.push(u32_ne(IFA_FLAGS, flags));
        }
        let step = format!("address {ip}");
        self.add(step, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, fixed.as_flattened(), &attributes)
    }

    /// Routes these destinations to this link.
    pub(crate) fn route(self, to: IpNet, index: u32) -> Self {
        let scope = if to.addr().is_ipv4() { RT_SCOPE_LINK } else { RT_SCOPE_UNIVERSE };
        let attributes = vec![u32_ne(RTA_OIF, index)];
        self.add_route(to, RT_TABLE_MAIN, RTN_UNICAST, scope, attributes)
    }

    /// Routes all other packets by this gateway, from this address.
    pub(crate) fn default_route(self, gateway: IpAddr, from: IpAddr, index: u32) -> Self {
        self.default_route_of(RT_TABLE_MAIN, gateway, from, index)
    }

    /// Routes all other packets by this gateway, from this address, in this table.
    pub(crate) fn default_route_of(self, table: u8, gateway: IpAddr, from: IpAddr, index: u32) -> Self {
        let attributes =
            vec![address(RTA_GATEWAY, gateway), address(RTA_PREFSRC, from), u32_ne(RTA_OIF, index)];
        let to = everywhere(gateway);
        self.add_route(to, table, RTN_UNICAST, RT_SCOPE_UNIVERSE, attributes)
    }

    /// Rejects packets to these destinations, unless a narrower route matches.
    pub(crate) fn unreachable(self, to: IpNet) -> Self {
        self.add_route(to, RT_TABLE_MAIN, RTN_UNREACHABLE, RT_SCOPE_UNIVERSE, Vec::new())
    }

    /// Delivers packets that are routed by this table locally, for any destination.
    pub(crate) fn everything_is_local(self, table: u8, of: IpAddr) -> Self {
        let attributes = vec![u32_ne(RTA_OIF, LOOPBACK)];
        self.add_route(everywhere(of), table, RTN_LOCAL, RT_SCOPE_HOST, attributes)
    }

    /// Sends packets that are routed by this table out by a link without ARP.
    pub(crate) fn everything_leaves(self, table: u8, index: u32, of: IpAddr) -> Self {
        let scope = if of.is_ipv4() { RT_SCOPE_LINK } else { RT_SCOPE_UNIVERSE };
        let attributes = vec![u32_ne(RTA_OIF, index)];
        self.add_route(everywhere(of), table, RTN_UNICAST, scope, attributes)
    }

    /// Silently drops packets that are routed by this table and match none of its other routes.
    pub(crate) fn add_blackhole_route(self, table: u8, of: IpAddr) -> Self {
        const LAST: u32 = 1 << 20;
        let attributes = vec![u32_ne(RTA_PRIORITY, LAST)];
        self.add_route(everywhere(of), table, RTN_BLACKHOLE, RT_SCOPE_UNIVERSE, attributes)
    }

    fn add_route(self, to: IpNet, table: u8, kind: u8, scope: u8, mut attributes: Vec<DefaultNla>) -> Self {
        // `struct rtmsg` of linux/rtnetlink.h.
        let fixed = [family(to.addr()), to.prefix_len(), 0, 0, table, RTPROT_STATIC, scope, kind, 0, 0, 0, 0];
        if to.prefix_len() > 0 {
            attributes.push(address(RTA_DST, to.addr()));
        }
        let step = format!("route to {to}");
        self.add(step, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &fixed, &attributes)
    }

    /// Routes marked packets of a family by this table; fails if the rule exists.
    pub(crate) fn add_mark_rule(self, mark: u32, table: u8, of: IpAddr) -> Self {
        let attributes = [u32_ne(FRA_PRIORITY, table.into()), u32_ne(FRA_FWMARK, mark)];
        let fixed = rule_header(of, 0, table);
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.add(format!("rule for mark {mark}"), RTM_NEWRULE, flags, &fixed, &attributes)
    }

    /// Removes the rule that [`Self::add_mark_rule`] added; fails if it does not exist.
    pub(crate) fn remove_mark_rule(self, mark: u32, table: u8, of: IpAddr) -> Self {
        let attributes = [u32_ne(FRA_PRIORITY, table.into()), u32_ne(FRA_FWMARK, mark)];
        let fixed = rule_header(of, 0, table);
        self.add(format!("delete rule for mark {mark}"), RTM_DELRULE, 0, &fixed, &attributes)
    }

    /// Routes packets that programs in this namespace send to this address, which is their own, by this table. Rules
    /// apply in ascending `order`.
    pub(crate) fn add_local_rule(self, ip: IpAddr, table: u8, order: u32) -> Self {
        let attributes = [u32_ne(FRA_PRIORITY, order), address(FRA_DST, ip), text(FRA_IIFNAME, "lo")];
        let fixed = rule_header(ip, host_bits(ip), table);
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.add(format!("rule for packets to {ip}"), RTM_NEWRULE, flags, &fixed, &attributes)
    }

    /// Moves the rule of the kernel's local table to `order`, from priority 0, before which no other rule can be.
    pub(crate) fn local_later(self, of: IpAddr, order: u32) -> Self {
        const FIRST: u32 = 0;
        let fixed = rule_header(of, 0, RT_TABLE_LOCAL);
        let (later, first) = ([u32_ne(FRA_PRIORITY, order)], [u32_ne(FRA_PRIORITY, FIRST)]);
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let added = self.add("rule for the local table", RTM_NEWRULE, flags, &fixed, &later);
        added.add("delete the first rule", RTM_DELRULE, 0, &fixed, &first)
    }

    /// Adds a permanent neighbour entry, so that the address is never resolved.
    pub(crate) fn neighbour(self, ip: IpAddr, mac: MacAddress, index: u32) -> Self {
        let [low, high] = NUD_PERMANENT.to_ne_bytes();
        // `struct ndmsg` of linux/neighbour.h.
        let fixed = [[family(ip), 0, 0, 0], index.to_ne_bytes(), [low, high, 0, 0]];
        let attributes = [address(NDA_DST, ip), attribute(NDA_LLADDR, mac)];
        let step = format!("neighbour {ip}");
        self.add(step, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, fixed.as_flattened(), &attributes)
    }
}

/// Returns the fixed part of a message about a link (`struct ifinfomsg` of linux/rtnetlink.h), which sets these flags.
fn link_header(index: u32, flags: libc::c_int) -> Vec<u8> {
    let flags = flags.to_ne_bytes();
    [[0; 4], index.to_ne_bytes(), flags, flags].concat()
}

/// Returns the fixed part of a message about a rule for this table (`struct fib_rule_hdr` of linux/fib_rules.h).
fn rule_header(of: IpAddr, destination_bits: u8, table: u8) -> [u8; 12] {
    [family(of), destination_bits, 0, 0, table, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0]
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

fn family(ip: IpAddr) -> u8 {
    (if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn host_bits(ip: IpAddr) -> u8 {
    alone(ip).prefix_len()
}
