//! The addresses of a node's pods: unique, from the node's range, reused as late as possible (NET-1).
//!
//! A pod holds its address from before its sandbox is created until it has stopped for good; the address in the pod's
//! status is history from then on.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::{IpAdd, IpSub, Ipv4Net};

use super::runtime::PodUid;

/// The pool of one node.
#[derive(Debug)]
pub(super) struct PodIps {
    range: Ipv4Net,
    /// The owner of each address.
    allocated: HashMap<u32, PodUid>,
    /// The start of the next search: an address rests as long as possible before it is reused.
    next: u32,
}

impl PodIps {
    /// Creates a pool of all addresses of `range` except the first (the network), the second (the node) and the last.
    pub(super) fn new(range: Ipv4Net) -> Self {
        Self { range, allocated: HashMap::new(), next: 2 }
    }

    fn size(&self) -> u32 {
        u32::from(self.range.hostmask()).saturating_add(1)
    }

    /// Allocates an address for a pod: its previous one, unless another pod has it by now, else a free one; `None` if
    /// all are allocated.
    pub(super) fn take(&mut self, pod: &str, had: Option<IpAddr>) -> Option<IpAddr> {
        if let Some(ip) = had.filter(|ip| self.reserve(*ip, pod)) {
            return Some(ip);
        }
        let usable = self.size().saturating_sub(3);
        for _ in 0..usable {
            let offset = self.next;
            self.next = self.after(offset);
            if let std::collections::hash_map::Entry::Vacant(free) = self.allocated.entry(offset) {
                free.insert(pod.to_owned());
                return Some(self.range.network().saturating_add(offset).into());
            }
        }
        None
    }

    /// Marks an address as a pod's: a pod found running after a restart keeps it (SAFE-7). Returns false if another pod
    /// has the address, or the address is outside of this node's range.
    pub(super) fn reserve(&mut self, ip: IpAddr, pod: &str) -> bool {
        let Some(offset) = self.offset(ip) else { return false };
        if offset >= self.next {
            self.next = self.after(offset);
        }
        self.allocated.entry(offset).or_insert_with(|| pod.to_owned()) == pod
    }

    /// Releases an address, if the pod still has it.
    pub(super) fn release(&mut self, ip: IpAddr, pod: &str) {
        if let Some(offset) = self.offset(ip)
            && self.allocated.get(&offset).is_some_and(|owner| owner == pod)
        {
            self.allocated.remove(&offset);
        }
    }

    fn after(&self, offset: u32) -> u32 {
        if offset + 2 >= self.size() { 2 } else { offset + 1 }
    }

    fn offset(&self, ip: IpAddr) -> Option<u32> {
        offset(self.range, ip)
    }
}

/// The offset of an address in a range; none if it is outside.
pub(super) fn offset(range: Ipv4Net, ip: IpAddr) -> Option<u32> {
    let IpAddr::V4(ip) = ip else { return None };
    range.contains(&ip).then(|| ip.saturating_sub(range.network()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ip: Option<IpAddr>) -> String {
        ip.map_or_else(|| "none".to_owned(), |ip| ip.to_string())
    }

    #[test]
    fn addresses_are_unique_and_rest_before_reuse_net_1() {
        let mut pool = PodIps::new(Ipv4Net::new_assert([127, 1, 2, 0].into(), 29));
        assert!(pool.reserve([127, 1, 2, 3].into(), "found"));
        assert!(!pool.reserve([10, 0, 0, 1].into(), "found"));
        let taken: Vec<String> = (0..5).map(|n| text(pool.take(&n.to_string(), None))).collect();
        assert_eq!(taken, ["127.1.2.4", "127.1.2.5", "127.1.2.6", "127.1.2.2", "none"]);
        pool.release([127, 1, 2, 5].into(), "1");
        pool.release([127, 1, 2, 2].into(), "3");
        assert_eq!(text(pool.take("5", None)), "127.1.2.5");
    }

    /// A pod that comes back has its address again, unless another pod has it now, and never releases another pod's
    /// address (SAFE-7).
    #[test]
    fn an_address_is_one_pods_at_a_time() {
        let mut pool = PodIps::new(Ipv4Net::new_assert([127, 1, 2, 0].into(), 29));
        let had = IpAddr::from([127, 1, 2, 4]);
        assert_eq!(text(pool.take("a", Some(had))), "127.1.2.4");
        assert_eq!(text(pool.take("a", Some(had))), "127.1.2.4", "asking twice takes once");
        assert_eq!(text(pool.take("b", Some(had))), "127.1.2.5");
        pool.release(had, "b");
        assert!(!pool.reserve(had, "b"));
        pool.release(had, "a");
        assert!(pool.reserve(had, "b"));
    }
}
