//! What a control loop is: a reconciler, and why its work must be done again.

use std::time::Duration;

use super::queue::{QueueKey, WorkQueue};
use api::ApiError;
use base::backoff::BackoffPolicy;
use object::config::Timings;

/// Why a reconcile must be tried again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API refused a write.
    #[error("{0}")]
    Api(#[from] ApiError),
    /// Not finished: again after this long, which is no failure.
    #[error("again in {0:?}")]
    After(Duration),
}

/// A level-triggered control loop: brings the object behind a key nearer to its desired state.
pub trait Reconciler: Send + Sync + 'static {
    /// What the queue holds.
    type Key: QueueKey;
    /// Its name in logs and in `--disable`.
    fn name(&self) -> &'static str;
    /// Looks at everything behind `key` and does the next step. Idempotent.
    fn reconcile(&self, key: &Self::Key) -> Result<(), ReconcileError>;
    /// The object with this uid, one of those the controller is for, is gone: what is remembered of it goes too.
    fn forget(&self, _uid: &str) {}
}

impl<K: QueueKey> WorkQueue<K> {
    /// An empty queue with the cluster's reconcile back-off.
    pub fn with_timings(timings: &Timings) -> Self {
        Self::new(BackoffPolicy {
            initial: timings.reconcile_back_off_initial.0,
            max: timings.reconcile_back_off_max.0,
        })
    }
}
