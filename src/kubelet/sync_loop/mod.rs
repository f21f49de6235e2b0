//! The kubelets of this process: one loop that follows the pods of all its nodes and looks at each pod when
//! something happened to it.
//!
//! A pod that waits is one entry in a table and at most one in the timer ([`Wakes`]): no task, no future. When
//! something happens — its object changed, the runtime told, a probe answered, its time came — one task makes
//! one pass over it (`worker`), never two at once, and what happens meanwhile is left as a note for the next
//! pass. That is cheap enough for thousands of hollow nodes, so real and hollow nodes run the same code.
//!
//! Architecture Invariant: nothing here decides about containers; that is `plan`.

mod answers;
mod follow;
mod inbox;
mod mirrors;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore};

use super::node::Node;
use super::observed::Observed;
use super::runtime::{ContainerId, Memory, PodUid, RuntimeEvent};
use super::static_pods::mirror::{self, Mirror};
use super::volumes::Tokens;
use super::wakes::Wakes;
use super::worker;
use crate::api::Api;
use crate::base::clock::{Clock, until};
use crate::base::task::Tasks;
use crate::object::config::Timings;
use crate::object::{Kind, Revision, Shared};
use crate::reconcile::{Cache, Caches};
pub(super) use answers::Answer;
use inbox::{Inbox, Taken};

/// How many pods' volumes are written at a time.
const VOLUME_WRITERS: usize = 2;

/// What happened to a pod beside a change of its object.
#[derive(Clone, Debug)]
pub(super) enum Note {
    /// The runtime knows something new.
    Look,
    /// The runtime answers again: what failed may be tried at once.
    Answers,
    /// A hook is over.
    Hook { container: String, id: ContainerId, post_start: bool, result: Result<(), String> },
    /// A probe has answered what was not known.
    Probe(Answer),
    /// A config map or secret that its volumes show has changed, or a claim it uses.
    Refresh,
    /// The node gives the pod up; `disrupted` when it is the node that is short, not the pod that is greedy.
    Evict { message: String, grace: Duration, disrupted: bool },
}

/// What a pass works on: all that the kubelet knows of a pod, out of the table while the pass runs.
pub(super) struct PodState {
    pub(super) observed: Observed,
    /// The runtime has to be asked before the next plan.
    pub(super) stale: bool,
    /// It has been compared with what ran before this kubelet.
    pub(super) adopted: bool,
    /// The version of the object whose status tells all that is known; none after something else.
    pub(super) told: Option<Revision>,
    /// The node has taken it, or has refused it.
    pub(super) admitted: bool,
    /// Its volumes are to be written anew.
    pub(super) refresh: bool,
    /// The tokens in its volumes.
    pub(super) tokens: Tokens,
    /// Where what its volumes show lies in memory.
    pub(super) memory: Option<Arc<Memory>>,
    /// What failed last and waits.
    pub(super) retry: worker::Retry,
    /// Why the runtime did not say what there is of it, as far as it was told.
    pub(super) blind: Option<String>,
}

impl PodState {
    fn new() -> Self {
        Self {
            observed: Observed::default(),
            stale: true,
            adopted: false,
            told: None,
            admitted: false,
            refresh: false,
            tokens: Tokens::default(),
            memory: None,
            retry: worker::Retry::default(),
            blind: None,
        }
    }
}

struct Slot {
    node: Arc<Node>,
    /// What has happened since the last pass began.
    inbox: Inbox,
    /// None while a pass works on it.
    state: Option<Box<PodState>>,
    /// Nothing of it is left on the node, and it is not to be started again (shutdown).
    released: bool,
    /// How the API shows it, when it is a static pod.
    mirror: Mirror,
}

impl Slot {
    fn new(node: Arc<Node>, pod: Shared<Pod>) -> Self {
        Self {
            node,
            inbox: Inbox::new(pod),
            state: Some(Box::new(PodState::new())),
            released: false,
            mirror: Mirror::default(),
        }
    }
}

/// How a pass ended.
pub(super) enum PassEnd {
    /// Look again then (on the steady clock), or when something happens.
    Wait(Option<jiff::Timestamp>),
    /// The pod is gone from the node.
    Removed,
    /// The pod's processes are gone; it comes back with the next start.
    Released,
}

/// The kubelets of this process.
pub(super) struct Engine {
    pub(super) api: Api,
    pub(super) clock: Clock,
    pub(super) timings: Timings,
    pub(super) config_maps: Cache<ConfigMap>,
    pub(super) secrets: Cache<Secret>,
    pub(super) services: Cache<Service>,
    pub(super) tasks: Tasks,
    nodes: RwLock<HashMap<String, Arc<Node>>>,
    // One lock over the table, held for map changes only and never across an await.
    pods: Mutex<HashMap<PodUid, Slot>>,
    wakes: Wakes,
    /// Few write volumes at a time: a thread of its own for each of many pods costs more than it saves.
    pub(super) volume_writers: Semaphore,
    /// A pod left the table or was released.
    pub(super) fewer: Notify,
}

impl Engine {
    pub(super) fn new(api: &Api, caches: &Caches, tasks: &Tasks) -> Arc<Self> {
        let engine = Arc::new(Self {
            api: api.clone(),
            clock: api.clock().clone(),
            timings: api.timings().clone(),
            config_maps: caches.of(),
            secrets: caches.of(),
            services: caches.of(),
            tasks: tasks.clone(),
            nodes: RwLock::default(),
            pods: Mutex::default(),
            wakes: Wakes::default(),
            volume_writers: Semaphore::new(VOLUME_WRITERS),
            fewer: Notify::new(),
        });
        let follower = engine.clone();
        tasks.spawn_restarting("kubelet pods", move || follow::follow(follower.clone()));
        let waker = engine.clone();
        tasks.spawn_restarting("kubelet timer", move || wake(waker.clone()));
        let measurer = engine.clone();
        tasks.spawn_restarting("usage", move || super::usage::measure(measurer.clone()));
        let guard = engine.clone();
        tasks.spawn_restarting("eviction", move || super::eviction::watch(guard.clone()));
        for kind in [Kind::ConfigMap, Kind::Secret, Kind::PersistentVolumeClaim] {
            let weak = Arc::downgrade(&engine);
            caches.on_any_change(kind, move |change| {
                if let Some(engine) = weak.upgrade() {
                    engine.refresh(kind, change.object.namespace(), change.object.name());
                }
            });
        }
        engine
    }

    /// Takes a node in: its pods are looked at from now on.
    pub(super) fn add_node(self: &Arc<Self>, node: &Arc<Node>) {
        self.nodes.write().insert(node.config.name.clone(), node.clone());
        for pod in self.api.list_as::<Pod>(None) {
            self.see(&pod);
            // The watch may have told of its end before there was a slot to tell.
            if !self.exists(&pod) {
                self.lose(&pod);
            }
        }
    }

    /// The nodes of this process.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.read().values().cloned().collect()
    }

    /// Whether this is still the node of its name.
    pub(super) fn has_node(&self, node: &Arc<Node>) -> bool {
        self.nodes.read().get(&node.config.name).is_some_and(|known| Arc::ptr_eq(known, node))
    }

    /// Forgets a node and its pods; what runs there goes on running.
    pub(super) fn forget_node(&self, name: &str) {
        self.nodes.write().remove(name);
        self.api.set_node_usage(name, None);
        self.api.remove_node_access(name);
        let mut pods = self.pods.lock();
        pods.retain(|uid, slot| {
            let stays = slot.node.config.name != name;
            if !stays {
                self.wakes.set(uid, None);
            }
            stays
        });
    }

    /// Follows what the runtime of a node tells.
    pub(super) async fn follow_runtime(self: Arc<Self>, node: Arc<Node>) {
        let Some(mut events) = node.take_events() else { return };
        while let Some(event) = events.recv().await {
            match event {
                RuntimeEvent::PodChanged(pod) => self.note(&pod, Note::Look),
                RuntimeEvent::Relist => self.note_all(&node.config.name, &Note::Answers),
            }
        }
    }

    /// Leaves a note for a pod and has it looked at.
    pub(super) fn note(self: &Arc<Self>, pod: &PodUid, note: Note) {
        let mut pods = self.pods.lock();
        if let Some(slot) = pods.get_mut(pod) {
            slot.inbox.note(note);
            self.start_pass(pod, slot);
        }
    }

    /// Has pods looked at that waited for room.
    pub(super) fn look_at(self: &Arc<Self>, pods: Vec<PodUid>) {
        for pod in pods {
            self.note(&pod, Note::Look);
        }
    }

    /// Leaves a note for every pod of a node.
    pub(super) fn note_all(self: &Arc<Self>, node: &str, note: &Note) {
        let mut pods = self.pods.lock();
        for (uid, slot) in pods.iter_mut().filter(|(_, slot)| slot.node.config.name == node) {
            slot.inbox.note(note.clone());
            self.start_pass(uid, slot);
        }
    }

    fn refresh(self: &Arc<Self>, kind: Kind, namespace: &str, name: &str) {
        let mut pods = self.pods.lock();
        for (uid, slot) in pods.iter_mut() {
            let pod = slot.inbox.pod();
            if pod.namespace() == namespace && super::volumes::shows(pod, kind, name) {
                slot.inbox.note(Note::Refresh);
                self.start_pass(uid, slot);
            }
        }
    }

    /// How many pods of a node still have something on it.
    pub(super) fn live_pods(&self, node: &str) -> usize {
        self.pods.lock().values().filter(|s| s.node.config.name == node && !s.released).count()
    }

    /// The pods of a node, as far as they have not left it.
    pub(super) fn pods_of(&self, node: &str) -> Vec<Shared<Pod>> {
        let pods = self.pods.lock();
        pods.values()
            .filter(|s| s.node.config.name == node && !s.released)
            .map(|s| s.inbox.pod().clone())
            .collect()
    }

    /// A pod that has not left its node.
    pub(super) fn pod(&self, uid: &str) -> Option<Shared<Pod>> {
        self.pods.lock().get(uid).map(|s| s.inbox.pod().clone())
    }

    /// Whether the API knows a pod of this uid on this node.
    pub(super) fn knows(&self, pod: &str) -> bool {
        self.pods.lock().contains_key(pod)
    }

    fn see(self: &Arc<Self>, pod: &Shared<Pod>) {
        let Some(node) = pod.spec.as_ref().and_then(|s| s.node_name.as_ref()) else { return };
        let Some(node) = self.nodes.read().get(node).cloned() else { return };
        if mirror::hash(pod).is_some() {
            self.see_mirror(pod);
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
        let slot = pods.entry(uid.clone()).or_insert_with(|| Slot::new(node, pod.clone()));
        slot.inbox.see(pod);
        if slot.inbox.has_news() {
            self.start_pass(&uid, slot);
        }
    }

    /// Whether the API still has this pod. Versions that the watch shows late must not bring one back that has ended
    /// here: between its end and the watch's news of it, it would run a second time.
    fn exists(&self, pod: &Shared<Pod>) -> bool {
        self.api.get(Kind::Pod, &pod.key()).is_ok_and(|now| now.uid() == pod.uid())
    }

    fn lose(self: &Arc<Self>, pod: &Shared<Pod>) {
        if mirror::hash(pod).is_some() {
            self.lose_mirror(pod);
            return;
        }
        let uid = pod.uid().to_string();
        let mut pods = self.pods.lock();
        if let Some(slot) = pods.get_mut(&uid) {
            // The API has given its room away already; its processes follow within a moment.
            let waiting = slot.node.taken.lock().release(&uid);
            slot.inbox.lose();
            self.start_pass(&uid, slot);
            for uid in waiting {
                if let Some(slot) = pods.get_mut(&uid) {
                    slot.inbox.note(Note::Look);
                    self.start_pass(&uid, slot);
                }
            }
        }
    }

    /// Starts a pass unless one is at work, which then looks again before it ends.
    fn start_pass(self: &Arc<Self>, uid: &PodUid, slot: &mut Slot) {
        let Some(state) = slot.state.take() else { return };
        self.wakes.set(uid, None);
        let (engine, uid) = (self.clone(), uid.clone());
        slot.node.tasks.spawn("pod pass", async move { engine.passes(uid, state).await });
    }

    /// Passes over one pod until nothing new happened during the last one.
    async fn passes(self: Arc<Self>, uid: PodUid, mut state: Box<PodState>) {
        loop {
            let (node, Taken { pod, gone, notes }) = {
                let mut pods = self.pods.lock();
                let Some(slot) = pods.get_mut(&uid) else { return };
                (slot.node.clone(), slot.inbox.take())
            };
            let pass = worker::Pass { engine: &self, node: &node, pod, gone, state: &mut state };
            let end = std::panic::AssertUnwindSafe(pass.run(notes)).catch_unwind().await;
            let end = end.unwrap_or_else(|panic| {
                // Contained: what is known of the pod is read anew, as after a restart.
                let text = crate::base::task::panic_text(panic.as_ref());
                tracing::error!(pod = uid, "the pass over a pod panicked: {text}");
                *state = PodState::new();
                let again = self.timings.container_back_off_initial.0;
                PassEnd::Wait(Some(crate::base::clock::saturating_after(self.clock.steady(), again)))
            });
            let mut pods = self.pods.lock();
            let Some(slot) = pods.get_mut(&uid) else { return };
            match end {
                PassEnd::Removed => {
                    pods.remove(&uid);
                    self.fewer.notify_waiters();
                    return;
                }
                PassEnd::Released => {
                    slot.released = true;
                    self.fewer.notify_waiters();
                    return;
                }
                PassEnd::Wait(_) if slot.inbox.has_news() => {}
                PassEnd::Wait(at) => {
                    let wait = at.map(|at| self.clock.monotonic() + until(self.clock.steady(), at));
                    self.wakes.set(&uid, wait);
                    slot.state = Some(state);
                    return;
                }
            }
        }
    }

    /// A pass has written a pod's status onto the version `onto`, and this came out.
    pub(super) fn wrote(&self, onto: Revision, pod: &Shared<Pod>) {
        if let Some(slot) = self.pods.lock().get_mut(pod.uid()) {
            slot.inbox.wrote(onto, pod);
        }
    }
}

pub(super) fn revision(pod: &Shared<Pod>) -> Revision {
    pod.object().revision()
}

async fn wake(engine: Arc<Engine>) {
    loop {
        for uid in engine.wakes.due(&engine.clock).await {
            let mut pods = engine.pods.lock();
            if let Some(slot) = pods.get_mut(&uid) {
                engine.start_pass(&uid, slot);
            }
        }
        tokio::task::consume_budget().await;
    }
}
