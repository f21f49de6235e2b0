//! Ports that a rule allows, as ranges.

use super::port_range::{PortRange, Protocol};
use super::ranges::Ranges;

/// The ports allowed for a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ports {
    /// Every port of every protocol, and protocols without ports, such as ICMP.
    All,
    /// Ports in any of these lists, sorted and without duplicates. Short lists are merged into one; long ones are those
    /// of a rule, shared by all its peers.
    Some(Vec<Ranges>),
}

impl Ports {
    /// Creates ports from ranges in any order.
    pub fn of(ranges: impl IntoIterator<Item = PortRange>) -> Self {
        Self::any_of(vec![Ranges::of(ranges)])
    }

    /// Creates the union of several lists.
    pub(super) fn any_of(mut all: Vec<Ranges>) -> Self {
        all.retain(|ranges| !ranges.is_empty());
        all.sort_unstable();
        all.dedup();
        Self::Some(all)
    }

    /// Returns whether no port is allowed.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Some(all) if all.is_empty())
    }

    /// Returns whether this port is allowed.
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Some(all) => {
                all.iter().flat_map(|ranges| ranges.iter()).any(|range| range.contains(protocol, port))
            }
        }
    }
}
