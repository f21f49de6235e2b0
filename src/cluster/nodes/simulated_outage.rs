//! Outages of hollow nodes (FAULT-1), for programs that embed a cluster: stops a kubelet as if it had crashed or lost
//! the network, and restarts it. Also gives access to the runtimes of hollow nodes, to end a pod's containers.

use std::sync::Arc;

use super::Nodes;
use super::context::{Host, RunningNode};
use super::follow::{Follower, NodeState};
use kubelet::runtime::hollow::HollowRuntime;
use operators::fencing::NodeRunner;

/// The operation is not possible for a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// No node of this name runs here.
    #[error("no running node {name:?} in this cluster; nodes: {nodes}")]
    Unknown {
        /// The name as given.
        name: String,
        /// The existing nodes.
        nodes: String,
    },
    /// The node runs processes, which only its own kubelet can supervise.
    #[error("node {0:?} runs processes; only hollow nodes support this")]
    Processes(String),
    /// The node is fenced, and its processes are not verified dead.
    #[error("node {0:?} is being fenced; it cannot return before its processes are dead")]
    Fencing(String),
    /// The node's kubelet could not be restarted.
    #[error("cannot restart the kubelet of node {name:?}: {reason}")]
    Restart {
        /// The node.
        name: String,
        /// The reason.
        reason: String,
    },
}

impl Nodes {
    fn running(&self, name: &str) -> Result<(&Arc<Follower>, Arc<RunningNode>), NodeError> {
        let unknown = |known: Vec<&str>| {
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            NodeError::Unknown { name: name.into(), nodes: known }
        };
        let follower = self.follower.as_ref().ok_or_else(|| unknown(Vec::new()))?;
        let state = follower.state.lock();
        match state.slots.get(name).map(|slot| &slot.now) {
            Some(NodeState::Running(running) | NodeState::Fencing(Some(running))) => {
                Ok((follower, running.clone()))
            }
            _ => Err(unknown(state.slots.keys().map(String::as_str).collect())),
        }
    }

    /// The runtime of a hollow node.
    pub fn hollow(&self, name: &str) -> Result<Arc<HollowRuntime>, NodeError> {
        match self.running(name)?.1.host.clone() {
            Host::Hollow(runtime) => Ok(runtime),
            Host::Process(_) => Err(NodeError::Processes(name.into())),
        }
    }

    /// Stops the kubelet of a hollow node; its pods continue to run.
    pub async fn silence(&self, name: &str) -> Result<(), NodeError> {
        self.hollow(name)?;
        let (_, running) = self.running(name)?;
        running.kubelet.detach().await;
        Ok(())
    }

    /// Restarts the kubelet of a silent hollow node; it now learns of the changes to its pods.
    pub async fn wake(&self, name: &str) -> Result<(), NodeError> {
        if let Some(follower) = &self.follower {
            let is_fenced = match follower.state.lock().slots.get(name).map(|slot| &slot.now) {
                Some(NodeState::Fencing(_)) => return Err(NodeError::Fencing(name.into())),
                Some(NodeState::Fenced) => true,
                _ => false,
            };
            if is_fenced {
                // The node starts like a machine that was switched off and on again.
                let failed = |reason: String| NodeError::Restart { name: name.into(), reason };
                self.take_back(name, false).await.map_err(failed)?;
                let started = Self::wait_until_started(follower, name).await;
                return if started { Ok(()) } else { Err(failed("see its events".into())) };
            }
        }
        self.hollow(name)?;
        let (follower, before) = self.running(name)?;
        before.kubelet.detach().await;
        before.tasks.stop().await;
        let failed = |reason| NodeError::Restart { name: name.into(), reason };
        follower.restart_kubelet(&before).await.map_err(failed)?;
        follower.changed.notify_one();
        Ok(())
    }
}
