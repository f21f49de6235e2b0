//! The addresses of a node's pods: unique, from the node's range, reused as late as possible (NET-1).

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::api::AddressRange;

/// The pool of one node.
#[derive(Debug)]
pub(super) struct PodIps {
    range: AddressRange,
    taken: HashSet<u32>,
    /// Where the next search begins, so that an address rests long before it is used again.
    next: u32,
}

impl PodIps {
    /// All addresses of `range` but its first (the network), its second (the node) and its last.
    pub(super) fn new(range: AddressRange) -> Self {
        Self { range, taken: HashSet::new(), next: 2 }
    }

    fn size(&self) -> u32 {
        1u32.checked_shl(self.range.bits).unwrap_or(u32::MAX)
    }

    /// An address nobody has; none when all are taken.
    pub(super) fn take(&mut self) -> Option<IpAddr> {
        let usable = self.size().saturating_sub(3);
        for _ in 0..usable {
            let offset = self.next;
            self.next = if offset + 2 >= self.size() { 2 } else { offset + 1 };
            if self.taken.insert(offset) {
                return Some(Ipv4Addr::from(u32::from(self.range.base) + offset).into());
            }
        }
        None
    }

    /// Marks an address as taken: a pod found running after a restart has it (SAFE-7).
    pub(super) fn reserve(&mut self, ip: IpAddr) {
        if let Some(offset) = self.offset(ip) {
            self.taken.insert(offset);
            if offset >= self.next {
                self.next = if offset + 2 >= self.size() { 2 } else { offset + 1 };
            }
        }
    }

    /// Gives an address back.
    pub(super) fn give_back(&mut self, ip: IpAddr) {
        if let Some(offset) = self.offset(ip) {
            self.taken.remove(&offset);
        }
    }

    fn offset(&self, ip: IpAddr) -> Option<u32> {
        let IpAddr::V4(ip) = ip else { return None };
        u32::from(ip).checked_sub(u32::from(self.range.base)).filter(|offset| *offset < self.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_rest_before_reuse_net_1() {
        let mut pool = PodIps::new(AddressRange { base: [127, 1, 2, 0].into(), bits: 3 });
        pool.reserve([127, 1, 2, 3].into());
        pool.reserve([10, 0, 0, 1].into());
        let taken: Vec<String> = std::iter::from_fn(|| pool.take()).map(|ip| ip.to_string()).collect();
        assert_eq!(taken, ["127.1.2.4", "127.1.2.5", "127.1.2.6", "127.1.2.2"]);
        pool.give_back([127, 1, 2, 5].into());
        pool.give_back([127, 1, 2, 2].into());
        assert_eq!(pool.take().map(|ip| ip.to_string()).as_deref(), Some("127.1.2.5"));
    }
}
