//! The interface between the scheduler and its plugins: Kubernetes' extension points.
//!
//! A plugin's state of one cycle is the object that its [`Plugin::pre_filter`] or [`Plugin::pre_score`] returns: it
//! knows the pod and evaluates one node at a time. A plugin that does not apply to the pod returns no such object and
//! costs the cycle nothing.
//!
//! Architecture Invariant: up to Permit a plugin decides from its arguments; it never waits, writes or reads the
//! clock. Only PreBind, Bind and PostBind reach the API, and they do not block either: slow work is polled
//! ([`PreBind::Wait`]).

mod attempt;
mod binding;
mod change;
mod filters;
mod plugin_id;
mod point;
pub(crate) mod waiting_pods;

use std::cmp::Reverse;

use std::sync::Arc;

use jiff::Timestamp;

use crate::reason::Refusal;
use crate::state::node_info::{NodeInfo, NodeName};
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;

pub(crate) use attempt::Attempt;
pub(crate) use binding::{BindError, Binding, Permit, PreBind};
pub(crate) use change::{ChangeType, ClusterChange};
pub(crate) use filters::Filters;
pub(crate) use plugin_id::{PluginId, PluginSet};
pub(crate) use point::Point;
pub(super) use waiting_pods::WaitOutcome;
pub(crate) use waiting_pods::WaitingPods;

/// The best score a plugin gives a node; the worst is 0.
pub(crate) const MAX_SCORE: i64 = 100;

/// The result of PreFilter.
pub(crate) enum PreFilter<'a> {
    /// The filter does not apply: every node passes.
    Skip,
    /// No node passes.
    Reject(Refusal),
    /// Check each node.
    Check(Box<dyn NodeCheck + 'a>),
    /// Check only these nodes; no other passes.
    CheckOnly(Vec<NodeName>, Box<dyn NodeCheck + 'a>),
}

/// A filter for one pod.
pub(crate) trait NodeCheck {
    /// Checks the node. Must read the node's own state from `node`, which may differ from the snapshot's: see
    /// [`NodeCheck::added`].
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal>;

    /// Counts another pod on the node from now on. Only needed by checks that count over nodes.
    fn added(&mut self, _other: &PodInfo, _node: &NodeInfo) {}

    /// Stops counting another pod on the node.
    fn removed(&mut self, _other: &PodInfo, _node: &NodeInfo) {}
}

/// A score for one pod.
pub(crate) trait NodeScore {
    /// Returns the node's score; more is better.
    fn score(&self, node: &NodeInfo) -> i64;

    /// Normalizes the scores of all feasible nodes to 0 … [`MAX_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// The input of PostFilter: a pod that fits on no node, and the refusal of every node.
pub(crate) struct PostFilterInput<'u, 'a> {
    pub(crate) pod: &'a PodInfo,
    /// The cluster.
    pub(crate) snapshot: &'a Snapshot,
    /// The decisive refusal of each node, by node position; `None` if no filter refuses the node.
    pub(crate) refusals: &'u [Option<Refusal>],
    /// The filters, for checks with some pods removed.
    pub(crate) filters: &'u mut Filters<'a>,
    /// A pseudo-random number that determines the node at which the search for victims starts.
    pub(crate) tie_break: u64,
}

/// The result of PostFilter.
#[derive(Clone, Debug)]
pub(crate) enum PostFilter {
    /// No eviction was tried; the text is appended to the pod's message. The nomination stays.
    Ineligible(String),
    /// No eviction helps; the text is appended to the pod's message. The nomination is cleared.
    Hopeless(String),
    /// Evict these pods.
    Preempt(Preemption),
}

/// The pods to evict from a node so that another fits there.
#[derive(Clone, Debug)]
pub(crate) struct Preemption {
    /// The node to nominate.
    pub(crate) node: NodeName,
    /// The victims, most important first.
    pub(crate) victims: Vec<Arc<PodInfo>>,
}

/// A pod's position in the queue: the least value comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueOrder {
    /// Higher priorities come first.
    pub(crate) priority: Reverse<i32>,
    /// Older pods come first.
    pub(crate) since: Timestamp,
}

/// A plugin: takes part at the extension points it implements.
pub(crate) trait Plugin: Send + Sync {
    /// Returns its identity.
    fn id(&self) -> PluginId;

    /// Returns the extension points it implements.
    fn points(&self) -> &'static [Point] {
        self.id().points()
    }

    /// Checks whether the pod may be tried at all; the error is the message.
    fn pre_enqueue(&self, _pod: &PodInfo) -> Result<(), &'static str> {
        Ok(())
    }

    /// Returns the pod's position in the queue; equal pods are served in order of arrival.
    fn queue_order(&self, _pod: &PodInfo) -> QueueOrder {
        QueueOrder { priority: Reverse(0), since: Timestamp::MIN }
    }

    /// Prepares filtering for the pod.
    fn pre_filter<'a>(&'a self, _pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        PreFilter::Skip
    }

    /// Looks for a way to make room after no node fitted.
    fn post_filter(&self, _unfit: &mut PostFilterInput<'_, '_>) -> Option<PostFilter> {
        None
    }

    /// Prepares scoring for the pod; `None` if all nodes are equal for it. `feasible` are the positions of the nodes
    /// that take the pod.
    fn pre_score<'a>(
        &'a self,
        _pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
        _feasible: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        None
    }

    /// Reserves, in the plugin's own records, what the pod needs on this node; an error refuses the pod.
    fn reserve(&self, _pod: &PodInfo, _node: &NodeInfo) -> Result<(), String> {
        Ok(())
    }

    /// Releases the reservation, because the pod is not placed there. Also called if this plugin's [`Plugin::reserve`]
    /// was not called, and must do nothing then.
    fn unreserve(&self, _pod: &PodInfo, _node: &str) {}

    /// Decides whether a decided pod may be bound now. May allow or reject pods in `waiting` that it delayed before.
    fn permit(&self, _pod: &PodInfo, _node: &NodeInfo, _waiting: &mut WaitingPods) -> Permit {
        Permit::Allow
    }

    /// Prepares what the pod needs before it is bound. May be called again for the same pod and node to continue.
    fn pre_bind(&self, _binding: &Binding<'_>) -> Result<PreBind, BindError> {
        Ok(PreBind::Ready)
    }

    /// Binds the pod; `None` leaves it to the next plugin.
    fn bind(&self, _binding: &Binding<'_>) -> Option<Result<(), BindError>> {
        None
    }

    /// Called after the pod was bound.
    fn post_bind(&self, _binding: &Binding<'_>) {}

    /// Returns the types of changes that can resolve one of the plugin's refusals.
    fn wakes_on(&self) -> &'static [ChangeType] {
        &[]
    }

    /// Returns true if this change may have resolved the plugin's refusal of the pod.
    fn is_schedulable_after(
        &self,
        _pod: &PodInfo,
        _change: &ClusterChange<'_>,
        _snapshot: &Snapshot,
    ) -> bool {
        true
    }
}

/// Scales scores so that the best is [`MAX_SCORE`]: Kubernetes' default normalization.
pub(crate) fn normalize(scores: &mut [i64]) {
    let best = scores.iter().copied().max().unwrap_or(0);
    if best > 0 {
        for score in scores {
            *score = *score * MAX_SCORE / best;
        }
    }
}

/// Does the same as [`normalize`] where less is better: zero becomes [`MAX_SCORE`].
pub(crate) fn normalize_reversed(scores: &mut [i64]) {
    normalize(scores);
    for score in scores {
        *score = MAX_SCORE - *score;
    }
}
