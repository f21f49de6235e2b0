//! Ports that a rule allows, as ranges.

use std::fmt;

use super::ranges::Ranges;

/// A transport protocol that a rule may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
    /// Kept as it is written; no pod of ours can speak it ([`Policy::unsupported`](super::Policy::unsupported)).
    Sctp,
}

impl Protocol {
    /// The protocol of this name; a missing one is TCP, as everywhere in Kubernetes.
    pub fn read(text: Option<&str>) -> Option<Self> {
        match text.unwrap_or("TCP") {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }
}

/// As Kubernetes writes it.
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
    /// Of which protocol.
    pub protocol: Protocol,
    /// The lowest port.
    pub first: u16,
    /// The highest port.
    pub last: u16,
}

impl PortRange {
    /// One port.
    pub fn one(protocol: Protocol, port: u16) -> Self {
        Self { protocol, first: port, last: port }
    }

    /// Every port of a protocol.
    pub fn every(protocol: Protocol) -> Self {
        Self { protocol, first: 0, last: u16::MAX }
    }

    /// Whether this port is among them.
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        self.protocol == protocol && (self.first..=self.last).contains(&port)
    }
}

/// `5432`, `53/UDP`, `32000-32768`, `any TCP`.
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

/// What is allowed to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ports {
    /// Every port of every protocol, and what has no ports, such as ping.
    All,
    /// Those in any of these, in order and each once. Few are one, many are as the rules have them, for all their peers.
    Some(Vec<Ranges>),
}

impl Ports {
    /// These ranges, in whatever order they come.
    pub fn of(ranges: impl IntoIterator<Item = PortRange>) -> Self {
        Self::any_of(vec![Ranges::of(ranges)])
    }

    /// What any of these have.
    pub(super) fn any_of(mut all: Vec<Ranges>) -> Self {
        all.retain(|ranges| !ranges.is_empty());
        all.sort_unstable();
        all.dedup();
        Self::Some(all)
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Some(all) if all.is_empty())
    }

    /// Whether this port is allowed.
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Some(all) => {
                all.iter().flat_map(|ranges| ranges.iter()).any(|range| range.contains(protocol, port))
            }
        }
    }
}
