//! The time that others may still keep a request waiting, wherever in the API it is answered. An actor of this process has
//! no such limit of its own.

use std::cell::Cell;
use std::time::Duration;

/// All that a request waits for others: Kubernetes' request time-out. Without it a collection of many objects would be
/// held once an object.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

tokio::task_local! {
    static LEFT: Cell<Duration>;
}

/// Does what a request asks.
pub(crate) fn of_request<T>(answer: impl FnOnce() -> T) -> T {
    LEFT.sync_scope(Cell::new(PATIENCE), answer)
}

/// How long the request may still wait for others; none where there is no request.
pub(crate) fn patience() -> Option<Duration> {
    LEFT.try_with(Cell::get).ok()
}

/// The request has waited so long.
pub(crate) fn waited(time: Duration) {
    // Nobody's patience is none.
    let _ = LEFT.try_with(|left| left.set(left.get().saturating_sub(time)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_patience_and_an_actor_needs_none_api_16() {
        assert_eq!(patience(), None);
        let left = of_request(|| {
            waited(Duration::from_secs(59));
            waited(Duration::from_secs(2));
            patience()
        });
        assert_eq!(left, Some(Duration::ZERO));
    }
}
