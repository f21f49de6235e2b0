//! The nodes' injected faults (FAULT-1), as plain data.

use std::collections::{BTreeMap, BTreeSet};

use kubelet::{NodeDiskFault, PullFault};

/// All faults in force on nodes, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFaults {
    /// Nodes that are switched off.
    pub(crate) off: BTreeSet<String>,
    /// Nodes with crashed kubelets.
    pub(crate) crashed: BTreeSet<String>,
    /// Nodes with paused kubelets.
    pub(crate) paused: BTreeSet<String>,
    /// The offsets of kubelets' clocks, in milliseconds.
    pub(crate) skews: BTreeMap<String, i64>,
    pub(crate) disks: BTreeMap<String, NodeDiskFault>,
    /// Pulls of images are slow or fail.
    pub(crate) pulls: Vec<PullFault>,
}

/// The reason why a node is not yet in the state that its faults require.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultPending {
    /// True if the node is being started or removed, so that a retry may succeed.
    pub(crate) is_busy: bool,
    pub(crate) reason: String,
}

impl NodeFaults {
    /// Returns true if a node's kubelet must not run.
    pub(super) fn is_down(&self, name: &str) -> bool {
        self.off.contains(name) || self.crashed.contains(name)
    }

    /// The names of the nodes that these faults affect.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        let sets = self.off.iter().chain(&self.crashed).chain(&self.paused);
        sets.chain(self.skews.keys()).chain(self.disks.keys()).map(String::as_str).collect()
    }
}
