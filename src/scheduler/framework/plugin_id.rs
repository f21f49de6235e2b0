//! The plugins by name, their extension points, and sets of plugins.

use super::Point;

macro_rules! plugins {
    ($($(#[doc = $doc:literal])* $id:ident = $name:literal, weight $weight:literal, at [$($point:ident),*];)*) => {
        /// All plugins.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum PluginId {
            $($(#[doc = $doc])* $id,)*
        }

        impl PluginId {
            /// All plugins, in the order in which filters run.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$id),*];

            /// Returns the plugin's name in Kubernetes' configuration.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// Returns the weight of the plugin's score unless the configuration sets one.
            pub(crate) fn default_weight(self) -> i64 {
                match self { $(Self::$id => $weight,)* }
            }

            /// Returns the plugin's extension points.
            pub(crate) fn points(self) -> &'static [Point] {
                match self { $(Self::$id => &[$(Point::$point),*],)* }
            }
        }
    };
}

plugins! {
    /// Pods wait until their scheduling gates are removed.
    SchedulingGates = "SchedulingGates", weight 0, at [PreEnqueue];
    /// Pods wait for the devices that they claim.
    DynamicResources = "DynamicResources", weight 0, at [PreEnqueue];
    /// Pods wait for the group that they belong to.
    GangScheduling = "GangScheduling", weight 0, at [PreEnqueue];
    /// The pod of the highest priority comes first.
    PrioritySort = "PrioritySort", weight 0, at [QueueSort];
    /// Cordoned nodes take no pods.
    NodeUnschedulable = "NodeUnschedulable", weight 0, at [Filter];
    /// A pod that names its node gets no other.
    NodeName = "NodeName", weight 0, at [Filter];
    /// Taints repel pods that do not tolerate them.
    TaintToleration = "TaintToleration", weight 3, at [Filter, Score];
    /// Node selector and node affinity.
    NodeAffinity = "NodeAffinity", weight 2, at [Filter, Score];
    /// Two pods cannot listen on the same port of a node.
    NodePorts = "NodePorts", weight 0, at [Filter];
    /// The resources that a pod requests must be free.
    NodeResourcesFit = "NodeResourcesFit", weight 1, at [Filter, Score];
    /// A ReadWriteOncePod claim is used by one pod only.
    VolumeRestrictions = "VolumeRestrictions", weight 0, at [Filter];
    /// Pods are placed on nodes that reach their volumes; their pending claims are bound with them.
    VolumeBinding = "VolumeBinding", weight 0, at [Filter, Reserve, PreBind];
    /// Pods are placed according to the zone labels of their volumes.
    VolumeZone = "VolumeZone", weight 0, at [Filter];
    /// Similar pods are spread over domains.
    PodTopologySpread = "PodTopologySpread", weight 2, at [Filter, Score];
    /// Affinity and anti-affinity between pods.
    InterPodAffinity = "InterPodAffinity", weight 2, at [Filter, Score];
    /// The resources of a node should fill up evenly.
    NodeResourcesBalancedAllocation = "NodeResourcesBalancedAllocation", weight 1, at [Score];
    /// Nodes that have the pod's images are better.
    ImageLocality = "ImageLocality", weight 1, at [Score];
    /// Evicts pods of lower priority.
    DefaultPreemption = "DefaultPreemption", weight 0, at [PostFilter];
    /// Binds through the API.
    DefaultBinder = "DefaultBinder", weight 0, at [Bind];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PluginSet(u32);

impl PluginSet {
    /// Returns the set with one plugin added.
    #[must_use]
    pub(crate) fn with(self, plugin: PluginId) -> Self {
        Self(self.0 | 1 << plugin as u32)
    }

    pub(crate) fn contains(self, plugin: PluginId) -> bool {
        self.0 & 1 << plugin as u32 != 0
    }

    /// Returns true if both sets have a plugin in common.
    pub(crate) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the plugins of both sets.
    #[must_use]
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = PluginId> {
        PluginId::ALL.iter().copied().filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<PluginId> for PluginSet {
    fn from_iter<I: IntoIterator<Item = PluginId>>(plugins: I) -> Self {
        plugins.into_iter().fold(Self::default(), Self::with)
    }
}
