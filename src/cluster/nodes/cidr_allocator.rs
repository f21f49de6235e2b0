//! Allocates a cluster's pod CIDRs to nodes, by index. Counted nodes get the CIDR of their number. Others get the last
//! free one, and across restarts the `podCIDR` of their Node object.

use std::collections::BTreeMap;

use super::desired::Origin;
use crate::addresses::AddressPlan;

/// The number of ranges for hollow nodes.
const HOLLOW_RANGES: usize = 16_384;

/// The allocated indices, with their nodes.
#[derive(Debug, Default)]
pub(super) struct CidrAllocator {
    process: BTreeMap<usize, String>,
    hollow: BTreeMap<usize, String>,
}

impl CidrAllocator {
    /// Allocates an index for a node: its number if it is a counted one, else the index of its `podCIDR` if that is
    /// free, else the last free one. `None` if no such index is free.
    pub(super) fn allocate(
        &mut self,
        name: &str,
        hollow: bool,
        origin: Origin,
        pod_cidr: Option<&str>,
        plan: &AddressPlan,
    ) -> Option<usize> {
        let (taken, ranges) =
            if hollow { (&mut self.hollow, HOLLOW_RANGES) } else { (&mut self.process, plan.pod_ranges()) };
        let index_of = |pods| if hollow { AddressPlan::hollow_index_of(pods) } else { plan.index_of(pods) };
        let free = |index: &usize| *index < ranges && !taken.contains_key(index);
        let index = match origin {
            Origin::Count(index) => Some(index).filter(free),
            Origin::File | Origin::Object => {
                let before = pod_cidr.and_then(|cidr| index_of(cidr.parse().ok()?)).filter(free);
                before.or_else(|| (0..ranges).rev().find(free))
            }
        }?;
        taken.insert(index, name.to_string());
        Some(index)
    }

    /// Releases a node's index.
    pub(super) fn release(&mut self, name: &str) {
        self.process.retain(|_, of| of != name);
        self.hollow.retain(|_, of| of != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_own_range_and_never_shares_it_node_6_net_1() {
        let (mut cidrs, plan) = (CidrAllocator::default(), &AddressPlan::unheld());
        assert_eq!(cidrs.allocate("node-2", false, Origin::Count(1), None, plan), Some(1));
        assert_eq!(cidrs.allocate("gpu", false, Origin::File, None, plan), Some(1023));
        assert_eq!(cidrs.allocate("x", false, Origin::Object, Some("127.67.253.0/24"), plan), Some(1021));
        // An earlier start in another slot recorded the same range.
        assert_eq!(cidrs.allocate("y", false, Origin::Object, Some("127.71.252.0/24"), plan), Some(1020));
        assert_eq!(
            cidrs.allocate("z", false, Origin::Object, Some("127.67.255.0/24"), plan),
            Some(1022),
            "taken"
        );
        assert_eq!(cidrs.allocate("h", true, Origin::File, Some("10.127.0.0/24"), plan), Some(16_128));
        assert_eq!(
            cidrs.allocate("foreign", true, Origin::Object, Some("192.168.7.0/24"), plan),
            Some(16_383)
        );
        assert_eq!(cidrs.allocate("again", false, Origin::Count(1), None, plan), None, "never two");
        cidrs.release("node-2");
        assert_eq!(cidrs.allocate("node-2", false, Origin::Count(1), None, plan), Some(1));
        assert_eq!(cidrs.allocate("node-9000", false, Origin::Count(9000), None, plan), None);
    }
}
