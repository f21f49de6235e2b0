//! Limits the total time that a read waits: for permits, and for all of its webhook calls.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::too_late;
use crate::{ApiError, deadline};

/// The remaining time of a request.
pub(super) struct TimeBudget(Duration);

impl TimeBudget {
    pub(super) fn of_request() -> Self {
        Self(deadline::REQUEST_TIMEOUT)
    }

    /// Waits for a permit, as long as time remains.
    pub(super) async fn acquire_permit<'a>(
        &mut self,
        permits: &'a Semaphore,
    ) -> Result<Option<SemaphorePermit<'a>>, ApiError> {
        let started = Instant::now();
        let permit = tokio::time::timeout(self.0, permits.acquire()).await.map_err(|_| too_late())?;
        self.waited(started.elapsed());
        // The semaphore is never closed.
        Ok(permit.ok())
    }

    /// Deducts the time of a wait, such as a webhook call.
    pub(super) fn waited(&mut self, time: Duration) {
        self.0 = self.0.saturating_sub(time);
    }

    /// Returns the remaining time; fails if none is left.
    pub(super) fn remaining(&self) -> Result<Duration, ApiError> {
        if self.0.is_zero() { Err(too_late()) } else { Ok(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_that_a_read_waits_for_is_counted_together_api_14() {
        let permits = Semaphore::new(1);
        let mut budget = TimeBudget::of_request();
        let held_for = async |time| {
            let _held = permits.acquire().await;
            tokio::time::sleep(time).await;
        };
        let ((), turn) = tokio::join!(held_for(Duration::from_secs(25)), budget.acquire_permit(&permits));
        drop(turn.unwrap());
        budget.waited(Duration::from_secs(30));
        assert_eq!(budget.remaining(), Ok(Duration::from_secs(5)));
        let all = permits.acquire().await;
        assert_eq!(budget.acquire_permit(&permits).await.map(|_| ()).map_err(|error| error.code()), Err(504));
        drop(all);
        assert!(budget.acquire_permit(&permits).await.is_ok(), "a free permit is granted at once");
        budget.waited(Duration::from_secs(5));
        assert_eq!(budget.remaining().map_err(|error| error.code()), Err(504));
    }
}
