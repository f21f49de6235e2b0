//! Fences nodes, as NodeFence objects request (SAFE-5).
//!
//! Fencing takes these steps in order, each with an event of the node: its kubelet is stopped and cannot restart, its
//! processes are killed and verified dead, and only then the node gets the out-of-service taint. Other controllers do
//! the rest: PodGC evicts and removes its pods, its disks are detached by force, its StatefulSets continue on other
//! nodes. If death cannot be confirmed the node is not marked, and the fence's status gives the reason. A control plane
//! that dies in the middle leaves an object from which the next one continues.
//!
//! A node that comes back (the control plane is restarted, the fence is deleted) registers with nothing running; then
//! it is taken back into service, and the fence is deleted.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tokio::sync::Notify;

use api::controller_status::Subsystem;
use api::{Api, ApiError};
use base::mistakes::Mistake;
use base::task::Tasks;
use extension::node_fence::{FENCED, FENCED_TAINT, FencePhase, NodeFence};
use object::conditions::{self, ConditionStatus};
use object::owner::is_terminating;
use object::taint::effect::NO_EXECUTE;
use object::well_known::condition::READY;
use object::well_known::finalizer::PODIUM_FENCE;
use object::well_known::taint::OUT_OF_SERVICE;
use object::{Key, Kind, SharedObject, TypedKind};
use reconcile::{Caches, Recorder, WorkLoop, ignore_not_found, optional, preconditions};

/// The interval at which the state of a fenced node is checked, and failed steps are retried.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a node cannot be fenced, or not yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FenceError {
    /// This control plane does not run the node, so it does not know the state of the node's processes.
    #[error(
        "this control plane does not run node {0}: make sure that it is dead, and then add the taint \
         node.kubernetes.io/out-of-service"
    )]
    NotLocal(String),
    /// The node is about to start or to end.
    #[error("node {0} is being started or removed")]
    Busy(String),
    /// Processes of the node may still run.
    #[error("processes of node {0} may still run: {1}")]
    MayLive(String, String),
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRunState {
    /// Its kubelet works.
    Running,
    /// The node is fenced, or about to start or to end.
    Down,
    /// This control plane does not run the node.
    Undeclared,
}

/// The operations on nodes that fencing needs.
pub trait NodeRunner: Clone + Send + Sync + 'static {
    /// The state of a node.
    fn run_state(&self, name: &str) -> NodeRunState;

    /// Stops a node's kubelet, keeps it away until the node is [taken back](Self::take_back), and kills all that runs
    /// there. If this returns without an error no process of the node runs: that was verified. May be retried.
    fn kill_for_certain(&self, name: &str) -> impl Future<Output = Result<(), FenceError>> + Send;

    /// Takes a fenced node back into service. If `is_deleted`, its Node object was deleted, and the node does not start
    /// again.
    fn take_back(&self, name: &str, is_deleted: bool) -> impl Future<Output = Result<(), String>> + Send;
}

/// Fences nodes until `tasks` end.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, nodes: &impl NodeRunner) {
    let changed = Arc::new(Notify::new());
    for kind in [NodeFence::kind(), Kind::Node] {
        let changed = changed.clone();
        let concerns =
            move |change: &api::Change| kind == NodeFence::kind() || change.kind == api::ChangeKind::Deleted;
        caches.on_any_change(kind, move |change| {
            if concerns(change) {
                changed.notify_one();
            }
        });
    }
    let api = api.acting_as("podium-fencing");
    let rounds = WorkLoop::start(&api, "fencing", Subsystem::Cluster, tasks);
    let fencer = FencingController {
        recorder: Recorder::new(&api, "podium-fencing"),
        api,
        nodes: nodes.clone(),
        changed,
        rounds,
    };
    tasks.spawn_restarting("fencing", move || fencer.clone().run());
}

#[derive(Clone)]
struct FencingController<R> {
    api: Api,
    nodes: R,
    recorder: Recorder,
    changed: Arc<Notify>,
    rounds: Arc<WorkLoop>,
}

impl<R: NodeRunner> FencingController<R> {
    async fn run(self) {
        loop {
            let fences = self.api.list_as::<NodeFence>(None);
            futures::future::join_all(fences.iter().map(|fence| self.sync(fence))).await;
            let again = (!fences.is_empty()).then_some(RECHECK_INTERVAL);
            tokio::select! {
                () = self.changed.notified() => {}
                () = self.api.clock().sleep_if_some(again) => {}
            }
        }
    }

    /// Executes the next steps of one fence.
    async fn sync(&self, fence: &SharedObject<NodeFence>) {
        let round = self.rounds.begin(format!("node {}", fence.name()));
        let outcome = if is_terminating(&fence.metadata) {
            self.take_back(fence).await
        } else if fence.phase() == FencePhase::Fenced {
            self.hold_fence(fence).await
        } else {
            self.fence(fence).await
        };
        round.ends(outcome.as_ref().map(drop));
        if let Err(error) = outcome {
            tracing::warn!(node = fence.name(), "cannot process the fence; retrying: {error}");
        }
    }

    async fn fence(&self, fence: &SharedObject<NodeFence>) -> Result<(), ApiError> {
        let name = fence.name();
        let node = optional(self.api.get_as::<Node>(&Key::new("", name)))?;
        if fence.phase() == FencePhase::Pending {
            let Some(node) = &node else {
                return self
                    .write_phase(fence, FencePhase::Pending, "NoSuchNode", &format!("node {name} not found"))
                    .map(drop);
            };
            preconditions::add_finalizer(&self.api, fence, PODIUM_FENCE)?;
            let reason = fence.spec.reason.as_deref().unwrap_or("no reason given");
            let message = format!(
                "Fencing node {name}: its kubelet is stopped and its processes are killed ({reason})"
            );
            self.recorder.warning(node.object(), "FencingNode", message.clone());
            self.write_phase(fence, FencePhase::Killing, "Killing", &message)?;
        }
        if !self.kill(fence, node.as_ref()).await? || !self.is_current(fence)? {
            return Ok(());
        }
        let Some(node) = node else {
            // Its object was deleted meanwhile: the node is gone for good, and none of its processes runs.
            return self.release_fence(fence).await;
        };
        let dead = format!("All processes of node {name} are confirmed dead");
        self.recorder.normal(node.object(), "NodeProcessesDead", dead.clone());
        self.add_out_of_service_taint(&node)?;
        let message = format!("Node {name} is out of service: its volumes are detached and its pods removed");
        self.recorder.warning(node.object(), "NodeOutOfService", message);
        self.write_phase(fence, FencePhase::Fenced, "ProcessesDead", &dead).map(drop)
    }

    /// Returns false if the fence was deleted or is being deleted. Checked after the kill, which takes a while: another
    /// copy of this controller may have taken the node back meanwhile, and then a taint set now would never be removed.
    fn is_current(&self, fence: &SharedObject<NodeFence>) -> Result<bool, ApiError> {
        let current = optional(self.api.get_as::<NodeFence>(&fence.key()))?;
        Ok(current.is_some_and(|current| current.uid() == fence.uid() && !is_terminating(&current.metadata)))
    }

    /// Kills the node's processes; returns false, with the reason in the status, while one of them may still run.
    async fn kill(
        &self,
        fence: &SharedObject<NodeFence>,
        node: Option<&SharedObject<Node>>,
    ) -> Result<bool, ApiError> {
        if Mistake::FenceBeforeDeath.is_enabled() {
            let (nodes, name) = (self.nodes.clone(), fence.name().to_owned());
            base::task::start(async move { nodes.kill_for_certain(&name).await });
            return Ok(true);
        }
        let Err(error) = self.nodes.kill_for_certain(fence.name()).await else { return Ok(true) };
        let reason = match &error {
            FenceError::NotLocal(_) => "NotRunHere",
            FenceError::Busy(_) => "NodeBusy",
            FenceError::MayLive(..) => "DeathNotConfirmed",
        };
        let is_new = self.write_phase(fence, FencePhase::Killing, reason, &error.to_string())?;
        if let Some(node) = node.filter(|_| is_new && !matches!(error, FenceError::Busy(_))) {
            self.recorder.warning(node.object(), "FencingNotConfirmed", error.to_string());
        }
        Ok(false)
    }

    /// Ends the fence of a dead node whose Node object was deleted: the node does not start again, and the fence is
    /// deleted.
    async fn release_fence(&self, fence: &SharedObject<NodeFence>) -> Result<(), ApiError> {
        match self.nodes.take_back(fence.name(), true).await {
            Ok(()) => self.end(fence),
            Err(error) => self.write_phase(fence, fence.phase(), "NotStarted", &error).map(drop),
        }
    }

    /// Keeps a node fenced until it registers again: after a restart of the control plane a fenced node starts like any
    /// other.
    async fn hold_fence(&self, fence: &SharedObject<NodeFence>) -> Result<(), ApiError> {
        let name = fence.name();
        if optional(self.api.get_as::<Node>(&Key::new("", name)))?.is_none() {
            // The Node object was deleted: the node is gone for good, and needs no fence.
            return self.release_fence(fence).await;
        }
        if self.nodes.run_state(name) == NodeRunState::Running {
            self.remove_out_of_service_taint(name)?;
            self.end(fence)?;
        }
        Ok(())
    }

    async fn take_back(&self, fence: &SharedObject<NodeFence>) -> Result<(), ApiError> {
        let name = fence.name();
        let is_deleted = optional(self.api.get_as::<Node>(&Key::new("", name)))?.is_none();
        if is_deleted && fence.phase() == FencePhase::Killing {
            // The fence ends only once the processes of the deleted node are dead.
            let dead = self.kill(fence, None).await?;
            return if dead || self.nodes.run_state(name) == NodeRunState::Undeclared {
                self.release_fence(fence).await
            } else {
                Ok(())
            };
        }
        if let Err(error) = self.nodes.take_back(name, is_deleted).await {
            let message = format!("cannot restart node {name}: {error}");
            self.write_phase(fence, fence.phase(), "NotStarted", &message)?;
            return Ok(());
        }
        if !is_deleted && self.nodes.run_state(name) == NodeRunState::Down {
            return Ok(());
        }
        self.remove_out_of_service_taint(name)?;
        self.end(fence)?;
        Ok(())
    }

    /// Marks the node NotReady and out of service.
    fn add_out_of_service_taint(&self, node: &SharedObject<Node>) -> Result<(), ApiError> {
        let now = self.api.clock().time();
        self.api.modify_status::<Node>(&node.key(), |fresh| {
            let message = "the node is fenced: its processes are dead and its kubelet is stopped";
            let ready = NodeCondition {
                last_heartbeat_time: Some(now.clone()),
                ..conditions::new(READY, ConditionStatus::False, "NodeFenced", message, now.clone())
            };
            conditions::set(fresh.status.get_or_insert_default().conditions.get_or_insert_default(), ready);
            Ok(())
        })?;
        self.api.modify::<Node>(&node.key(), |fresh| {
            let taints = fresh.spec.get_or_insert_default().taints.get_or_insert_default();
            if !taints.iter().any(|taint| taint.key == OUT_OF_SERVICE) {
                taints.push(Taint {
                    key: OUT_OF_SERVICE.into(),
                    value: Some(FENCED_TAINT.into()),
                    effect: NO_EXECUTE.into(),
                    time_added: Some(now.clone()),
                });
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Removes our taint from a node; one that another client has set stays.
    fn remove_out_of_service_taint(&self, name: &str) -> Result<(), ApiError> {
        let key = Key::new("", name);
        let Some(node) = optional(self.api.get_as::<Node>(&key))? else { return Ok(()) };
        let is_fence_taint =
            |taint: &Taint| taint.key == OUT_OF_SERVICE && taint.value.as_deref() == Some(FENCED_TAINT);
        let has =
            |node: &Node| node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(is_fence_taint);
        if !has(&node) {
            return Ok(());
        }
        ignore_not_found(self.api.modify::<Node>(&key, |fresh| {
            if let Some(spec) = &mut fresh.spec {
                let taints = spec.taints.take().unwrap_or_default();
                let others: Vec<Taint> = taints.into_iter().filter(|taint| !is_fence_taint(taint)).collect();
                spec.taints = Some(others).filter(|others| !others.is_empty());
            }
            Ok(())
        }))?;
        let message = format!("Node {name} has returned without running processes and is in service again");
        self.recorder.normal(node.object(), "NodeReturned", message);
        Ok(())
    }

    /// Ends a fence by deleting its object.
    fn end(&self, fence: &SharedObject<NodeFence>) -> Result<(), ApiError> {
        preconditions::delete(&self.api, fence)?;
        preconditions::remove_finalizer(&self.api, fence, PODIUM_FENCE)
    }

    /// Writes the phase of a fence; returns true if it changed.
    fn write_phase(
        &self,
        fence: &SharedObject<NodeFence>,
        phase: FencePhase,
        reason: &str,
        message: &str,
    ) -> Result<bool, ApiError> {
        let now = self.api.clock().time();
        let mut is_new = false;
        let written = preconditions::modify_status(&self.api, fence, |fresh| {
            let status = fresh.status.get_or_insert_default();
            let known = conditions::get(status.conditions.as_ref(), FENCED);
            is_new = known.is_none_or(|known| known.reason != reason || known.message != message);
            status.phase = phase;
            if phase != FencePhase::Pending {
                status.started_at.get_or_insert_with(|| now.clone());
            }
            if phase == FencePhase::Fenced {
                status.fenced_at.get_or_insert_with(|| now.clone());
            }
            let condition = Condition {
                observed_generation: fresh.metadata.generation,
                ..conditions::new(FENCED, phase == FencePhase::Fenced, reason, message, now.clone())
            };
            conditions::set(status.conditions.get_or_insert_default(), condition);
        });
        ignore_not_found(written)?;
        Ok(is_new)
    }
}
