//! Applies faults to nodes (FAULT-1), and heals them: kubelets that are down or paused, nodes that are switched off,
//! clocks and disks.
//!
//! A node that is switched off is verified dead before the fault counts as in force, like a fenced one (SAFE-5). If the
//! node is fenced meanwhile, it stays dead, and after the fence it is down until the fault ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Nodes;
use super::context::RunningNode;
use super::fencing::kill;
use super::follow::{Follower, NodeState};
use base::sort::{CollectMap, SliceOrder};
use kubelet::PullFault;
use kubelet::runtime::RuntimeError;
use operators::faults::{FaultPending, NodeFaults};

/// The next action for a node.
enum FaultAction {
    Nothing,
    /// Stop its kubelet.
    Detach(Arc<RunningNode>),
    /// Kill all processes of the node; `None` means those of an earlier control plane, if any.
    Kill(Option<Arc<RunningNode>>),
    /// Restart its kubelet over its running containers.
    Start(Arc<RunningNode>),
    /// Release the node's slot, so that the follower starts the node.
    Release,
}

impl Nodes {
    /// Replaces the faults in force on nodes. Returns the nodes that are not in the desired state yet; a repeated call
    /// retries them.
    pub(crate) async fn apply_faults(&self, faults: &NodeFaults) -> BTreeMap<String, FaultPending> {
        let Some(follower) = &self.follower else {
            let pending =
                || FaultPending { is_busy: false, reason: "this control plane runs no nodes".into() };
            return faults.names().into_iter().map(|name| (name.to_owned(), pending())).collect_map();
        };
        let names: Vec<String> = {
            let mut state = follower.state.lock();
            state.faults = faults.clone();
            let known = state.slots.keys().cloned();
            let named = faults.names().into_iter().map(str::to_owned);
            let mut names: Vec<String> = known.chain(named).collect();
            names.order();
            names.dedup();
            names
        };
        let pulls = faults.pulls.iter().cloned();
        let pulls = pulls.map(|fault| PullFault {
            nodes: fault.nodes,
            delay: fault.delay,
            fails: fault.fails,
            pattern: fault.pattern,
        });
        follower.context.kubelets.set_pull_faults(pulls.collect());
        let steps = names.iter().map(|name| follower.apply_to_node(name));
        let outcomes = futures::future::join_all(steps).await;
        names
            .into_iter()
            .zip(outcomes)
            .filter_map(|(name, outcome)| Some((name, outcome.err()?)))
            .collect_map()
    }

    /// The kubelet of the node of this name; `None` if it does not run.
    pub(crate) fn kubelet(&self, name: &str) -> Option<kubelet::Kubelet> {
        let state = self.follower.as_ref()?.state.lock();
        match &state.slots.get(name)?.now {
            NodeState::Running(running) => Some(running.kubelet.clone()),
            _ => None,
        }
    }
}

impl Follower {
    /// Resumes all paused kubelets before the shutdown, since a paused one could not stop its pods.
    pub(super) fn resume_all(&self) {
        for slot in self.state.lock().slots.values() {
            if let NodeState::Running(running) | NodeState::Ending(running) = &slot.now {
                running.resume();
            }
        }
    }

    /// The nodes with crashed kubelets and known hosts.
    pub(super) fn crashed(&self) -> Vec<Arc<RunningNode>> {
        let state = self.state.lock();
        let crashed = state.slots.values().filter_map(|slot| match &slot.now {
            NodeState::Crashed(running) => running.clone(),
            _ => None,
        });
        crashed.collect()
    }

    async fn apply_to_node(&self, name: &str) -> Result<(), FaultPending> {
        match self.next_step(name)? {
            FaultAction::Nothing => Ok(()),
            FaultAction::Detach(running) => {
                running.kubelet.detach().await;
                running.tasks.stop().await;
                self.node_changed.notify_waiters();
                Ok(())
            }
            FaultAction::Kill(running) => self.switch_off(name, running).await,
            FaultAction::Start(before) => self.start_crashed(name, &before).await,
            FaultAction::Release => {
                self.state.lock().release(name);
                self.node_changed.notify_waiters();
                self.changed.notify_one();
                Ok(())
            }
        }
    }

    /// Decides under the lock, so that no other task changes the node meanwhile.
    fn next_step(&self, name: &str) -> Result<FaultAction, FaultPending> {
        let mut state = self.state.lock();
        let (is_off, is_down) = (state.faults.off.contains(name), state.faults.is_down(name));
        let is_affected = state.faults.names().contains(name);
        if state.closing {
            return Ok(FaultAction::Nothing);
        }
        let faults = state.faults.clone();
        let Some(slot) = state.slots.get_mut(name) else {
            let reason = format!("this control plane does not run node {name}");
            return if is_affected {
                Err(FaultPending { is_busy: false, reason })
            } else {
                Ok(FaultAction::Nothing)
            };
        };
        Ok(match &slot.now {
            NodeState::Starting | NodeState::Ending(_) if is_affected => {
                let reason = format!("node {name} is being started or removed");
                return Err(FaultPending { is_busy: true, reason });
            }
            NodeState::Running(running) if is_down => {
                let running = running.clone();
                slot.now = NodeState::Crashed(Some(running.clone()));
                if is_off { FaultAction::Kill(Some(running)) } else { FaultAction::Detach(running) }
            }
            NodeState::Running(running) => {
                running.suffer(&faults);
                FaultAction::Nothing
            }
            NodeState::Crashed(running) if is_off => FaultAction::Kill(running.clone()),
            NodeState::FailedUntil(_) if is_off => {
                slot.now = NodeState::Crashed(None);
                FaultAction::Kill(None)
            }
            NodeState::FailedUntil(_) if is_down => {
                slot.now = NodeState::Crashed(None);
                FaultAction::Nothing
            }
            NodeState::Crashed(Some(running)) if !is_down => {
                let running = running.clone();
                // The state `Starting` prevents other tasks from starting or killing the node meanwhile.
                slot.now = NodeState::Starting;
                FaultAction::Start(running)
            }
            NodeState::Crashed(None) | NodeState::Off if !is_down => FaultAction::Release,
            // The end of a fence puts a fenced node into the state that the fault requires. The other states need no
            // action.
            NodeState::Fencing(_)
            | NodeState::Fenced
            | NodeState::Crashed(_)
            | NodeState::Off
            | NodeState::Starting
            | NodeState::Ending(_)
            | NodeState::FailedUntil(_) => FaultAction::Nothing,
        })
    }

    async fn switch_off(&self, name: &str, running: Option<Arc<RunningNode>>) -> Result<(), FaultPending> {
        let is_hollow = self.state.lock().slots.get(name).is_some_and(|slot| slot.hollow);
        let left = !is_hollow && self.context.directory(name).join("host.sock").exists();
        let killed = match running {
            Some(running) => kill(running).await,
            None if left => {
                self.context.end_process(name).await.map_err(|error: RuntimeError| error.to_string())
            }
            None => Ok(()),
        };
        killed.map_err(|why| FaultPending {
            is_busy: false,
            reason: format!("processes of node {name} may still run: {why}"),
        })?;
        {
            let mut state = self.state.lock();
            match state.slots.get_mut(name) {
                Some(slot) if matches!(slot.now, NodeState::Crashed(_)) => slot.now = NodeState::Off,
                // The node was fenced meanwhile; the fence proceeds on its own.
                _ => return Ok(()),
            }
        }
        self.context.api.release_node(name);
        self.node_changed.notify_waiters();
        Ok(())
    }

    async fn start_crashed(&self, name: &str, before: &Arc<RunningNode>) -> Result<(), FaultPending> {
        let again = self.context.start(&before.desired, before.index, before.host.clone()).await;
        let outcome = {
            let mut state = self.state.lock();
            let faults = state.faults.clone();
            let (now, outcome) = match again {
                Ok(running) => {
                    running.suffer(&faults);
                    (NodeState::Running(Arc::new(running)), Ok(()))
                }
                Err(why) => {
                    let reason = format!("cannot restart the kubelet of node {name}: {why}");
                    (NodeState::Crashed(Some(before.clone())), Err(FaultPending { is_busy: false, reason }))
                }
            };
            if let Some(slot) = state.slots.get_mut(name) {
                slot.now = now;
            }
            outcome
        };
        self.node_changed.notify_waiters();
        self.changed.notify_one();
        outcome
    }
}
