//! Names of plugins: today's, those of older versions, and those that Kubernetes has and Podium lacks.

use crate::framework::PluginId;
use crate::plugins::scoring::Strategy;

/// The meaning of a plugin's name in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A plugin of this scheduler.
    Plugin(PluginId),
    /// A scoring strategy of NodeResourcesFit, which was a plugin of its own before v1beta3.
    Strategy(Strategy),
    /// A plugin of Kubernetes that is not implemented here; naming it has no effect.
    Elsewhere,
}

/// Plugins for features that Podium lacks (cloud disks, devices, waiting for other provisioners' volumes).
const ELSEWHERE: &[&str] = &[
    "AzureDiskLimits",
    "CinderLimits",
    "DynamicResources",
    "EBSLimits",
    "GCEPDLimits",
    "GangScheduling",
    "NodeDeclaredFeatures",
    "NodeLabel",
    "NodePreferAvoidPods",
    "NodeVolumeLimits",
    "SelectorSpread",
    "DefaultPodTopologySpread",
    "ServiceAffinity",
];

/// Parses a name; `None` if Kubernetes never had such a plugin.
pub(super) fn named(name: &str) -> Option<Named> {
    let shape = || Strategy::RequestedToCapacityRatio(vec![(0, 0), (100, 10)]);
    Some(match name {
        "EvenPodsSpread" => Named::Plugin(PluginId::PodTopologySpread),
        "NodeResourcesLeastAllocated" => Named::Strategy(Strategy::LeastAllocated),
        "NodeResourcesMostAllocated" => Named::Strategy(Strategy::MostAllocated),
        "RequestedToCapacityRatio" => Named::Strategy(shape()),
        other if ELSEWHERE.contains(&other) => Named::Elsewhere,
        other => Named::Plugin(PluginId::ALL.iter().copied().find(|id| id.name() == other)?),
    })
}

/// Returns all present names, for messages.
pub(super) fn known() -> String {
    let names: Vec<&str> = PluginId::ALL.iter().map(|id| id.name()).collect();
    names.join(", ")
}
