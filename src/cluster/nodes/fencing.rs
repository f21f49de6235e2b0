//! The steps of a fence that only the nodes' runner can take (SAFE-5): kill a node's processes for certain, keep the
//! node out, and take it back.

use std::sync::Arc;
use std::time::Duration;

use super::Nodes;
use super::context::{Host, RunningNode};
use super::desired;
use super::follow::{Follower, NodeState};
use k8s_openapi::api::core::v1::Node;
use object::Key;
use operators::fencing::{FenceError, NodeRunState, NodeRunner};

/// Timeout of a kubelet's stop, which is short because the kubelet only abandons its work.
const TO_STOP: Duration = Duration::from_secs(30);

impl NodeRunner for Nodes {
    fn run_state(&self, name: &str) -> NodeRunState {
        let Some(follower) = &self.follower else { return NodeRunState::Undeclared };
        let state = follower.state.lock();
        match state.slots.get(name).map(|slot| &slot.now) {
            Some(NodeState::Running(_)) => NodeRunState::Running,
            Some(_) => NodeRunState::Down,
            None => {
                let declared = state.declared.iter().any(|desired| desired.name == name);
                let object = follower.context.api.get_as::<Node>(&Key::new("", name)).ok();
                let is_requested = object.is_some_and(|node| desired::requested_node(&node).is_some());
                if (declared && !state.abandoned.contains(name)) || is_requested {
                    NodeRunState::Down
                } else {
                    NodeRunState::Undeclared
                }
            }
        }
    }

    async fn kill_for_certain(&self, name: &str) -> Result<(), FenceError> {
        let follower = self.follower.as_ref().ok_or_else(|| FenceError::NotLocal(name.into()))?;
        let (running, hollow) = {
            let mut state = follower.state.lock();
            if state.closing {
                return Err(FenceError::Busy(name.into()));
            }
            let slot = state.slots.get_mut(name).ok_or_else(|| FenceError::NotLocal(name.into()))?;
            let running = match &slot.now {
                NodeState::Fenced => return Ok(()),
                NodeState::Off => {
                    slot.now = NodeState::Fenced;
                    return Ok(());
                }
                NodeState::Starting | NodeState::Ending(_) => return Err(FenceError::Busy(name.into())),
                NodeState::Running(running) => Some(running.clone()),
                NodeState::Fencing(running) | NodeState::Crashed(running) => running.clone(),
                NodeState::FailedUntil(_) => None,
            };
            slot.now = NodeState::Fencing(running.clone());
            (running, slot.hollow)
        };
        // The API keeps the node's pods, even if the Node object is deleted, until the processes are dead.
        follower.context.api.hold_node(name);
        follower.node_changed.notify_waiters();
        let killed = match running {
            Some(running) => kill(running).await,
            None if hollow || !follower.context.directory(name).join("host.sock").exists() => Ok(()),
            None => follower.context.end_process(name).await.map_err(|error| error.to_string()),
        };
        killed.map_err(|why| FenceError::MayLive(name.into(), why))?;
        if let Some(slot) = follower.state.lock().slots.get_mut(name) {
            slot.now = NodeState::Fenced;
        }
        follower.context.api.release_node(name);
        follower.node_changed.notify_waiters();
        Ok(())
    }

    /// Takes a fenced node back into service. A node with dead processes is restarted; one whose processes may still
    /// run gets a new kubelet over them. If `is_deleted`, its Node object was deleted, and a dead node does not start
    /// again.
    async fn take_back(&self, name: &str, is_deleted: bool) -> Result<(), String> {
        let Some(follower) = &self.follower else { return Ok(()) };
        let running = {
            let mut state = follower.state.lock();
            match state.slots.get(name).map(|slot| &slot.now) {
                Some(NodeState::Fenced | NodeState::Fencing(None)) => {
                    if is_deleted {
                        state.abandoned.insert(name.to_owned());
                    }
                    if is_deleted || !state.keep_down(name) {
                        state.release(name);
                    }
                    None
                }
                Some(NodeState::Fencing(Some(running))) => Some(running.clone()),
                _ => None,
            }
        };
        if let Some(before) = running {
            follower.restart_kubelet(&before).await?;
            if before.process().is_none() {
                follower.context.api.release_node(name);
            }
        }
        follower.node_changed.notify_waiters();
        follower.changed.notify_one();
        Ok(())
    }
}

impl Nodes {
    /// Waits until a starting node runs (true) or could not be started (false).
    pub(super) async fn wait_until_started(follower: &Follower, name: &str) -> bool {
        loop {
            let moved = follower.node_changed.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            match follower.state.lock().slots.get(name).map(|slot| &slot.now) {
                Some(NodeState::Running(_)) => return true,
                Some(NodeState::FailedUntil(_)) => return false,
                _ => {}
            }
            moved.await;
        }
    }
}

impl Follower {
    /// Restarts a node's kubelet over its running containers.
    pub(super) async fn restart_kubelet(&self, before: &Arc<RunningNode>) -> Result<(), String> {
        let again = self.context.start(&before.desired, before.index, before.host.clone()).await?;
        if let Some(slot) = self.state.lock().slots.get_mut(&before.name) {
            slot.now = NodeState::Running(Arc::new(again));
        }
        Ok(())
    }
}

pub(super) async fn kill(running: Arc<RunningNode>) -> Result<(), String> {
    let stopped = async {
        running.kubelet.detach().await;
        running.tasks.stop().await;
    };
    if tokio::time::timeout(TO_STOP, stopped).await.is_err() {
        return Err(format!("its kubelet did not stop within {} s", TO_STOP.as_secs()));
    }
    match running.host.clone() {
        Host::Hollow(runtime) => runtime.kill_all().map_err(|error| error.to_string()),
        Host::Process(process) => {
            let killed = base::task::blocking(move || process.kill()).await;
            killed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        }
    }
}
