//! Why a schedule cannot be read.

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CronError(pub(super) String);
