//! Runs a reconciler over its queue: panics contained, errors retried with back-off.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use super::queue::{QueueKey, WorkQueue};
use api::ApiError;
use base::activity;
use base::backoff::BackoffPolicy;
use base::broken::Mistake;
use base::clock::Clock;
use base::contained::Contained;
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

/// Works the queue for ever: one key after the other.
pub(super) async fn work<R: Reconciler>(
    reconciler: Arc<R>,
    queue: WorkQueue<R::Key>,
    clock: Clock,
    contained: Contained,
) {
    loop {
        let key = queue.next().await;
        activity::note(format_args!("{} {key:?}", reconciler.name()));
        let begun = clock.monotonic();
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| reconciler.reconcile(&key)));
        if let Some(metrics) = queue.metrics() {
            metrics.worked(clock.monotonic().saturating_sub(begun).as_secs_f64());
        }
        settle(reconciler.name(), &queue, &key, outcome, &contained);
        // Reconciles are synchronous: let the caches see what they did.
        tokio::task::yield_now().await;
    }
}

/// Gives a key back to the queue, with what comes next for it.
fn settle<K: QueueKey>(
    name: &'static str,
    queue: &WorkQueue<K>,
    key: &K,
    outcome: std::thread::Result<Result<(), ReconcileError>>,
    contained: &Contained,
) {
    match outcome {
        Ok(Ok(())) => queue.forget(key),
        Ok(Err(ReconcileError::After(delay))) => {
            queue.forget(key);
            queue.add_after(key.clone(), delay);
        }
        Ok(Err(ReconcileError::Api(error))) => {
            if !error.is_conflict() {
                tracing::warn!(controller = name, ?key, "reconcile failed, will retry: {error}");
            }
            if Mistake::ForgetBackOff.is_made() {
                queue.add(key.clone());
            } else if !Mistake::ForgetRetry.is_made() {
                queue.add_rate_limited(key.clone());
            }
        }
        Err(panic) => {
            let text = contained.note(("controller", name), panic.as_ref());
            tracing::error!(controller = name, ?key, "reconcile panicked, will retry: {text}");
            queue.add_rate_limited(key.clone());
        }
    }
    queue.done(key);
}
