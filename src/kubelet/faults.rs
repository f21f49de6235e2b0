//! Injected faults in a kubelet (FAULT-1): of image pulls and of the node's disk.
//!
//! Architecture Invariant: nothing here knows Fault objects; the caller that applies them passes the faults in.

use std::collections::BTreeSet;
use std::time::Duration;

use base::disk_fault::DiskFault;
use base::wildcard;
use parking_lot::{Mutex, RwLock};

/// A fault that makes image pulls slow or fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullFault {
    /// The affected nodes; `None` means all.
    pub nodes: Option<BTreeSet<String>>,
    /// Added to the duration of a pull.
    pub delay: Duration,
    /// The pull fails after the delay.
    pub fails: bool,
    /// A pattern for the image names of containers; `*` stands for any text. `None` means every image.
    pub pattern: Option<String>,
}

/// The image pull faults in force on all nodes of this process.
#[derive(Debug, Default)]
pub(crate) struct PullFaults(RwLock<Vec<PullFault>>);

impl PullFaults {
    /// Replaces the faults in force; returns true if they changed.
    pub(crate) fn set(&self, faults: Vec<PullFault>) -> bool {
        let mut known = self.0.write();
        let is_new = *known != faults;
        *known = faults;
        is_new
    }

    /// Returns the delay of an image pull on a node and whether it then fails; none without a fault.
    pub(crate) fn of(&self, node: &str, image: &str) -> Option<(Duration, bool)> {
        let known = self.0.read();
        let meets = |fault: &&PullFault| {
            fault.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
                && fault.pattern.as_deref().is_none_or(|pattern| wildcard::matches(pattern, image))
        };
        known.iter().filter(meets).fold(None, |found: Option<(Duration, bool)>, fault| {
            let (delay, fails) = found.unwrap_or_default();
            Some((delay.max(fault.delay), fails || fault.fails))
        })
    }
}

/// The fault of a node's disk, if any.
#[derive(Debug, Default)]
pub(crate) struct NodeDisk(Mutex<Option<DiskFault>>);

impl NodeDisk {
    pub(crate) fn set(&self, fault: Option<DiskFault>) {
        *self.0.lock() = fault;
    }

    pub(crate) fn fault(&self) -> Option<DiskFault> {
        *self.0.lock()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.fault() == Some(DiskFault::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_pulls_add_up_and_meet_their_nodes_alone_fault_1() {
        let fault = |nodes: Option<&str>, seconds, fails, pattern: Option<&str>| PullFault {
            nodes: nodes.map(|node| BTreeSet::from([node.to_owned()])),
            delay: Duration::from_secs(seconds),
            fails,
            pattern: pattern.map(str::to_owned),
        };
        let faults = PullFaults::default();
        assert_eq!(faults.of("a", "web"), None);
        let both = vec![fault(None, 5, false, None), fault(Some("a"), 3, true, Some("we*"))];
        assert!(faults.set(both.clone()) && !faults.set(both));
        assert_eq!(faults.of("a", "web"), Some((Duration::from_secs(5), true)));
        assert_eq!(faults.of("a", "db"), Some((Duration::from_secs(5), false)));
        assert_eq!(faults.of("b", "web"), Some((Duration::from_secs(5), false)));
    }
}
