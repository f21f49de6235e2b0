//! The vocabulary between the scheduler and its plugins: Kubernetes' extension points.
//!
//! A plugin's state of one cycle is what its [`Plugin::pre_filter`] or [`Plugin::pre_score`] returns: an
//! object that knows the pod and answers for one node at a time. A plugin that has nothing to say about
//! the pod returns none and costs the cycle nothing.
//!
//! Architecture Invariant: up to Permit a plugin decides from what it is given; it never waits, writes or reads
//! the clock. Only PreBind, Bind and PostBind reach the API, and they do not block either: what takes time is
//! asked for again ([`PreBind::Wait`]).

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
pub(super) use waiting_pods::End;
pub(crate) use waiting_pods::WaitingPods;

/// The best score a plugin gives a node; the worst is 0.
pub(crate) const MAX_SCORE: i64 = 100;

/// What a plugin says of a pod before any node is looked at.
pub(crate) enum PreFilter<'a> {
    /// Every node will do.
    Skip,
    /// No node will.
    Reject(Refusal),
    /// Ask for each node.
    Check(Box<dyn NodeCheck + 'a>),
    /// Ask for each of these nodes; no other will do.
    CheckOnly(Vec<NodeName>, Box<dyn NodeCheck + 'a>),
}

/// A filter that knows its pod.
pub(crate) trait NodeCheck {
    /// Whether the node takes the pod. What a check needs of the node itself it reads from `node`, which
    /// may differ from the snapshot's: see [`NodeCheck::added`].
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal>;

    /// From now on another pod is supposed to be on the node. Only for checks that count over nodes.
    fn added(&mut self, _other: &PodInfo, _node: &NodeInfo) {}

    /// From now on another pod is supposed not to be on the node.
    fn removed(&mut self, _other: &PodInfo, _node: &NodeInfo) {}
}

/// A score that knows its pod.
pub(crate) trait NodeScore {
    /// How good the node is; more is better.
    fn score(&self, node: &NodeInfo) -> i64;

    /// Brings the scores of all nodes that fit to 0 … [`MAX_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// What PostFilter gets: a pod that fits nowhere, and the refusal of every node.
pub(crate) struct Unfit<'u, 'a> {
    /// The pod.
    pub(crate) pod: &'a PodInfo,
    /// The cluster.
    pub(crate) snapshot: &'a Snapshot,
    /// By node position; None for nodes that were not looked at because the pod names others.
    pub(crate) refusals: &'u [Option<Refusal>],
    /// What refused it, to be asked what would be without some pods.
    pub(crate) filters: &'u mut Filters<'a>,
    /// A number without pattern: where to start among nodes.
    pub(crate) tie_break: u64,
}

/// What PostFilter came to.
#[derive(Clone, Debug)]
pub(crate) enum PostFilter {
    /// Nothing was tried; text for the pod's message. A node kept for it stays so.
    Ineligible(String),
    /// Nothing helps; text for the pod's message. No node is kept for it any longer.
    Hopeless(String),
    /// Evicting these pods makes room.
    Preempt(Preemption),
}

/// Pods to be evicted from a node, so that another fits there.
#[derive(Clone, Debug)]
pub(crate) struct Preemption {
    /// The node, to be kept for the pod.
    pub(crate) node: NodeName,
    /// Who goes, the most important first.
    pub(crate) victims: Vec<Arc<PodInfo>>,
}

/// Where a pod stands among those to be tried: the least first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueOrder {
    /// The higher the sooner.
    pub(crate) priority: Reverse<i32>,
    /// The older the sooner.
    pub(crate) since: Timestamp,
}

/// A plugin: takes part at the extension points whose methods it has.
pub(crate) trait Plugin: Send + Sync {
    /// Which one it is.
    fn id(&self) -> PluginId;

    /// The points whose methods it has.
    fn points(&self) -> &'static [Point] {
        self.id().points()
    }

    /// Whether the pod may be tried at all; the text says why not.
    fn pre_enqueue(&self, _pod: &PodInfo) -> Result<(), &'static str> {
        Ok(())
    }

    /// Where the pod stands in the queue; pods that stand alike go in the order in which they came.
    fn queue_order(&self, _pod: &PodInfo) -> QueueOrder {
        QueueOrder { priority: Reverse(0), since: Timestamp::MIN }
    }

    /// Looks at the pod before nodes are filtered.
    fn pre_filter<'a>(&'a self, _pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        PreFilter::Skip
    }

    /// After no node fitted: what can be done to make room.
    fn post_filter(&self, _unfit: &mut Unfit<'_, '_>) -> Option<PostFilter> {
        None
    }

    /// Looks at the pod before nodes are scored; None when all nodes are the same to it. `feasible` are the
    /// positions of the nodes that take the pod.
    fn pre_score<'a>(
        &'a self,
        _pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
        _feasible: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        None
    }

    /// Sets aside what the pod will need on this node, in the plugin's own account; an error refuses the pod.
    fn reserve(&self, _pod: &PodInfo, _node: &NodeInfo) -> Result<(), String> {
        Ok(())
    }

    /// Gives back what was set aside: the pod does not go there after all. Called also when this plugin was
    /// not reached, and must do nothing then.
    fn unreserve(&self, _pod: &PodInfo, _node: &str) {}

    /// Whether a decided pod may go now. Pods held back before may be allowed or rejected in `waiting`.
    fn permit(&self, _pod: &PodInfo, _node: &NodeInfo, _waiting: &mut WaitingPods) -> Permit {
        Permit::Allow
    }

    /// Makes ready what the pod needs before it is bound. May be called again for the same pod and node, and
    /// goes on then.
    fn pre_bind(&self, _binding: &Binding<'_>) -> Result<PreBind, BindError> {
        Ok(PreBind::Ready)
    }

    /// Binds the pod; none when it leaves that to the next plugin.
    fn bind(&self, _binding: &Binding<'_>) -> Option<Result<(), BindError>> {
        None
    }

    /// The pod is bound.
    fn post_bind(&self, _binding: &Binding<'_>) {}

    /// Which changes can turn one of its refusals.
    fn wakes_on(&self) -> &'static [ChangeType] {
        &[]
    }

    /// Whether this change may have turned its refusal of the pod.
    fn helped_by(&self, _pod: &PodInfo, _change: &ClusterChange<'_>, _snapshot: &Snapshot) -> bool {
        true
    }
}

/// Stretches scores so that the best is [`MAX_SCORE`]: Kubernetes' default normalisation.
pub(crate) fn normalize(scores: &mut [i64]) {
    let best = scores.iter().copied().max().unwrap_or(0);
    if best > 0 {
        for score in scores {
            *score = *score * MAX_SCORE / best;
        }
    }
}

/// The same where less is better: nothing becomes [`MAX_SCORE`].
pub(crate) fn normalize_reversed(scores: &mut [i64]) {
    normalize(scores);
    for score in scores {
        *score = MAX_SCORE - *score;
    }
}
