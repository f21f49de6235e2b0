//! Following the pods' objects in the API for all nodes of the process.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::{PodWorker, PodWorkers};
use crate::mirror_pod::is_static;
use api::{ChangeKind, Snapshot, Visibility};
use object::{Kind, Revision, SharedObject};

/// The interval at which a failing disk is checked for recovery.
const DISK_RETRY: Duration = Duration::from_secs(1);

/// Follows the pods of all nodes. It acts only on durable changes, because processes outlive the control plane's
/// memory.
pub(super) async fn follow(workers: Arc<PodWorkers>) {
    loop {
        let snapshot = durable_pods(&workers).await;
        let mut watcher = workers.context.api.watch(Kind::Pod, snapshot.revision, Visibility::Durable);
        let pods: Vec<SharedObject<Pod>> =
            snapshot.objects.iter().filter_map(SharedObject::from_object).collect();
        workers.remove_missing(&pods, snapshot.revision);
        for pod in &pods {
            workers.see(pod);
        }
        while let Ok(changes) = watcher.next().await {
            for change in changes {
                let Some(pod) = SharedObject::<Pod>::from_object(&change.object) else { continue };
                match change.kind {
                    ChangeKind::Added | ChangeKind::Modified => workers.see(&pod),
                    ChangeKind::Deleted => workers.pod_deleted(&pod),
                }
            }
            tokio::task::consume_budget().await;
        }
    }
}

/// All pods, once they are durable: the list may be ahead of the disk, and a process must only be started for a pod
/// that survives a crash.
async fn durable_pods(workers: &PodWorkers) -> Snapshot {
    let mut failing = false;
    loop {
        let snapshot = workers.context.api.list(Kind::Pod, None);
        let Err(error) = workers.context.api.durable(snapshot.revision).await else { return snapshot };
        if !std::mem::replace(&mut failing, true) {
            tracing::error!(
                "cannot make the pods' objects durable; no new pod starts until they are: {error}"
            );
        }
        workers.context.clock.sleep(DISK_RETRY).await;
    }
}

impl PodWorkers {
    /// After a gap in the watch, removes the pods that are not in the list any more. A pod newer than the list stays:
    /// the kubelet knows it from another list or from a write of its own.
    fn remove_missing(self: &Arc<Self>, listed: &[SharedObject<Pod>], at: Revision) {
        let listed: HashSet<&str> = listed.iter().map(SharedObject::uid).collect();
        let lost: Vec<SharedObject<Pod>> = {
            let pods = self.pods.lock();
            // The API can lose only the mirror of a static pod.
            let shown = |slot: &PodWorker| {
                let pod = slot.pending.pod();
                if is_static(pod) { slot.mirror.object.clone() } else { Some(pod.clone()) }
            };
            let lost = |pod: &SharedObject<Pod>| pod.revision() <= at && !listed.contains(pod.uid());
            pods.values().filter_map(shown).filter(lost).collect()
        };
        for pod in lost {
            self.pod_deleted(&pod);
        }
    }
}
