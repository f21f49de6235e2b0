//! Ports that a rule allows, as ranges that neither overlap nor touch.

use std::collections::BTreeSet;
use std::fmt;

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
    /// These; none of them overlaps or touches another.
    Some(BTreeSet<PortRange>),
}

impl Ports {
    /// These ranges, in whatever order they come.
    pub fn of(ranges: impl IntoIterator<Item = PortRange>) -> Self {
        let sorted: BTreeSet<PortRange> = ranges.into_iter().collect();
        let mut merged: Vec<PortRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match merged.last_mut() {
                Some(last)
                    if last.protocol == range.protocol && range.first <= last.last.saturating_add(1) =>
                {
                    last.last = last.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        Self::Some(merged.into_iter().collect())
    }

    /// What one or the other allows.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Some(one), Self::Some(two)) => Self::of(one.iter().chain(two).copied()),
            _ => Self::All,
        }
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Some(ranges) if ranges.is_empty())
    }

    /// Whether this port is allowed.
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Some(ranges) => ranges.iter().any(|range| range.contains(protocol, port)),
        }
    }
}
