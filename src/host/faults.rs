//! Injected faults of a node (FAULT-1) that concern its host: its clock, which stamps the lines of logs, and its disk,
//! on which containers have their logs and are created.

use serde::{Deserialize, Serialize};

use base::disk_fault::DiskFault;

/// A host's faults until the next change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFaults {
    /// The offset of its clock, in milliseconds.
    #[serde(default)]
    pub skew_millis: i64,
    /// The fault of its disk; `None` means a healthy disk.
    #[serde(default)]
    pub disk: Option<DiskFault>,
}
