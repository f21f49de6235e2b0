//! Netlink messages as bytes: requests are written, and what the kernel sends is split into messages and attributes.
//!
//! A message is a header, a fixed part that its type determines, and attributes, which may contain others. Reading
//! never fails: it ends before the first message or attribute that is truncated or contradicts its own length.

use std::net::IpAddr;

use libc::c_int;
use netlink_packet_core::{
    DefaultNla, Emitable, NLA_F_NESTED, NLA_HEADER_SIZE, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
    NetlinkBuffer, NetlinkHeader, NlasIterator, parse_i32,
};

/// The size of the fixed part of netfilter's messages (`struct nfgenmsg` of linux/netfilter/nfnetlink.h).
pub(crate) const NFGENMSG_BYTES: usize = 4;

/// Returns the type of a message of one of netfilter's subsystems (`NFNL_SUBSYS_*`).
pub(crate) fn netfilter_type(subsystem: c_int, kind: c_int) -> u16 {
    (subsystem << 8 | kind) as u16
}

/// Returns the bytes of a request.
pub(crate) fn request(
    kind: u16,
    flags: u16,
    sequence: u32,
    fixed: &[u8],
    attributes: &[DefaultNla],
) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    let mut bytes = [&vec![0; header.buffer_len()], fixed, &encode(attributes)].concat();
    (header.length, header.message_type) = (bytes.len() as u32, kind);
    (header.flags, header.sequence_number) = (NLM_F_REQUEST | flags, sequence);
    header.emit(&mut bytes);
    bytes
}

/// Returns the bytes of attributes that follow each other.
pub(crate) fn encode(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// Returns an attribute with this value.
pub(crate) fn attribute(kind: u16, value: impl Into<Vec<u8>>) -> DefaultNla {
    DefaultNla::new(kind, value.into())
}

/// Returns an attribute with a number in the machine's byte order, as rtnetlink has them.
pub(crate) fn u32_ne(kind: u16, value: u32) -> DefaultNla {
    attribute(kind, value.to_ne_bytes())
}

/// Returns an attribute with a number in network byte order, as netfilter has them.
pub(crate) fn u32_be(kind: u16, value: u32) -> DefaultNla {
    attribute(kind, value.to_be_bytes())
}

/// Returns an attribute with a number in network byte order.
pub(crate) fn u64_be(kind: u16, value: u64) -> DefaultNla {
    attribute(kind, value.to_be_bytes())
}

/// Returns an attribute with a text, which a zero ends.
pub(crate) fn text(kind: u16, text: &str) -> DefaultNla {
    attribute(kind, [text.as_bytes(), &[0]].concat())
}

/// Returns an attribute with an address.
pub(crate) fn address(kind: u16, ip: IpAddr) -> DefaultNla {
    attribute(kind, octets(ip))
}

/// Returns an attribute that contains others and says so.
pub(crate) fn nested(kind: u16, inside: &[DefaultNla]) -> DefaultNla {
    attribute(kind | NLA_F_NESTED, encode(inside))
}

/// Returns the bytes of an address.
pub(crate) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().into(),
        IpAddr::V6(ip) => ip.octets().into(),
    }
}

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    /// The number of the request that it responds to.
    pub(crate) sequence: u32,
    /// The fixed part and the attributes.
    pub(crate) payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns the attributes after a fixed part of this many bytes.
    pub(crate) fn attributes(self, fixed: usize) -> &'a [u8] {
        self.payload.get(fixed..).unwrap_or_default()
    }

    /// Returns the error number of an acknowledgement or of the end of a list, 0 for success; `None` for another message.
    pub(crate) fn error_number(self) -> Option<i32> {
        let has_code = matches!(self.kind, NLMSG_ERROR | NLMSG_DONE);
        let code = self.payload.get(..4).filter(|_| has_code)?;
        parse_i32(code).ok().map(i32::wrapping_neg)
    }
}

/// Returns the received messages.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let message = NetlinkBuffer::new_checked(bytes).ok()?;
        bytes = bytes.get((message.length() as usize).next_multiple_of(4)..).unwrap_or_default();
        let (kind, sequence) = (message.message_type(), message.sequence_number());
        Some(Message { kind, sequence, payload: message.payload() })
    })
}

/// Returns the attributes in these bytes: the kind of each, without flags, and its value.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|attribute| {
        let (kind, end) = (attribute.kind(), usize::from(attribute.length()));
        (kind, &attribute.into_inner()[NLA_HEADER_SIZE..end])
    })
}

/// Returns the value of the first attribute of this kind.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(own, value)| (own == kind).then_some(value))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn truncated_messages_and_attributes_are_not_read_net_6() {
        let inside = [u32_be(1, 7), text(2, "ab")];
        let all = encode(&[nested(3, &inside), address(4, Ipv6Addr::LOCALHOST.into()), attribute(5, [])]);
        let whole: Vec<_> = attributes(&all).collect();
        assert_eq!(whole.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(find(whole[0].1, 2), Some(&b"ab\0"[..]));
        assert!((0..all.len()).all(|end| whole.starts_with(&attributes(&all[..end]).collect::<Vec<_>>())));

        let bytes = request(0xa01, 0, 9, &[2, 0, 0, 0], &[attribute(6, all.as_slice())]).repeat(2);
        let payload = &bytes[16..bytes.len() / 2];
        let message = Message { kind: 0xa01, sequence: 9, payload };
        assert_eq!(messages(&bytes).collect::<Vec<_>>(), [message; 2]);
        assert_eq!(find(message.attributes(NFGENMSG_BYTES), 6), Some(&all[..]));
        assert!(message.attributes(payload.len() + 1).is_empty());
        assert!((0..bytes.len()).all(|end| messages(&bytes[..end]).count() == 2 * end / bytes.len()));
    }

    /// The kernel reports an error in the middle of a list with the list's end.
    #[test]
    fn the_end_of_a_list_has_an_error_number_net_6() {
        for (kind, code, expect) in [
            (NLMSG_DONE, 0, Some(0)),
            (NLMSG_DONE, -libc::ENOMEM, Some(libc::ENOMEM)),
            (NLMSG_ERROR, -libc::ENOENT, Some(libc::ENOENT)),
            (0xa01, -libc::ENOENT, None),
        ] {
            let bytes = request(kind, 0, 1, &code.to_ne_bytes(), &[]);
            assert_eq!(messages(&bytes).next().unwrap().error_number(), expect, "{kind} {code}");
        }
    }

    #[test]
    fn an_invalid_length_ends_the_reading_net_6() {
        for length in [0, 1, 3, 15, 25, 0xffff, u32::MAX] {
            let mut bytes = [&length.to_ne_bytes(), &[0; 20][..]].concat();
            assert_eq!(messages(&bytes).count(), 0, "{length}");
            bytes[..2].copy_from_slice(&(length as u16).to_ne_bytes());
            let expected = usize::from((4..=24).contains(&length));
            assert_eq!(attributes(&bytes).count(), expected, "{length}");
        }
    }
}
