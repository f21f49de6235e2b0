//! The part of Kubernetes' PLEG that a kubelet with complete events needs: checks a node's runtime periodically, and
//! reports when it stops responding and when it recovers.

use std::sync::Arc;

use super::node::{Node, WorkItem, report};
use super::pod_workers::{PodEvent, PodWorkers};
use object::time::go_duration;
use object::{Key, Kind};

/// A hollow node's runtime cannot hang by itself, and there may be thousands: it counts as unresponsive after this many
/// checks.
const HOLLOW_LOOKS: u32 = 3;

/// Checks the runtime for as long as the node runs, and reports when it stops responding and when it recovers.
pub(super) async fn watch(workers: Arc<PodWorkers>, node: Arc<Node>) {
    let timings = &workers.context.timings;
    let threshold = timings.pleg_relist_threshold.0;
    let period = if node.config.hollow { threshold / HOLLOW_LOOKS } else { timings.pleg_relist_period.0 };
    let (mut last_reported, mut silent) = (None::<String>, false);
    loop {
        let started_at = workers.context.clock.monotonic();
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
            workers.push_event_to_all(&node.config.name, &PodEvent::RuntimeRecovered);
        }
        let failure = node.health.failure();
        match (&failure, &last_reported) {
            (Some(failure), None) => {
                let error = error.unwrap_or_default();
                tracing::error!(node = node.config.name, "the node is not ready: {failure} ({error})");
                node.note_failure(WorkItem::Runtime, started_at, format!("{failure} ({error})"));
                record_readiness(&workers, &node, "NodeNotReady", &format!("{failure} ({error})"));
            }
            (None, Some(_)) => {
                tracing::info!(node = node.config.name, "the node's runtime answers again");
                record_readiness(&workers, &node, "NodeReady", "the container runtime answers again");
            }
            _ => {}
        }
        last_reported = failure;
        workers.context.clock.sleep(period).await;
    }
}

/// Records an event on the Node, and writes its status at once.
fn record_readiness(workers: &PodWorkers, node: &Node, reason: &str, text: &str) {
    if let Ok(object) = workers.context.api.get(Kind::Node, &Key::new("", node.config.name.as_str())) {
        let message = format!("Node {} status is now: {reason}: {text}", node.config.name);
        match reason {
            "NodeReady" => node.recorder.normal(&object, reason, message),
            _ => node.recorder.warning(&object, reason, message),
        }
    }
    if let Err(error) = report(&workers.context, node) {
        tracing::warn!(node = node.config.name, "cannot write the node's status: {error}");
    }
}
