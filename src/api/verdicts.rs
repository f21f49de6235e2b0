//! Scheduling verdicts: the results of the scheduler's last attempts at pending pods, queried on demand.
//!
//! Never stored: the scheduler holds the last verdict of each pod without a node.

use std::sync::Arc;

use jiff::Timestamp;

use super::Api;

/// The scheduler's last attempt at a pod that found no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulingVerdict {
    /// The time of the attempt.
    pub attempted_at: Timestamp,
    /// The message of the pod's event.
    pub message: String,
    /// Changes that would make the pod fit, the smallest first.
    pub hints: Vec<Hint>,
    /// The filters that were relevant for the pod, in the order in which they run.
    pub filters: Vec<&'static str>,
    /// The plugins that scored the nodes, with their weights.
    pub scored_by: Vec<(&'static str, i64)>,
    /// Every node.
    pub nodes: Vec<NodeVerdict>,
}

/// All changes that one node needs in order to accept the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The node.
    pub node: String,
    /// The changes, at least one.
    pub changes: Vec<String>,
    /// The number of other nodes that need the same changes.
    pub alike: usize,
}

/// The result for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    /// Its name.
    pub name: String,
    /// The filters that refused it, and their reasons.
    pub refusals: Vec<FilterRefusal>,
    /// Its scores out of 100 in the order of `scored_by`, as if it accepted the pod; empty if they were not
    /// computed.
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

/// The source of verdicts: the scheduler.
pub trait SchedulingVerdicts: Send + Sync {
    /// Returns the last verdict of the pod with this uid; `None` if it has a node or was not tried.
    fn verdict(&self, pod_uid: &str) -> Option<SchedulingVerdict>;
}

impl Api {
    /// Sets the source of verdicts.
    pub fn set_scheduling_verdicts(&self, verdicts: Arc<dyn SchedulingVerdicts>) {
        *self.inner.verdicts.write() = Some(verdicts);
    }

    /// Drops the references to the kubelets and the scheduler, which refer to this API in turn, so that
    /// neither would be freed. For callers that end a cluster without waiting for its components.
    pub fn clear(&self) {
        self.inner.nodes.write().clear();
        *self.inner.verdicts.write() = None;
    }

    /// Returns the reason why the pod with this uid is pending.
    pub fn scheduling_verdict(&self, pod_uid: &str) -> Option<SchedulingVerdict> {
        let verdicts = self.inner.verdicts.read().clone()?;
        verdicts.verdict(pod_uid)
    }
}
