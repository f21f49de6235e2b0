//! The error of an invalid schedule.

/// The reason why a schedule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CronError(pub(super) String);
