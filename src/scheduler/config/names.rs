//! Names of plugins: today's, those of older versions, and those that Podium knows and does not have.

use crate::framework::PluginId;
use crate::plugins::scoring::Strategy;

/// What a configuration means by a plugin's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// One of ours.
    Plugin(PluginId),
    /// NodeResourcesFit's score by one of its strategies: a plugin of its own before v1beta3.
    Strategy(Strategy),
    /// Kubernetes has it and what it does is not here; naming it changes nothing.
    Elsewhere,
}

/// Plugins whose subject (cloud disks, devices, waiting for volumes of others) Podium does not have.
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

/// Reads a name; none when Kubernetes never had such a plugin.
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

/// All of today's names, for messages.
pub(super) fn known() -> String {
    let names: Vec<&str> = PluginId::ALL.iter().map(|id| id.name()).collect();
    names.join(", ")
}
