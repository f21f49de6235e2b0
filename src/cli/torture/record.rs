//! One line of an identity's log: what a holder tells of itself, and when.

use serde::{Deserialize, Serialize};

/// What a holder tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum What {
    /// It has the lock.
    Begin,
    /// It is still there.
    Alive,
    /// It was asked to end and does so.
    End,
    /// Somebody else has the lock.
    Clash,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// Which process it is of: a number drawn when that began, since pids are those of a pod's own namespace.
    pub(super) run: u64,
    /// Nanoseconds since the machine was started: no step of the wall clock moves it.
    pub(super) at: u64,
    /// The wall clock in milliseconds, for who reads the log beside others. Nothing is judged by it.
    pub(super) wall: i64,
    /// The process as it sees itself.
    pub(super) pid: u32,
    /// The pod's uid.
    pub(super) uid: String,
    pub(super) what: What,
    /// Of a beginning on a volume: how many there had been on that volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<usize>,
    /// Of a clash: what the other had written into the lock's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) other: Option<String>,
}
