//! NodePorts: two pods on a node cannot have the same host port, protocol and overlapping host addresses.

use crate::framework::{ChangeType, ClusterChange, NodeCheck, Plugin, PluginId, PreFilter};
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use object::host_ports::{HostPort, conflict};

pub(super) struct NodePorts;

struct Check<'a>(&'a [HostPort]);

impl NodeCheck for Check<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if conflict(self.0, &node.ports) { Err(Refusal::resolvable(Reason::Ports)) } else { Ok(()) }
    }
}

impl Plugin for NodePorts {
    fn id(&self) -> PluginId {
        PluginId::NodePorts
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> PreFilter<'a> {
        if pod.ports.is_empty() { PreFilter::Skip } else { PreFilter::Check(Box::new(Check(&pod.ports))) }
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        &[ChangeType::NodeAdded, ChangeType::PodRemoved]
    }

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, _: &Snapshot) -> bool {
        match change {
            ClusterChange::NodeAdded(_) => true,
            ClusterChange::PodRemoved(_, gone) => conflict(&pod.ports, &gone.ports),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::plugins::test_calls::refusal_of;
    use crate::test_objects::{node_info, pod_info};

    #[test]
    fn same_port_same_protocol_and_an_address_in_common_conflict_sch_3() {
        let listening = |port: i32, protocol: &str, address: &str| {
            pod_info(json!({"spec": {"containers": [{"name": "c", "ports": [
                {"containerPort": 1, "hostPort": port, "protocol": protocol, "hostIP": address}]}]}}))
        };
        let mut taken = node_info(json!({"metadata": {"name": "n"}}));
        taken.add(Arc::new(listening(80, "TCP", "127.0.0.1")));
        for (pod, refused) in [
            (listening(80, "TCP", "127.0.0.1"), true),
            (listening(80, "TCP", "127.0.0.2"), false),
            (listening(80, "TCP", ""), true),
            (listening(80, "", "0.0.0.0"), true),
            (listening(80, "UDP", "127.0.0.1"), false),
            (listening(81, "TCP", "127.0.0.1"), false),
            (listening(0, "TCP", "127.0.0.1"), false),
        ] {
            let refusal = refusal_of(&NodePorts, &pod, &taken);
            assert_eq!(refusal.is_some(), refused, "{:?}", pod.ports);
        }
        let sidecar = pod_info(json!({"spec": {"containers": [], "initContainers": [
            {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 1, "hostPort": 80}]},
            {"name": "i", "ports": [{"containerPort": 1, "hostPort": 81}]}]}}));
        assert_eq!(sidecar.ports.len(), 1, "an init container that ends holds no port");
        assert_eq!(
            refusal_of(&NodePorts, &sidecar, &taken).unwrap().reasons.as_slice()[0].to_string(),
            "node(s) didn't have free ports for the requested pod ports"
        );
    }
}
