//! Measures the usage of every node's containers and reports it to the API: rates between two readings of the counters.
//!
//! Eviction uses the measurements too, to rank pods. Nothing here decides.

use std::sync::Arc;
use std::time::Duration;

use super::node::Node;
use super::pod_workers::PodWorkers;
use super::volumes;

/// Measures every node periodically.
pub(super) async fn measure(workers: Arc<PodWorkers>) {
    let period = workers.context.timings.metric_resolution.0.max(Duration::from_millis(100));
    loop {
        let looks = workers.nodes().into_iter().map(|node| measure_once(&workers, node, period));
        futures::future::join_all(looks).await;
        workers.context.clock.sleep(period).await;
    }
}

/// Measures one node once; a runtime that does not respond in time is skipped.
async fn measure_once(workers: &PodWorkers, node: Arc<Node>, timeout: Duration) {
    match tokio::time::timeout(timeout, node.runtime.usage_of_all()).await {
        Ok(Ok(counters)) => {
            let (now, at) = (workers.context.clock.monotonic(), workers.context.clock.now());
            let reported_at = node.clock.now();
            let usage = node.meter.lock().take(counters, now, at);
            if let Some(mut usage) = usage
                && workers.has_node(&node)
            {
                usage.reported_at = reported_at;
                usage.volumes =
                    volumes::usage_of_claims(&node, &workers.pods_of(&node.config.name), timeout).await;
                workers.context.api.set_node_usage(&node.config.name, Some(usage));
            }
        }
        Ok(Err(error)) => tracing::debug!(node = node.config.name, "cannot measure usage: {error}"),
        Err(_) => {
            tracing::debug!(node = node.config.name, "cannot measure usage: the runtime does not answer");
        }
    }
}
