//! The pods of all nodes of this process: schedules their syncs, never two at once for one pod.
//!
//! A pod that waits is one entry in a table and at most one in the timer ([`PodTimers`]): no task, no future. When
//! something happens (its object changed, the runtime reported, a probe got a result, its time came) one task syncs it
//! through the [`PodSyncer`], never two at once, and further events wait as a [`PodEvent`] for the next pass. That is
//! cheap enough for thousands of hollow nodes, so real and hollow nodes run the same code.
//!
//! Architecture Invariant: nothing here decides about containers (`plan` does) or depends on the implementation of
//! [`PodSyncer`] (`sync_pod`).

mod follow;
mod mirrors;
mod pending;
mod probe_results;
mod stats;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::context::Context;
use super::hooks::HookSuccess;
use super::mirror_pod::{self, Mirror};
use super::needed_images::ImageUser;
use super::node::{Node, WorkItem};
use super::observed::ObservedPod;
use super::pod_timers::PodTimers;
use super::retry::Retry;
use super::runtime::{ContainerId, Image, Memory, PodUid, RuntimeError, RuntimeEvent, RuntimeEvents};
use super::volumes::Tokens;
use api::controller_status::{ProbeSource, ReconcileResult};
use base::clock::until;
use base::task::TaskGuard;
use object::pod::node_name;
use object::storage::claims_of;
use object::{Kind, Revision, SharedObject};
use pending::PendingUpdates;
pub(super) use pending::PodUpdate;
pub(super) use probe_results::ProbeResult;
use reconcile::{Caches, FinishedReconcile};

/// An event of a pod besides a change of its object.
#[derive(Clone, Debug)]
pub(super) enum PodEvent {
    /// The runtime reports a change.
    Resync,
    /// The runtime responds again: failed actions may be retried at once.
    RuntimeRecovered,
    /// A hook is over.
    Hook { container: String, id: ContainerId, post_start: bool, result: Result<HookSuccess, String> },
    /// The pull of an image has come further, or is over.
    Pull { user: ImageUser, image: String, state: PullState },
    /// A probe has returned a new result.
    Probe(ProbeResult),
    /// A config map or secret in its volumes has changed, or a claim that it uses.
    Refresh,
    /// The node evicts the pod; `disrupted` is true if the node is under pressure, and false if the pod exceeds its own
    /// limits.
    Evict { message: String, grace: Duration, disrupted: bool },
}

/// The state of a pull that runs beside the passes.
#[derive(Clone, Debug)]
pub(super) enum PullState {
    /// It goes on.
    Running {
        /// The progress in words.
        progress: String,
        /// An event should tell it.
        announce: bool,
    },
    /// It is over, after this time.
    Over(Result<Image, RuntimeError>, Duration),
}

/// The state that a pass works on: the kubelet's whole knowledge of a pod, out of the table while the pass runs.
#[derive(Default)]
pub(super) struct PodState {
    pub(super) observed: ObservedPod,
    /// The pod's state must be read from the runtime before the next plan.
    pub(super) stale: bool,
    /// The pod has been compared with the containers that ran before this kubelet started.
    pub(super) adopted: bool,
    /// The version of the object whose status is up to date; `None` after events that may change the status.
    pub(super) reported: Option<Revision>,
    /// The node has admitted or rejected the pod.
    pub(super) admitted: bool,
    /// Its volumes must be written again.
    pub(super) refresh: bool,
    /// The time, on the steady clock, at which a failed update of its volumes is retried.
    pub(super) refresh_retry: Option<Timestamp>,
    /// The number of consecutive failed updates of its volumes.
    pub(super) refresh_failures: u32,
    /// The tokens in its volumes.
    pub(super) tokens: Tokens,
    /// The memory that holds its volumes' content.
    pub(super) memory: Option<Arc<Memory>>,
    /// The start, on the steady clock, of the pod's wait for its volumes to be attached, or the time at which that wait
    /// was last reported.
    pub(super) waiting_since: Option<Timestamp>,
    /// Failed actions that wait for a retry.
    pub(super) retry: Retry,
    /// The pulls that run beside the passes: dropping one cancels it.
    pub(super) pulls: HashMap<ImageUser, TaskGuard>,
    /// The last reported error of reading its state from the runtime.
    pub(super) inspect_error: Option<String>,
    /// The error of the pass; taken when it ends.
    pub(super) failure: Option<String>,
}

impl PodState {
    fn new() -> Self {
        Self { stale: true, ..Self::default() }
    }
}

struct PodWorker {
    node: Arc<Node>,
    /// The updates since the last pass started.
    pending: PendingUpdates,
    /// `None` while a pass works on the pod.
    state: Option<Box<PodState>>,
    /// Nothing of the pod is left on the node, and the pod must not be started again (shutdown).
    released: bool,
    /// The mirror pod in the API, for a static pod.
    mirror: Mirror,
    /// The requested or running pass, while `state` is `None`.
    pass: SyncPass,
}

/// A pass over a pod, requested or running.
#[derive(Clone, Copy, Debug, Default)]
struct SyncPass {
    /// The time of the request or of the start, on the monotonic clock.
    since: Duration,
    has_started: bool,
}

impl PodWorker {
    fn new(node: Arc<Node>, pod: SharedObject<Pod>) -> Self {
        Self {
            node,
            pending: PendingUpdates::new(pod),
            state: Some(Box::new(PodState::new())),
            released: false,
            mirror: Mirror::default(),
            pass: SyncPass::default(),
        }
    }
}

/// The outcome of a pass.
pub(super) enum Outcome {
    /// Run again at this time (on the steady clock), or at the next event.
    Wait(Option<jiff::Timestamp>),
    /// The pod has left the node.
    Removed,
    /// The pod's processes have exited; it returns with the next start.
    Released,
}

/// Syncs one pod: the interface through which `pod_workers` calls its implementation.
pub(super) trait PodSyncer: Send + Sync {
    /// One pass over a pod, with the events since the last one.
    fn sync_pod<'a>(
        &'a self,
        workers: &'a Arc<PodWorkers>,
        node: &'a Arc<Node>,
        update: PodUpdate,
        state: &'a mut PodState,
    ) -> BoxFuture<'a, Outcome>;
}

/// The pods of all nodes of this process, each with its worker.
pub(super) struct PodWorkers {
    this: Weak<Self>,
    pub(super) context: Context,
    syncer: Box<dyn PodSyncer>,
    nodes: RwLock<HashMap<String, Arc<Node>>>,
    // One lock over the table, held for map changes only and never across an await.
    pods: Mutex<HashMap<PodUid, PodWorker>>,
    wakes: PodTimers,
    /// A pod left the table or was released.
    pub(super) pod_removed: Notify,
}

impl PodWorkers {
    /// Creates workers without nodes; follows the pods' objects and the content of their volumes.
    pub(super) fn new(context: Context, caches: &Caches, syncer: Box<dyn PodSyncer>) -> Arc<Self> {
        let tasks = context.tasks.clone();
        let workers = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            context,
            syncer,
            nodes: RwLock::default(),
            pods: Mutex::default(),
            wakes: PodTimers::default(),
            pod_removed: Notify::new(),
        });
        let source: Arc<dyn ProbeSource> = workers.clone();
        workers.context.api.add_controllers(&source);
        let follower = workers.clone();
        tasks.spawn_restarting("kubelet pods", move || follow::follow(follower.clone()));
        let waker = workers.clone();
        tasks.spawn_restarting("kubelet timer", move || wake(waker.clone()));
        for kind in [Kind::ConfigMap, Kind::Secret, Kind::PersistentVolumeClaim] {
            let weak = Arc::downgrade(&workers);
            caches.on_any_change(kind, move |change| {
                if let Some(workers) = weak.upgrade() {
                    workers.refresh(kind, change.object.namespace(), change.object.name());
                }
            });
        }
        let weak = Arc::downgrade(&workers);
        caches.on_any_change(Kind::VolumeAttachment, move |change| {
            if let (Some(workers), Some(attachment)) =
                (weak.upgrade(), change.object.get::<VolumeAttachment>())
            {
                workers.refresh_claims_on(&attachment.spec.node_name);
            }
        });
        workers
    }

    /// Adds a node: its pods are synced from now on. Returns those that are not durable yet: [`follow`] delivers them
    /// once they are.
    pub(super) fn add_node(self: &Arc<Self>, node: &Arc<Node>) -> HashSet<PodUid> {
        let name = &node.config.name;
        self.nodes.write().insert(name.clone(), node.clone());
        let pods = self.context.api.list_as::<Pod>(None);
        let mut awaited = HashSet::new();
        for pod in pods.into_iter().filter(|pod| node_name(pod) == Some(name.as_str())) {
            let durable = self.context.api.durable(pod.revision()).now_or_never();
            if durable.is_none_or(|durable| durable.is_err()) {
                awaited.insert(pod.uid().to_string());
                continue;
            }
            self.see(&pod);
            // The watch may have reported its end before the slot existed.
            if !self.exists(&pod) {
                self.pod_deleted(&pod);
            }
        }
        awaited
    }

    /// The nodes of this process whose kubelets are not paused.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.read().values().filter(|node| !node.tasks.is_paused()).cloned().collect()
    }

    /// Returns true if this is still the node of its name.
    pub(super) fn has_node(&self, node: &Arc<Node>) -> bool {
        self.nodes.read().get(&node.config.name).is_some_and(|known| Arc::ptr_eq(known, node))
    }

    /// Forgets a node and its pods; their containers continue to run.
    pub(super) fn forget_node(&self, name: &str) {
        self.nodes.write().remove(name);
        self.context.api.set_node_usage(name, None);
        self.context.api.remove_node_access(name);
        let mut pods = self.pods.lock();
        pods.retain(|uid, slot| {
            let stays = slot.node.config.name != name;
            if !stays {
                self.wakes.set(uid, None);
            }
            stays
        });
    }

    /// Syncs pods of a node when its runtime reports a change.
    pub(super) async fn follow_runtime(self: Arc<Self>, node: Arc<Node>, mut events: RuntimeEvents) {
        while let Some(event) = events.recv().await {
            match event {
                RuntimeEvent::PodChanged(pod) => self.push_event(&pod, PodEvent::Resync),
                RuntimeEvent::Relist => {
                    self.push_event_to_all(&node.config.name, &PodEvent::RuntimeRecovered);
                }
            }
        }
    }

    /// Adds an event for a pod and syncs it.
    pub(super) fn push_event(self: &Arc<Self>, pod: &PodUid, note: PodEvent) {
        let mut pods = self.pods.lock();
        if let Some(slot) = pods.get_mut(pod) {
            slot.pending.push(note);
            self.start_pass(pod, slot);
        }
    }

    /// Syncs pods that waited for resources.
    pub(super) fn resync(self: &Arc<Self>, pods: Vec<PodUid>) {
        for pod in pods {
            self.push_event(&pod, PodEvent::Resync);
        }
    }

    /// Adds an event for every pod of a node, and syncs them.
    pub(super) fn push_event_to_all(self: &Arc<Self>, node: &str, note: &PodEvent) {
        let mut pods = self.pods.lock();
        for (uid, slot) in pods.iter_mut().filter(|(_, slot)| slot.node.config.name == node) {
            slot.pending.push(note.clone());
            self.start_pass(uid, slot);
        }
    }

    fn refresh(self: &Arc<Self>, kind: Kind, namespace: &str, name: &str) {
        let mut pods = self.pods.lock();
        for (uid, slot) in pods.iter_mut() {
            let pod = slot.pending.pod();
            if pod.namespace() == namespace && super::volumes::shows(pod, kind, name) {
                slot.pending.push(PodEvent::Refresh);
                self.start_pass(uid, slot);
            }
        }
    }

    /// Syncs the pods of a node that use claims.
    fn refresh_claims_on(self: &Arc<Self>, node: &str) {
        let mut pods = self.pods.lock();
        for (uid, slot) in pods.iter_mut().filter(|(_, slot)| slot.node.config.name == node) {
            if claims_of(slot.pending.pod()).next().is_some() {
                slot.pending.push(PodEvent::Refresh);
                self.start_pass(uid, slot);
            }
        }
    }

    /// Counts the pods of a node that still have something on it.
    pub(super) fn live_pods(&self, node: &str) -> usize {
        self.pods.lock().values().filter(|s| s.node.config.name == node && !s.released).count()
    }

    /// The pods of a node, as far as they have not left it.
    pub(super) fn pods_of(&self, node: &str) -> Vec<SharedObject<Pod>> {
        let pods = self.pods.lock();
        pods.values()
            .filter(|s| s.node.config.name == node && !s.released)
            .map(|s| s.pending.pod().clone())
            .collect()
    }

    /// A pod that has not left its node.
    pub(super) fn pod(&self, uid: &str) -> Option<SharedObject<Pod>> {
        self.pods.lock().get(uid).map(|s| s.pending.pod().clone())
    }

    /// Returns true if the API has a pod of this uid on this node.
    pub(super) fn knows(&self, pod: &str) -> bool {
        self.pods.lock().contains_key(pod)
    }

    fn see(self: &Arc<Self>, pod: &SharedObject<Pod>) {
        let Some(node) = node_name(pod) else { return };
        let Some(node) = self.nodes.read().get(node).cloned() else { return };
        if mirror_pod::hash(pod).is_some() {
            self.mirror_updated(pod);
            return;
        }
        let uid = pod.uid().to_string();
        let mut pods = self.pods.lock();
        if !pods.contains_key(&uid) {
            drop(pods);
            if !self.exists(pod) {
                return;
            }
            pods = self.pods.lock();
        }
        let slot = pods.entry(uid.clone()).or_insert_with(|| PodWorker::new(node, pod.clone()));
        slot.pending.pod_updated(pod);
        if slot.pending.is_dirty() {
            self.start_pass(&uid, slot);
        }
    }

    /// Returns true if the API still has this pod. Versions that the watch delivers late must not revive a pod that has
    /// ended here: between its end and the watch's event it would run a second time.
    fn exists(&self, pod: &SharedObject<Pod>) -> bool {
        self.context.api.get(Kind::Pod, &pod.key()).is_ok_and(|now| now.uid() == pod.uid())
    }

    fn pod_deleted(self: &Arc<Self>, pod: &SharedObject<Pod>) {
        if mirror_pod::hash(pod).is_some() {
            self.mirror_deleted(pod);
            return;
        }
        let uid = pod.uid().to_string();
        let mut pods = self.pods.lock();
        if let Some(slot) = pods.get_mut(&uid) {
            // The API has released its resources already; its processes follow within a moment.
            let waiting = slot.node.admitted.lock().release(&uid);
            slot.pending.object_deleted();
            self.start_pass(&uid, slot);
            for uid in waiting {
                if let Some(slot) = pods.get_mut(&uid) {
                    slot.pending.push(PodEvent::Resync);
                    self.start_pass(&uid, slot);
                }
            }
        }
    }

    /// Starts a pass unless one is running, which then repeats before it ends.
    fn start_pass(self: &Arc<Self>, uid: &PodUid, slot: &mut PodWorker) {
        let Some(state) = slot.state.take() else { return };
        self.wakes.set(uid, None);
        slot.pass = SyncPass { since: self.context.clock.monotonic(), has_started: false };
        let (workers, uid) = (self.clone(), uid.clone());
        slot.node.tasks.spawn("pod pass", async move { workers.passes(uid, state).await });
    }

    /// Passes over one pod until nothing new happened during the last one.
    async fn passes(self: Arc<Self>, uid: PodUid, mut state: Box<PodState>) {
        loop {
            let (node, update, requested) = {
                let mut pods = self.pods.lock();
                let Some(slot) = pods.get_mut(&uid) else { return };
                let started = SyncPass { since: self.context.clock.monotonic(), has_started: true };
                (slot.node.clone(), slot.pending.take(), std::mem::replace(&mut slot.pass, started))
            };
            let started_at = self.context.clock.monotonic();
            // An event that came during a pass has waited for an unknown time.
            let waited = (!requested.has_started).then(|| started_at.saturating_sub(requested.since));
            let work = WorkItem::Pod(update.pod.key());
            let mut panic_text = None;
            let pass = self.syncer.sync_pod(&self, &node, update, &mut state);
            let end = std::panic::AssertUnwindSafe(pass).catch_unwind().await;
            let end = end.unwrap_or_else(|panic| {
                // Contained: the pod's state is read again, as after a restart.
                let text = node.tasks.contained().record(("kubelet", "pod pass"), panic.as_ref());
                tracing::error!(pod = uid, "the sync of a pod panicked and will be retried: {text}");
                node.counts.panicked();
                panic_text = Some(text);
                *state = PodState::new();
                let again = self.context.timings.container_back_off_initial.0;
                Outcome::Wait(Some(base::clock::saturating_after(self.context.clock.steady(), again)))
            });
            let result = match (panic_text, state.failure.take()) {
                (Some(text), _) => ReconcileResult::Panicked(text),
                (None, Some(why)) => ReconcileResult::Failed(why),
                (None, None) => ReconcileResult::Done,
            };
            let took = self.context.clock.monotonic().saturating_sub(started_at);
            node.figures.take(FinishedReconcile { key: work, waited, took, result });
            let mut pods = self.pods.lock();
            let Some(slot) = pods.get_mut(&uid) else { return };
            match end {
                Outcome::Removed => {
                    pods.remove(&uid);
                    self.pod_removed.notify_waiters();
                    return;
                }
                Outcome::Released => {
                    slot.released = true;
                    self.pod_removed.notify_waiters();
                    return;
                }
                Outcome::Wait(_) if slot.pending.is_dirty() => {}
                Outcome::Wait(at) => {
                    let wait =
                        at.map(|at| self.context.clock.monotonic() + until(self.context.clock.steady(), at));
                    self.wakes.set(&uid, wait);
                    slot.state = Some(state);
                    return;
                }
            }
        }
    }

    /// Notes that a pass has written a pod's status onto the version `onto`, with this result.
    pub(super) fn wrote(&self, onto: Revision, pod: &SharedObject<Pod>) {
        if let Some(slot) = self.pods.lock().get_mut(pod.uid()) {
            slot.pending.wrote(onto, pod);
        }
    }
}

async fn wake(workers: Arc<PodWorkers>) {
    loop {
        for uid in workers.wakes.due(&workers.context.clock).await {
            let mut pods = workers.pods.lock();
            if let Some(slot) = pods.get_mut(&uid) {
                workers.start_pass(&uid, slot);
            }
        }
        tokio::task::consume_budget().await;
    }
}
