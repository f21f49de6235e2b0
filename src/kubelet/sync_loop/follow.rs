//! Following the pods' objects in the API for all nodes of the process.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{Engine, Slot, revision};
use crate::api::{ChangeKind, Visibility};
use crate::kubelet::static_pods::is_static;
use crate::object::{Kind, Revision, Shared};

/// Follows the pods of all nodes; only durable changes, since processes leave the control plane's memory.
pub(super) async fn follow(engine: Arc<Engine>) {
    loop {
        let snapshot = engine.api.list(Kind::Pod, None);
        let mut watcher = engine.api.watch(Kind::Pod, snapshot.revision, Visibility::Durable);
        let pods: Vec<Shared<Pod>> = snapshot.objects.iter().filter_map(Shared::from_object).collect();
        // The list may be ahead of the disk; a process is only started for what a crash leaves.
        if engine.api.durable(snapshot.revision).await.is_err() {
            tracing::error!("the pods' objects are not durable: no pod is started until they are");
        }
        engine.lose_all_but(&pods, snapshot.revision);
        for pod in &pods {
            engine.see(pod);
        }
        while let Ok(changes) = watcher.next().await {
            for change in changes {
                let Some(pod) = Shared::<Pod>::from_object(&change.object) else { continue };
                match change.kind {
                    ChangeKind::Added | ChangeKind::Modified => engine.see(&pod),
                    ChangeKind::Deleted => engine.lose(&pod),
                }
            }
            tokio::task::consume_budget().await;
        }
    }
}

impl Engine {
    /// After a gap in the watch: what is not in the list any more is gone. What is newer than the list says nothing
    /// by not being in it: another list or a write of our own has shown it.
    fn lose_all_but(self: &Arc<Self>, listed: &[Shared<Pod>], at: Revision) {
        let listed: HashSet<&str> = listed.iter().map(Shared::uid).collect();
        let lost: Vec<Shared<Pod>> = {
            let pods = self.pods.lock();
            // Of a static pod only the mirror can be lost.
            let shown = |slot: &Slot| {
                let pod = slot.inbox.pod();
                if is_static(pod) { slot.mirror.object.clone() } else { Some(pod.clone()) }
            };
            let lost = |pod: &Shared<Pod>| revision(pod) <= at && !listed.contains(pod.uid());
            pods.values().filter_map(shown).filter(lost).collect()
        };
        for pod in lost {
            self.lose(&pod);
        }
    }
}
