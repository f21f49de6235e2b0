//! NodeName: a pod with `spec.nodeName` can run on that node only.

use crate::framework::{ChangeType, ClusterChange, NodeCheck, Plugin, PluginId, PreFilter};
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;

pub(super) struct NodeName;

struct Check<'a>(&'a str);

impl NodeCheck for Check<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if &*node.name == self.0 { Ok(()) } else { Err(Refusal::unresolvable(Reason::NodeName)) }
    }
}

impl Plugin for NodeName {
    fn id(&self) -> PluginId {
        PluginId::NodeName
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> PreFilter<'a> {
        pod.node_name().map_or(PreFilter::Skip, |name| PreFilter::Check(Box::new(Check(name))))
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        &[ChangeType::NodeAdded]
    }

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, _: &Snapshot) -> bool {
        matches!(change, ClusterChange::NodeAdded(node) if pod.node_name() == Some(&*node.name))
    }
}
