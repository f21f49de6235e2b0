//! The incremental snapshot against a naive one: after any history both know the same, and decide the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use proptest::prelude::*;
use serde_json::json;

use super::cycle::{Decision, Search, explain, schedule};
use super::node_info::NodeInfo;
use super::pod_info::PodInfo;
use super::profile::Profile;
use super::snapshot::Snapshot;
use super::test_objects::{named_pod, node};
use crate::object::Shared;
use crate::object::quantity::Amount;
use crate::object::resources::pod_requests;
use crate::object::taint::untolerated;

#[derive(Clone, Debug)]
enum Event {
    Node { name: u8, size: u8, zone: u8, tainted: bool, cordoned: bool },
    NodeGone(u8),
    Placed { name: u8, node: u8, shape: u8 },
    Assumed { name: u8, node: u8, shape: u8 },
    PodGone(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let nodes = 0..6u8;
    let node_event = (nodes.clone(), 1..4u8, 0..3u8, prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    prop_oneof![
        3 => node_event.prop_map(|(name, size, zone, tainted, cordoned)| {
            Event::Node { name, size, zone, tainted, cordoned }
        }),
        1 => nodes.clone().prop_map(Event::NodeGone),
        5 => (0..12u8, nodes.clone(), 0..6u8).prop_map(|(name, node, shape)| Event::Placed { name, node, shape }),
        3 => (0..12u8, nodes, 0..6u8).prop_map(|(name, node, shape)| Event::Assumed { name, node, shape }),
        3 => (0..12u8).prop_map(Event::PodGone),
    ]
}

fn node_of(event: &Event) -> Option<Shared<Node>> {
    let Event::Node { name, size, zone, tainted, cordoned } = event else { return None };
    let taints = if *tainted { json!([{"key": "k", "effect": "NoSchedule"}]) } else { json!([]) };
    Some(node(json!({
        "metadata": {"name": format!("n{name}"), "labels": {"topology.kubernetes.io/zone": format!("z{zone}")}},
        "spec": {"taints": taints, "unschedulable": cordoned},
        "status": {"allocatable": {"cpu": format!("{size}"), "memory": format!("{size}Gi"), "pods": "4",
            "example.com/gpu": "2"}}})))
}

fn pod_of(name: u8, shape: u8) -> Shared<Pod> {
    let container = |requests: serde_json::Value| json!({"name": "c", "resources": {"requests": requests}});
    let spec = match shape {
        0 => json!({"containers": [container(json!({"cpu": "500m", "memory": "100Mi"}))]}),
        1 => json!({"containers": [container(json!({"cpu": "1", "memory": "1Gi"}))]}),
        2 => json!({"containers": [container(json!({"example.com/gpu": "1"}))],
            "tolerations": [{"operator": "Exists"}]}),
        3 => json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}),
        4 => json!({"containers": [container(json!({"cpu": "100m"}))], "overhead": {"memory": "300Mi"},
            "nodeSelector": {"topology.kubernetes.io/zone": "z1"}}),
        _ => json!({"containers": [{"name": "c"}]}),
    };
    named_pod(&format!("p{name}"), spec)
}

/// What there is, without any totals.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, Shared<Node>>,
    pods: BTreeMap<String, (Shared<Pod>, String)>,
}

impl Model {
    fn rebuilt(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for node in self.nodes.values() {
            snapshot.set_node(node.clone());
        }
        for (pod, node) in self.pods.values() {
            snapshot.place(Arc::new(PodInfo::new(pod.clone())), node);
        }
        snapshot.refresh();
        snapshot
    }

    /// The nodes that take the pod, from the objects themselves.
    fn feasible(&self, pod: &Pod) -> BTreeSet<String> {
        let spec = pod.spec.as_ref().unwrap();
        let host_ports = |pod: &Pod| -> BTreeSet<i32> {
            let containers = &pod.spec.as_ref().unwrap().containers;
            containers.iter().flat_map(|c| c.ports.iter().flatten()).filter_map(|p| p.host_port).collect()
        };
        let takes = |name: &str, node: &Node| {
            let there: Vec<&Shared<Pod>> =
                self.pods.values().filter(|(_, on)| on == name).map(|(pod, _)| pod).collect();
            let allocatable = node.status.as_ref().unwrap().allocatable.as_ref();
            let node_spec = node.spec.as_ref().unwrap();
            let tolerates_all = spec.tolerations.is_some();
            let enough =
                pod_requests(pod).iter().filter(|(_, asked)| !asked.is_zero()).all(|(name, asked)| {
                    let mut used = *asked;
                    for other in &there {
                        used += pod_requests(other).get(name).copied().unwrap_or_default();
                    }
                    used <= Amount::in_list(allocatable, name)
                });
            let selected = spec.node_selector.iter().flatten().all(|(key, value)| {
                node.metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value)
            });
            (tolerates_all || node_spec.unschedulable != Some(true))
                && untolerated(node_spec.taints.as_deref().unwrap_or_default(), spec.tolerations.as_ref())
                    .is_none()
                && there.len() < 4
                && enough
                && selected
                && there.iter().all(|other| host_ports(other).is_disjoint(&host_ports(pod)))
        };
        self.nodes.iter().filter(|(name, node)| takes(name, node)).map(|(name, _)| name.clone()).collect()
    }
}

/// Everything the snapshot knows of a node, in an order of its own.
fn knows(info: &NodeInfo) -> String {
    let mut requested = info.requested.clone();
    requested.extended.sort();
    let mut ports = info.ports.clone();
    ports.sort();
    let mut pods: Vec<&str> = info.pods.iter().map(|pod| pod.uid()).collect();
    pods.sort_unstable();
    let has = (&info.allocatable, info.allowed_pods, &info.taints, info.unschedulable, info.zone());
    format!("{requested:?} {:?} {ports:?} {pods:?} {has:?}", info.assumed)
}

/// The nodes with the best total score.
fn best(pod: &PodInfo, snapshot: &mut Snapshot, profile: &Profile) -> (BTreeSet<String>, BTreeSet<String>) {
    snapshot.prepare(pod);
    let table = explain(pod, snapshot, profile);
    let totals: BTreeMap<String, i64> =
        table.rows().filter_map(|row| Some((row.node().to_string(), row.total()?))).collect();
    let highest = totals.values().max().copied();
    let best = totals.iter().filter(|(_, t)| Some(**t) == highest).map(|(name, _)| name.clone()).collect();
    (totals.into_keys().collect(), best)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn after_any_history_it_knows_and_decides_as_from_scratch_sch_3_sch_4(
        events in prop::collection::vec(event(), 1..60),
    ) {
        let profile = Profile::default();
        let (mut snapshot, mut model, mut search) = (Snapshot::new(), Model::default(), Search::default());
        for event in &events {
            match event {
                Event::Node { name, .. } => {
                    let node = node_of(event).unwrap();
                    model.nodes.insert(format!("n{name}"), node.clone());
                    snapshot.set_node(node);
                }
                Event::NodeGone(name) => {
                    model.nodes.remove(&format!("n{name}"));
                    snapshot.remove_node(&format!("n{name}"));
                }
                Event::Placed { name, node, shape } | Event::Assumed { name, node, shape } => {
                    let (pod, node) = (pod_of(*name, *shape), format!("n{node}"));
                    model.pods.insert(format!("p{name}"), (pod.clone(), node.clone()));
                    let pod = Arc::new(PodInfo::new(pod));
                    match event {
                        Event::Assumed { .. } => snapshot.assume(pod, &node),
                        _ => snapshot.place(pod, &node),
                    }
                }
                Event::PodGone(name) => {
                    model.pods.remove(&format!("p{name}"));
                    snapshot.remove_pod(&format!("p{name}"));
                }
            }
            snapshot.refresh();
            let mut scratch = model.rebuilt();
            prop_assert_eq!(snapshot.nodes().len(), scratch.nodes().len());
            prop_assert_eq!(snapshot.placed_count(), model.pods.len());
            for expected in scratch.nodes() {
                prop_assert_eq!(knows(snapshot.node(&expected.name).unwrap()), knows(expected));
            }
            let order: BTreeSet<usize> = snapshot.order().iter().copied().collect();
            prop_assert_eq!(order, (0..snapshot.nodes().len()).collect::<BTreeSet<_>>());
            for shape in 0..6 {
                let pod = PodInfo::new(pod_of(99, shape));
                let (feasible, best_from_scratch) = best(&pod, &mut scratch, &profile);
                prop_assert_eq!(&feasible, &model.feasible(&pod.pod), "shape {}", shape);
                snapshot.prepare(&pod);
                match schedule(&pod, &snapshot, &profile, &mut search) {
                    Decision::Place { node, feasible: count, .. } => {
                        prop_assert_eq!(count, feasible.len());
                        prop_assert!(best_from_scratch.contains(&*node), "{} of {:?}", node, best_from_scratch);
                    }
                    Decision::Unfit(rejection) => {
                        prop_assert!(feasible.is_empty(), "{}", rejection.message);
                    }
                }
            }
        }
    }
}
