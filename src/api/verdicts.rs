//! Why pods wait: what the scheduler found at its last attempt, asked of it when somebody wants to know.
//!
//! Never stored: the scheduler keeps the last verdict of each pod that has no node.

use std::sync::Arc;

use jiff::Timestamp;

use super::Api;

/// The scheduler's last attempt at a pod that found no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulingVerdict {
    /// When it was.
    pub attempted_at: Timestamp,
    /// What the pod's event says.
    pub message: String,
    /// What would make it fit, the least first.
    pub hints: Vec<Hint>,
    /// The filters that had something to say about the pod, in the order in which they are asked.
    pub filters: Vec<&'static str>,
    /// The plugins that scored the nodes, with their weights.
    pub scored_by: Vec<(&'static str, i64)>,
    /// Every node.
    pub nodes: Vec<NodeVerdict>,
}

/// Everything to change for one node to take the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The node.
    pub node: String,
    /// What to change there: at least one thing.
    pub changes: Vec<String>,
    /// How many other nodes need the same.
    pub alike: usize,
}

/// What the scheduler found of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    /// Its name.
    pub name: String,
    /// The filters that refused it, and why.
    pub refusals: Vec<FilterRefusal>,
    /// How it would score if it took the pod, of 100, in the order of `scored_by`; nothing when that was
    /// not asked.
    pub scores: Vec<i64>,
}

/// Why one filter refuses a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRefusal {
    /// The plugin.
    pub plugin: &'static str,
    /// Its reasons, as in events.
    pub reasons: Vec<String>,
}

/// Whoever knows verdicts: the scheduler.
pub trait SchedulingVerdicts: Send + Sync {
    /// The last verdict of the pod with this uid; none when it has a node or was not tried.
    fn verdict(&self, pod_uid: &str) -> Option<SchedulingVerdict>;
}

impl Api {
    /// Says whom to ask for verdicts.
    pub fn set_scheduling_verdicts(&self, verdicts: Arc<dyn SchedulingVerdicts>) {
        *self.inner.verdicts.write() = Some(verdicts);
    }

    /// Forgets the kubelets and the scheduler, which hold this API as it holds them: for who ends a cluster without
    /// waiting for them.
    pub fn let_go(&self) {
        self.inner.nodes.write().clear();
        *self.inner.verdicts.write() = None;
    }

    /// Why the pod with this uid waits.
    pub fn scheduling_verdict(&self, pod_uid: &str) -> Option<SchedulingVerdict> {
        let verdicts = self.inner.verdicts.read().clone()?;
        verdicts.verdict(pod_uid)
    }
}
