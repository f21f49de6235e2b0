//! The plugins: one file each, each used by the rest of the scheduler only through the framework's traits.

mod balanced_allocation;
mod default_binder;
mod default_preemption;
mod dynamic_resources;
mod gang_scheduling;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod pod_topology_spread;
mod priority_sort;
mod scheduling_gates;
pub(super) mod scoring;
mod taint_toleration;
#[cfg(test)]
mod test_calls;
#[cfg(test)]
pub(super) mod test_volumes;
mod volume_binding;
mod volume_changes;
mod volume_restrictions;
mod volume_zone;

use std::sync::Arc;

use crate::framework::Plugin;
use object::node_selector::RequiredNodes;

pub(super) use balanced_allocation::BalancedAllocation;
pub(super) use default_preemption::DefaultPreemption;
pub(super) use inter_pod_affinity::InterPodAffinity;
pub(super) use node_resources_fit::NodeResourcesFit;
pub(super) use priority_sort::PrioritySort;
pub(super) use volume_binding::VolumeBinding;
pub(super) use volume_zone::located;

/// The settings of the plugins that have settings.
#[derive(Default)]
pub(super) struct PluginSettings {
    pub(super) fit: NodeResourcesFit,
    pub(super) balanced: BalancedAllocation,
    pub(super) affinity: InterPodAffinity,
    pub(super) preemption: DefaultPreemption,
    pub(super) added_affinity: RequiredNodes,
    pub(super) volumes: VolumeBinding,
}

/// Returns all plugins with their default settings, in the order in which they run.
pub(crate) fn all() -> Vec<Arc<dyn Plugin>> {
    with(PluginSettings::default())
}

/// Returns all plugins with these settings.
pub(super) fn with(settings: PluginSettings) -> Vec<Arc<dyn Plugin>> {
    vec![
        Arc::new(scheduling_gates::SchedulingGates),
        Arc::new(dynamic_resources::DynamicResources),
        Arc::new(gang_scheduling::GangScheduling),
        Arc::new(PrioritySort),
        Arc::new(node_unschedulable::NodeUnschedulable),
        Arc::new(node_name::NodeName),
        Arc::new(taint_toleration::TaintToleration),
        Arc::new(node_affinity::NodeAffinity { added: settings.added_affinity }),
        Arc::new(node_ports::NodePorts),
        Arc::new(settings.fit),
        Arc::new(volume_restrictions::VolumeRestrictions),
        Arc::new(settings.volumes),
        Arc::new(volume_zone::VolumeZone),
        Arc::new(pod_topology_spread::PodTopologySpread),
        Arc::new(settings.affinity),
        Arc::new(settings.balanced),
        Arc::new(image_locality::ImageLocality),
        Arc::new(settings.preemption),
        Arc::new(default_binder::DefaultBinder),
    ]
}
