//! At most one (STS-3, SAFE-1): at any time, an identity of a StatefulSet has the processes of at most one pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::simulate::world::{World, node_name};

/// The interval between two checks.
const EVERY: Duration = Duration::from_millis(500);

/// Checks the running pods at each interval, for ever.
pub(crate) async fn watch_identities(world: Arc<World>) {
    loop {
        look(&world);
        tokio::time::sleep(EVERY).await;
    }
}

/// Checks that no identity runs twice at this instant.
pub(super) fn look(world: &World) {
    let mut seen: BTreeMap<(String, String), (usize, String)> = BTreeMap::new();
    for (node, (namespace, name, uid)) in world.running() {
        let identity = (namespace, name);
        if !identity.1.starts_with("db-") {
            continue;
        }
        if let Some((first, other)) = seen.get(&identity) {
            let message = format!(
                "{}/{} runs twice: pod {other} on {}, pod {uid} on {}",
                identity.0,
                identity.1,
                node_name(*first),
                node_name(node)
            );
            world.trace.violation("at most one identity", message);
        }
        seen.insert(identity, (node, uid));
    }
}
