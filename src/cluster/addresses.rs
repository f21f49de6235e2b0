//! Which loopback addresses this cluster uses.
//!
//! Clusters on one machine share 127.0.0.0/8. Each takes a slot, held by a listening socket, and from it
//! ranges nobody else uses: nodes 127.16+S.0.0/16, services 127.32+S.0.0/16, pods 127.64+4S.0.0/14. The slot
//! is written down in the data directory, so that pods keep their addresses across restarts.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use ipnet::{IpAdd, IpSub, Ipv4Net};

/// How many clusters one machine has room for.
const SLOTS: u8 = 16;

/// Bits that are the same in all addresses of one node's pods.
const POD_PREFIX: u8 = 24;

/// A slot, taken as long as this lives.
#[derive(Debug)]
pub(super) struct AddressPlan {
    slot: u8,
    _held: Option<TcpListener>,
}

impl AddressPlan {
    /// Takes the preferred slot if it is free, else the first free one.
    pub(super) fn take(preferred: Option<u8>) -> Self {
        let order = preferred.into_iter().chain(0..SLOTS).filter(|slot| *slot < SLOTS);
        for slot in order {
            let marker = SocketAddrV4::new(Ipv4Addr::new(127, 16 + slot, 255, 254), 6444);
            if let Ok(listener) = TcpListener::bind(marker) {
                return Self { slot, _held: Some(listener) };
            }
        }
        // More clusters than slots: pods of two of them may then ask for the same address and port.
        tracing::warn!("all {SLOTS} address ranges are taken by other clusters; sharing one");
        Self { slot: preferred.unwrap_or(0) % SLOTS, _held: None }
    }

    /// Addresses at which nobody listens: other clusters may have the same.
    pub(super) fn unheld() -> Self {
        Self { slot: 0, _held: None }
    }

    pub(super) fn slot(&self) -> u8 {
        self.slot
    }

    /// Where services live.
    pub(super) fn services(&self) -> Ipv4Net {
        Ipv4Net::new_assert(Ipv4Addr::new(127, 32 + self.slot, 0, 0), 16)
    }

    /// The address of a fixed service.
    pub(super) fn service(&self, offset: u32) -> Ipv4Addr {
        self.services().network().saturating_add(offset)
    }

    /// The address of a node.
    pub(super) fn node(&self, index: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, 16 + self.slot, 0, 0).saturating_add(index as u32 + 1)
    }

    /// The pods of a node: a /24.
    pub(super) fn pods(&self, index: usize) -> Ipv4Net {
        pods_of(Ipv4Addr::new(127, 64 + 4 * self.slot, 0, 0), index)
    }

    /// The address of a hollow node: nothing listens there.
    pub(super) fn hollow_node(index: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, 0).saturating_add(index as u32 + 1)
    }

    /// The pods of a hollow node: a /24.
    pub(super) fn hollow_pods(index: usize) -> Ipv4Net {
        pods_of(Ipv4Addr::new(10, 64, 0, 0), index)
    }
}

fn pods_of(first: Ipv4Addr, index: usize) -> Ipv4Net {
    Ipv4Net::new_assert(first.saturating_add((index as u32) << 8), POD_PREFIX)
}

/// The index of a node with this range of pods, whatever the cluster's own part of it.
pub(super) fn index_of(pods: Ipv4Net) -> Option<usize> {
    let all = match pods.addr().octets()[0] {
        127 => 14,
        10 => 10,
        _ => return None,
    };
    let first = Ipv4Net::new_assert(pods.addr(), all).network();
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
    }
}
