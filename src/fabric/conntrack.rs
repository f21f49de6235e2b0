//! Lists and deletes the kernel's conntrack entries.
//!
//! The first datagram of a flow determines the flow's endpoint. Later datagrams go there for as long as the flow is not
//! idle, even if the endpoint no longer exists. TCP connections end by themselves, so their entries are left alone.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla,
};
use netlink_packet_netfilter::conntrack::{
    ConntrackAttribute, ConntrackMessage, IPTuple, ProtoTuple, Protocol, Tuple,
};
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
};

use crate::FabricError;
use crate::netlink::Netlink;
use crate::nft::Family;

/// Distinguishes a flow from a later one with the same addresses (`CTA_ID`).
const ID: u16 = 12;
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
        let family = match family {
            Family::V4 => NetfilterProtoFamily::IPv4,
            Family::V6 => NetfilterProtoFamily::IPv6,
        };
        let everything = ConntrackMessage::Get(Vec::new());
        let request = encoded(family, everything, NLM_F_REQUEST | NLM_F_DUMP, 0);
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
                let message = ConntrackMessage::Delete(names.clone());
                requests.extend(encoded(family, message, NLM_F_REQUEST | NLM_F_ACK, number));
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

fn encoded(family: NetfilterProtoFamily, message: ConntrackMessage, flags: u16, sequence: u32) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    (header.flags, header.sequence_number) = (flags, sequence);
    let message = NetfilterMessage::new(NetfilterHeader::new(family, 0, 0), message);
    let mut message = NetlinkMessage::new(header, message.into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len().next_multiple_of(4)];
    message.serialize(&mut bytes);
    bytes
}

/// Returns the UDP flow in a message of the kernel, and the attributes that identify it; `None` for other flows.
fn flow_in(message: &[u8]) -> Option<(Flow, Vec<ConntrackAttribute>)> {
    let message = NetlinkMessage::<NetfilterMessage>::deserialize(message).ok()?;
    let NetlinkPayload::InnerMessage(message) = message.payload else { return None };
    let NetfilterMessageInner::Conntrack(ConntrackMessage::New(attributes)) = message.inner else {
        return None;
    };
    let (mut original, mut answers, mut names) = (None, None, Vec::new());
    for attribute in attributes {
        match &attribute {
            ConntrackAttribute::CtaTupleOrig(tuple) => {
                original = ends(tuple);
                names.push(attribute);
            }
            ConntrackAttribute::CtaTupleReply(tuple) => answers = ends(tuple),
            ConntrackAttribute::Other(other) if other.kind() == ID => names.push(number(other)),
            _ => {}
        }
    }
    let ((client, destination), (endpoint, _)) = (original?, answers?);
    Some((Flow { client, destination, endpoint }, names))
}

/// Converts an attribute that the kernel has sent to the form in which the kernel accepts it.
fn number(id: &DefaultNla) -> ConntrackAttribute {
    let mut bytes = vec![0; id.value_len()];
    id.emit_value(&mut bytes);
    ConntrackAttribute::Other(DefaultNla::new(ID, bytes))
}

/// Returns the source and the destination of a UDP flow; `None` for other protocols.
fn ends(tuple: &[Tuple]) -> Option<(SocketAddr, SocketAddr)> {
    let (mut ips, mut ports, mut is_udp) = ([None::<IpAddr>; 2], [None; 2], false);
    for part in tuple {
        match part {
            Tuple::Ip(parts) => parts.iter().for_each(|part| match part {
                IPTuple::SourceAddress(ip) => ips[0] = Some(*ip),
                IPTuple::DestinationAddress(ip) => ips[1] = Some(*ip),
                _ => {}
            }),
            Tuple::Proto(parts) => parts.iter().for_each(|part| match part {
                ProtoTuple::Protocol(protocol) => is_udp = *protocol == Protocol::Udp,
                ProtoTuple::SourcePort(port) => ports[0] = Some(*port),
                ProtoTuple::DestinationPort(port) => ports[1] = Some(*port),
                _ => {}
            }),
            _ => {}
        }
    }
    let [from, to] = [0, 1].map(|end| Some(SocketAddr::new(ips[end]?, ports[end]?)));
    is_udp.then_some((from?, to?))
}
