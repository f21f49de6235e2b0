//! Statistics of this process's kubelets (CON-19): each one's pods, those that await a pass, those in progress and
//! those scheduled for later; the durations of passes, and errors.
//!
//! Invariant: one reading iterates once over the table, for any number of nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{PodWorker, PodWorkers};
use crate::node::{Node, WorkItem};
use crate::runtime::PodUid;
use api::controller_status::{
    ControllerKeys, ControllerProbe, ControllerState, ControllerStatus, PauseTarget, ProbeName, ProbeSource,
    QueueStatus, QueuedKey, ReconcileRecord, StepError, Subsystem, kubelet_name, node_of_kubelet,
};
use base::sort::SliceOrder;
use object::Kind;

/// The reason why a kubelet cannot be stepped.
const NO_STEP: &str =
    "a kubelet's pods start and end by the clock, so a pass over a single pod would show nothing";

/// Counts of a node's pods.
#[derive(Default)]
struct NodePodCounts {
    pods: u64,
    queue: QueueStatus,
}

/// The queue state of a pod.
enum WorkerPosition {
    /// Has awaited a pass for this long.
    Due(Duration),
    /// Has been in progress for this long.
    InFlight(Duration),
    /// Is scheduled to run in this time.
    Scheduled(Duration),
    /// Waits for an event.
    Idle,
}

impl NodePodCounts {
    fn take(&mut self, place: &WorkerPosition) {
        self.pods += 1;
        let queue = &mut self.queue;
        match *place {
            WorkerPosition::Due(since) => {
                queue.depth += 1;
                queue.oldest = queue.oldest.max(Some(since));
            }
            WorkerPosition::InFlight(since) => {
                queue.in_flight += 1;
                queue.unfinished = (queue.unfinished.0 + since, queue.unfinished.1.max(since));
            }
            WorkerPosition::Scheduled(_) => queue.delayed += 1,
            WorkerPosition::Idle => {}
        }
    }

    fn status(self, node: &Node) -> ControllerStatus {
        let state = match () {
            () if node.tasks.stopping().is_cancelled() => ControllerState::Stopped,
            () if node.tasks.is_paused() => ControllerState::Paused,
            () => ControllerState::Running,
        };
        ControllerStatus {
            state,
            subsystem: Subsystem::Kubelet,
            pause: PauseTarget::Kubelet(node.config.name.clone()),
            takes_no_step: Some(NO_STEP),
            workers: None,
            started_at: node.figures.started_at(),
            panics: node.counts.panics(),
            queue: Some(self.queue),
            work: node.figures.status(queued_key),
            counts: std::iter::once(("pods", self.pods)).chain(node.counts.all()).collect(),
        }
    }
}

fn queued_key(work: &WorkItem) -> QueuedKey {
    let object = match work {
        WorkItem::Pod(key) => Some((Kind::Pod, key.clone())),
        WorkItem::Node | WorkItem::Runtime => None,
    };
    QueuedKey { key: work.to_string(), object }
}

impl PodWorkers {
    fn position(&self, uid: &PodUid, slot: &PodWorker, now: Duration) -> WorkerPosition {
        let since = now.saturating_sub(slot.pass.since);
        match (slot.state.is_some(), slot.pass.has_started) {
            (false, false) => WorkerPosition::Due(since),
            (false, true) => WorkerPosition::InFlight(since),
            (true, _) => match self.wakes.at(uid) {
                Some(at) => WorkerPosition::Scheduled(at.saturating_sub(now)),
                None => WorkerPosition::Idle,
            },
        }
    }
}

impl ProbeSource for PodWorkers {
    fn statuses(&self) -> Vec<(ProbeName, Option<ControllerStatus>)> {
        let nodes: Vec<Arc<Node>> = self.nodes.read().values().cloned().collect();
        let now = self.context.clock.monotonic();
        let mut of_nodes: HashMap<*const Node, NodePodCounts> = HashMap::new();
        {
            let pods = self.pods.lock();
            for (uid, slot) in pods.iter().filter(|(_, slot)| !slot.released) {
                of_nodes.entry(Arc::as_ptr(&slot.node)).or_default().take(&self.position(uid, slot, now));
            }
        }
        let status = |node: &Arc<Node>| {
            let of_node = of_nodes.remove(&Arc::as_ptr(node)).unwrap_or_default();
            (kubelet_name(&node.config.name), Some(of_node.status(node)))
        };
        nodes.iter().map(status).collect()
    }

    fn find(&self, name: &str) -> Option<Option<Arc<dyn ControllerProbe>>> {
        let node = self.nodes.read().get(node_of_kubelet(name)?)?.clone();
        let workers = self.this.upgrade()?;
        Some(Some(Arc::new(KubeletProbe { workers, node })))
    }
}

struct KubeletProbe {
    workers: Arc<PodWorkers>,
    node: Arc<Node>,
}

impl KubeletProbe {
    fn visit(&self, mut visit: impl FnMut(&PodWorker, WorkerPosition)) {
        let now = self.workers.context.clock.monotonic();
        let pods = self.workers.pods.lock();
        let is_own = |slot: &PodWorker| Arc::ptr_eq(&slot.node, &self.node) && !slot.released;
        for (uid, slot) in pods.iter().filter(|(_, slot)| is_own(slot)) {
            visit(slot, self.workers.position(uid, slot, now));
        }
    }
}

impl ControllerProbe for KubeletProbe {
    fn status(&self) -> ControllerStatus {
        let mut of_node = NodePodCounts::default();
        self.visit(|_, place| of_node.take(&place));
        of_node.status(&self.node)
    }

    fn keys(&self, most: usize) -> ControllerKeys {
        let mut keys = ControllerKeys::default();
        self.visit(|slot, place| {
            let key = || queued_key(&WorkItem::Pod(slot.pending.pod().key()));
            match place {
                WorkerPosition::Due(since) => keys.waiting.push((key(), Some(since), 0)),
                WorkerPosition::InFlight(since) => keys.in_flight.push((key(), since)),
                WorkerPosition::Scheduled(left) => {
                    let failures = slot.state.as_ref().map_or(0, |state| state.retry.failures());
                    keys.delayed.push((key(), left, failures));
                }
                WorkerPosition::Idle => {}
            }
        });
        // A map has no stable order.
        keys.waiting.order_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.key.cmp(&b.0.key)));
        keys.in_flight.order_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.key.cmp(&b.0.key)));
        keys.delayed.order_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.key.cmp(&b.0.key)));
        keys.waiting.truncate(most);
        keys.in_flight.truncate(most);
        keys.delayed.truncate(most);
        (keys.recent, keys.errors) = self.node.figures.last(queued_key);
        keys
    }

    fn step(self: Arc<Self>, _: Option<String>) -> BoxFuture<'static, Result<ReconcileRecord, StepError>> {
        std::future::ready(Err(StepError::TakesNone(NO_STEP))).boxed()
    }
}
