//! The health of a node's runtime: one that has not responded for too long makes the node NotReady until it responds.

use std::time::Duration;

use parking_lot::Mutex;

use base::clock::Clock;
use object::time::go_duration;

/// Records a runtime's last response.
#[derive(Debug)]
pub(crate) struct Health {
    clock: Clock,
    threshold: Duration,
    /// The time of the last response, on the monotonic clock.
    answered_at: Mutex<Duration>,
}

impl Health {
    /// The health of a runtime that has just responded.
    pub(super) fn new(clock: &Clock, threshold: Duration) -> Self {
        Self { clock: clock.clone(), threshold, answered_at: Mutex::new(clock.monotonic()) }
    }

    /// Records that the runtime has responded.
    pub(crate) fn answered(&self) {
        *self.answered_at.lock() = self.clock.monotonic();
    }

    /// Returns the reason why the node is not ready, in Kubernetes' words; `None` while the runtime responds.
    pub(crate) fn failure(&self) -> Option<String> {
        let silent = self.clock.monotonic().saturating_sub(*self.answered_at.lock());
        (silent > self.threshold).then(|| {
            let (silent, threshold) = (go_duration(silent), go_duration(self.threshold));
            format!("PLEG is not healthy: pleg was last seen active {silent} ago; threshold is {threshold}")
        })
    }
}
