//! The nodes a DaemonSet is eligible for.
//!
//! Considers only names, labels and taints: the scheduler checks resources.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Toleration};

use super::pod;
use object::node_selector::RequiredNodes;
use object::taint::effect::NO_EXECUTE;
use object::taint::{is_tolerated, untolerated};

/// A node's fit for a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFit {
    /// It should run a pod of the set.
    Run,
    /// It keeps existing pods but gets no new one: it has a NoSchedule taint that they do not tolerate.
    Keep,
    /// It should have no pod of the set.
    Never,
}

/// A DaemonSet's requirements on nodes, read once and matched against many nodes.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    node_name: Option<String>,
    required: RequiredNodes,
    tolerations: Vec<Toleration>,
}

impl Placement {
    pub(super) fn of(set: &DaemonSet) -> Self {
        let spec = set.spec.template.spec.clone().unwrap_or_default();
        Self {
            node_name: spec.node_name.clone().filter(|name| !name.is_empty()),
            required: RequiredNodes::of(&spec),
            tolerations: pod::tolerations(&spec),
        }
    }

    /// Returns the node's fit.
    pub(super) fn fit(&self, node: &Node) -> NodeFit {
        let named = self.node_name.is_none() || self.node_name == node.metadata.name;
        if !named || !self.required.matches(node) {
            return NodeFit::Never;
        }
        let taints = node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
        if untolerated(taints, Some(&self.tolerations)).is_none() {
            return NodeFit::Run;
        }
        let driven_away =
            taints.iter().any(|t| t.effect == NO_EXECUTE && !is_tolerated(Some(&self.tolerations), t));
        if driven_away { NodeFit::Never } else { NodeFit::Keep }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
    fn fit(spec: Value, node: Value) -> NodeFit {
        let mut set = json!({"metadata": {"name": "d"}, "spec": {"selector": {},
            "template": {"spec": {"containers": []}}}});
        set["spec"]["template"]["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let set: DaemonSet = serde_json::from_value(set).unwrap();
        Placement::of(&set).fit(&serde_json::from_value(node).unwrap())
    }

    #[test]
    fn a_node_is_eligible_by_name_labels_and_taints_ds_1() {
        let node = |taints: Value| json!({"metadata": {"name": "n1", "labels": {"disk": "ssd"}}, "spec": {"taints": taints}});
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        let affinity = |key: &str| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}}}})
        };
        let tolerant = json!({"tolerations": [{"key": "mine", "operator": "Exists"}]});
        for (rule, spec, taints, expected) in [
            ("any node", json!({}), json!([]), NodeFit::Run),
            ("selected", json!({"nodeSelector": {"disk": "ssd"}}), json!([]), NodeFit::Run),
            ("not selected", json!({"nodeSelector": {"disk": "hdd"}}), json!([]), NodeFit::Never),
            ("by affinity", affinity("disk"), json!([]), NodeFit::Run),
            ("not by affinity", affinity("gpu"), json!([]), NodeFit::Never),
            ("named", json!({"nodeName": "n1"}), json!([]), NodeFit::Run),
            ("another is named", json!({"nodeName": "n2"}), json!([]), NodeFit::Never),
            ("tainted", json!({}), taint("mine", "NoSchedule"), NodeFit::Keep),
            ("driven away", json!({}), taint("mine", "NoExecute"), NodeFit::Never),
            ("rather not", json!({}), taint("mine", "PreferNoSchedule"), NodeFit::Run),
            ("tolerant", tolerant.clone(), taint("mine", "NoExecute"), NodeFit::Run),
            (
                "not selected, and tainted",
                json!({"nodeSelector": {"disk": "hdd"}}),
                taint("mine", "NoSchedule"),
                NodeFit::Never,
            ),
            ("cordoned", json!({}), taint("node.kubernetes.io/unschedulable", "NoSchedule"), NodeFit::Run),
            ("not ready", json!({}), taint("node.kubernetes.io/not-ready", "NoExecute"), NodeFit::Run),
            // For other pods the NoSchedule taint concerns the scheduler; it keeps daemons away too.
            ("not ready yet", json!({}), taint("node.kubernetes.io/not-ready", "NoSchedule"), NodeFit::Keep),
            (
                "short of disk",
                json!({}),
                taint("node.kubernetes.io/disk-pressure", "NoSchedule"),
                NodeFit::Run,
            ),
            (
                "without network",
                json!({}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                NodeFit::Keep,
            ),
            (
                "without network, which it makes",
                json!({"hostNetwork": true}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                NodeFit::Run,
            ),
        ] {
            assert_eq!(fit(spec, node(taints)), expected, "{rule}");
        }
    }
}
