//! Pressure on a machine: its remaining resources, the thresholds, and the node's conditions. `eviction` selects the
//! victims.

mod config;
mod machine_signals;
mod threshold;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::runtime::PodUid;
pub use config::EvictionConfig;
pub use machine_signals::{Observation, Observations, Signal};
pub(super) use machine_signals::{ample, exhaust, read};
use threshold::Thresholds;
pub(super) use threshold::{Condition, Threshold};

/// A node's memory of its machine's state.
#[derive(Debug, Default)]
pub(super) struct NodePressure {
    pub(super) thresholds: Mutex<Thresholds>,
    /// The machine's simulated state, used instead of a measurement by faults and tests.
    simulated: Mutex<Option<Observations>>,
    /// The last victim, and the time of its eviction.
    pub(super) victim: Mutex<Option<(PodUid, Timestamp)>>,
}

impl NodePressure {
    /// The conditions that hold on the node.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        self.thresholds.lock().conditions().to_vec()
    }

    /// Sets the machine's simulated state; `None` means the real one.
    pub(super) fn pretend(&self, observations: Option<Observations>) {
        *self.simulated.lock() = observations;
    }

    /// The simulated state of the machine, used instead of a measurement.
    pub(super) fn pretended(&self) -> Option<Observations> {
        self.simulated.lock().clone()
    }
}
