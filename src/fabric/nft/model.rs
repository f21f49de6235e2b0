//! The model of tables: chains, rules, sets, maps and their elements.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::netlink::message::{NFGENMSG_BYTES, octets};

/// The packets that a table applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Returns the kernel's number.
    pub(super) fn number(self) -> u8 {
        (match self {
            Self::V4 => libc::NFPROTO_IPV4,
            Self::V6 => libc::NFPROTO_IPV6,
        }) as u8
    }

    /// Returns the fixed part of netfilter's messages about this family.
    pub(crate) fn header(self) -> [u8; NFGENMSG_BYTES] {
        [self.number(), 0, 0, 0]
    }
}

/// A table by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table {
    /// The packets that it applies to.
    pub family: Family,
    /// Its name.
    pub name: String,
}

/// The hook at which the kernel calls a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseChain {
    /// The actions that its rules may take.
    pub kind: Kind,
    /// The hook on a packet's path.
    pub hook: Hook,
    /// The order among other chains at the hook; lower comes first.
    pub priority: i32,
}

/// The actions that the rules of a base chain may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Accept, drop, mark.
    Filter,
    /// Change addresses. The rules see only the first packet of a connection.
    Nat,
    /// Like `Filter`, for packets that the fabric itself sends; a packet marked there is routed again.
    Route,
}

/// A hook on a packet's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// All incoming packets, before they are routed.
    PreRouting,
    /// Packets for the fabric itself.
    Input,
    /// Packets from one leaf to another.
    Forward,
    /// Packets that the fabric itself sends.
    Output,
    /// All outgoing packets, after they are routed.
    PostRouting,
}

/// A field of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The packet's source address.
    SourceAddress,
    /// The packet's destination address.
    DestinationAddress,
    /// TCP, UDP …, by number.
    Protocol,
    /// The source port.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// The packet's mark.
    Mark,
    /// The name of the link by which the packet came in.
    Link,
    /// The state of the packet's connection, as bits: 2 = established, 4 = related, 8 = new.
    ConnectionState,
    /// The status of the packet's connection, as bits: 32 = its destination was changed.
    ConnectionStatus,
}

/// Values of consecutive fields, as the kernel compares them: each is padded to four bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub(super) Vec<u8>);

impl Key {
    /// Creates a key without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an address.
    #[must_use]
    pub fn ip(self, ip: IpAddr) -> Self {
        self.bytes(&octets(ip))
    }

    /// Appends a protocol by its number.
    #[must_use]
    pub fn protocol(self, number: u8) -> Self {
        self.bytes(&[number])
    }

    /// Appends a port.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.bytes(&port.to_be_bytes())
    }

    /// Appends a number in the machine's byte order: a mark, bits of a connection.
    #[must_use]
    pub fn number(self, number: u32) -> Self {
        self.bytes(&number.to_ne_bytes())
    }

    /// Appends a link by its name.
    #[must_use]
    pub fn link(mut self, name: &str) -> Self {
        let end = self.0.len() + 16;
        self.0.extend(name.bytes().take(15));
        self.0.resize(end, 0);
        self
    }

    /// Appends all links with this prefix, whose length must be a multiple of four: the kernel compares only the key's
    /// bytes.
    #[must_use]
    pub fn links(self, prefix: &str) -> Self {
        self.bytes(prefix.as_bytes())
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// A set or map of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// The fields that its keys consist of.
    pub fields: Vec<Field>,
    /// Its keys are ranges.
    pub intervals: bool,
    /// Its values are verdicts.
    pub verdicts: bool,
    /// Its values are numbers. A set without verdicts and numbers has no values.
    pub numbers: bool,
    /// Rules add elements, which expire after this time.
    pub timeout: Option<Duration>,
}

impl Set {
    /// Creates a plain set.
    pub fn new(name: &str, fields: &[Field]) -> Self {
        let (name, fields) = (name.to_owned(), fields.to_vec());
        Self { name, fields, intervals: false, verdicts: false, numbers: false, timeout: None }
    }

    /// Makes its keys ranges.
    #[must_use]
    pub fn of_intervals(self) -> Self {
        Self { intervals: true, ..self }
    }

    /// Makes it a map to verdicts.
    #[must_use]
    pub fn of_verdicts(self) -> Self {
        Self { verdicts: true, ..self }
    }

    /// Makes it a map to numbers, from which another map may continue ([`Statement::DispatchBy`]).
    #[must_use]
    pub fn of_numbers(self) -> Self {
        Self { numbers: true, ..self }
    }

    /// Makes it a set that rules fill; elements expire after this time.
    #[must_use]
    pub fn forgetting(self, after: Duration) -> Self {
        Self { timeout: Some(after), ..self }
    }
}

/// An element of a set or map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element {
    /// Its key, or the first of its range.
    pub key: Key,
    /// The last of its range.
    pub last: Option<Key>,
    /// The value in a map.
    pub value: Option<Value>,
}

impl Element {
    /// Creates an element of a plain set.
    pub fn new(key: Key) -> Self {
        Self { key, last: None, value: None }
    }

    /// Creates an element of a set of ranges: from a key to another, both included.
    pub fn range(first: Key, last: Key) -> Self {
        Self { key: first, last: Some(last), value: None }
    }

    /// Makes it an element of a map to verdicts.
    #[must_use]
    pub fn to(self, verdict: Verdict) -> Self {
        Self { value: Some(Value::Verdict(verdict)), ..self }
    }

    /// Makes it an element of a map to numbers.
    #[must_use]
    pub fn to_number(self, number: u32) -> Self {
        Self { value: Some(Value::Key(Key::new().number(number))), ..self }
    }
}

/// An element of a set with timeouts, and its remaining time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedElement {
    /// Its key.
    pub key: Key,
    /// The time for which it remains.
    pub expires: Duration,
}

/// A value of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// The verdict on the packet.
    Verdict(Verdict),
    /// Values of fields.
    Key(Key),
}

/// The verdict on a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Continues with the next base chain.
    Accept,
    /// Discards the packet.
    Drop,
    /// Returns to the calling chain; in a base chain, the same as `Accept`.
    Return,
    /// Continues in another chain, and then returns.
    Jump(String),
    /// Continues in another chain, without return.
    Goto(String),
}

/// The response to the sender of a rejected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reject {
    /// A reset; only for TCP.
    Reset,
    /// The ICMP error "port unreachable".
    PortUnreachable,
    /// The ICMP error "administratively prohibited".
    Prohibited,
}

/// A rule: its statements are evaluated in order, while they match.
pub type Rule = Vec<Statement>;

/// A statement of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statement {
    /// Continues if the fields have these values.
    Is(Vec<Field>, Key),
    /// Continues if the fields have other values.
    IsNot(Vec<Field>, Key),
    /// Continues if the fields are a key of the set.
    In(Vec<Field>, String),
    /// Continues if the fields are not a key of the set.
    NotIn(Vec<Field>, String),
    /// Continues if the field, a number in the machine's byte order, has any of these bits.
    HasBits(Field, u32),
    /// Continues if the packet belongs to a local transparent socket.
    OfTransparentSocket,
    /// Continues if the route back to the packet's sender does not lead out of the incoming link: the source address is
    /// spoofed.
    SpoofedSource,
    /// Applies the map's verdict for the fields; continues if the map has none.
    Dispatch(Vec<Field>, String),
    /// Looks up the fields in the first map, and the resulting number in the second map, of verdicts; continues if
    /// either has no entry. Whenever a verdict map gets an element, the kernel validates everything to which the map
    /// leads: with one map from addresses to numbers and another from numbers to verdicts, this cost arises only once
    /// per verdict.
    DispatchBy(Vec<Field>, String, String),
    /// Ends the evaluation with this verdict.
    Verdict(Verdict),
    /// Sends the connection to one of these addresses, round-robin.
    DnatAmong(Vec<SocketAddr>),
    /// Applies one of these verdicts, round-robin.
    VerdictAmong(Vec<Verdict>),
    /// Sends the connection to this address.
    Dnat(SocketAddr),
    /// Gives the connection the fabric's own address as its source.
    Masquerade,
    /// Passes the packet to a local socket, for any destination.
    Tproxy(SocketAddr),
    /// Marks the packet.
    SetMark(u32),
    /// Discards the packet and sends this response.
    Reject(Reject),
    /// Excludes the packet from connection tracking.
    NoTrack,
    /// Continues if more bytes than this come in a second.
    BytesPerSecondOver(u64),
    /// Continues for this many of a thousand packets, at random.
    PerMilleOfPackets(u32),
    /// Adds the fields to a set with timeouts, or renews their timeout.
    Remember(Vec<Field>, String),
}
