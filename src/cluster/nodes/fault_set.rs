//! The nodes' injected faults (FAULT-1), as plain data.

use std::collections::{BTreeMap, BTreeSet};

use kubelet::{NodeDiskFault, PullFault};

/// All faults in force on nodes, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate) struct NodeFaults {
    /// Nodes that are switched off.
    pub(in crate) off: BTreeSet<String>,
    /// Nodes with crashed kubelets.
    pub(in crate) crashed: BTreeSet<String>,
    /// Nodes with paused kubelets.
    pub(in crate) paused: BTreeSet<String>,
    /// The offsets of kubelets' clocks, in milliseconds.
    pub(in crate) skews: BTreeMap<String, i64>,
    /// The faults of nodes' disks.
    pub(in crate) disks: BTreeMap<String, NodeDiskFault>,
    /// Pulls of images are slow or fail.
    pub(in crate) pulls: Vec<PullFault>,
}

/// A node that is not in the desired state yet, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate) struct FaultPending {
    /// It is retried automatically: the node is just being started or removed.
    pub(in crate) is_busy: bool,
    pub(in crate) reason: String,
}

impl NodeFaults {
    /// Returns true if a node's kubelet must not run.
    pub(super) fn is_down(&self, name: &str) -> bool {
        self.off.contains(name) || self.crashed.contains(name)
    }

    /// The nodes that are affected by name.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        let sets = self.off.iter().chain(&self.crashed).chain(&self.paused);
        sets.chain(self.skews.keys()).chain(self.disks.keys()).map(String::as_str).collect()
    }
}
