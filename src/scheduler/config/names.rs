//! Names of plugins: today's, those of older versions, and those that Kubernetes has and Podium lacks.

use crate::framework::{PluginId, Point};
use crate::plugins::scoring::Strategy;

/// The meaning of a plugin's name in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PluginName {
    /// A plugin of this scheduler.
    Plugin(PluginId),
    /// A scoring strategy of NodeResourcesFit, which was a plugin of its own before v1beta3.
    Strategy(Strategy),
    /// A plugin of Kubernetes that is not implemented here; naming it has no effect.
    Unsupported,
}

/// Plugins without an implementation here: limits of a node's volumes, features that nodes declare, and former plugins
/// for labels, annotations and spreading.
const UNSUPPORTED_PLUGINS: &[&str] = &[
    "AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits", "NodeDeclaredFeatures", "NodeLabel",
    "NodePreferAvoidPods", "NodeVolumeLimits", "SelectorSpread", "DefaultPodTopologySpread",
    "ServiceAffinity",
];

/// Parses a name; `None` if Kubernetes never had such a plugin.
pub(super) fn named(name: &str) -> Option<PluginName> {
    let shape = || Strategy::RequestedToCapacityRatio(vec![(0, 0), (100, 10)]);
    Some(match name {
        "EvenPodsSpread" => PluginName::Plugin(PluginId::PodTopologySpread),
        "NodeResourcesLeastAllocated" => PluginName::Strategy(Strategy::LeastAllocated),
        "NodeResourcesMostAllocated" => PluginName::Strategy(Strategy::MostAllocated),
        "RequestedToCapacityRatio" => PluginName::Strategy(shape()),
        other if UNSUPPORTED_PLUGINS.contains(&other) => PluginName::Unsupported,
        other => PluginName::Plugin(PluginId::ALL.iter().copied().find(|id| id.name() == other)?),
    })
}

/// Returns true if the plugin extends the point in Kubernetes and not here: enabling it there has no effect.
pub(super) fn extends_only_in_kubernetes(plugin: PluginId, point: Point) -> bool {
    match plugin {
        PluginId::DynamicResources => matches!(
            point,
            Point::Filter | Point::PostFilter | Point::Score | Point::Reserve | Point::PreBind
        ),
        PluginId::GangScheduling => matches!(point, Point::Reserve | Point::Permit),
        _ => false,
    }
}

/// Returns all present names, for messages.
pub(super) fn all_names() -> String {
    let names: Vec<&str> = PluginId::ALL.iter().map(|id| id.name()).collect();
    names.join(", ")
}
