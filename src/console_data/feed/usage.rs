//! The usage of nodes and pods, from the metrics server. That API has no watch: it is polled at the metrics server's
//! own resolution, and for pods only while a view shows their usage.

use std::time::Duration;

use compact_str::CompactString;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::FeedContext;
use crate::message::Message;
use crate::store::{PodUsages, ResourceUsage};
use object::quantity::Amount;

/// The metrics server's own resolution (`--metric-resolution`).
const RESOLUTION: Duration = Duration::from_secs(15);
/// The interval without a metrics server, which may be installed later.
const ABSENT: Duration = Duration::from_mins(2);

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct NodeMetrics {
    metadata: MetricsMetadata,
    usage: Usage,
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: MetricsMetadata,
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    usage: Usage,
}

/// Quantities; an absent one is zero.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    cpu: CompactString,
    memory: CompactString,
}

#[derive(Deserialize)]
struct MetricsMetadata {
    #[serde(default)]
    namespace: String,
    name: String,
}

/// Polls node usage forever; usage that is no longer known is no longer shown.
pub(super) async fn follow(context: FeedContext) {
    follow_one(
        &context,
        "nodes",
        |list: List<NodeMetrics>| {
            list.items.into_iter().map(|item| (item.metadata.name, used(&item.usage))).collect()
        },
        Message::Usage,
    )
    .await;
}

/// Polls pod usage forever, per container.
pub(super) async fn follow_pods(context: FeedContext) {
    follow_one(&context, "pods", pods, Message::PodUsage).await;
}

fn pods(list: List<PodMetrics>) -> PodUsages {
    let mut pods = PodUsages::default();
    for PodMetrics { metadata, containers } in list.items {
        let containers = containers.iter().map(|container| (&*container.name, used(&container.usage)));
        pods.put(&metadata.namespace, &metadata.name, containers);
    }
    pods
}

async fn follow_one<T: DeserializeOwned, U>(
    context: &FeedContext,
    resource: &str,
    read: fn(List<T>) -> U,
    message: fn(Option<U>) -> Message,
) {
    loop {
        let answer = fetch(context, resource).await;
        let wait = if answer.is_ok() { RESOLUTION } else { ABSENT };
        if context.messages.send(message(answer.ok().map(read))).await.is_err() {
            return;
        }
        context.wait(wait).await;
    }
}

async fn fetch<T: DeserializeOwned>(context: &FeedContext, resource: &str) -> Result<List<T>, kube::Error> {
    let request = http::Request::get(format!("/apis/metrics.k8s.io/v1beta1/{resource}"));
    let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
    context.client.request(request).await
}

fn used(usage: &Usage) -> ResourceUsage {
    let amount = |text: &str| Amount::parse(text).ok();
    ResourceUsage {
        cpu_millis: amount(&usage.cpu).map_or(0, Amount::millis),
        memory_bytes: amount(&usage.memory).map_or(0, Amount::units),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_servers_units_are_read_con_4() {
        let usage = |cpu: &str, memory: &str| {
            used(&serde_json::from_value(serde_json::json!({"cpu": cpu, "memory": memory})).expect("a usage"))
        };
        assert_eq!(usage("1250000000n", "2Ki"), ResourceUsage { cpu_millis: 1250, memory_bytes: 2048 });
        assert_eq!(usage("0", "1Gi"), ResourceUsage { cpu_millis: 0, memory_bytes: 1 << 30 });
        assert_eq!(used(&serde_json::from_str("{}").expect("a usage")), ResourceUsage::default());
    }

    #[test]
    fn pods_are_measured_container_by_container_con_4() {
        let list = serde_json::json!({"items": [{"metadata": {"namespace": "a", "name": "web"}, "containers": [
            {"name": "main", "usage": {"cpu": "5m", "memory": "1Mi"}},
            {"name": "side", "usage": {"cpu": "1m", "memory": "2Mi"}}]}]});
        let read = pods(serde_json::from_value(list).unwrap());
        let containers = read.of("a", "web").expect("measured");
        assert_eq!(containers.of("main"), Some(ResourceUsage { cpu_millis: 5, memory_bytes: 1 << 20 }));
        assert_eq!(containers.of("side"), Some(ResourceUsage { cpu_millis: 1, memory_bytes: 2 << 20 }));
    }
}
