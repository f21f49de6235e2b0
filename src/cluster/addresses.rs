//! The addresses of this cluster.
//!
//! If pods share the machine's network, clusters on one machine share 127.0.0.0/8. Each cluster reserves a slot (a
//! number S) by a listening socket, and derives its ranges from S: nodes 127.16+S.0.0/16, services 127.32+S.0.0/16,
//! pods 127.64+4S.0.0/14. The slot is stored in the data directory, so that pods keep their addresses across restarts.
//!
//! If pods have a network of their own, its ranges come from the config file, or from the candidates of
//! `network_placement`; several clusters may use the same ones.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, TcpListener};

use ipnet::{IpAdd, IpSub, Ipv4Net};

use super::ipv6::Ipv6Ranges;
use controllers::BalancerPool;

/// The number of clusters that fit on one machine's loopback.
const SLOTS: u8 = 16;

/// The prefix length of one node's pods.
const POD_PREFIX: u8 = 24;

/// The prefix length of the nodes of one slot.
const SLOT_PREFIX: u8 = 16;
/// Node ranges with a longer prefix have no addresses for load balancers: each of the 1 024 nodes may have one.
const SMALLEST_WITH_BALANCERS: u8 = 20;

/// The address ranges of a cluster.
#[derive(Debug)]
pub(super) enum AddressPlan {
    /// Pods have addresses on the machine's loopback.
    Loopback(LoopbackSlot),
    /// Pods have a network of their own, with mirror addresses in a slot of the machine's loopback.
    Fabric { ranges: NetworkRanges, slot: LoopbackSlot },
}

/// A part of the machine's loopback, held as long as this lives.
#[derive(Debug)]
pub(super) struct LoopbackSlot {
    number: u8,
    _listener: Option<TcpListener>,
}

/// The mirror addresses of the cluster on the machine's loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MirrorRanges {
    /// Each range inside the fabric, with its mirror range on loopback.
    pub(super) ranges: Vec<(Ipv4Net, Ipv4Net)>,
    /// An address that only this cluster uses: the permission to bind ports is tested there.
    pub(super) probed: Ipv4Addr,
}

/// The ranges of pods, services and nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetworkRanges {
    /// The range of all pods; each node has a /24 of it.
    pub(super) pods: Ipv4Net,
    /// The range of services.
    pub(super) services: Ipv4Net,
    /// The range of nodes. The last address but one is the control plane's.
    pub(super) nodes: Ipv4Net,
    /// The IPv6 ranges, if there are any.
    pub(super) v6: Option<Ipv6Ranges>,
}

impl AddressPlan {
    /// Reserves the preferred slot of loopback if it is free, else the first free one.
    pub(super) fn take(preferred: Option<u8>) -> Self {
        let order = preferred.into_iter().chain(0..SLOTS).filter(|slot| *slot < SLOTS);
        for slot in order {
            let marker = SocketAddrV4::new(Ipv4Addr::new(127, 16 + slot, 255, 254), 6444);
            if let Ok(listener) = TcpListener::bind(marker) {
                return Self::Loopback(LoopbackSlot { number: slot, _listener: Some(listener) });
            }
        }
        // There are more clusters than slots: pods of two of them may then request the same address and port.
        tracing::warn!("all {SLOTS} address ranges are used by other clusters; sharing one");
        Self::Loopback(LoopbackSlot { number: preferred.unwrap_or(0) % SLOTS, _listener: None })
    }

    /// Returns a plan without a held slot: other clusters may use the same addresses.
    pub(super) fn unheld() -> Self {
        Self::Loopback(LoopbackSlot { number: 0, _listener: None })
    }

    /// Returns the plan of a fabric network with these ranges; its mirror addresses lie in the slot of the plan
    /// `on_machine`.
    pub(super) fn fabric(ranges: NetworkRanges, on_machine: Self) -> Self {
        match on_machine {
            Self::Loopback(slot) | Self::Fabric { slot, .. } => Self::Fabric { ranges, slot },
        }
    }

    /// The number of the slot of loopback.
    pub(super) fn slot(&self) -> u8 {
        match self {
            Self::Loopback(slot) | Self::Fabric { slot, .. } => slot.number,
        }
    }

    /// The cluster's mirror addresses on the machine; `None` if pods are on loopback themselves.
    pub(super) fn mirrors(&self) -> Option<MirrorRanges> {
        let Self::Fabric { ranges, slot } = self else { return None };
        let on_machine = of_slot(slot.number);
        let pairs = [
            (ranges.pods, on_machine.pods),
            (ranges.services, on_machine.services),
            (ranges.nodes, on_machine.nodes),
        ];
        Some(MirrorRanges { ranges: pairs.to_vec(), probed: on_machine.nodes.network().saturating_add(1) })
    }

    /// The addresses of load balancers: a quarter of the nodes' range that no node uses. `None` if the range is too
    /// small.
    pub(super) fn balancers(&self) -> Option<BalancerPool> {
        let addresses = balancers_of(self.ranges().nodes)?;
        let mirrors = match self {
            Self::Loopback(_) => None,
            Self::Fabric { slot, .. } => balancers_of(of_slot(slot.number).nodes)
                .and_then(|range| Ipv4Net::new(range.addr(), addresses.prefix_len()).ok()),
        };
        Some(BalancerPool { addresses, mirrors })
    }

    fn ranges(&self) -> NetworkRanges {
        match self {
            Self::Loopback(slot) => of_slot(slot.number),
            Self::Fabric { ranges, .. } => *ranges,
        }
    }

    /// The IPv6 ranges; none on loopback.
    pub(super) fn v6(&self) -> Option<Ipv6Ranges> {
        self.ranges().v6
    }

    /// The range of services.
    pub(super) fn services(&self) -> Ipv4Net {
        self.ranges().services
    }

    /// The IPv4 address of the fixed service at this offset of the range of services.
    pub(super) fn service(&self, offset: u32) -> Ipv4Addr {
        self.services().network().saturating_add(offset)
    }

    /// The IPv6 address of the fixed service at this offset; `None` if the cluster has no IPv6.
    pub(super) fn service_v6(&self, offset: u32) -> Option<Ipv6Addr> {
        self.v6().map(|v6| v6.services.network().saturating_add(u128::from(offset)))
    }

    /// The address of a node.
    pub(super) fn node(&self, index: usize) -> Ipv4Addr {
        self.ranges().nodes.network().saturating_add(index as u32 + 1)
    }

    /// The pods of a node: a /24.
    pub(super) fn pods(&self, index: usize) -> Ipv4Net {
        pods_of(self.ranges().pods.network(), index)
    }

    /// The number of pod ranges for nodes with processes.
    pub(super) fn pod_ranges(&self) -> usize {
        1 << POD_PREFIX.saturating_sub(self.ranges().pods.prefix_len()).min(10)
    }

    /// The index of the node with this pod range; on loopback, pod ranges of every slot are recognized.
    pub(super) fn index_of(&self, pods: Ipv4Net) -> Option<usize> {
        let first = match self {
            Self::Loopback(_) if pods.addr().is_loopback() => Ipv4Net::new_assert(pods.addr(), 14).network(),
            Self::Fabric { ranges, .. } if ranges.pods.contains(&pods) => ranges.pods.network(),
            _ => return None,
        };
        index_from(first, pods)
    }

    /// The address of a hollow node: nothing listens there.
    pub(super) fn hollow_node(index: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, 0).saturating_add(index as u32 + 1)
    }

    /// The pods of a hollow node: a /24.
    pub(super) fn hollow_pods(index: usize) -> Ipv4Net {
        pods_of(HOLLOW_PODS.network(), index)
    }

    /// The index of a hollow node with this range of pods.
    pub(super) fn hollow_index_of(pods: Ipv4Net) -> Option<usize> {
        if HOLLOW_PODS.contains(&pods) { index_from(HOLLOW_PODS.network(), pods) } else { None }
    }
}

/// The address of a hollow node, and the range of its pods.
pub fn hollow_addresses(index: usize) -> (Ipv4Addr, Ipv4Net) {
    (AddressPlan::hollow_node(index), AddressPlan::hollow_pods(index))
}

/// The ranges of a cluster in this slot of loopback.
fn of_slot(slot: u8) -> NetworkRanges {
    NetworkRanges {
        pods: Ipv4Net::new_assert(Ipv4Addr::new(127, 64 + 4 * slot, 0, 0), 14),
        services: Ipv4Net::new_assert(Ipv4Addr::new(127, 32 + slot, 0, 0), 16),
        nodes: Ipv4Net::new_assert(Ipv4Addr::new(127, 16 + slot, 0, 0), 16),
        v6: None,
    }
}

/// The third quarter of a range of nodes; if the range is larger than a /16 (the size of a slot's), of its first /16.
/// Nodes have the addresses below, the control plane and shells those above.
fn balancers_of(nodes: Ipv4Net) -> Option<Ipv4Net> {
    if nodes.prefix_len() > SMALLEST_WITH_BALANCERS {
        return None;
    }
    let length = nodes.prefix_len().max(SLOT_PREFIX) + 2;
    let quarter = 1_u32 << (32 - length);
    Ipv4Net::new(nodes.network().saturating_add(2 * quarter), length).ok()
}

/// The range of all hollow pods.
const HOLLOW_PODS: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 64, 0, 0), 10);

fn pods_of(first: Ipv4Addr, index: usize) -> Ipv4Net {
    Ipv4Net::new_assert(first.saturating_add((index as u32) << 8), POD_PREFIX)
}

fn index_from(first: Ipv4Addr, pods: Ipv4Net) -> Option<usize> {
    (pods.prefix_len() == POD_PREFIX).then(|| (pods.addr().saturating_sub(first) >> 8) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clusters_get_ranges_of_their_own_net_1() {
        let (a, b) = (AddressPlan::take(None), AddressPlan::take(None));
        assert_ne!(a.slot(), b.slot());
        assert_ne!(a.pods(0), b.pods(0));
        assert_ne!(a.pods(0), a.pods(1));
        assert_eq!(a.pods(1023).addr().octets()[0], 127);
        assert!(a.services().contains(&a.service(10)));
        assert_eq!(a.index_of(b.pods(7)), Some(7), "whatever its slot");
    }

    #[test]
    fn load_balancers_have_a_part_of_the_nodes_range_net_6() {
        for (nodes, balancers) in [
            ("127.18.0.0/16", Some("127.18.128.0/18")),
            ("172.16.0.0/12", Some("172.16.128.0/18")),
            ("10.0.16.0/20", Some("10.0.24.0/22")),
            ("10.0.0.0/24", None),
        ] {
            let expected = balancers.map(|text| text.parse().unwrap());
            assert_eq!(balancers_of(nodes.parse().unwrap()), expected, "{nodes}");
        }
        assert_eq!(AddressPlan::unheld().balancers().unwrap().mirrors, None);
    }

    #[test]
    fn a_network_of_its_own_has_the_ranges_it_is_given_net_5() {
        let net = |text: &str| text.parse::<Ipv4Net>().unwrap();
        let ranges = NetworkRanges {
            pods: net("10.244.0.0/16"),
            services: net("10.96.0.0/16"),
            nodes: net("172.20.0.0/16"),
            v6: None,
        };
        let plan = AddressPlan::fabric(ranges, AddressPlan::unheld());
        assert_eq!((plan.node(0), plan.service(10)), ([172, 20, 0, 1].into(), [10, 96, 0, 10].into()));
        assert_eq!((plan.pods(3), plan.pod_ranges()), (net("10.244.3.0/24"), 256));
        for (pods, index) in [("10.244.3.0/24", Some(3)), ("10.245.0.0/24", None), ("10.244.0.0/25", None)] {
            assert_eq!(plan.index_of(net(pods)), index, "{pods}");
        }
        let balancers = plan.balancers().unwrap();
        assert_eq!(balancers.addresses, net("172.20.128.0/18"));
        assert_eq!(balancers.mirrors, Some(net("127.16.128.0/18")));
        assert_eq!(AddressPlan::hollow_index_of(AddressPlan::hollow_pods(16_383)), Some(16_383));
    }
}
