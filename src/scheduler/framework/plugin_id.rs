//! The plugins by name: which there are, where each takes part, and sets of them.

use super::Point;

macro_rules! plugins {
    ($($(#[doc = $doc:literal])* $id:ident = $name:literal, weight $weight:literal, at [$($point:ident),*];)*) => {
        /// Every plugin there is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum PluginId {
            $($(#[doc = $doc])* $id,)*
        }

        impl PluginId {
            /// All plugins, in the order in which filters are asked.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$id),*];

            /// Its name in Kubernetes' configuration.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// How much its score counts when the configuration does not say.
            pub(crate) fn default_weight(self) -> i64 {
                match self { $(Self::$id => $weight,)* }
            }

            /// Where it takes part.
            pub(crate) fn points(self) -> &'static [Point] {
                match self { $(Self::$id => &[$(Point::$point),*],)* }
            }
        }
    };
}

plugins! {
    /// Pods wait until their scheduling gates are gone.
    SchedulingGates = "SchedulingGates", weight 0, at [PreEnqueue];
    /// Pods wait for the devices that they claim.
    DynamicResources = "DynamicResources", weight 0, at [PreEnqueue];
    /// Pods wait for the group that they belong to.
    GangScheduling = "GangScheduling", weight 0, at [PreEnqueue];
    /// The pod of the highest priority goes first.
    PrioritySort = "PrioritySort", weight 0, at [QueueSort];
    /// Cordoned nodes take no pods.
    NodeUnschedulable = "NodeUnschedulable", weight 0, at [Filter];
    /// A pod that names its node gets no other.
    NodeName = "NodeName", weight 0, at [Filter];
    /// Taints repel pods that do not tolerate them.
    TaintToleration = "TaintToleration", weight 3, at [Filter, Score];
    /// Selector and affinity of nodes.
    NodeAffinity = "NodeAffinity", weight 2, at [Filter, Score];
    /// Two pods cannot listen on the same port of a node.
    NodePorts = "NodePorts", weight 0, at [Filter];
    /// What a pod requests must be free.
    NodeResourcesFit = "NodeResourcesFit", weight 1, at [Filter, Score];
    /// A claim for one pod is used by one pod.
    VolumeRestrictions = "VolumeRestrictions", weight 0, at [Filter];
    /// Pods go where their volumes can be had, and their claims are bound with them.
    VolumeBinding = "VolumeBinding", weight 0, at [Filter, Reserve, PreBind];
    /// Pods go where the labels of their volumes say.
    VolumeZone = "VolumeZone", weight 0, at [Filter];
    /// Pods of a kind spread over domains.
    PodTopologySpread = "PodTopologySpread", weight 2, at [Filter, Score];
    /// Pods seek and shun one another.
    InterPodAffinity = "InterPodAffinity", weight 2, at [Filter, Score];
    /// The resources of a node should fill up alike.
    NodeResourcesBalancedAllocation = "NodeResourcesBalancedAllocation", weight 1, at [Score];
    /// Nodes that have the pod's images are better.
    ImageLocality = "ImageLocality", weight 1, at [Score];
    /// Evicts pods of lower priority.
    DefaultPreemption = "DefaultPreemption", weight 0, at [PostFilter];
    /// Binds through the API.
    DefaultBinder = "DefaultBinder", weight 0, at [Bind];
}

/// A set of plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PluginSet(u32);

impl PluginSet {
    /// With one plugin more.
    #[must_use]
    pub(crate) fn with(self, plugin: PluginId) -> Self {
        Self(self.0 | 1 << plugin as u32)
    }

    /// Whether the plugin is in it.
    pub(crate) fn contains(self, plugin: PluginId) -> bool {
        self.0 & 1 << plugin as u32 != 0
    }

    /// Whether both have a plugin in common.
    pub(crate) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The plugins of both.
    #[must_use]
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its plugins.
    pub(crate) fn iter(self) -> impl Iterator<Item = PluginId> {
        PluginId::ALL.iter().copied().filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<PluginId> for PluginSet {
    fn from_iter<I: IntoIterator<Item = PluginId>>(plugins: I) -> Self {
        plugins.into_iter().fold(Self::default(), Self::with)
    }
}
