//! The interface of a control loop: the reconciler, and the reasons to reconcile a key again.

use std::time::Duration;

use super::queue::{QueueKey, WorkQueue};
use api::ApiError;
use base::backoff::BackoffPolicy;
use object::config::Timings;

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
    /// Returns the name in logs and in `--disable`.
    fn name(&self) -> &'static str;
    /// Reads everything about `key` and takes the next step. Must be idempotent.
    fn reconcile(&self, key: &Self::Key) -> Result<(), ReconcileError>;
    /// Drops everything remembered about a deleted object of the controller's kind.
    fn forget(&self, _uid: &str) {}
}

impl<K: QueueKey> WorkQueue<K> {
    /// Creates an empty queue with the cluster's back-off for reconciles.
    pub fn with_timings(timings: &Timings) -> Self {
        Self::new(BackoffPolicy {
            initial: timings.reconcile_back_off_initial.0,
            max: timings.reconcile_back_off_max.0,
        })
    }
}
