//! Lists and deletes the kernel's conntrack entries.
//!
//! The first datagram of a flow determines the flow's endpoint. Later datagrams go there for as long as the flow is not
//! idle, even if the endpoint no longer exists. TCP connections end by themselves, so their entries are left alone.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use libc::{NFNL_SUBSYS_CTNETLINK, c_int};
use netlink_packet_core::{DefaultNla, NLA_F_NESTED, NLM_F_ACK, NLM_F_DUMP, parse_ip, parse_u16_be};

use crate::FabricError;
use crate::netlink::Netlink;
use crate::netlink::message::{self, Message, NFGENMSG_BYTES, attribute, find};
use crate::nft::Family;

// From linux/netfilter/nfnetlink_conntrack.h.
const IPCTNL_MSG_CT_NEW: c_int = 0;
const IPCTNL_MSG_CT_GET: c_int = 1;
const IPCTNL_MSG_CT_DELETE: c_int = 2;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
/// Distinguishes a flow from a later one with the same addresses.
const CTA_ID: u16 = 12;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;

/// The number of flows deleted in one batch: the responses to so many fit into a socket.
const AT_ONCE: usize = 64;

/// A flow of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The address of the client.
    pub client: SocketAddr,
    /// The destination that the client sends to.
    pub destination: SocketAddr,
    /// The actual destination, from which responses come.
    pub endpoint: SocketAddr,
}

/// The conntrack entries of a network namespace, through a socket in it ([`crate::SocketKind::Netfilter`]).
#[derive(Debug)]
pub struct Conntrack(Netlink);

impl Conntrack {
    /// Lists and deletes entries over this socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self(Netlink::from_descriptor(socket))
    }

    /// Deletes the stale UDP flows of a family, and returns their number. The next datagram of a deleted flow counts as
    /// its first.
    pub fn forget_udp(
        &self,
        family: Family,
        mut is_stale: impl FnMut(&Flow) -> bool,
    ) -> Result<usize, FabricError> {
        let request = request(family, IPCTNL_MSG_CT_GET, NLM_F_DUMP, 0, &[]);
        let mut stale = Vec::new();
        let took = self.0.dump(&request, |message| {
            if let Some((flow, names)) = flow_in(message)
                && is_stale(&flow)
            {
                stale.push(names);
            }
        });
        took.map_err(FabricError::at("list connections"))?;
        for some in stale.chunks(AT_ONCE) {
            let mut requests = Vec::new();
            for (number, names) in (1..).zip(some) {
                requests.extend(self::request(family, IPCTNL_MSG_CT_DELETE, NLM_F_ACK, number, names));
            }
            match self.0.send(&requests, some.len()) {
                // The flow ended meanwhile; the responses to the others still follow.
                Err(failed) if failed.error.kind() == io::ErrorKind::NotFound => {}
                Err(failed) => return Err(FabricError::new("forget connections", failed.error)),
                Ok(()) => {}
            }
        }
        Ok(stale.len())
    }
}

fn request(family: Family, kind: c_int, flags: u16, sequence: u32, attributes: &[DefaultNla]) -> Vec<u8> {
    message::request(
        message::netfilter_type(NFNL_SUBSYS_CTNETLINK, kind),
        flags,
        sequence,
        &family.header(),
        attributes,
    )
}

/// Returns the UDP flow in a message of the kernel, and the attributes that identify it; `None` for other flows.
fn flow_in(message: Message<'_>) -> Option<(Flow, Vec<DefaultNla>)> {
    if message.kind != message::netfilter_type(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_NEW) {
        return None;
    }
    let attributes = message.attributes(NFGENMSG_BYTES);
    let original = find(attributes, CTA_TUPLE_ORIG)?;
    let (client, destination) = ends(original)?;
    let (endpoint, _) = ends(find(attributes, CTA_TUPLE_REPLY)?)?;
    let mut names = vec![attribute(CTA_TUPLE_ORIG | NLA_F_NESTED, original)];
    names.extend(find(attributes, CTA_ID).map(|id| attribute(CTA_ID, id)));
    Some((Flow { client, destination, endpoint }, names))
}

/// Returns the source and the destination of a UDP flow; `None` for other protocols.
fn ends(tuple: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (ips, ports) = (find(tuple, CTA_TUPLE_IP)?, find(tuple, CTA_TUPLE_PROTO)?);
    if find(ports, CTA_PROTO_NUM)? != [libc::IPPROTO_UDP as u8] {
        return None;
    }
    let end = |v4, v6, port| {
        let ip = parse_ip(find(ips, v4).or_else(|| find(ips, v6))?).ok()?;
        Some(SocketAddr::new(ip, parse_u16_be(find(ports, port)?).ok()?))
    };
    let source = end(CTA_IP_V4_SRC, CTA_IP_V6_SRC, CTA_PROTO_SRC_PORT)?;
    let destination = end(CTA_IP_V4_DST, CTA_IP_V6_DST, CTA_PROTO_DST_PORT)?;
    Some((source, destination))
}
