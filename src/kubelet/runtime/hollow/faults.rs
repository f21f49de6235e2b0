//! Injected faults (FAULT-1): calls that hang, sandboxes that cannot be removed; and counters of failed attempts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::runtime::RuntimeError;

/// A call that hangs fails after the time of a CRI request.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(2);

/// Injected failures of a hollow runtime.
#[derive(Debug)]
pub struct Faults {
    /// Calls return; otherwise they hang.
    responsive: watch::Sender<bool>,
    /// The reason why sandboxes cannot be removed, and the number of attempts.
    stuck: Mutex<Option<(String, u64)>>,
    failed_pulls: AtomicU32,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            responsive: watch::Sender::new(true),
            stuck: Mutex::default(),
            failed_pulls: AtomicU32::default(),
        }
    }
}

impl Faults {
    /// Makes calls return, or hang like those of a suspended host.
    pub fn set_answering(&self, answers: bool) {
        self.responsive.send_replace(answers);
    }

    /// From now on sandboxes cannot be removed, for this reason; `None` heals.
    pub fn refuse_removals(&self, reason: Option<&str>) {
        *self.stuck.lock() = reason.map(|why| (why.to_owned(), 0));
    }

    /// Counts the removals refused since [`Faults::refuse_removals`].
    pub fn refused_removals(&self) -> u64 {
        self.stuck.lock().as_ref().map_or(0, |(_, times)| *times)
    }

    /// Counts the pulls of images that do not exist.
    pub fn failed_pulls(&self) -> u32 {
        self.failed_pulls.load(Ordering::Relaxed)
    }

    pub(super) fn count_failed_pull(&self) {
        self.failed_pulls.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits while calls hang.
    pub(super) async fn answering(&self) -> Result<(), RuntimeError> {
        let mut answers = self.responsive.subscribe();
        if *answers.borrow() {
            return Ok(());
        }
        let answered = tokio::time::timeout(REQUEST_TIMEOUT, answers.wait_for(|answers| *answers)).await;
        answered.map(drop).map_err(|_| RuntimeError::Host(format!("no answer within {REQUEST_TIMEOUT:?}")))
    }

    /// Counts a removal that is refused.
    pub(super) fn admit_removal(&self) -> Result<(), RuntimeError> {
        match self.stuck.lock().as_mut() {
            Some((why, times)) => {
                *times += 1;
                Err(RuntimeError::Os(why.clone()))
            }
            None => Ok(()),
        }
    }
}
