//! Reconciles the running nodes with the desired ones (NODE-6): follows the config file and the Node objects, starts
//! and ends nodes, and retries what failed. `desired` decides on the steps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::cidr_allocator::CidrAllocator;
use super::context::{NodeContext, RunningNode, zone_defaults};
use super::deprovision::deprovision;
use super::desired::{self, DesiredNode, EndCause, Member, NodeAction, NodeStage, ObservedNode, Origin};
use super::file;
use super::settings;
use crate::addresses::AddressPlan;
use crate::node_settings::NodeSettings;
use base::backoff::BackoffPolicy;
use base::sort::CollectMap;
use object::{Key, Kind};
use operators::faults::NodeFaults;
use reconcile::WorkLoop;

/// The back-off of a node that could not be started.
const START_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_mins(5) };

/// The nodes, and their state.
pub(super) struct Follower {
    pub(super) context: NodeContext,
    // Locked only while the maps are read or changed, never across an await.
    pub(super) state: Mutex<State>,
    /// Notified when a check is due.
    pub(super) changed: Notify,
    /// Notified when a node was started or has ended.
    pub(super) node_changed: Notify,
}

/// The desired and the actual nodes.
#[derive(Default)]
pub(super) struct State {
    pub(super) settings: Vec<NodeSettings>,
    pub(super) declared: Vec<DesiredNode>,
    pub(super) abandoned: BTreeSet<String>,
    pub(super) slots: BTreeMap<String, NodeSlot>,
    pub(super) cidrs: CidrAllocator,
    /// The number of consecutive failed starts of each node.
    pub(super) failures: BTreeMap<String, u32>,
    /// The nodes' injected faults.
    pub(super) faults: NodeFaults,
    /// True during shutdown: no node is started or ended any more.
    pub(super) closing: bool,
}

/// A node that runs or is about to.
pub(super) struct NodeSlot {
    pub(super) now: NodeState,
    pub(super) index: usize,
    pub(super) hollow: bool,
    pub(super) origin: Origin,
}

pub(super) enum NodeState {
    Starting,
    Running(Arc<RunningNode>),
    Ending(Arc<RunningNode>),
    /// The start failed, and is retried at this time of the monotonic clock.
    FailedUntil(Duration),
    /// A fence keeps the node down, and its processes may still run; `None` means those of an earlier control plane.
    Fencing(Option<Arc<RunningNode>>),
    /// A fence keeps the node down, and its processes are dead.
    Fenced,
    /// A fault has crashed its kubelet, and its processes may still run; `None` means those of an earlier control
    /// plane.
    Crashed(Option<Arc<RunningNode>>),
    /// A fault has switched the node off, and its processes are dead.
    Off,
}

impl State {
    /// Allocates addresses for a node and marks it as starting.
    pub(super) fn reserve(
        &mut self,
        desired: &DesiredNode,
        pod_cidr: Option<&str>,
        plan: &AddressPlan,
    ) -> Option<usize> {
        let index = self.cidrs.allocate(&desired.name, desired.hollow, desired.origin, pod_cidr, plan)?;
        let slot =
            NodeSlot { now: NodeState::Starting, index, hollow: desired.hollow, origin: desired.origin };
        self.slots.insert(desired.name.clone(), slot);
        Some(index)
    }

    pub(super) fn release(&mut self, name: &str) {
        self.slots.remove(name);
        self.cidrs.release(name);
    }

    /// Removes failed nodes that are due for a retry.
    fn take_due(&mut self, now: Duration) -> Vec<(String, NodeSlot)> {
        let due = |slot: &NodeSlot| matches!(slot.now, NodeState::FailedUntil(at) if at <= now);
        let due: Vec<(String, NodeSlot)> = self.slots.extract_if(.., |_, slot| due(slot)).collect();
        for (name, _) in &due {
            self.cidrs.release(name);
        }
        due
    }

    /// If a fault keeps the node's kubelet down, marks the node as crashed, so that it is not started, and returns
    /// true.
    pub(super) fn keep_down(&mut self, name: &str) -> bool {
        let is_down = self.faults.is_down(name);
        if is_down && let Some(slot) = self.slots.get_mut(name) {
            slot.now = NodeState::Crashed(None);
        }
        is_down
    }

    fn zone_defaults(&self) -> BTreeMap<String, usize> {
        self.slots.iter().map(|(name, slot)| (name.clone(), slot.index)).collect_map()
    }

    fn members(&self) -> BTreeMap<String, Member> {
        let member = |slot: &NodeSlot| Member {
            stage: match &slot.now {
                NodeState::Running(running) => NodeStage::Running { uid: running.uid.clone() },
                NodeState::Starting
                | NodeState::Ending(_)
                | NodeState::FailedUntil(_)
                | NodeState::Fencing(_)
                | NodeState::Fenced
                | NodeState::Crashed(_)
                | NodeState::Off => NodeStage::Busy,
            },
            hollow: slot.hollow,
            origin: slot.origin,
        };
        self.slots.iter().map(|(name, slot)| (name.clone(), member(slot))).collect_map()
    }
}

impl Follower {
    /// Executes passes until the tasks end.
    pub(super) async fn run(self: Arc<Self>, rounds: Arc<WorkLoop>) {
        loop {
            let changed = self.changed.notified();
            let round = rounds.begin("nodes");
            let wait = self.pass();
            round.ends(if wait.is_some() { Err("cannot start a node; retrying") } else { Ok(()) });
            let clock = self.context.api.clock();
            match wait {
                None => changed.await,
                Some(wait) => {
                    tokio::select! {
                        () = changed => {}
                        () = clock.sleep(wait) => {}
                    }
                }
            }
        }
    }

    /// Executes the due steps, and returns the time of the next check.
    fn pass(self: &Arc<Self>) -> Option<Duration> {
        let objects = self.context.api.list_as::<Node>(None);
        let cidrs: BTreeMap<String, Option<String>> = objects
            .iter()
            .map(|node| (node.name().to_string(), node.spec.as_ref().and_then(|s| s.pod_cidr.clone())))
            .collect_map();
        let seen: BTreeMap<String, ObservedNode> = objects
            .iter()
            .map(|node| {
                (
                    node.name().to_string(),
                    ObservedNode { uid: node.uid().into(), requested: desired::requested_node(node) },
                )
            })
            .collect_map();
        let now = self.context.api.clock().monotonic();
        let mut state = self.state.lock();
        if state.closing {
            return None;
        }
        let failed = state.take_due(now);
        for step in desired::steps(&state.declared, &state.abandoned, &seen, &state.members()) {
            match step {
                NodeAction::Start(desired) => {
                    let cidr = cidrs.get(&desired.name).and_then(Option::as_deref);
                    if let Some(index) = state.reserve(&desired, cidr, &self.context.addresses) {
                        if !state.keep_down(&desired.name) {
                            self.begin(desired, index);
                        }
                    } else {
                        self.record_failure(&desired.name, "all address ranges are used by other nodes");
                    }
                }
                NodeAction::End(name, cause) => {
                    if cause == EndCause::Deleted {
                        state.abandoned.insert(name.clone());
                    }
                    if let Some(slot) = state.slots.get_mut(&name)
                        && let NodeState::Running(running) = &slot.now
                    {
                        let running = running.clone();
                        slot.now = NodeState::Ending(running.clone());
                        self.end(running, cause);
                    }
                }
            }
        }
        for (name, slot) in failed {
            // The node is no longer desired: the processes and files of its failed starts are removed.
            if !state.slots.contains_key(&name) {
                state.failures.remove(&name);
                state.slots.insert(name.clone(), NodeSlot { now: NodeState::Starting, ..slot });
                self.abandon(name);
            }
        }
        let wait = |slot: &NodeSlot| match slot.now {
            NodeState::FailedUntil(at) => Some(at.saturating_sub(now)),
            _ => None,
        };
        state.slots.values().filter_map(wait).min()
    }

    /// Removes the processes and files of a node that could not be started and is no longer desired.
    fn abandon(self: &Arc<Self>, name: String) {
        let follower = self.clone();
        self.context.tasks.spawn("node end", async move {
            follower.clear(&name).await;
            follower.state.lock().release(&name);
            follower.node_changed.notify_waiters();
            follower.changed.notify_one();
        });
    }

    fn begin(self: &Arc<Self>, desired: DesiredNode, index: usize) {
        let follower = self.clone();
        self.context.tasks.spawn("node start", async move {
            let outcome = match follower.context.host(&desired, index).await {
                Ok(host) => follower.context.start(&desired, index, host).await,
                Err(error) => Err(error.to_string()),
            };
            follower.started(&desired, outcome);
        });
    }

    /// Records the outcome of a start.
    pub(super) fn started(&self, desired: &DesiredNode, outcome: Result<RunningNode, String>) {
        let name = desired.name.as_str();
        match outcome {
            Ok(running) => {
                tracing::info!(node = name, "the node is running");
                let (settings, index) = {
                    let mut state = self.state.lock();
                    state.failures.remove(name);
                    // The node is no longer abandoned: a declaration in the config file counts again.
                    state.abandoned.remove(name);
                    let settings = state.settings.clone();
                    running.suffer(&state.faults);
                    let slot = state.slots.get_mut(name);
                    let index = slot.map(|slot| {
                        slot.now = NodeState::Running(Arc::new(running));
                        slot.index
                    });
                    (settings, index)
                };
                let written =
                    settings::apply_to(&self.context.api, name, &settings, index.map(zone_defaults));
                if let Err(error) = written {
                    tracing::warn!(node = name, "cannot apply the config file to the node: {error}");
                }
            }
            Err(error) => {
                let mut state = self.state.lock();
                let failures = state.failures.entry(name.to_string()).or_insert(0);
                *failures = failures.saturating_add(1);
                let until = self.context.api.clock().monotonic() + START_BACKOFF.delay(*failures);
                if let Some(slot) = state.slots.get_mut(name) {
                    slot.now = NodeState::FailedUntil(until);
                }
                drop(state);
                self.record_failure(name, &error);
            }
        }
        self.node_changed.notify_waiters();
        self.changed.notify_one();
    }

    fn record_failure(&self, name: &str, error: &str) {
        tracing::warn!(node = name, "cannot start the node: {error}");
        if let Ok(object) = self.context.api.get(Kind::Node, &Key::new("", name)) {
            let message = format!("Node {name} cannot be started: {error}");
            self.context.recorder.warning(&object, "NodeStartFailed", message);
        }
    }

    fn end(self: &Arc<Self>, running: Arc<RunningNode>, cause: EndCause) {
        let follower = self.clone();
        self.context.tasks.spawn("node end", async move {
            deprovision(&follower.context, &running, cause).await;
            tracing::info!(node = running.name, "the node was removed");
            follower.state.lock().release(&running.name);
            follower.node_changed.notify_waiters();
            follower.changed.notify_one();
        });
    }

    /// Polls the config file and applies changes of its nodes; other settings are not followed. An invalid file changes
    /// nothing, and is reported by an event.
    pub(super) async fn follow_file(self: Arc<Self>, path: PathBuf, rounds: Arc<WorkLoop>) {
        let mut refused: Option<String> = None;
        let period = self.context.api.timings().file_check_frequency.0;
        loop {
            self.context.api.clock().sleep(period).await;
            let round = rounds.begin(path.display().to_string());
            let (path, follower) = (path.clone(), self.clone());
            let read = base::task::blocking(move || file::read(&path, &follower.context.config));
            let Ok(outcome) = read.await else { continue };
            let error = outcome.and_then(|file| self.take_file(&file)).err();
            round.ends(error.as_ref().map_or(Ok(()), Err));
            if let Some(error) = error.as_ref().filter(|error| Some(*error) != refused.as_ref()) {
                self.record_invalid_file(error);
            }
            refused = error;
        }
    }

    /// Applies the nodes of the file's current content.
    fn take_file(&self, file: &crate::ConfigFile) -> Result<(), String> {
        let declared = desired::declared(self.context.config.counts(file), &file.nodes);
        let indices = {
            let mut state = self.state.lock();
            if state.settings == file.nodes && state.declared == declared {
                return Ok(());
            }
            let names = |all: &[DesiredNode]| all.iter().map(|w| w.name.clone()).collect::<BTreeSet<_>>();
            let (before, after) = (names(&state.declared), names(&declared));
            // A name that was added to the file is desired, even if its node's object was deleted before.
            state.abandoned.retain(|name| before.contains(name) && after.contains(name));
            for desired in &declared {
                let was = state.declared.iter().find(|w| w.name == desired.name);
                if was.is_some_and(|was| was.capacity != desired.capacity) {
                    tracing::warn!(
                        node = desired.name,
                        "the new capacity takes effect at the node's next start"
                    );
                }
            }
            state.settings.clone_from(&file.nodes);
            state.declared = declared;
            state.zone_defaults()
        };
        tracing::info!("the config file's nodes have changed");
        self.changed.notify_one();
        let zone_defaults = |name: &str| indices.get(name).copied().map(zone_defaults);
        settings::apply_all(&self.context.api, &file.nodes, zone_defaults).map_err(|error| error.to_string())
    }

    /// Records an event of the namespace `kube-system`, since the file has no object of its own.
    fn record_invalid_file(&self, error: &str) {
        tracing::warn!("the changed config file is not used: {error}");
        if let Ok(system) = self.context.api.get(Kind::Namespace, &Key::new("", "kube-system")) {
            let message = format!("The changed config file is not used: {error}");
            self.context.recorder.warning(&system, "InvalidConfigFile", message);
        }
    }
}
