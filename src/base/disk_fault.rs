//! The injected fault of a disk (FAULT-1), from the controller of faults down to a node's host.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The effect of a broken disk on writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskFault {
    /// Calls that make a file longer fail as on a full disk; existing content may be overwritten and shortened.
    Full,
    /// Every change of a file fails as on a defective disk.
    Failing,
    /// Delays every change of a file.
    Slow(Duration),
}

impl DiskFault {
    /// The error that a write fails with; none if it succeeds.
    pub fn error(self) -> Option<&'static str> {
        match self {
            Self::Full => Some("no space left on device"),
            Self::Failing => Some("input/output error"),
            Self::Slow(_) => None,
        }
    }

    /// The delay added to a write.
    pub fn delay(self) -> Duration {
        match self {
            Self::Slow(delay) => delay,
            Self::Full | Self::Failing => Duration::ZERO,
        }
    }
}
