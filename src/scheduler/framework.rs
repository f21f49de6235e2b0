//! The vocabulary between the scheduler and its plugins: Kubernetes' extension points.
//!
//! A plugin's state of one cycle is what its [`Plugin::pre_filter`] or [`Plugin::pre_score`] returns: an
//! object that knows the pod and answers for one node at a time. A plugin that has nothing to say about
//! the pod returns none and costs the cycle nothing.
//!
//! Architecture Invariant: a plugin decides from the pod and the snapshot alone; it never waits, writes or
//! reads the clock. Reserve, Permit and Bind are the scheduler's own (assume, at once, the API's binding):
//! their only plugin is DefaultBinder.

use std::sync::Arc;

use super::filters::Filters;
use super::node_info::{NodeDifference, NodeInfo, NodeName};
use super::pod_info::PodInfo;
use super::reason::Refusal;
use super::snapshot::Snapshot;

/// The best score a plugin gives a node; the worst is 0.
pub const MAX_SCORE: i64 = 100;

macro_rules! plugins {
    ($($(#[doc = $doc:literal])* $id:ident = $name:literal, weight $weight:literal;)*) => {
        /// Every plugin there is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum PluginId {
            $($(#[doc = $doc])* $id,)*
        }

        impl PluginId {
            /// All plugins, in the order in which filters are asked.
            pub const ALL: &'static [Self] = &[$(Self::$id),*];

            /// Its name in Kubernetes' configuration.
            pub fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// How much its score counts when the configuration does not say.
            pub fn default_weight(self) -> i64 {
                match self { $(Self::$id => $weight,)* }
            }
        }
    };
}

plugins! {
    /// Pods wait until their scheduling gates are gone.
    SchedulingGates = "SchedulingGates", weight 0;
    /// The pod of the highest priority goes first.
    PrioritySort = "PrioritySort", weight 0;
    /// Cordoned nodes take no pods.
    NodeUnschedulable = "NodeUnschedulable", weight 0;
    /// A pod that names its node gets no other.
    NodeName = "NodeName", weight 0;
    /// Taints repel pods that do not tolerate them.
    TaintToleration = "TaintToleration", weight 3;
    /// Selector and affinity of nodes.
    NodeAffinity = "NodeAffinity", weight 2;
    /// Two pods cannot listen on the same port of a node.
    NodePorts = "NodePorts", weight 0;
    /// What a pod requests must be free.
    NodeResourcesFit = "NodeResourcesFit", weight 1;
    /// Pods of a kind spread over domains.
    PodTopologySpread = "PodTopologySpread", weight 2;
    /// Pods seek and shun one another.
    InterPodAffinity = "InterPodAffinity", weight 2;
    /// The resources of a node should fill up alike.
    NodeResourcesBalancedAllocation = "NodeResourcesBalancedAllocation", weight 1;
    /// Nodes that have the pod's images are better.
    ImageLocality = "ImageLocality", weight 1;
    /// Evicts pods of lower priority.
    DefaultPreemption = "DefaultPreemption", weight 0;
    /// Binds through the API.
    DefaultBinder = "DefaultBinder", weight 0;
}

/// A set of plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginSet(u32);

impl PluginSet {
    /// With one plugin more.
    #[must_use]
    pub fn with(self, plugin: PluginId) -> Self {
        Self(self.0 | 1 << plugin as u32)
    }

    /// Whether the plugin is in it.
    pub fn contains(self, plugin: PluginId) -> bool {
        self.0 & 1 << plugin as u32 != 0
    }

    /// Whether both have a plugin in common.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The plugins of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its plugins.
    pub fn iter(self) -> impl Iterator<Item = PluginId> {
        PluginId::ALL.iter().copied().filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<PluginId> for PluginSet {
    fn from_iter<I: IntoIterator<Item = PluginId>>(plugins: I) -> Self {
        plugins.into_iter().fold(Self::default(), Self::with)
    }
}

/// Something changed in the cluster that may let a waiting pod fit.
#[derive(Clone, Copy, Debug)]
pub enum ClusterChange<'a> {
    /// A node is new.
    NodeAdded(&'a NodeInfo),
    /// A node differs in this.
    NodeUpdated(&'a NodeInfo, NodeDifference),
    /// A node is gone.
    NodeRemoved(&'a NodeInfo),
    /// A pod is on a node, or the labels of one that was there changed.
    PodPlaced(&'a NodeInfo, &'a PodInfo),
    /// A pod left a node, or takes less of it.
    PodRemoved(&'a NodeInfo, &'a PodInfo),
    /// Other pods may be selected by terms that select namespaces.
    NamespaceChanged,
}

/// The kinds of [`ClusterChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as there")]
pub enum ChangeType {
    NodeAdded,
    NodeUpdated,
    NodeRemoved,
    PodPlaced,
    PodRemoved,
    NamespaceChanged,
}

impl ClusterChange<'_> {
    /// Its kind.
    pub fn change_type(&self) -> ChangeType {
        match self {
            Self::NodeAdded(_) => ChangeType::NodeAdded,
            Self::NodeUpdated(..) => ChangeType::NodeUpdated,
            Self::NodeRemoved(_) => ChangeType::NodeRemoved,
            Self::PodPlaced(..) => ChangeType::PodPlaced,
            Self::PodRemoved(..) => ChangeType::PodRemoved,
            Self::NamespaceChanged => ChangeType::NamespaceChanged,
        }
    }
}

/// What a plugin says of a pod before any node is looked at.
pub enum PreFilter<'a> {
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
pub trait NodeCheck {
    /// Whether the node takes the pod. What a check needs of the node itself it reads from `node`, which
    /// may differ from the snapshot's: see [`NodeCheck::added`].
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal>;

    /// From now on another pod is supposed to be on the node. Only for checks that count over nodes.
    fn added(&mut self, _other: &PodInfo, _node: &NodeInfo) {}

    /// From now on another pod is supposed not to be on the node.
    fn removed(&mut self, _other: &PodInfo, _node: &NodeInfo) {}
}

/// A score that knows its pod.
pub trait NodeScore {
    /// How good the node is; more is better.
    fn score(&self, node: &NodeInfo) -> i64;

    /// Brings the scores of all nodes that fit to 0 … [`MAX_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// What PostFilter is told: a pod that fits nowhere, and the refusal of every node.
pub struct Unfit<'u, 'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// By node position; None for nodes that were not looked at because the pod names others.
    pub refusals: &'u [Option<Refusal>],
    /// What refused it, to be asked what would be without some pods.
    pub filters: &'u mut Filters<'a>,
    /// A number without pattern: where to start among nodes.
    pub lot: u64,
}

/// What PostFilter came to.
#[derive(Clone, Debug)]
pub enum PostFilter {
    /// Nothing was tried; text for the pod's message. A node kept for it stays so.
    Ineligible(String),
    /// Nothing helps; text for the pod's message. No node is kept for it any longer.
    Hopeless(String),
    /// Evicting these pods makes room.
    Preempt(Preemption),
}

/// Pods to be evicted from a node, so that another fits there.
#[derive(Clone, Debug)]
pub struct Preemption {
    /// The node, to be kept for the pod.
    pub node: NodeName,
    /// Who goes, the most important first.
    pub victims: Vec<Arc<PodInfo>>,
}

/// A plugin: takes part at the extension points whose methods it has.
pub trait Plugin: Send + Sync {
    /// Which one it is.
    fn id(&self) -> PluginId;

    /// Whether the pod may be tried at all; the text says why not.
    fn pre_enqueue(&self, _pod: &PodInfo) -> Result<(), &'static str> {
        Ok(())
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
pub fn normalize(scores: &mut [i64]) {
    let best = scores.iter().copied().max().unwrap_or(0);
    if best > 0 {
        for score in scores {
            *score = *score * MAX_SCORE / best;
        }
    }
}

/// The same where less is better: nothing becomes [`MAX_SCORE`].
pub fn normalize_reversed(scores: &mut [i64]) {
    normalize(scores);
    for score in scores {
        *score = MAX_SCORE - *score;
    }
}
