//! Frees disk space that no running pod needs, before a pod is evicted for it: dead containers, then unused images
//! (NODE-4), as Kubernetes' eviction manager does.

use std::sync::Arc;

use crate::node::Node;
use crate::pod_workers::PodWorkers;
use crate::pressure::{Signal, Threshold};
use object::pod::is_terminal;

/// Returns true if the nodes of one machine have enough of the threshold's resource after this.
pub(super) async fn suffices(workers: &PodWorkers, nodes: &[Arc<Node>], threshold: &Threshold) -> bool {
    let is_disk = match threshold.signal {
        Signal::NodefsAvailable | Signal::NodefsInodesFree => true,
        Signal::MemoryAvailable | Signal::PidAvailable => false,
    };
    // Nothing that is removed helps where a fault fills the disk.
    if !is_disk || nodes.iter().any(|node| node.disk.is_full()) {
        return false;
    }
    for node in nodes {
        remove_dead_containers(workers, node).await;
    }
    if !is_met(nodes, threshold) {
        return true;
    }
    if let Some(remove) = workers.context.remove_unused_images.get() {
        remove().await;
    }
    !is_met(nodes, threshold)
}

fn is_met(nodes: &[Arc<Node>], threshold: &Threshold) -> bool {
    let observed = nodes.iter().filter_map(|node| super::observe(node));
    observed.into_iter().any(|observations| threshold.is_passed(&observations))
}

/// Removes the containers of pods that have ended, with their logs and files. Their status stays.
async fn remove_dead_containers(workers: &PodWorkers, node: &Node) {
    let ended = workers.pods_of(&node.config.name).into_iter().filter(|pod| is_terminal(pod));
    for pod in ended {
        let uid = pod.uid().to_string();
        let sandbox = node.runtime.inspect(&uid).await.ok().flatten();
        let containers = sandbox.into_iter().flat_map(|sandbox| sandbox.containers);
        for container in containers.filter(|container| container.exit.is_some()) {
            if let Err(error) = node.runtime.remove_container(&container.id).await {
                tracing::warn!(pod = %pod.key(), "cannot remove container {}: {error}", container.name);
            }
        }
    }
}
