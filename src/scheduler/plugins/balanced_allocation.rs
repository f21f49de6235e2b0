//! NodeResourcesBalancedAllocation: a node whose cpu and memory fill up alike is the better one.

use crate::scheduler::framework::{MAX_SCORE, NodeScore, Plugin, PluginId};
use crate::scheduler::node_info::NodeInfo;
use crate::scheduler::pod_info::PodInfo;
use crate::scheduler::requests::Resources;
use crate::scheduler::snapshot::Snapshot;

/// See the file's head.
pub(super) struct BalancedAllocation;

struct Score<'a>(&'a Resources);

impl NodeScore for Score<'_> {
    /// (1 − the standard deviation of the used shares after the pod) of 100. Of two shares the standard
    /// deviation is half their distance.
    fn score(&self, node: &NodeInfo) -> i64 {
        let (asked, has, used) = (self.0, &node.allocatable, &node.requested);
        let cpu = used_share(has.milli_cpu, used.milli_cpu + asked.milli_cpu);
        let memory = used_share(has.memory, used.memory + asked.memory);
        let deviation = match (cpu, memory) {
            (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
            _ => 0.0,
        };
        ((1.0 - deviation) * MAX_SCORE as f64) as i64
    }
}

fn used_share(has: i64, used: i64) -> Option<f64> {
    (has > 0).then(|| (used as f64 / has as f64).min(1.0))
}

impl Plugin for BalancedAllocation {
    fn id(&self) -> PluginId {
        PluginId::NodeResourcesBalancedAllocation
    }

    /// A pod that asks for neither balances nothing, and would only be drawn to nodes that are balanced.
    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
        _: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        let asked = &pod.requests;
        if asked.milli_cpu == 0 && asked.memory == 0 { None } else { Some(Box::new(Score(asked))) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_asking::scores_of;
    use super::*;
    use crate::scheduler::test_objects::{node_info, pod_info};

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
            scores_of(&BalancedAllocation, &pod, &[sized("4", "10000"), sized("6", "10000")]),
            [87, 100]
        );
        // More than all is all: |1 − 0.5|/2 = 0.25. One resource alone is balanced.
        assert_eq!(
            scores_of(&BalancedAllocation, &pod, &[sized("1", "10000"), sized("0", "10000")]),
            [75, 100]
        );
        assert!(scores_of(&BalancedAllocation, &asking("0", "0"), &[sized("1", "1")]).is_empty());
    }
}
