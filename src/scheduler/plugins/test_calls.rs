//! Runs single plugins in tests.

use crate::framework::{Plugin, PreFilter};
use crate::reason::Refusal;
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;

pub(super) fn refusal_of(plugin: &dyn Plugin, pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
    match plugin.pre_filter(pod, &Snapshot::new()) {
        PreFilter::Skip => None,
        PreFilter::Reject(refusal) => Some(refusal),
        PreFilter::Check(check) => check.check(node).err(),
        PreFilter::CheckOnly(names, check) => {
            assert!(names.contains(&node.name), "{names:?}");
            check.check(node).err()
        }
    }
}

/// Returns the normalized scores; empty if the plugin does not score the pod.
pub(super) fn scores_of(plugin: &dyn Plugin, pod: &PodInfo, nodes: &[NodeInfo]) -> Vec<i64> {
    let snapshot = Snapshot::new();
    let Some(scorer) = plugin.pre_score(pod, &snapshot, &[]) else { return Vec::new() };
    let mut scores: Vec<i64> = nodes.iter().map(|node| scorer.score(node)).collect();
    scorer.normalize(&mut scores);
    scores
}
