//! NodeUnschedulable: cordoned nodes accept only pods that tolerate `node.kubernetes.io/unschedulable`.

use k8s_openapi::api::core::v1::Taint;

use crate::framework::{ChangeType, ClusterChange, NodeCheck, Plugin, PluginId, PreFilter};
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use object::taint::{effect, is_tolerated};
use object::well_known::taint::UNSCHEDULABLE;

pub(super) struct NodeUnschedulable;

struct Check;

impl NodeCheck for Check {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if node.unschedulable { Err(Refusal::unresolvable(Reason::Unschedulable)) } else { Ok(()) }
    }
}

impl Plugin for NodeUnschedulable {
    fn id(&self) -> PluginId {
        PluginId::NodeUnschedulable
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> PreFilter<'a> {
        let taint =
            Taint { key: UNSCHEDULABLE.into(), effect: effect::NO_SCHEDULE.into(), ..Taint::default() };
        if is_tolerated(pod.tolerations(), &taint) {
            PreFilter::Skip
        } else {
            PreFilter::Check(Box::new(Check))
        }
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        &[ChangeType::NodeAdded, ChangeType::NodeUpdated]
    }

    fn is_schedulable_after(&self, _: &PodInfo, change: &ClusterChange<'_>, _: &Snapshot) -> bool {
        match change {
            ClusterChange::NodeAdded(node) => !node.unschedulable,
            ClusterChange::NodeUpdated(node, difference) => difference.taints && !node.unschedulable,
            _ => false,
        }
    }
}
