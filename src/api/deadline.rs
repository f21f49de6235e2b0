//! The time that a request may still wait for webhooks and other servers, anywhere in the API. Actors of this
//! process have no such limit.

use std::cell::Cell;
use std::time::Duration;

/// The total wait of a request: Kubernetes' request timeout. Without it a request for a collection could wait
/// once for each of its objects.
pub const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

tokio::task_local! {
    static REMAINING: Cell<Duration>;
}

/// Runs the work of a request with a fresh time limit.
pub fn of_request<T>(answer: impl FnOnce() -> T) -> T {
    REMAINING.sync_scope(Cell::new(REQUEST_TIMEOUT), answer)
}

/// Returns the remaining time for waits; `None` outside of a request.
pub(crate) fn remaining_time() -> Option<Duration> {
    REMAINING.try_with(Cell::get).ok()
}

/// Deducts a wait from the request's remaining time.
pub(crate) fn waited(time: Duration) {
    // Outside of a request there is no limit to deduct from.
    let _ = REMAINING.try_with(|left| left.set(left.get().saturating_sub(time)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_patience_and_an_actor_needs_none_api_16() {
        assert_eq!(remaining_time(), None);
        let left = of_request(|| {
            waited(Duration::from_secs(59));
            waited(Duration::from_secs(2));
            remaining_time()
        });
        assert_eq!(left, Some(Duration::ZERO));
    }
}
