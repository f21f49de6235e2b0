//! Applies faults to nodes (FAULT-1), and heals them: kubelets that are down or paused, nodes that are switched off,
//! clocks and disks.
//!
//! A node that is switched off is verified dead before the fault counts as in force, like a fenced one (SAFE-5). It
//! stays down regardless of other changes of the node: a fence kills it for good, and returns it to the state that the
//! fault requires.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Nodes;
use super::context::Running;
use super::fault_set::{NodeFaults, NotDone};
use super::fencing::kill;
use super::follow::{Follower, Now};
use kubelet::runtime::RuntimeError;

/// The next step of a node.
enum Step {
    Nothing,
    /// Stop its kubelet.
    Detach(Arc<Running>),
    /// Kill all its processes; none: those of an earlier control plane, if any.
    Kill(Option<Arc<Running>>),
    /// Restart its kubelet over its running containers.
    Start(Arc<Running>),
    /// It may start like any other.
    Release,
}

impl Nodes {
    /// Replaces the faults in force on nodes. Returns the nodes that are not in the desired state yet; may be repeated.
    pub(in crate::cluster) async fn bring_about(&self, faults: &NodeFaults) -> BTreeMap<String, NotDone> {
        let Some(follower) = &self.follower else {
            let why = || NotDone { is_busy: false, why: "this control plane runs no nodes".into() };
            return faults.names().into_iter().map(|name| (name.to_owned(), why())).collect();
        };
        let names: Vec<String> = {
            let mut state = follower.state.lock();
            state.faults = faults.clone();
            let known = state.slots.keys().cloned();
            let named = faults.names().into_iter().map(str::to_owned);
            let mut names: Vec<String> = known.chain(named).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        follower.context.kubelets.set_pull_faults(faults.pulls.clone());
        let steps = names.iter().map(|name| follower.bring_node_about(name));
        let outcomes = futures::future::join_all(steps).await;
        names.into_iter().zip(outcomes).filter_map(|(name, outcome)| Some((name, outcome.err()?))).collect()
    }

    /// The kubelet of a node that runs.
    pub(in crate::cluster) fn kubelet(&self, name: &str) -> Option<kubelet::Kubelet> {
        let state = self.follower.as_ref()?.state.lock();
        match &state.slots.get(name)?.now {
            Now::Running(running) => Some(running.kubelet.clone()),
            _ => None,
        }
    }
}

impl Follower {
    /// Resumes all paused ones: they are about to stop.
    pub(super) fn resume_all(&self) {
        for slot in self.state.lock().slots.values() {
            if let Now::Running(running) | Now::Ending(running) = &slot.now {
                running.resume();
            }
        }
    }

    /// The nodes with crashed kubelets and known hosts.
    pub(super) fn crashed(&self) -> Vec<Arc<Running>> {
        let state = self.state.lock();
        let crashed = state.slots.values().filter_map(|slot| match &slot.now {
            Now::Crashed(running) => running.clone(),
            _ => None,
        });
        crashed.collect()
    }

    async fn bring_node_about(&self, name: &str) -> Result<(), NotDone> {
        match self.next_step(name)? {
            Step::Nothing => Ok(()),
            Step::Detach(running) => {
                running.kubelet.detach().await;
                running.tasks.stop().await;
                self.moved.notify_waiters();
                Ok(())
            }
            Step::Kill(running) => self.switch_off(name, running).await,
            Step::Start(before) => self.start_crashed(name, &before).await,
            Step::Release => {
                self.state.lock().release(name);
                self.moved.notify_waiters();
                self.changed.notify_one();
                Ok(())
            }
        }
    }

    /// Decides under the lock, so that no other task changes the node meanwhile.
    fn next_step(&self, name: &str) -> Result<Step, NotDone> {
        let mut state = self.state.lock();
        let (is_off, is_down) = (state.faults.off.contains(name), state.faults.is_down(name));
        let is_met = state.faults.names().contains(name);
        if state.closing {
            return Ok(Step::Nothing);
        }
        let faults = state.faults.clone();
        let Some(slot) = state.slots.get_mut(name) else {
            let why = format!("this control plane does not run node {name}");
            return if is_met { Err(NotDone { is_busy: false, why }) } else { Ok(Step::Nothing) };
        };
        Ok(match &slot.now {
            Now::Starting | Now::Ending(_) if is_met => {
                let why = format!("node {name} is being started or removed");
                return Err(NotDone { is_busy: true, why });
            }
            Now::Running(running) if is_down => {
                let running = running.clone();
                slot.now = Now::Crashed(Some(running.clone()));
                if is_off { Step::Kill(Some(running)) } else { Step::Detach(running) }
            }
            Now::Running(running) => {
                running.suffer(&faults);
                Step::Nothing
            }
            Now::Crashed(running) if is_off => Step::Kill(running.clone()),
            Now::FailedUntil(_) if is_off => {
                slot.now = Now::Crashed(None);
                Step::Kill(None)
            }
            Now::FailedUntil(_) if is_down => {
                slot.now = Now::Crashed(None);
                Step::Nothing
            }
            Now::Crashed(Some(running)) if !is_down => {
                let running = running.clone();
                // No other task starts or kills it meanwhile.
                slot.now = Now::Starting;
                Step::Start(running)
            }
            Now::Crashed(None) | Now::Off if !is_down => Step::Release,
            // A fenced one returns to the state that the fault requires; nodes without faults are not handled here.
            Now::Fencing(_)
            | Now::Fenced
            | Now::Crashed(_)
            | Now::Off
            | Now::Starting
            | Now::Ending(_)
            | Now::FailedUntil(_) => Step::Nothing,
        })
    }

    async fn switch_off(&self, name: &str, running: Option<Arc<Running>>) -> Result<(), NotDone> {
        let is_hollow = self.state.lock().slots.get(name).is_some_and(|slot| slot.hollow);
        let left = !is_hollow && self.context.directory(name).join("host.sock").exists();
        let killed = match running {
            Some(running) => kill(running).await,
            None if left => {
                self.context.end_process(name).await.map_err(|error: RuntimeError| error.to_string())
            }
            None => Ok(()),
        };
        killed.map_err(|why| NotDone {
            is_busy: false,
            why: format!("processes of node {name} may still run: {why}"),
        })?;
        {
            let mut state = self.state.lock();
            match state.slots.get_mut(name) {
                Some(slot) if matches!(slot.now, Now::Crashed(_)) => slot.now = Now::Off,
                // It was fenced meanwhile: that continues by itself.
                _ => return Ok(()),
            }
        }
        self.context.api.release_node(name);
        self.moved.notify_waiters();
        Ok(())
    }

    async fn start_crashed(&self, name: &str, before: &Arc<Running>) -> Result<(), NotDone> {
        let again = self.context.start(&before.desired, before.index, before.host.clone()).await;
        let outcome = {
            let mut state = self.state.lock();
            let faults = state.faults.clone();
            let (now, outcome) = match again {
                Ok(running) => {
                    running.suffer(&faults);
                    (Now::Running(Arc::new(running)), Ok(()))
                }
                Err(why) => {
                    let why = format!("cannot restart the kubelet of node {name}: {why}");
                    (Now::Crashed(Some(before.clone())), Err(NotDone { is_busy: false, why }))
                }
            };
            if let Some(slot) = state.slots.get_mut(name) {
                slot.now = now;
            }
            outcome
        };
        self.moved.notify_waiters();
        self.changed.notify_one();
        outcome
    }
}
