//! What nodes and pods really use, as the metrics server says. That API has no watch: it is asked as often as
//! the metrics server measures, of pods only while somebody looks at them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::FeedContext;
use crate::message::Message;
use crate::store::{PodsUsed, Used};
use object::quantity::Amount;

/// The metrics server's own resolution (`--metric-resolution`).
const RESOLUTION: Duration = Duration::from_secs(15);
/// Where there is none, it may be installed yet.
const ABSENT: Duration = Duration::from_mins(2);

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct OfNode {
    metadata: Named,
    usage: HashMap<String, String>,
}

#[derive(Deserialize)]
struct OfPod {
    metadata: Named,
    containers: Vec<OfContainer>,
}

#[derive(Deserialize)]
struct OfContainer {
    name: String,
    usage: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    namespace: String,
    name: String,
}

/// Asks forever what the nodes use; what is not known any more is not shown any more.
pub(super) async fn follow(context: FeedContext) {
    follow_one(
        &context,
        "nodes",
        |list: List<OfNode>| {
            list.items.into_iter().map(|item| (item.metadata.name, used(&item.usage))).collect()
        },
        Message::Usage,
    )
    .await;
}

/// Asks forever what the pods use, container by container.
pub(super) async fn follow_pods(context: FeedContext) {
    follow_one(&context, "pods", pods, Message::PodUsage).await;
}

fn pods(list: List<OfPod>) -> PodsUsed {
    let of_pod = |item: OfPod| {
        let containers: BTreeMap<String, Used> =
            item.containers.into_iter().map(|container| (container.name, used(&container.usage))).collect();
        ((item.metadata.namespace, item.metadata.name), containers)
    };
    list.items.into_iter().map(of_pod).collect()
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

fn used(usage: &HashMap<String, String>) -> Used {
    let amount = |resource: &str| usage.get(resource).and_then(|text| Amount::parse(text).ok());
    Used {
        cpu_millis: amount("cpu").map_or(0, Amount::millis),
        memory_bytes: amount("memory").map_or(0, Amount::units),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_servers_units_are_read_con_4() {
        let usage = |cpu: &str, memory: &str| {
            used(&HashMap::from([
                ("cpu".to_owned(), cpu.to_owned()),
                ("memory".to_owned(), memory.to_owned()),
            ]))
        };
        assert_eq!(usage("1250000000n", "2Ki"), Used { cpu_millis: 1250, memory_bytes: 2048 });
        assert_eq!(usage("0", "1Gi"), Used { cpu_millis: 0, memory_bytes: 1 << 30 });
        assert_eq!(used(&HashMap::new()), Used::default());
    }

    #[test]
    fn pods_are_measured_container_by_container_con_4() {
        let list = serde_json::json!({"items": [{"metadata": {"namespace": "a", "name": "web"}, "containers": [
            {"name": "main", "usage": {"cpu": "5m", "memory": "1Mi"}},
            {"name": "side", "usage": {"cpu": "1m", "memory": "2Mi"}}]}]});
        let read = pods(serde_json::from_value(list).unwrap());
        let containers = &read[&("a".to_owned(), "web".to_owned())];
        assert_eq!(containers["main"], Used { cpu_millis: 5, memory_bytes: 1 << 20 });
        assert_eq!(containers["side"], Used { cpu_millis: 1, memory_bytes: 2 << 20 });
    }
}
