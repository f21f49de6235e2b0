//! What the nodes really use, as the metrics server says. That API has no watch: it is asked as often as
//! the metrics server measures.

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;

use super::FeedContext;
use crate::message::Message;
use crate::store::Used;
use object::quantity::Amount;

/// The metrics server's own resolution (`--metric-resolution`).
const RESOLUTION: Duration = Duration::from_secs(15);
/// Where there is none, it may be installed yet.
const ABSENT: Duration = Duration::from_mins(2);

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Named,
    usage: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Asks forever; what is not known any more is not shown any more.
pub(super) async fn follow(context: FeedContext) {
    loop {
        let answer = fetch(&context).await;
        let wait = if answer.is_ok() { RESOLUTION } else { ABSENT };
        if context.messages.send(Message::Usage(answer.ok())).await.is_err() {
            return;
        }
        context.wait(wait).await;
    }
}

async fn fetch(context: &FeedContext) -> Result<HashMap<String, Used>, kube::Error> {
    let request = http::Request::get("/apis/metrics.k8s.io/v1beta1/nodes");
    let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
    let list: List = context.client.request(request).await?;
    Ok(list.items.into_iter().map(|item| (item.metadata.name, used(&item.usage))).collect())
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
}
