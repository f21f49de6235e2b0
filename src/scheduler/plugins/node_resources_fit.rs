//! NodeResourcesFit: the resources that a pod requests must be free on its node; the emptier node is the better one.

use std::sync::Arc;

use crate::framework::{ChangeType, ClusterChange, NodeCheck, NodeScore, Plugin, PluginId, PreFilter};
use crate::plugins::scoring::{ResourceWeight, Strategy, cpu_and_memory};
use crate::reason::{Reason, Reasons, Refusal, ResourceName};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::requests::Resources;
use crate::state::snapshot::Snapshot;

pub(crate) struct NodeResourcesFit {
    /// The nodes to prefer.
    pub(crate) strategy: Strategy,
    /// The resources that are scored.
    pub(crate) resources: Vec<ResourceWeight>,
    /// Extended resources that are not checked: names, and groups (the part before the `/`).
    pub(crate) ignored: Vec<String>,
}

impl Default for NodeResourcesFit {
    fn default() -> Self {
        let (strategy, resources) = (Strategy::LeastAllocated, cpu_and_memory());
        Self { strategy, resources, ignored: Vec::new() }
    }
}

struct Check<'a> {
    requested: &'a Resources,
    requests_nothing: bool,
    ignored: &'a [String],
}

impl<'a> Check<'a> {
    fn new(pod: &'a PodInfo, ignored: &'a [String]) -> Self {
        Self { requested: &pod.requests, requests_nothing: pod.requests.is_zero(), ignored }
    }

    fn is_ignored(&self, resource: &str) -> bool {
        let group = resource.split_once('/').map(|(group, _)| group);
        self.ignored.iter().any(|ignored| ignored == resource || Some(ignored.as_str()) == group)
    }

    fn extended(&self) -> impl Iterator<Item = &(Arc<str>, i64)> {
        self.requested.extended.iter().filter(|(name, _)| self.ignored.is_empty() || !self.is_ignored(name))
    }

    fn fits(&self, node: &NodeInfo) -> bool {
        if node.pods.len() as i64 >= node.allowed_pods {
            return false;
        }
        // A node that is over its limits still takes pods without requests.
        if self.requests_nothing {
            return true;
        }
        let (requested, has, used) = (self.requested, &node.allocatable, &node.requested);
        let fits = |requested: i64, has: i64, used: i64| requested == 0 || requested <= has - used;
        fits(requested.milli_cpu, has.milli_cpu, used.milli_cpu)
            && fits(requested.memory, has.memory, used.memory)
            && fits(requested.ephemeral_storage, has.ephemeral_storage, used.ephemeral_storage)
            && self.extended().all(|(name, amount)| *amount <= has.extended(name) - used.extended(name))
    }

    fn refusal(&self, node: &NodeInfo) -> Refusal {
        let (requested, has, used) = (self.requested, &node.allocatable, &node.requested);
        let mut reasons = Vec::new();
        // Evictions help only if the node as a whole is large enough.
        let mut resolvable = true;
        if node.pods.len() as i64 >= node.allowed_pods {
            reasons.push(Reason::TooManyPods);
        }
        let mut lacks = |name: ResourceName, requested: i64, has: i64, used: i64| {
            if requested > 0 && requested > has - used {
                reasons.push(Reason::Insufficient(name));
                resolvable &= requested <= has;
            }
        };
        lacks(ResourceName::Cpu, requested.milli_cpu, has.milli_cpu, used.milli_cpu);
        lacks(ResourceName::Memory, requested.memory, has.memory, used.memory);
        lacks(
            ResourceName::EphemeralStorage,
            requested.ephemeral_storage,
            has.ephemeral_storage,
            used.ephemeral_storage,
        );
        for (name, amount) in self.extended() {
            lacks(ResourceName::Extended(name.clone()), *amount, has.extended(name), used.extended(name));
        }
        let reasons = match <[Reason; 1]>::try_from(reasons) {
            Ok([reason]) => Reasons::One(reason),
            Err(reasons) => Reasons::Many(reasons.into()),
        };
        Refusal { reasons, resolvable }
    }
}

impl NodeCheck for Check<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if self.fits(node) { Ok(()) } else { Err(self.refusal(node)) }
    }
}

struct Score<'a> {
    pod: &'a Resources,
    plugin: &'a NodeResourcesFit,
}

impl NodeScore for Score<'_> {
    fn score(&self, node: &NodeInfo) -> i64 {
        self.plugin.strategy.score(&self.plugin.resources, self.pod, node)
    }
}

impl Plugin for NodeResourcesFit {
    fn id(&self) -> PluginId {
        PluginId::NodeResourcesFit
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> PreFilter<'a> {
        PreFilter::Check(Box::new(Check::new(pod, &self.ignored)))
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
        _: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        Some(Box::new(Score { pod: &pod.assumed, plugin: self }))
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        &[ChangeType::NodeAdded, ChangeType::NodeUpdated, ChangeType::PodRemoved]
    }

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, _: &Snapshot) -> bool {
        let fits = |node| Check::new(pod, &self.ignored).fits(node);
        match change {
            ClusterChange::NodeAdded(node) | ClusterChange::PodRemoved(node, _) => fits(node),
            ClusterChange::NodeUpdated(node, difference) => difference.allocatable && fits(node),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::test_calls::{refusal_of, scores_of};
    use crate::test_objects::{node_info, pod_info};

    fn sized(name: &str, cpu: &str, memory: &str, pods: &str) -> NodeInfo {
        node_info(json!({"metadata": {"name": name}, "status": {"allocatable":
            {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "10Gi", "example.com/gpu": "1"}}}))
    }

    fn asking(requests: serde_json::Value) -> PodInfo {
        let mut container = json!({"name": "c"});
        container["resources"]["requests"] = requests;
        pod_info(json!({"spec": {"containers": [container]}}))
    }

    #[test]
    fn every_lacking_resource_is_named_sch_3() {
        let mut half = sized("half", "2", "4Gi", "2");
        half.add(Arc::new(asking(json!({"cpu": "1", "memory": "2Gi", "example.com/gpu": "1"}))));
        let mut full = sized("full", "2", "4Gi", "1");
        full.add(Arc::new(asking(json!({}))));
        // A pod placed manually uses more than the node has.
        let mut over = sized("over", "1", "1Gi", "10");
        over.add(Arc::new(asking(json!({"cpu": "3"}))));
        for (pod, node, reasons, resolvable) in [
            (json!({}), &half, vec![], true),
            (json!({"cpu": "1", "memory": "2Gi"}), &half, vec![], true),
            (json!({"cpu": "1001m"}), &half, vec!["Insufficient cpu"], true),
            (json!({"cpu": "2001m"}), &half, vec!["Insufficient cpu"], false),
            (
                json!({"cpu": "2", "memory": "3Gi"}),
                &half,
                vec!["Insufficient cpu", "Insufficient memory"],
                true,
            ),
            (
                json!({"cpu": "2", "memory": "5Gi"}),
                &half,
                vec!["Insufficient cpu", "Insufficient memory"],
                false,
            ),
            (json!({"ephemeral-storage": "11Gi"}), &half, vec!["Insufficient ephemeral-storage"], false),
            (json!({"example.com/gpu": "1"}), &half, vec!["Insufficient example.com/gpu"], true),
            (json!({"example.com/fpga": "1"}), &half, vec!["Insufficient example.com/fpga"], false),
            (json!({}), &full, vec!["Too many pods"], true),
            (json!({"cpu": "5"}), &full, vec!["Too many pods", "Insufficient cpu"], false),
            (json!({}), &over, vec![], true),
            (json!({"memory": "1Gi"}), &over, vec![], true),
            (json!({"cpu": "1m"}), &over, vec!["Insufficient cpu"], true),
        ] {
            let refusal = refusal_of(&NodeResourcesFit::default(), &asking(pod.clone()), node);
            let found: Vec<String> =
                refusal.iter().flat_map(|r| r.reasons.as_slice().iter().map(ToString::to_string)).collect();
            assert_eq!(found, reasons, "{pod} on {}", node.name);
            assert_eq!(refusal.is_none_or(|r| r.resolvable), resolvable, "{pod} on {}", node.name);
        }
    }

    #[test]
    fn least_allocated_is_the_mean_of_the_free_shares_sch_4() {
        let pod = asking(json!({"cpu": "3000m", "memory": "5000"}));
        // Kubernetes' own example: cpu (4000 − 3000)·100/4000 = 25, memory (10000 − 5000)·100/10000 = 50,
        // (25 + 50)/2 = 37; cpu (6000 − 3000)·100/6000 = 50, memory 50, mean 50.
        let (small, large) = (sized("a", "4", "10000", "9"), sized("b", "6", "10000", "9"));
        assert_eq!(scores_of(&NodeResourcesFit::default(), &pod, &[small, large]), [37, 50]);
        // Pods without requests count as 100m and 200Mi: cpu (1000 − 200)·100/1000 = 80 with one such pod there
        // already, memory (1000Mi − 400Mi)·100/1000Mi = 60, mean 70; alone 90 and 80, mean 85.
        let idle = asking(json!({}));
        let empty = sized("a", "1", "1000Mi", "9");
        let mut used = sized("b", "1", "1000Mi", "9");
        used.add(Arc::new(asking(json!({}))));
        assert_eq!(scores_of(&NodeResourcesFit::default(), &idle, &[empty, used]), [85, 70]);
        // More memory than the node has counts 0: (50 + 0)/2; without any memory only cpu counts.
        let scores = scores_of(
            &NodeResourcesFit::default(),
            &pod,
            &[sized("a", "6", "4000", "9"), sized("b", "6", "0", "9")],
        );
        assert_eq!(scores, [25, 50]);
    }
}
