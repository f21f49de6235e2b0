//! IPv6 besides IPv4, if pods have networks of their own: its ranges, and the assignment of addresses.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

use kubelet::NodeIpv6;

/// The prefix length of one node's pods.
const POD_PREFIX: u8 = 64;
/// Ranges with a longer prefix are too small for services, whose first 256 addresses are not assigned.
const SMALLEST_SERVICES: u8 = 118;
/// Ranges with a longer prefix are too small for nodes and the control plane.
const SMALLEST_NODES: u8 = 122;

/// `network.ipv6` of the config file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Ipv6Config {
    /// Enables or disables IPv6, in the usual ranges.
    Enabled(bool),
    /// Enabled, in these ranges.
    Ranges(Ipv6Ranges),
}

/// The IPv6 ranges of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Ipv6Ranges {
    /// The range of all pods; each node has a /64 of it.
    #[serde(rename = "podSubnet", alias = "pods")]
    pub pods: Ipv6Net,
    /// The range of services.
    #[serde(rename = "serviceSubnet", alias = "services")]
    pub services: Ipv6Net,
    /// The range of nodes. The last address but one is the control plane's.
    #[serde(rename = "nodeSubnet", alias = "nodes")]
    pub nodes: Ipv6Net,
}

impl Default for Ipv6Config {
    fn default() -> Self {
        Self::Enabled(true)
    }
}

impl Default for Ipv6Ranges {
    fn default() -> Self {
        let net = |a, b, length| Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, a, b, 0, 0, 0, 0, 0), length);
        // The /54 has as many pod ranges (/64) as the usual IPv4 range has (/24).
        Self { pods: net(0x10, 0x244, 54), services: net(0x10, 0x96, 112), nodes: net(0x172, 0x20, 112) }
    }
}

impl Ipv6Config {
    /// The ranges; `None` if IPv6 is not enabled, and an error if the ranges are invalid.
    pub(super) fn ranges(self) -> Result<Option<Ipv6Ranges>, String> {
        match self {
            Self::Enabled(false) => Ok(None),
            Self::Enabled(true) => Ok(Some(Ipv6Ranges::default())),
            Self::Ranges(ranges) => ranges.checked().map(Some),
        }
    }
}

impl Ipv6Ranges {
    fn checked(self) -> Result<Self, String> {
        let most = [
            ("podSubnet", self.pods, POD_PREFIX),
            ("serviceSubnet", self.services, SMALLEST_SERVICES),
            ("nodeSubnet", self.nodes, SMALLEST_NODES),
        ];
        for (i, (name, range, longest)) in most.into_iter().enumerate() {
            if range.trunc() != range {
                return Err(format!("network.ipv6.{name}: {range} has host bits set; use {}", range.trunc()));
            }
            if range.prefix_len() > longest {
                return Err(format!(
                    "network.ipv6.{name}: {range} is too small; at least /{longest} is required"
                ));
            }
            let first = range.network();
            if first.is_loopback()
                || first.is_multicast()
                || first.is_unicast_link_local()
                || range.prefix_len() < 8
            {
                return Err(format!("network.ipv6.{name}: {range} cannot be used for a cluster's addresses"));
            }
            let other =
                most[..i].iter().find(|(_, other, _)| other.contains(&range) || range.contains(other));
            if let Some((other, _, _)) = other {
                return Err(format!("network.ipv6.{name}: {range} overlaps network.ipv6.{other}"));
            }
        }
        Ok(self)
    }

    /// All ranges.
    pub(super) fn all(self) -> [Ipv6Net; 3] {
        [self.pods, self.services, self.nodes]
    }

    /// The control plane's own address.
    pub(super) fn control_plane(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.nodes.broadcast().to_bits().saturating_sub(1))
    }

    /// The addresses of the node with this index; `None` if the ranges are too small for that index.
    pub(super) fn of_node(self, index: usize) -> Option<NodeIpv6> {
        let ip = Ipv6Addr::from_bits(self.nodes.network().to_bits().checked_add(index as u128 + 1)?);
        let step = u128::try_from(index).ok()?.checked_shl(u32::from(128 - POD_PREFIX))?;
        let first = Ipv6Addr::from_bits(self.pods.network().to_bits().checked_add(step)?);
        let pods = Ipv6Net::new(first, POD_PREFIX).ok()?;
        let is_in_range = self.pods.contains(&first) && self.nodes.contains(&ip) && ip < self.control_plane();
        is_in_range.then_some(NodeIpv6 { ip, pods })
    }

    /// Returns a line with the ranges.
    pub(super) fn described(self) -> String {
        let Self { pods, services, nodes } = self;
        format!("pods={pods} services={services} nodes={nodes}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_an_address_and_a_range_net_5() {
        let ranges = Ipv6Ranges::default();
        let shown = |index| ranges.of_node(index).map(|node| format!("{} {}", node.ip, node.pods));
        assert_eq!(shown(0).as_deref(), Some("fd00:172:20::1 fd00:10:244::/64"));
        assert_eq!(shown(1).as_deref(), Some("fd00:172:20::2 fd00:10:244:1::/64"));
        assert_eq!(shown(1023).as_deref(), Some("fd00:172:20::400 fd00:10:244:3ff::/64"));
        assert_eq!(shown(1024), None);
        assert_eq!(ranges.control_plane().to_string(), "fd00:172:20::fffe");
    }

    #[test]
    fn ranges_are_switched_and_judged_net_5() {
        let read = |text: &str| serde_json::from_str::<Ipv6Config>(text).unwrap().ranges();
        assert_eq!(read("true"), Ok(Some(Ipv6Ranges::default())));
        assert_eq!(read("false"), Ok(None));
        let pods = read(r#"{"podSubnet": "fd01::/48"}"#).unwrap().unwrap();
        assert_eq!(
            (pods.pods.to_string(), pods.services),
            ("fd01::/48".into(), Ipv6Ranges::default().services)
        );
        for (text, why) in [
            (
                r#"{"podSubnet": "fd01::/96"}"#,
                "network.ipv6.podSubnet: fd01::/96 is too small; at least /64 is required",
            ),
            (
                r#"{"podSubnet": "fd01::1/48"}"#,
                "network.ipv6.podSubnet: fd01::1/48 has host bits set; use fd01::/48",
            ),
            (
                r#"{"serviceSubnet": "fd00:10:244:1::/112"}"#,
                "network.ipv6.serviceSubnet: fd00:10:244:1::/112 overlaps network.ipv6.podSubnet",
            ),
            (
                r#"{"nodeSubnet": "ff02::/112"}"#,
                "network.ipv6.nodeSubnet: ff02::/112 cannot be used for a cluster's addresses",
            ),
            (
                r#"{"nodeSubnet": "fd02::/127"}"#,
                "network.ipv6.nodeSubnet: fd02::/127 is too small; at least /122 is required",
            ),
        ] {
            assert_eq!(read(text), Err(why.to_owned()), "{text}");
        }
        assert!(serde_json::from_str::<Ipv6Config>(r#"{"pod": "fd01::/48"}"#).is_err());
    }
}
