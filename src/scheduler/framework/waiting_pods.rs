//! Pods with a decided node that are not bound yet: waiting in Permit for plugins, or in PreBind for their volumes.
//! Their resources are assumed meanwhile.
//!
//! Architecture Invariant: nothing here reads a clock, and a pod is here at most once.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::framework::Attempt;
use crate::framework::PluginId;
use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use object::Uid;
use object::time::go_duration;

/// The longest wait in Permit for any plugin.
pub(crate) const LONGEST_PERMIT_WAIT: Duration = Duration::from_mins(15);

/// A plugin that has not allowed a pod yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PendingPlugin {
    by: PluginId,
    timeout: Duration,
    until: Duration,
}

#[derive(Debug)]
enum Stage {
    /// The pod waits in Permit for these plugins, at least one, to allow it.
    Permit(Vec<PendingPlugin>),
    /// The pod waits in PreBind while its volumes are prepared.
    PreBind,
    /// The pod has finished waiting and is in `finished`.
    Over(WaitOutcome),
}

/// The outcome of a pod's wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// Bind the pod, or call PreBind again.
    Bind,
    /// A plugin rejected the pod, or did not allow it in time.
    Rejected(PluginId, String),
    /// The wait failed for another reason: the pod's node was removed, or PreBind did not finish in time.
    Failed(String),
}

#[derive(Debug)]
struct WaitingPod {
    attempt: Attempt,
    node: NodeName,
    stage: Stage,
    /// The end of the current wait; the pod is in `deadlines` until it has finished waiting.
    deadline: Duration,
}

/// The waiting pods; see the head of this file.
#[derive(Debug, Default)]
pub(crate) struct WaitingPods {
    pods: HashMap<Uid, WaitingPod>,
    deadlines: BTreeSet<(Duration, Uid)>,
    /// Pods that have finished waiting.
    finished: VecDeque<Uid>,
}

#[cfg_attr(not(test), expect(dead_code, reason = "the framework has this point, but no plugin waits there"))]
impl WaitingPods {
    /// Returns the pods that wait in Permit, with their nodes, in no order.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&Arc<PodInfo>, &NodeName)> {
        let at_permit = |waiting: &&WaitingPod| matches!(waiting.stage, Stage::Permit(_));
        self.pods.values().filter(at_permit).map(|waiting| (&waiting.attempt.pod, &waiting.node))
    }

    /// Removes a plugin's delay of a pod. The pod is bound once no plugin delays it.
    pub(crate) fn allow(&mut self, uid: &str, plugin: PluginId) {
        let Some(waiting) = self.pods.get_mut(uid) else { return };
        let Stage::Permit(holds) = &mut waiting.stage else { return };
        holds.retain(|hold| hold.by != plugin);
        let Some(next) = holds.iter().map(|hold| hold.until).min() else {
            return self.end(uid, WaitOutcome::Bind);
        };
        self.deadlines.remove(&(waiting.deadline, uid.to_string()));
        self.deadlines.insert((next, uid.to_string()));
        waiting.deadline = next;
    }

    /// Rejects the pod on behalf of a plugin.
    pub(crate) fn reject(&mut self, uid: &str, plugin: PluginId, reason: impl Into<String>) {
        if matches!(self.pods.get(uid), Some(WaitingPod { stage: Stage::Permit(_), .. })) {
            self.end(uid, WaitOutcome::Rejected(plugin, reason.into()));
        }
    }

    /// Makes a pod wait until all these plugins allow it, each for at most the given time.
    pub(crate) fn wait_on_permit(
        &mut self,
        attempt: Attempt,
        node: NodeName,
        waits: Vec<(PluginId, Duration)>,
        now: Duration,
    ) {
        let hold = |(by, timeout): (PluginId, Duration)| {
            let timeout = timeout.min(LONGEST_PERMIT_WAIT);
            PendingPlugin { by, timeout, until: now + timeout }
        };
        let holds: Vec<PendingPlugin> = waits.into_iter().map(hold).collect();
        let deadline = holds.iter().map(|hold| hold.until).min().unwrap_or(now);
        self.put(WaitingPod { attempt, node, stage: Stage::Permit(holds), deadline });
    }

    /// Makes a pod wait in PreBind until `deadline` at most.
    pub(crate) fn wait_on_pre_bind(&mut self, attempt: Attempt, node: NodeName, deadline: Duration) {
        self.put(WaitingPod { attempt, node, stage: Stage::PreBind, deadline });
    }

    fn put(&mut self, waiting: WaitingPod) {
        let uid = waiting.attempt.pod.uid().to_string();
        self.deadlines.insert((waiting.deadline, uid.clone()));
        self.pods.insert(uid, waiting);
    }

    /// Ends the wait of the pods in PreBind after a change of the cluster, so that PreBind is called again.
    pub(crate) fn retry_pre_bind(&mut self) {
        self.end_all(|waiting| matches!(waiting.stage, Stage::PreBind), &WaitOutcome::Bind);
    }

    /// Ends the wait of all pods with this node, which was removed.
    pub(crate) fn node_deleted(&mut self, node: &str) {
        self.end_all(
            |waiting| *waiting.node == *node,
            &WaitOutcome::Failed(format!("nodes \"{node}\" not found")),
        );
    }

    fn end_all(&mut self, which: impl Fn(&WaitingPod) -> bool, end: &WaitOutcome) {
        if self.pods.is_empty() {
            return;
        }
        let meant = self.pods.iter().filter(|(_, waiting)| which(waiting));
        let uids: Vec<Uid> = meant.map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            self.end(&uid, end.clone());
        }
    }

    /// Returns a pod that has finished waiting, or has reached its deadline.
    pub(crate) fn next(&mut self, now: Duration) -> Option<(Attempt, NodeName, WaitOutcome)> {
        while let Some((until, uid)) = self.deadlines.first().filter(|(until, _)| *until <= now).cloned() {
            self.deadlines.remove(&(until, uid.clone()));
            if let Some(over) = self.pods.get(&uid).map(|waiting| waiting.over_at(until)) {
                self.end(&uid, over);
            }
        }
        let uid = self.finished.pop_front()?;
        let WaitingPod { attempt, node, stage, .. } = self.pods.remove(&uid)?;
        let Stage::Over(end) = stage else { return None };
        Some((attempt, node, end))
    }

    /// Returns the earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Removes a pod that is deleted, or bound by another binder; returns its node.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<NodeName> {
        let waiting = self.pods.remove(uid)?;
        self.deadlines.remove(&(waiting.deadline, uid.to_string()));
        if matches!(waiting.stage, Stage::Over(_)) {
            self.finished.retain(|other| *other != uid);
        }
        Some(waiting.node)
    }

    fn end(&mut self, uid: &str, end: WaitOutcome) {
        let Some(waiting) = self.pods.get_mut(uid) else { return };
        // The first outcome applies, except that a pod with a removed node is never bound.
        if matches!(waiting.stage, Stage::Over(_)) {
            if matches!(end, WaitOutcome::Failed(_)) {
                waiting.stage = Stage::Over(end);
            }
            return;
        }
        waiting.stage = Stage::Over(end);
        self.deadlines.remove(&(waiting.deadline, uid.to_string()));
        self.finished.push_back(uid.to_string());
    }
}

impl WaitingPod {
    /// Returns the outcome that applies at the deadline.
    fn over_at(&self, deadline: Duration) -> WaitOutcome {
        match &self.stage {
            Stage::Permit(holds) => {
                let Some(hold) = holds.iter().find(|hold| hold.until == deadline) else {
                    return WaitOutcome::Bind;
                };
                let (waited, by) = (go_duration(hold.timeout), hold.by.name());
                let reason = format!("rejected due to timeout after waiting {waited} at plugin {by}");
                WaitOutcome::Rejected(hold.by, reason)
            }
            Stage::PreBind => WaitOutcome::Failed("timed out waiting for the PreBind plugins".into()),
            Stage::Over(end) => end.clone(),
        }
    }
}
