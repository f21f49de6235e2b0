//! TaintToleration: taints NoSchedule and NoExecute keep pods away, PreferNoSchedule makes a node worse.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::framework::{
    ChangeType, ClusterChange, NodeCheck, NodeScore, Plugin, PluginId, PreFilter, normalize_reversed,
};
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use object::taint::{effect, tolerates, untolerated};

pub(super) struct TaintToleration;

struct Check<'a>(Option<&'a Vec<Toleration>>);

impl NodeCheck for Check<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if node.taints.is_empty() {
            return Ok(());
        }
        match untolerated(&node.taints, self.0) {
            None => Ok(()),
            Some(Taint { key, value, .. }) => Err(Refusal::unresolvable(Reason::Taint {
                key: key.as_str().into(),
                value: value.as_deref().unwrap_or_default().into(),
            })),
        }
    }
}

/// The tolerations that can cover a PreferNoSchedule taint.
struct Score<'a>(Vec<&'a Toleration>);

impl NodeScore for Score<'_> {
    /// Returns the number of the node's PreferNoSchedule taints that the pod does not tolerate.
    fn score(&self, node: &NodeInfo) -> i64 {
        let avoided = node.taints.iter().filter(|t| t.effect == effect::PREFER_NO_SCHEDULE);
        avoided.filter(|taint| !self.0.iter().any(|toleration| tolerates(toleration, taint))).count() as i64
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_reversed(scores);
    }
}

impl Plugin for TaintToleration {
    fn id(&self) -> PluginId {
        PluginId::TaintToleration
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> PreFilter<'a> {
        PreFilter::Check(Box::new(Check(pod.tolerations())))
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
        _: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        let covers_preferences = |toleration: &&Toleration| {
            toleration.effect.as_deref().is_none_or(|e| e.is_empty() || e == effect::PREFER_NO_SCHEDULE)
        };
        let tolerations = pod.tolerations().into_iter().flatten().filter(covers_preferences);
        Some(Box::new(Score(tolerations.collect())))
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        &[ChangeType::NodeAdded, ChangeType::NodeUpdated]
    }

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, _: &Snapshot) -> bool {
        match change {
            ClusterChange::NodeAdded(node) => untolerated(&node.taints, pod.tolerations()).is_none(),
            ClusterChange::NodeUpdated(node, difference) => {
                difference.taints && untolerated(&node.taints, pod.tolerations()).is_none()
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
    fn the_first_untolerated_taint_is_named_and_preferences_are_scored_sch_3_sch_4() {
        let taint = |key: &str, effect: &str| json!({"key": key, "value": "v", "effect": effect});
        let bare = node_info(json!({"metadata": {"name": "bare"}}));
        let hard = node_info(json!({"metadata": {"name": "hard"},
            "spec": {"taints": [taint("soft", "PreferNoSchedule"), taint("k", "NoExecute")]}}));
        let once = node_info(
            json!({"metadata": {"name": "once"}, "spec": {"taints": [taint("a", "PreferNoSchedule")]}}),
        );
        let twice = node_info(json!({"metadata": {"name": "twice"},
            "spec": {"taints": [taint("a", "PreferNoSchedule"), taint("b", "PreferNoSchedule")]}}));
        let plain = pod_info(json!({"spec": {"containers": []}}));
        assert_eq!(refusal_of(&TaintToleration, &plain, &bare), None);
        let refusal = refusal_of(&TaintToleration, &plain, &hard).unwrap();
        assert_eq!(refusal.reasons.as_slice()[0].to_string(), "node(s) had untolerated taint {k: v}");
        assert!(!refusal.resolvable);
        // 100 − 100·count/max: 0, 1 and 2 taints of at most 2.
        let nodes = [bare.clone(), once.clone(), twice.clone()];
        assert_eq!(scores_of(&TaintToleration, &plain, &nodes), [100, 50, 0]);
        // `a` is tolerated: 0, 0 and 1 of at most 1. The NoExecute toleration of b covers no preference.
        let tolerant = pod_info(json!({"spec": {"containers": [], "tolerations": [
            {"key": "a", "operator": "Exists"}, {"key": "k", "operator": "Exists"},
            {"key": "b", "operator": "Exists", "effect": "NoExecute"}]}}));
        assert_eq!(scores_of(&TaintToleration, &tolerant, &nodes), [100, 100, 0]);
        assert_eq!(refusal_of(&TaintToleration, &tolerant, &hard), None);
    }
}
