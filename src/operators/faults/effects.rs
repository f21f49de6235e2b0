//! The effects of faults as data, which the program that runs the cluster applies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use base::disk_fault::DiskFault;

/// The scheduler's name among the actors.
pub const SCHEDULER_ACTOR: &str = "scheduler";

/// The actors that faults crash or pause, by name ([`SCHEDULER_ACTOR`] or a controller's), and the offsets of their
/// clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActorFaults {
    /// Actors that do not run.
    pub crashed: BTreeSet<&'static str>,
    /// Actors that stand still.
    pub paused: BTreeSet<&'static str>,
    /// The offset of the controllers' clock, in milliseconds.
    pub controllers_skew: i64,
    /// The offset of the scheduler's clock, in milliseconds.
    pub scheduler_skew: i64,
}

/// All faults in force on nodes, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFaults {
    /// Nodes that are switched off.
    pub off: BTreeSet<String>,
    /// Nodes with crashed kubelets.
    pub crashed: BTreeSet<String>,
    /// Nodes with paused kubelets.
    pub paused: BTreeSet<String>,
    /// The offsets of kubelets' clocks, in milliseconds.
    pub skews: BTreeMap<String, i64>,
    /// Nodes with a broken disk.
    pub disks: BTreeMap<String, DiskFault>,
    /// Pulls of images that are slow or fail.
    pub pulls: Vec<PullFault>,
}

impl NodeFaults {
    /// Returns true if a node's kubelet must not run.
    pub fn is_down(&self, name: &str) -> bool {
        self.off.contains(name) || self.crashed.contains(name)
    }

    /// Returns the names of the nodes that these faults affect.
    pub fn names(&self) -> BTreeSet<&str> {
        let sets = self.off.iter().chain(&self.crashed).chain(&self.paused);
        sets.chain(self.skews.keys()).chain(self.disks.keys()).map(String::as_str).collect()
    }
}

/// The reason why a node is not yet in the state that its faults require.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPending {
    /// True if the node is being started or removed, so that a retry may succeed.
    pub is_busy: bool,
    /// The reason, as a message.
    pub reason: String,
}

/// Slow or failing pulls of images.
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

/// The effect on the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreFault {
    /// No fault.
    #[default]
    None,
    /// Writes block until the fault ends.
    Hangs,
    /// Delays writes.
    Slow(Duration),
    /// Refuses writes, for this reason.
    Refuses(&'static str),
}

/// The directories to fill or gate, and the effect on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillRequest {
    /// The path of the volume, or the paths of all emptyDirs on a disk.
    pub paths: Vec<PathBuf>,
    /// The effect.
    pub how: FillMode,
}

/// The effect on directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillMode {
    /// A volume is full.
    Full,
    /// The directories lie on a disk with this effect on writes.
    OnDisk(DiskFault),
}

/// The state of a volume's free space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FillState {
    /// No space is free.
    Filled,
    /// There is free space, but writes fail as if there were none.
    Denied {
        /// The number of descriptors opened before, which can still write.
        open_before: usize,
    },
    /// The volume is not filled, for this reason.
    Refused(FillRefusal),
}

/// The reason why a volume is not filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillRefusal {
    /// The `reason` of the condition and the event.
    pub reason: &'static str,
    /// The message, with the remedy.
    pub message: String,
}
