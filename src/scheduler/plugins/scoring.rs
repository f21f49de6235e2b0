//! The scoring strategies of NodeResourcesFit, which rate a node's utilization.

use crate::framework::MAX_SCORE;
use crate::reason::ResourceName;
use crate::state::node_info::NodeInfo;
use crate::state::requests::Resources;

pub(crate) type ResourceWeight = (ResourceName, i64);

/// Returns cpu and memory with equal weights.
pub(crate) fn cpu_and_memory() -> Vec<ResourceWeight> {
    vec![(ResourceName::Cpu, 1), (ResourceName::Memory, 1)]
}

/// The nodes to prefer (`scoringStrategy.type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Prefers nodes with more free resources.
    LeastAllocated,
    /// Prefers nodes with less free resources.
    MostAllocated,
    /// Interpolates between points: a utilization of 0 to 100 and a score of 0 to 10.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// The maximum score of a point in a shape.
pub(crate) const MAX_POINT: i64 = 10;

impl Strategy {
    /// Returns the score of a node for a pod with these requests.
    pub(crate) fn score(&self, resources: &[ResourceWeight], pod: &Resources, node: &NodeInfo) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for (resource, weight) in resources {
            let Some((used, has)) = share(resource, pod, node) else { continue };
            let score = self.of(used, has);
            // Kubernetes leaves resources with a score of 0 out of this strategy's mean.
            if score == 0 && matches!(self, Self::RequestedToCapacityRatio(_)) {
                continue;
            }
            sum += score * weight;
            weights += weight;
        }
        match self {
            _ if weights == 0 => 0,
            Self::RequestedToCapacityRatio(_) => (sum as f64 / weights as f64).round() as i64,
            _ => sum / weights,
        }
    }

    fn of(&self, used: i64, has: i64) -> i64 {
        match self {
            Self::LeastAllocated if used > has => 0,
            Self::LeastAllocated => (has - used) * MAX_SCORE / has,
            Self::MostAllocated => used.min(has) * MAX_SCORE / has,
            Self::RequestedToCapacityRatio(shape) => {
                let utilization = if used > has { 100 } else { used * 100 / has };
                on_line(shape, utilization) * MAX_SCORE / MAX_POINT
            }
        }
    }
}

/// Returns the usage of a resource including the pod, and the capacity; `None` if the resource does not count.
fn share(resource: &ResourceName, pod: &Resources, node: &NodeInfo) -> Option<(i64, i64)> {
    let requested = pod.amount(resource);
    if requested == 0 && matches!(resource, ResourceName::Extended(_)) {
        return None;
    }
    let has = node.allocatable.amount(resource);
    let used = match resource {
        // A container without requests counts with assumed, small ones.
        ResourceName::Cpu | ResourceName::Memory => node.assumed.amount(resource),
        _ => node.requested.amount(resource),
    };
    (has > 0).then_some((used + requested, has))
}

/// Interpolates at `x` between the points; the line is horizontal before the first and after the last.
fn on_line(points: &[(i64, i64)], x: i64) -> i64 {
    let Some(after) = points.iter().position(|(at, _)| x <= *at) else {
        return points.last().map_or(0, |(_, score)| *score);
    };
    let (x1, y1) = points[after];
    if after == 0 {
        return y1;
    }
    let (x0, y0) = points[after - 1];
    y0 + (y1 - y0) * (x - x0) / (x1 - x0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_objects::{node_info, pod_info};

    #[test]
    fn strategies_score_what_is_used_after_the_pod_sch_4() {
        let node = node_info(json!({"metadata": {"name": "n"}, "status": {"allocatable":
            {"cpu": "4", "memory": "10000", "example.com/gpu": "4"}}}));
        let pod = pod_info(json!({"spec": {"containers": [{"name": "c", "resources": {"requests":
            {"cpu": "3", "memory": "5000", "example.com/gpu": "1"}}}]}}));
        let gpu = || ResourceName::Extended("example.com/gpu".into());
        let shape = |points: &[(i64, i64)]| Strategy::RequestedToCapacityRatio(points.to_vec());
        for (strategy, resources, expect) in [
            // cpu 25, memory 50 free.
            (Strategy::LeastAllocated, cpu_and_memory(), 37),
            // cpu 75, memory 50 used; with threefold weight of cpu: (3·75 + 50)/4 = 68.
            (Strategy::MostAllocated, cpu_and_memory(), 62),
            (Strategy::MostAllocated, vec![(ResourceName::Cpu, 3), (ResourceName::Memory, 1)], 68),
            // 25 % of gpus used.
            (Strategy::MostAllocated, vec![(gpu(), 1)], 25),
            // Bin packing: 0 at 0, 10 at 100: 75 → 7 (of 10), 50 → 5: (70 + 50)/2.
            (shape(&[(0, 0), (100, 10)]), cpu_and_memory(), 60),
            // Spreading.
            (shape(&[(0, 10), (100, 0)]), vec![(ResourceName::Memory, 1)], 50),
            // Level beyond the points: 75 is after the last.
            (shape(&[(20, 2), (40, 8)]), vec![(ResourceName::Cpu, 1)], 80),
            // 25 lies between (20, 2) and (40, 8): 2 + 6·5/20 = 3.
            (shape(&[(20, 2), (40, 8)]), vec![(gpu(), 1)], 30),
            // A score of 0 is left out of the mean.
            (shape(&[(60, 0), (75, 10)]), cpu_and_memory(), 100),
            (Strategy::MostAllocated, vec![(ResourceName::EphemeralStorage, 1)], 0),
        ] {
            assert_eq!(strategy.score(&resources, &pod.assumed, &node), expect, "{strategy:?} {resources:?}");
        }
    }
}
