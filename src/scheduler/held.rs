//! Pods whose node is decided and that are not bound yet: held back by Permit, or waiting in PreBind for what
//! they need there. Their room is taken meanwhile.
//!
//! Architecture Invariant: nothing here reads a clock, and a pod is here at most once.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::framework::PluginId;
use super::node_info::NodeName;
use super::pod_info::PodInfo;
use super::queue::Attempt;
use crate::object::Uid;
use crate::object::time::go_duration;

/// No plugin holds a pod back for longer than this.
pub const LONGEST_PERMIT_WAIT: Duration = Duration::from_mins(15);

/// A plugin that has not allowed a pod yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    by: PluginId,
    timeout: Duration,
    until: Duration,
}

#[derive(Debug)]
enum Stage {
    /// These plugins have not allowed it yet; at least one.
    Permit(Vec<Hold>),
    /// What it needs is being made.
    PreBind,
    /// It is in `turns`.
    Over(End),
}

/// What became of a pod that was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is to be bound now, or tried to.
    Bind,
    /// A plugin refused it, or did not allow it in time.
    Refused(PluginId, String),
    /// Nothing that concerns the pod itself: its node went, or what it needs was not made in time.
    Failed(String),
}

#[derive(Debug)]
struct HeldPod {
    attempt: Attempt,
    node: NodeName,
    stage: Stage,
    /// When its time is over; it is in `deadlines` until something became of it.
    deadline: Duration,
}

/// See the file's head.
#[derive(Debug, Default)]
pub struct Held {
    pods: HashMap<Uid, HeldPod>,
    deadlines: BTreeSet<(Duration, Uid)>,
    /// Those that something became of.
    turns: VecDeque<Uid>,
}

impl Held {
    /// The pods that Permit plugins hold back, with their nodes, in no order.
    pub fn waiting(&self) -> impl Iterator<Item = (&Arc<PodInfo>, &NodeName)> {
        let at_permit = |held: &&HeldPod| matches!(held.stage, Stage::Permit(_));
        self.pods.values().filter(at_permit).map(|held| (&held.attempt.pod, &held.node))
    }

    /// A plugin holds the pod back no longer; it goes when no other does.
    pub fn allow(&mut self, uid: &str, plugin: PluginId) {
        let Some(held) = self.pods.get_mut(uid) else { return };
        let Stage::Permit(holds) = &mut held.stage else { return };
        holds.retain(|hold| hold.by != plugin);
        let Some(next) = holds.iter().map(|hold| hold.until).min() else { return self.end(uid, End::Bind) };
        self.deadlines.remove(&(held.deadline, uid.to_string()));
        self.deadlines.insert((next, uid.to_string()));
        held.deadline = next;
    }

    /// A plugin refuses the pod after all.
    pub fn refuse(&mut self, uid: &str, plugin: PluginId, why: impl Into<String>) {
        if matches!(self.pods.get(uid), Some(HeldPod { stage: Stage::Permit(_), .. })) {
            self.end(uid, End::Refused(plugin, why.into()));
        }
    }

    /// Holds a pod back until all these plugins allow it, each for so long at most.
    pub(super) fn hold(
        &mut self,
        attempt: Attempt,
        node: NodeName,
        waits: Vec<(PluginId, Duration)>,
        now: Duration,
    ) {
        let hold = |(by, timeout): (PluginId, Duration)| {
            let timeout = timeout.min(LONGEST_PERMIT_WAIT);
            Hold { by, timeout, until: now + timeout }
        };
        let holds: Vec<Hold> = waits.into_iter().map(hold).collect();
        let deadline = holds.iter().map(|hold| hold.until).min().unwrap_or(now);
        self.put(HeldPod { attempt, node, stage: Stage::Permit(holds), deadline });
    }

    /// Keeps a pod until what it needs is there, until then at most.
    pub(super) fn keep(&mut self, attempt: Attempt, node: NodeName, deadline: Duration) {
        self.put(HeldPod { attempt, node, stage: Stage::PreBind, deadline });
    }

    fn put(&mut self, held: HeldPod) {
        let uid = held.attempt.pod.uid().to_string();
        self.deadlines.insert((held.deadline, uid.clone()));
        self.pods.insert(uid, held);
    }

    /// Something changed in the cluster: those waiting in PreBind are asked again.
    pub(super) fn ask_again(&mut self) {
        self.end_all(|held| matches!(held.stage, Stage::PreBind), &End::Bind);
    }

    /// A node is gone, and whoever was to go there stays.
    pub(super) fn node_gone(&mut self, node: &str) {
        self.end_all(|held| *held.node == *node, &End::Failed(format!("nodes \"{node}\" not found")));
    }

    fn end_all(&mut self, which: impl Fn(&HeldPod) -> bool, end: &End) {
        if self.pods.is_empty() {
            return;
        }
        let meant = self.pods.iter().filter(|(_, held)| which(held));
        let uids: Vec<Uid> = meant.map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            self.end(&uid, end.clone());
        }
    }

    /// A pod that something became of, be it that its time is over.
    pub(super) fn next(&mut self, now: Duration) -> Option<(Attempt, NodeName, End)> {
        while let Some((until, uid)) = self.deadlines.first().filter(|(until, _)| *until <= now).cloned() {
            self.deadlines.remove(&(until, uid.clone()));
            if let Some(over) = self.pods.get(&uid).map(|held| held.over_at(until)) {
                self.end(&uid, over);
            }
        }
        let uid = self.turns.pop_front()?;
        let HeldPod { attempt, node, stage, .. } = self.pods.remove(&uid)?;
        let Stage::Over(end) = stage else { return None };
        Some((attempt, node, end))
    }

    /// When the first pod's time is over.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// The pod is gone, or bound by another; the node it was held for.
    pub(super) fn remove(&mut self, uid: &str) -> Option<NodeName> {
        let held = self.pods.remove(uid)?;
        self.deadlines.remove(&(held.deadline, uid.to_string()));
        if matches!(held.stage, Stage::Over(_)) {
            self.turns.retain(|other| *other != uid);
        }
        Some(held.node)
    }

    fn end(&mut self, uid: &str, end: End) {
        let Some(held) = self.pods.get_mut(uid) else { return };
        // What happened first holds, but a pod whose node is gone is not bound.
        if matches!(held.stage, Stage::Over(_)) {
            if matches!(end, End::Failed(_)) {
                held.stage = Stage::Over(end);
            }
            return;
        }
        held.stage = Stage::Over(end);
        self.deadlines.remove(&(held.deadline, uid.to_string()));
        self.turns.push_back(uid.to_string());
    }
}

impl HeldPod {
    /// What becomes of it when its time is over.
    fn over_at(&self, deadline: Duration) -> End {
        match &self.stage {
            Stage::Permit(holds) => {
                let Some(hold) = holds.iter().find(|hold| hold.until == deadline) else { return End::Bind };
                let (waited, by) = (go_duration(hold.timeout), hold.by.name());
                let why = format!("rejected due to timeout after waiting {waited} at plugin {by}");
                End::Refused(hold.by, why)
            }
            Stage::PreBind => End::Failed("timed out waiting for what the pod needs".into()),
            Stage::Over(end) => end.clone(),
        }
    }
}
