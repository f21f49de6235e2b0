//! The end of a node that is gone for good: its pods within their grace periods, its object, its processes (NODE-5,
//! NODE-6, SAFE-1). The order matters: its pods are removed only when all its processes are known to be dead.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::context::{NodeContext, RunningNode};
use super::desired::EndCause;
use api::DeleteOptions;
use base::backoff::BackoffPolicy;
use base::removal::remove_tree;
use kubelet::runtime::ProcessRuntime;
use object::pod::{is_mirror, is_of_daemon_set, node_name};
use object::{Key, Kind, SharedObject};
use reconcile::ignore_gone;

/// The number of attempts to end a node's host.
const TRIES: u32 = 5;

/// The back-off between two attempts.
const RETRY_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(10) };

/// Ends a node: its pods, its Node object and its processes. If its processes cannot be killed, its pods' objects stay.
pub(super) async fn deprovision(context: &NodeContext, node: &RunningNode, cause: EndCause) {
    let name = &node.name;
    tracing::info!(node = name, "removing the node: {}", reason(cause));
    if cause == EndCause::Dropped {
        announce(context, node);
    }
    // Deletion through the API lets controllers replace the pods at once. While the Node object exists, the DaemonSet
    // controller would recreate its pods here, so those end with the kubelet.
    let deleted: BTreeSet<String> = pods_of(context, name)
        .into_iter()
        .filter(|pod| !is_mirror(pod) && (cause == EndCause::Deleted || !is_of_daemon_set(pod)))
        .map(|pod| {
            let _ = context.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::uid(pod.uid()));
            pod.uid().to_string()
        })
        .collect();
    let left = node.kubelet.wait_pods_removed(&deleted).await;
    node.tasks.stop().await;
    if !left {
        // Their grace periods are over, but the runtime has not ended them.
        node.kubelet.force();
    }
    node.kubelet.shutdown(|_| {}).await;
    let object = context.api.delete(Kind::Node, &Key::new("", name), &DeleteOptions::uid(node.uid.as_str()));
    if let Err(error) = ignore_gone(object) {
        tracing::warn!(node = name, "cannot remove the Node object: {error}");
    }
    if let Some(process) = node.process()
        && !end_for_certain(context, name, process).await
    {
        return;
    }
    context.api.release_node(name);
    // None of these pods' processes runs any more, and there is no kubelet that would remove their objects.
    for pod in pods_of(context, name) {
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::uid(pod.uid()) };
        if let Err(error) = ignore_gone(context.api.delete(Kind::Pod, &pod.key(), &now)) {
            tracing::warn!(pod = %pod.key(), "cannot remove a pod of the removed node: {error}");
        }
    }
    let pods = context.directory(name).join("pods");
    let _ = base::task::blocking(move || remove_tree(&pods)).await;
}

/// Ends the node's host process, by force if necessary; returns false if a process of the node may still run.
async fn end_for_certain(context: &NodeContext, name: &str, process: &ProcessRuntime) -> bool {
    for failures in 1..=TRIES {
        match process.shutdown().await {
            Ok(()) => return true,
            Err(error) => {
                tracing::warn!(node = name, "cannot confirm that the node's processes are dead: {error}");
            }
        }
        context.api.clock().sleep(RETRY_BACKOFF.delay(failures)).await;
    }
    tracing::error!(node = name, "processes of the node may still run; its pods are not deleted");
    false
}

fn reason(cause: EndCause) -> &'static str {
    match cause {
        EndCause::Deleted => "its Node object was deleted",
        EndCause::Dropped => "the configuration no longer contains it",
    }
}

/// Cordons a node that the configuration no longer contains, and records an event.
fn announce(context: &NodeContext, node: &RunningNode) {
    let cordoned = context.api.modify::<Node>(&Key::new("", &node.name), |object| {
        object.spec.get_or_insert_default().unschedulable = Some(true);
        Ok(())
    });
    if let Ok(object) = cordoned {
        let message = format!(
            "The configuration no longer contains node {}: its pods are ended gracefully, then it is removed",
            node.name
        );
        context.recorder.normal(object.object(), "NodeRemoved", message);
    }
}

fn pods_of(context: &NodeContext, name: &str) -> Vec<SharedObject<Pod>> {
    let mut pods = context.api.list_as::<Pod>(None);
    pods.retain(|pod| node_name(pod) == Some(name));
    pods
}
