//! NodeResourcesBalancedAllocation: prefers nodes on which resources fill up evenly.

use crate::framework::{MAX_SCORE, NodeScore, Plugin, PluginId};
use crate::plugins::scoring::{ResourceWeight, cpu_and_memory};
use crate::reason::ResourceName;
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::requests::Resources;
use crate::state::snapshot::Snapshot;

pub(crate) struct BalancedAllocation {
    /// The resources to balance; weights do not count.
    pub(crate) resources: Vec<ResourceWeight>,
}

impl Default for BalancedAllocation {
    fn default() -> Self {
        Self { resources: cpu_and_memory() }
    }
}

struct Score<'a> {
    requested: &'a Resources,
    resources: &'a [ResourceWeight],
}

impl NodeScore for Score<'_> {
    /// (1 − the standard deviation of the used shares including the pod) · 100.
    fn score(&self, node: &NodeInfo) -> i64 {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (resource, _) in self.resources {
            let requested = self.requested.amount(resource);
            if requested == 0 && matches!(resource, ResourceName::Extended(_)) {
                continue;
            }
            let used = node.requested.amount(resource) + requested;
            if let Some(share) = used_share(node.allocatable.amount(resource), used) {
                count += 1.0;
                sum += share;
                squares += share * share;
            }
        }
        let deviation = match count {
            0.0 | 1.0 => 0.0,
            _ => (squares / count - (sum / count) * (sum / count)).max(0.0).sqrt(),
        };
        ((1.0 - deviation) * MAX_SCORE as f64 + ROUNDING) as i64
    }
}

/// Added before the score is truncated, so that a float just below 0.75 gives 75. It is far less than the difference
/// between two scores.
const ROUNDING: f64 = 1e-9;

fn used_share(has: i64, used: i64) -> Option<f64> {
    (has > 0).then(|| (used as f64 / has as f64).min(1.0))
}

impl Plugin for BalancedAllocation {
    fn id(&self) -> PluginId {
        PluginId::NodeResourcesBalancedAllocation
    }

    /// Skips a pod that requests none of the resources: it changes the balance of no node, so a score would only favour
    /// nodes that are balanced already.
    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
        _: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        let requested = &pod.requests;
        let requests_any = self.resources.iter().any(|(resource, _)| requested.amount(resource) > 0);
        requests_any
            .then(|| -> Box<dyn NodeScore + 'a> { Box::new(Score { requested, resources: &self.resources }) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::test_calls::scores_of;
    use crate::test_objects::{node_info, pod_info};

    #[test]
    fn the_distance_of_the_used_shares_lowers_the_score_sch_4() {
        let sized = |cpu: &str, memory: &str| {
            node_info(
                json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": cpu, "memory": memory}}}),
            )
        };
        let asking = |cpu: &str, memory: &str| {
            pod_info(json!({"spec": {"containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}}))
        };
        let pod = asking("3", "5000");
        // 3/4 and 5000/10000: |0.75 − 0.5|/2 = 0.125, so 87; 3/6 and 1/2: no distance.
        assert_eq!(
            scores_of(&BalancedAllocation::default(), &pod, &[sized("4", "10000"), sized("6", "10000")]),
            [87, 100]
        );
        // Usage above the capacity counts as all: |1 − 0.5|/2 = 0.25. A single resource is balanced.
        assert_eq!(
            scores_of(&BalancedAllocation::default(), &pod, &[sized("1", "10000"), sized("0", "10000")]),
            [75, 100]
        );
        assert!(scores_of(&BalancedAllocation::default(), &asking("0", "0"), &[sized("1", "1")]).is_empty());
    }
}
