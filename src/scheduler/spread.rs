//! Topology spread constraints as a pod carries them, read once.

use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};

use super::node_info::NodeInfo;
use super::pod_info::PodInfo;
use crate::object::selector::{Operator, Requirement, Selector};
use crate::object::taint::untolerated;

/// The topology of single nodes.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// One constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// How much fuller a domain may be than the emptiest.
    pub max_skew: i64,
    /// With fewer domains than this the emptiest counts as empty.
    pub min_domains: i64,
    /// `DoNotSchedule` rather than `ScheduleAnyway`.
    pub required: bool,
    /// The pods that count.
    pub selector: Selector,
    /// Whether the pod itself is one of them.
    pub counts_itself: bool,
    /// Nodes that the pod's selector and affinity exclude do not count.
    honors_affinity: bool,
    /// Nodes whose taints the pod does not tolerate do not count.
    honors_taints: bool,
}

impl Spread {
    /// The constraints of a pod.
    pub fn of(pod: &Pod) -> Vec<Self> {
        let constraints = pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_ref());
        constraints.into_iter().flatten().map(|constraint| Self::new(constraint, pod)).collect()
    }

    fn new(constraint: &TopologySpreadConstraint, pod: &Pod) -> Self {
        let selector = selector_of(constraint, pod);
        let honors = |policy: &Option<String>, default| policy.as_deref().map_or(default, |p| p == "Honor");
        Self {
            topology_key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            required: constraint.when_unsatisfiable != "ScheduleAnyway",
            counts_itself: selector.matches(pod.metadata.labels.as_ref()),
            selector,
            honors_affinity: honors(&constraint.node_affinity_policy, true),
            honors_taints: honors(&constraint.node_taints_policy, false),
        }
    }

    /// The domain a node is in.
    pub fn domain<'n>(&self, node: &'n NodeInfo) -> Option<&'n str> {
        node.node.metadata.labels.as_ref()?.get(&self.topology_key).map(String::as_str)
    }

    /// Whether the node's domain and pods count for a pod.
    pub fn includes(&self, node: &NodeInfo, pod: &PodInfo) -> bool {
        (!self.honors_affinity || pod.required_nodes.matches(&node.node))
            && (!self.honors_taints || untolerated(&node.taints, pod.tolerations()).is_none())
    }

    /// Whether another pod is one of those that count for a pod of this namespace.
    pub fn counts(&self, other: &PodInfo, namespace: &str) -> bool {
        other.pod.namespace() == namespace
            && !other.is_terminating()
            && self.selector.matches(other.pod.metadata.labels.as_ref())
    }

    /// How many pods of a node count for a pod of this namespace.
    pub fn count_on(&self, node: &NodeInfo, namespace: &str) -> i64 {
        node.pods.iter().filter(|other| self.counts(other, namespace)).count() as i64
    }
}

/// The constraint's selector, and the pod's own values of `matchLabelKeys`.
fn selector_of(constraint: &TopologySpreadConstraint, pod: &Pod) -> Selector {
    let Some(field) = &constraint.label_selector else { return Selector::nothing() };
    let selector = Selector::from_field(field);
    let keys = constraint.match_label_keys.iter().flatten();
    let own: Vec<Requirement> = keys
        .filter_map(|key| {
            let value = pod.metadata.labels.as_ref()?.get(key)?;
            Some(Requirement { key: key.clone(), operator: Operator::In(vec![value.clone()]) })
        })
        .collect();
    selector.and(own)
}
