//! The interface of a control loop: the reconciler, and the reasons to reconcile a key again.

use std::time::Duration;

use super::queue::QueueKey;
use api::ApiError;

/// A reason to reconcile a key again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API refused a write.
    #[error("{0}")]
    Api(#[from] ApiError),
    /// The work is not finished: reconcile again after this time. This is no failure.
    #[error("retry in {0:?}")]
    After(Duration),
}

/// A level-triggered control loop: brings the object behind a key closer to its desired state.
pub trait Reconciler: Send + Sync + 'static {
    /// The type of the queue's keys.
    type Key: QueueKey;
    /// Reads everything about `key` and takes the next step. Must be idempotent.
    fn reconcile(&self, key: &Self::Key) -> Result<(), ReconcileError>;
    /// Drops everything remembered about a deleted object of the controller's kind.
    fn forget(&self, _uid: &str) {}
}
