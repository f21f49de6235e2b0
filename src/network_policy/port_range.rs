//! Protocols and ranges of their ports.

use std::fmt;

/// A transport protocol in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Accepted in rules, but services do not support it.
    Sctp,
}

impl Protocol {
    /// Parses a protocol's name; a missing name means TCP, as everywhere in Kubernetes.
    pub fn read(text: Option<&str>) -> Option<Self> {
        match text.unwrap_or("TCP") {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }
}

/// Formats the protocol as Kubernetes does.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// Ports of one protocol, both ends included; `first` is not above `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    /// The protocol.
    pub protocol: Protocol,
    /// The lowest port.
    pub first: u16,
    /// The highest port.
    pub last: u16,
}

impl PortRange {
    /// Returns the range of one port.
    pub fn one(protocol: Protocol, port: u16) -> Self {
        Self { protocol, first: port, last: port }
    }

    /// Returns the range of all ports of a protocol.
    pub fn every(protocol: Protocol) -> Self {
        Self { protocol, first: 0, last: u16::MAX }
    }

    /// Returns whether the range contains a port.
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        self.protocol == protocol && (self.first..=self.last).contains(&port)
    }
}

/// Formats the range as `5432`, `53/UDP`, `32000-32768` or `any TCP`.
impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, first, last } = self;
        if *self == Self::every(*protocol) {
            return write!(f, "any {protocol}");
        }
        write!(f, "{first}")?;
        if first != last {
            write!(f, "-{last}")?;
        }
        if *protocol == Protocol::Tcp { Ok(()) } else { write!(f, "/{protocol}") }
    }
}
