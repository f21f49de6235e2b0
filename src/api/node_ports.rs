//! Node ports: numbers of one range, each allocated to one service.

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;

use parking_lot::Mutex;
use rand::RngExt;

/// Kubernetes' default range.
const RANGE: RangeInclusive<i32> = 30_000..=32_767;
/// The size of the range's first band, reserved for services that name a port (KEP-3668).
const STATIC_BAND_SIZE: i32 = 86;

/// The reason why a port is not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortAllocationError {
    /// Another service has it.
    #[error("provided port is already allocated")]
    InUse,
    /// It is outside the range.
    #[error("provided port is not in the valid range. The range of valid ports is {}-{}", RANGE.start(), RANGE.end())]
    OutOfRange,
}

/// Allocates node ports.
#[derive(Debug, Default)]
pub(super) struct NodePorts {
    allocated: Mutex<HashSet<i32>>,
}

impl NodePorts {
    /// Allocates this port.
    pub(super) fn allocate(&self, port: i32) -> Result<(), PortAllocationError> {
        if !RANGE.contains(&port) {
            return Err(PortAllocationError::OutOfRange);
        }
        if self.allocated.lock().insert(port) { Ok(()) } else { Err(PortAllocationError::InUse) }
    }

    /// Allocates a random free port, so that clusters on one machine seldom collide; `None` if all are
    /// allocated.
    pub(super) fn allocate_any(&self) -> Option<i32> {
        let (first, last) = (*RANGE.start(), *RANGE.end());
        let chance = base::random::rng().random_range(first + STATIC_BAND_SIZE..=last);
        let order =
            (chance..=last).chain(first + STATIC_BAND_SIZE..chance).chain(first..first + STATIC_BAND_SIZE);
        let mut taken = self.allocated.lock();
        order.into_iter().find(|port| taken.insert(*port))
    }

    /// Releases ports.
    pub(super) fn release(&self, ports: &BTreeSet<i32>) {
        let mut taken = self.allocated.lock();
        for port in ports {
            taken.remove(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_is_given_once_svc_1() {
        let ports = NodePorts::default();
        assert_eq!(ports.allocate(29_999), Err(PortAllocationError::OutOfRange));
        ports.allocate(32_767).unwrap();
        let all: BTreeSet<i32> = std::iter::from_fn(|| ports.allocate_any()).collect();
        assert_eq!(all.len(), 2767);
        assert_eq!(ports.allocate(31_000), Err(PortAllocationError::InUse));
        ports.release(&BTreeSet::from([31_000]));
        assert_eq!(ports.allocate_any(), Some(31_000));
    }
}
