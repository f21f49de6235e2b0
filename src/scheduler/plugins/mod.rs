//! The plugins: each a file, each known to the rest of the scheduler by the framework's traits alone.

mod balanced_allocation;
mod default_preemption;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod pod_topology_spread;
mod scheduling_gates;
mod taint_toleration;
#[cfg(test)]
mod test_asking;

use std::sync::Arc;

use super::framework::Plugin;

/// All plugins with their default settings, in the order in which they are asked.
pub fn all() -> Vec<Arc<dyn Plugin>> {
    vec![
        Arc::new(scheduling_gates::SchedulingGates),
        Arc::new(node_unschedulable::NodeUnschedulable),
        Arc::new(node_name::NodeName),
        Arc::new(taint_toleration::TaintToleration),
        Arc::new(node_affinity::NodeAffinity),
        Arc::new(node_ports::NodePorts),
        Arc::new(node_resources_fit::NodeResourcesFit),
        Arc::new(pod_topology_spread::PodTopologySpread),
        Arc::new(inter_pod_affinity::InterPodAffinity::default()),
        Arc::new(balanced_allocation::BalancedAllocation),
        Arc::new(image_locality::ImageLocality),
        Arc::new(default_preemption::DefaultPreemption::default()),
    ]
}
