//! NodeAffinity: `nodeSelector`, required terms as a filter, preferred terms as a score.

use crate::framework::{
    ChangeType, ClusterChange, NodeCheck, NodeScore, Plugin, PluginId, PreFilter, normalize,
};
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use object::node_selector::{NodeTerm, RequiredNodes};

#[derive(Default)]
pub(super) struct NodeAffinity {
    /// The requirements added to those of every pod (`addedAffinity`).
    pub(super) added: RequiredNodes,
}

struct Check<'a> {
    required: &'a RequiredNodes,
    added: &'a RequiredNodes,
}

impl NodeCheck for Check<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if !self.added.matches(&node.node) {
            return Err(Refusal::unresolvable(Reason::EnforcedNodeAffinity));
        }
        if !self.required.matches(&node.node) {
            return Err(Refusal::unresolvable(Reason::NodeAffinity));
        }
        Ok(())
    }
}

struct Score<'a>(&'a [(i64, NodeTerm)]);

impl NodeScore for Score<'_> {
    /// Returns the sum of the weights of the pod's preferences that the node meets.
    fn score(&self, node: &NodeInfo) -> i64 {
        self.0.iter().filter(|(_, wish)| wish.matches(&node.node)).map(|(weight, _)| weight).sum()
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize(scores);
    }
}

impl Plugin for NodeAffinity {
    fn id(&self) -> PluginId {
        PluginId::NodeAffinity
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> PreFilter<'a> {
        let required = &pod.required_nodes;
        if required.is_any() && self.added.is_any() {
            return PreFilter::Skip;
        }
        let check = || Box::new(Check { required, added: &self.added });
        match required.names() {
            None => PreFilter::Check(check()),
            Some(names) if names.is_empty() => {
                PreFilter::Reject(Refusal::unresolvable(Reason::AffinityConflict))
            }
            Some(names) => PreFilter::CheckOnly(names.into_iter().map(Into::into).collect(), check()),
        }
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
        _: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        let wishes = &pod.preferred_nodes;
        if wishes.is_empty() { None } else { Some(Box::new(Score(wishes))) }
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        &[ChangeType::NodeAdded, ChangeType::NodeUpdated]
    }

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, _: &Snapshot) -> bool {
        match change {
            ClusterChange::NodeAdded(node) => pod.required_nodes.matches(&node.node),
            ClusterChange::NodeUpdated(node, difference) => {
                difference.labels && pod.required_nodes.matches(&node.node)
            }
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

    #[test]
    fn required_filters_and_preferred_scores_sch_3_sch_4() {
        let in_zone = |zone: &str| {
            node_info(json!({"metadata": {"name": zone, "labels": {"zone": zone, "disk": "ssd"}}}))
        };
        let (a, b) = (in_zone("a"), in_zone("b"));
        let bare = node_info(json!({"metadata": {"name": "bare"}}));
        let term = |key: &str, value: &str| {
            json!({"matchExpressions": [
            {"key": key, "operator": "In", "values": [value]}]})
        };
        let pod = pod_info(json!({"spec": {"containers": [], "nodeSelector": {"disk": "ssd"},
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 30, "preference": term("disk", "ssd")},
                {"weight": 10, "preference": term("zone", "a")},
                {"weight": 90, "preference": {}}]}}}}));
        assert_eq!(refusal_of(&NodeAffinity::default(), &pod, &a), None);
        let refusal = refusal_of(&NodeAffinity::default(), &pod, &bare).unwrap();
        assert_eq!(
            refusal.reasons.as_slice()[0].to_string(),
            "node(s) didn't match Pod's node affinity/selector"
        );
        // 40, 30 and 0 of at most 40; the empty preference does not count: 100·30/40 = 75.
        assert_eq!(scores_of(&NodeAffinity::default(), &pod, &[a, b, bare]), [100, 75, 0]);
    }
}
