//! Allocates the addresses of one range, each to one holder.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use parking_lot::Mutex;

/// The number of addresses at the start of the range that are reserved for fixed services (API, DNS).
const STATIC_BAND_SIZE: u128 = 256;

/// Allocates addresses of one range, apart from the first 256, which are reserved for fixed services.
#[derive(Debug)]
pub(super) struct Allocator {
    range: IpNet,
    allocated: Mutex<AllocatedAddresses>,
}

#[derive(Debug, Default)]
struct AllocatedAddresses {
    addresses: HashSet<IpAddr>,
    next: u128,
}

impl Allocator {
    pub(super) fn new(range: IpNet) -> Self {
        Self { range: range.trunc(), allocated: Mutex::default() }
    }

    pub(super) fn range(&self) -> IpNet {
        self.range
    }

    /// Returns the address at this offset from the first.
    fn nth(&self, offset: u128) -> IpAddr {
        match self.range.network() {
            IpAddr::V4(first) => {
                let offset = u32::try_from(offset).unwrap_or(u32::MAX);
                Ipv4Addr::from_bits(first.to_bits().saturating_add(offset)).into()
            }
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().saturating_add(offset)).into(),
        }
    }

    /// Allocates a free address; `None` if the range is exhausted.
    pub(super) fn allocate_next(&self) -> Option<IpAddr> {
        let bits = u32::from(self.range.max_prefix_len() - self.range.prefix_len());
        // Without the last address, which is the broadcast address in IPv4.
        let last = 1_u128.checked_shl(bits).unwrap_or(0).wrapping_sub(1);
        let free = last.saturating_sub(STATIC_BAND_SIZE);
        let mut taken = self.allocated.lock();
        // One candidate more than there are allocated addresses suffices: at least one of them is free.
        for _ in 0..free.min(taken.addresses.len() as u128 + 1) {
            let address = self.nth(STATIC_BAND_SIZE + taken.next % free);
            taken.next = taken.next.wrapping_add(1);
            if taken.addresses.insert(address) {
                return Some(address);
            }
        }
        None
    }

    /// Allocates this address; false if it is in use.
    pub(super) fn allocate(&self, address: IpAddr) -> bool {
        self.allocated.lock().addresses.insert(address)
    }

    /// Releases an address.
    pub(super) fn release(&self, address: IpAddr) {
        self.allocated.lock().addresses.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_come_back() {
        for range in ["127.32.0.0/23", "fd00:10:96::/119"] {
            let allocator = Allocator::new(range.parse().unwrap());
            let all: HashSet<_> = std::iter::from_fn(|| allocator.allocate_next()).collect();
            assert_eq!(all.len(), 255, "{range}");
            let one = *all.iter().next().unwrap();
            assert!(!allocator.allocate(one));
            allocator.release(one);
            assert_eq!(allocator.allocate_next(), Some(one));
            assert!(allocator.range().contains(&one));
        }
    }
}
