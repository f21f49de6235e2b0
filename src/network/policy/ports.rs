//! Ports that a rule allows, as ranges.

use super::port_range::{PortRange, Protocol};
use super::ranges::Ranges;

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
