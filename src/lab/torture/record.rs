//! One line of an identity's log: a holder's record of its state, with the time.

use serde::{Deserialize, Serialize};

/// The event that a holder records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RecordKind {
    /// The holder has taken the lock.
    Begin,
    /// The holder still runs.
    Alive,
    /// The holder ends, as requested.
    End,
    /// Another holder has the lock.
    Clash,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// Identifies the process: a random number drawn at its start, because PIDs belong to a pod's own namespace.
    pub(super) run: u64,
    /// Nanoseconds since the machine's start: steps of the wall clock do not affect it.
    pub(super) at: u64,
    /// The wall clock in milliseconds, for readers who compare the log with others. No check uses it.
    pub(super) wall: i64,
    /// PID of the process in its own namespace.
    pub(super) pid: u32,
    /// UID of the pod.
    pub(super) uid: String,
    pub(super) what: RecordKind,
    /// For the start on a volume: the number of earlier starts on that volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "kept")]
    pub(super) earlier_starts: Option<usize>,
    /// For a clash: the content of the lock file, written by the other holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) other: Option<String>,
}
