//! Evicts pods that use more of the disk than their limits: emptyDir `sizeLimit`, `limits.ephemeral-storage` (VOL-1).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::{HARD_GRACE, disk, message};
use crate::node::Node;
use crate::pod_workers::{PodEvent, PodWorkers};
use crate::spec;
use object::pod::is_terminal;
use object::quantity::Amount;
use object::resources::pod_limits;

const STORAGE: &str = "ephemeral-storage";

/// Evicts every pod that exceeds one of its own limits.
pub(super) async fn enforce(workers: &Arc<PodWorkers>, nodes: &[Arc<Node>]) {
    for node in nodes.iter().filter(|node| !node.config.hollow) {
        for pod in workers.pods_of(&node.config.name) {
            if is_terminal(&pod) || !has_limits(&pod) {
                continue;
            }
            let used = disk::of_pod(node, &pod).await;
            if let Some(message) = excess(&pod, &used) {
                let grace: Duration = HARD_GRACE;
                workers
                    .push_event(&pod.uid().to_string(), PodEvent::Evict { message, grace, disrupted: false });
            }
        }
    }
}

fn has_limits(pod: &Pod) -> bool {
    let volumes = spec::spec(pod).volumes.iter().flatten();
    volumes.filter_map(|v| v.empty_dir.as_ref()).any(|e| e.size_limit.is_some())
        || spec::all_containers(pod).any(|(_, c)| {
            c.resources.as_ref().and_then(|r| r.limits.as_ref()).is_some_and(|l| l.contains_key(STORAGE))
        })
}

/// The first limit that the pod exceeds, as a message. Volumes come first, then the pod, then its containers.
fn excess(pod: &Pod, used: &disk::PodDisk) -> Option<String> {
    for volume in spec::spec(pod).volumes.iter().flatten() {
        let Some(limit) = volume.empty_dir.as_ref().and_then(|e| e.size_limit.as_ref()) else { continue };
        let most = Amount::of(limit).units();
        if most > 0 && used.volumes.get(&volume.name).is_some_and(|used| *used > most) {
            return Some(message::empty_dir_full(&volume.name, &limit.0));
        }
    }
    let total: i64 = used.volumes.values().chain(used.containers.values()).sum();
    if let Some(limit) = pod_limits(pod).get(STORAGE).filter(|_| limits_whole(pod))
        && total > limit.units()
    {
        return Some(message::pod_full(&limit.to_binary().0));
    }
    for (_, container) in spec::all_containers(pod) {
        let limits = container.resources.as_ref().and_then(|r| r.limits.as_ref());
        let Some(limit) = limits.and_then(|l| l.get(STORAGE)) else { continue };
        if used.containers.get(&container.name).is_some_and(|used| *used > Amount::of(limit).units()) {
            return Some(message::container_full(&container.name, &limit.0));
        }
    }
    None
}

/// The pod as a whole is limited only when each of its app containers is.
fn limits_whole(pod: &Pod) -> bool {
    spec::app_containers(pod).iter().all(|c| {
        c.resources.as_ref().and_then(|r| r.limits.as_ref()).is_some_and(|l| l.contains_key(STORAGE))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_exceeded_storage_limit_is_reported_vol_1() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "volumes": [{"name": "x", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "y", "emptyDir": {}}],
            "containers": [{"name": "a", "resources": {"limits": {"ephemeral-storage": "2Mi"}}},
                {"name": "b", "resources": {"limits": {"ephemeral-storage": "4Mi"}}}]}}))
        .unwrap();
        let mi = 1 << 20;
        for (volumes, containers, expected) in [
            ([mi, 0], [0, 0], None),
            ([mi + 1, 0], [0, 0], Some("Usage of EmptyDir volume \"x\" exceeds the limit \"1Mi\". ")),
            (
                [0, 5 * mi],
                [mi, mi],
                Some("Pod ephemeral local storage usage exceeds the total limit of containers 6Mi. "),
            ),
            ([0, 0], [3 * mi, mi], Some("Container a exceeded its local ephemeral storage limit \"2Mi\". ")),
        ] {
            let name = |names: [&str; 2], sizes: [i64; 2]| {
                names.into_iter().map(ToString::to_string).zip(sizes).collect()
            };
            let used = disk::PodDisk {
                volumes: name(["x", "y"], volumes),
                containers: name(["a", "b"], containers),
            };
            assert_eq!(excess(&pod, &used).as_deref(), expected);
        }
    }
}
