//! Whether a node's runtime answers: Kubernetes' PLEG, as far as a kubelet that is told of everything needs one. It
//! asks again and again; a runtime that has been silent for too long makes the node NotReady until it answers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Node;
use crate::base::clock::Clock;
use crate::kubelet::sync_loop::{Engine, Note};
use crate::object::time::go_duration;
use crate::object::{Key, Kind};

/// A hollow node's runtime cannot hang by itself, and there may be thousands: it is asked so many times before it
/// would count as silent.
const HOLLOW_LOOKS: u32 = 3;

/// When a runtime answered last.
#[derive(Debug)]
pub(in crate::kubelet) struct Health {
    clock: Clock,
    threshold: Duration,
    /// On the monotonic clock.
    answered_at: Mutex<Duration>,
}

impl Health {
    /// A runtime that has just been found to answer.
    pub(super) fn new(clock: &Clock, threshold: Duration) -> Self {
        Self { clock: clock.clone(), threshold, answered_at: Mutex::new(clock.monotonic()) }
    }

    fn answered(&self) {
        *self.answered_at.lock() = self.clock.monotonic();
    }

    /// Why the node is not ready, in Kubernetes' words; none while the runtime is well.
    pub(super) fn failure(&self) -> Option<String> {
        let silent = self.clock.monotonic().saturating_sub(*self.answered_at.lock());
        (silent > self.threshold).then(|| {
            let (silent, threshold) = (go_duration(silent), go_duration(self.threshold));
            format!("PLEG is not healthy: pleg was last seen active {silent} ago; threshold is {threshold}")
        })
    }
}

/// Asks the runtime for as long as the node runs, and tells when it falls silent and when it is back.
pub(in crate::kubelet) async fn watch(engine: Arc<Engine>, node: Arc<Node>) {
    let timings = &engine.timings;
    let threshold = timings.pleg_relist_threshold.0;
    let period = if node.config.hollow { threshold / HOLLOW_LOOKS } else { timings.pleg_relist_period.0 };
    let (mut told, mut silent) = (None::<String>, false);
    loop {
        let error = match tokio::time::timeout(timings.runtime_status_timeout.0, node.runtime.status()).await
        {
            Ok(Ok(())) => {
                node.health.answered();
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {}", go_duration(timings.runtime_status_timeout.0))),
        };
        if std::mem::replace(&mut silent, error.is_some()) && error.is_none() {
            engine.note_all(&node.config.name, &Note::Answers);
        }
        let failure = node.health.failure();
        match (&failure, &told) {
            (Some(failure), None) => {
                let error = error.unwrap_or_default();
                tracing::error!(node = node.config.name, "the node is not ready: {failure} ({error})");
                tell(&engine, &node, "NodeNotReady", &format!("{failure} ({error})"));
            }
            (None, Some(_)) => {
                tracing::info!(node = node.config.name, "the node's runtime answers again");
                tell(&engine, &node, "NodeReady", "the container runtime answers again");
            }
            _ => {}
        }
        told = failure;
        engine.clock.sleep(period).await;
    }
}

/// An event on the Node, and its status at once.
fn tell(engine: &Engine, node: &Node, reason: &str, text: &str) {
    if let Ok(object) = engine.api.get(Kind::Node, &Key::new("", node.config.name.as_str())) {
        let message = format!("Node {} status is now: {reason}: {text}", node.config.name);
        match reason {
            "NodeReady" => node.recorder.normal(&object, reason, message),
            _ => node.recorder.warning(&object, reason, message),
        }
    }
    if let Err(error) = super::report(engine, node) {
        tracing::warn!(node = node.config.name, "node status not written: {error}");
    }
}
