//! A DaemonSet's nodes and the pods on them, as input of its decisions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::placement::{NodeFit, Placement};
use super::pod::target_node;
use crate::history::POD_REVISION_LABEL;
use base::sort::SliceOrder;
use object::SharedObject;
use object::owner::is_terminating;
use object::percent::{Rounding, scaled};
use object::pod::{Availability, Phase, availability, is_ready, is_terminal, node_name, phase};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DaemonPod {
    pub(super) name: String,
    /// It is bound to its node.
    pub(super) assigned: bool,
    pub(super) created: Option<Timestamp>,
    pub(super) state: State,
    pub(super) ready: bool,
    /// It is ready and has been so for `minReadySeconds`.
    pub(super) availability: Availability,
    /// It was created from the set's present template.
    pub(super) updated: bool,
}

/// The state of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It runs, or will run.
    Alive,
    /// It is terminating.
    Going,
    /// It failed.
    Failed,
    /// It succeeded, which no daemon should.
    Succeeded,
}

impl DaemonPod {
    pub(super) fn of(pod: &Pod, hash: &str, min_ready_seconds: i32, now: Timestamp) -> Self {
        let labels = pod.metadata.labels.as_ref();
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            assigned: node_name(pod).is_some(),
            created: pod.metadata.creation_timestamp.as_ref().map(|t| t.0),
            state: match phase(pod) {
                _ if is_terminating(&pod.metadata) => State::Going,
                Phase::Failed => State::Failed,
                Phase::Succeeded => State::Succeeded,
                _ => State::Alive,
            },
            ready: is_ready(pod),
            availability: availability(pod, min_ready_seconds, now),
            updated: labels.and_then(|l| l.get(POD_REVISION_LABEL)).is_some_and(|of| of == hash),
        }
    }

    pub(super) fn is_available(&self) -> bool {
        self.availability == Availability::Available
    }
}

/// An existing node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodePods {
    pub(super) node: String,
    pub(super) fit: NodeFit,
    /// The set's pods here: assigned ones first, then the oldest.
    pub(super) daemons: Vec<DaemonPod>,
}

impl NodePods {
    pub(super) fn new(node: &str, fit: NodeFit, mut daemons: Vec<DaemonPod>) -> Self {
        daemons.order_by(|a, b| (!a.assigned, a.created, &a.name).cmp(&(!b.assigned, b.created, &b.name)));
        Self { node: node.into(), fit, daemons }
    }
}

/// The update strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Pods are replaced only after a user deletes them.
    OnDelete,
    /// Pods are replaced by the controller.
    RollingUpdate {
        /// Nodes that may have a second pod; with 0, old pods are deleted before new ones are created.
        max_surge: i32,
        /// Nodes that may be without an available pod.
        max_unavailable: i32,
    },
}

impl Strategy {
    /// Returns the strategy for this many nodes; percentages round up.
    pub(super) fn of(set: &DaemonSet, desired: i32) -> Self {
        let strategy = set.spec.update_strategy.as_ref();
        if strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
            return Self::OnDelete;
        }
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        // Validation has refused invalid percentages.
        let number = |value: Option<&IntOrString>, default: i32| {
            value.map_or(default, |v| scaled(v, desired, Rounding::Up).unwrap_or(default)).max(0)
        };
        let max_surge = number(rolling.and_then(|r| r.max_surge.as_ref()), 0);
        let max_unavailable = number(rolling.and_then(|r| r.max_unavailable.as_ref()), 1);
        // With neither, an update could never progress.
        let stuck = max_surge == 0 && max_unavailable == 0 && desired > 0;
        Self::RollingUpdate { max_surge, max_unavailable: if stuck { 1 } else { max_unavailable } }
    }

    /// Returns true if a node may have two pods of the set.
    pub(super) fn surges(set: &DaemonSet) -> bool {
        matches!(Self::of(set, 1), Self::RollingUpdate { max_surge, .. } if max_surge > 0)
    }
}

/// All nodes, and all pods of the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeView {
    /// Sorted by name.
    pub(super) nodes: Vec<NodePods>,
    /// Pods created for a node that is deleted, and never bound to it.
    pub(super) stranded: Vec<String>,
}

impl NodeView {
    /// Assigns each pod to its node. Skips ended pods that are terminating, even while finalizers hold their objects;
    /// pods on deleted nodes are left to PodGC.
    pub(super) fn of(
        set: &DaemonSet,
        hash: &str,
        nodes: &[SharedObject<Node>],
        pods: &[SharedObject<Pod>],
        now: Timestamp,
    ) -> Self {
        let placement = Placement::of(set);
        let min_ready_seconds = set.spec.min_ready_seconds.unwrap_or(0);
        let mut by_node: BTreeMap<&str, Vec<DaemonPod>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| !(is_terminal(pod) && is_terminating(&pod.metadata))) {
            if let Some(node) = target_node(pod) {
                by_node.entry(node).or_default().push(DaemonPod::of(pod, hash, min_ready_seconds, now));
            }
        }
        let node_pods = |node: &SharedObject<Node>| {
            let daemons = by_node.remove(node.name()).unwrap_or_default();
            NodePods::new(node.name(), placement.fit(node), daemons)
        };
        let nodes = nodes.iter().map(node_pods).collect();
        let stranded = by_node.into_values().flatten().filter(|d| !d.assigned && d.state != State::Going);
        Self { nodes, stranded: stranded.map(|d| d.name).collect() }
    }

    /// Returns the number of nodes that should run a pod of the set.
    pub(super) fn desired(&self) -> i32 {
        let desired = self.nodes.iter().filter(|node_pods| node_pods.fit == NodeFit::Run);
        i32::try_from(desired.count()).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Parses a pod: `name`, then letters: `o`ld, `p`ending (not assigned), `g`oing, `f`ailed, `s`ucceeded,
    /// `u`nready, `w`aiting to become available.
    pub(in crate::daemon_set) fn daemon(text: &str) -> DaemonPod {
        let (name, letters) = text.split_once(':').unwrap_or((text, ""));
        let is = |letter: char| letters.contains(letter);
        let ready = !is('u') && !is('p');
        DaemonPod {
            name: name.into(),
            assigned: !is('p'),
            created: None,
            state: match () {
                () if is('g') => State::Going,
                () if is('f') => State::Failed,
                () if is('s') => State::Succeeded,
                () => State::Alive,
            },
            ready,
            availability: match () {
                () if !ready => Availability::NotReady,
                () if is('w') => Availability::In(std::time::Duration::from_secs(3)),
                () => Availability::Available,
            },
            updated: !is('o'),
        }
    }

    /// Parses nodes `n1`, `n2` … from `Run a:o b, Keep c`: the fit of each, and its pods.
    pub(in crate::daemon_set) fn node_view(text: &str) -> NodeView {
        let node_pods = |(index, text): (usize, &str)| {
            let mut words = text.split_whitespace();
            let fit = match words.next() {
                Some("Run") => NodeFit::Run,
                Some("Keep") => NodeFit::Keep,
                _ => NodeFit::Never,
            };
            NodePods::new(&format!("n{}", index + 1), fit, words.map(daemon).collect())
        };
        NodeView { nodes: text.split(',').enumerate().map(node_pods).collect(), stranded: Vec::new() }
    }

    fn set(strategy: &Value) -> DaemonSet {
        serde_json::from_value(
            json!({"metadata": {"name": "d"}, "spec": {"selector": {}, "minReadySeconds": 5,
            "updateStrategy": strategy, "template": {"spec": {"containers": []}}}}),
        )
        .unwrap()
    }

    #[test]
    fn an_update_has_bounds_that_round_up_ds_1() {
        let rolling = |surge: Value, unavailable: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        for (strategy, desired, expected) in [
            (json!({"type": "OnDelete"}), 10, None),
            (json!({"type": "RollingUpdate"}), 10, Some((0, 1))),
            (rolling(json!(0), json!("25%")), 10, Some((0, 3))),
            (rolling(json!("25%"), json!(0)), 10, Some((3, 0))),
            (rolling(json!("1%"), json!(0)), 0, Some((0, 0))),
            (rolling(json!(0), json!("0%")), 4, Some((0, 1))),
        ] {
            let actual = match Strategy::of(&set(&strategy), desired) {
                Strategy::OnDelete => None,
                Strategy::RollingUpdate { max_surge, max_unavailable } => Some((max_surge, max_unavailable)),
            };
            assert_eq!(actual, expected, "{strategy} for {desired}");
        }
        assert!(Strategy::surges(&set(&rolling(json!("1%"), json!(0)))));
        assert!(!Strategy::surges(&set(&rolling(json!("0%"), json!(1)))));
    }

    #[test]
    fn pods_are_put_on_their_nodes_the_bound_and_the_oldest_first_ds_1() {
        let pod = |name: &str, node: &str, bound: bool, second: u32, status: Value, meta: Value| {
            let mut pod = json!({"metadata": {"name": name, "creationTimestamp": format!("2026-11-21T00:00:{second:02}Z"),
                "labels": {"controller-revision-hash": if second < 5 { "old" } else { "new" }}},
                "spec": {"containers": [], "affinity": {"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields":
                        [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}},
                "status": status});
            if bound {
                pod["spec"]["nodeName"] = json!(node);
            }
            pod["metadata"].as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
            SharedObject::<Pod>::from_value(serde_json::from_value(pod).unwrap())
        };
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-11-21T00:00:08Z"}]});
        let going = json!({"deletionTimestamp": "2026-11-21T00:00:09Z"});
        let pods = [
            pod("young", "n1", true, 7, ready.clone(), json!({})),
            pod("waiting", "n1", false, 1, json!({}), json!({})),
            pod("old", "n1", true, 2, ready, going.clone()),
            pod("over", "n1", true, 2, json!({"phase": "Failed"}), going),
            pod("lost", "n9", true, 2, json!({}), json!({})),
            pod("stranded", "n9", false, 2, json!({}), json!({})),
        ];
        let nodes: Vec<SharedObject<Node>> = ["n1", "n2"]
            .map(|n| {
                SharedObject::from_value(serde_json::from_value(json!({"metadata": {"name": n}})).unwrap())
            })
            .into();
        let node_view =
            NodeView::of(&set(&json!({})), "new", &nodes, &pods, "2026-11-21T00:00:10Z".parse().unwrap());
        let actual: Vec<_> = node_view.nodes[0]
            .daemons
            .iter()
            .map(|d| (d.name.as_str(), d.state, d.updated, d.availability))
            .collect();
        let soon = Availability::In(std::time::Duration::from_secs(3));
        assert_eq!(
            actual,
            [
                ("old", State::Going, false, soon),
                ("young", State::Alive, true, soon),
                ("waiting", State::Alive, false, Availability::NotReady),
            ]
        );
        assert!(node_view.nodes[1].daemons.is_empty());
        assert_eq!((node_view.stranded.join(" ").as_str(), node_view.desired()), ("stranded", 2));
    }
}
