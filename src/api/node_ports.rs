//! Node ports: numbers of one range, each given to one service.

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;

use parking_lot::Mutex;
use rand::Rng;

/// Kubernetes' own range.
const RANGE: RangeInclusive<i32> = 30_000..=32_767;
/// The first ports are kept for those who name one (KEP-3668).
const NAMED: i32 = 86;

/// Why a port is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortRefused {
    /// Somebody has it.
    #[error("provided port is already allocated")]
    Taken,
    /// It is none of ours.
    #[error("provided port is not in the valid range. The range of valid ports is {}-{}", RANGE.start(), RANGE.end())]
    OutOfRange,
}

/// Hands out node ports.
#[derive(Debug, Default)]
pub(super) struct NodePorts {
    taken: Mutex<HashSet<i32>>,
}

impl NodePorts {
    /// Takes this port.
    pub(super) fn take(&self, port: i32) -> Result<(), PortRefused> {
        if !RANGE.contains(&port) {
            return Err(PortRefused::OutOfRange);
        }
        if self.taken.lock().insert(port) { Ok(()) } else { Err(PortRefused::Taken) }
    }

    /// Takes any free port, by chance, so that clusters on one machine seldom meet; none when all are taken.
    pub(super) fn take_any(&self) -> Option<i32> {
        let (first, last) = (*RANGE.start(), *RANGE.end());
        let chance = base::chance::rng().random_range(first + NAMED..=last);
        let order = (chance..=last).chain(first + NAMED..chance).chain(first..first + NAMED);
        let mut taken = self.taken.lock();
        order.into_iter().find(|port| taken.insert(*port))
    }

    /// Gives ports back.
    pub(super) fn give_back(&self, ports: &BTreeSet<i32>) {
        let mut taken = self.taken.lock();
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
        assert_eq!(ports.take(29_999), Err(PortRefused::OutOfRange));
        ports.take(32_767).unwrap();
        let all: BTreeSet<i32> = std::iter::from_fn(|| ports.take_any()).collect();
        assert_eq!(all.len(), 2767);
        assert_eq!(ports.take(31_000), Err(PortRefused::Taken));
        ports.give_back(&BTreeSet::from([31_000]));
        assert_eq!(ports.take_any(), Some(31_000));
    }
}
