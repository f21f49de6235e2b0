//! What is wrong with a node on purpose (FAULT-1), as far as its host is met: its clock, which stamps the lines of logs, and its
//! disk, on which containers have their logs and are made.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a host suffers until it is told otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFaults {
    /// Its clock reads so much more than it should, in milliseconds.
    #[serde(default)]
    pub skew_millis: i64,
    /// What its disk does wrong; none = nothing.
    #[serde(default)]
    pub disk: Option<HostDiskFault>,
}

/// What the disk of a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostDiskFault {
    /// There is no room.
    Full,
    /// The device fails.
    Failing,
    /// What is written takes so much longer.
    Slow(Duration),
}
