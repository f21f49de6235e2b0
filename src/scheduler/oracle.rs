//! The incremental snapshot against a naive one: after any history both know the same, and decide the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::cycle::{Decision, Search, explain, schedule};
use super::node_info::NodeInfo;
use super::pod_info::PodInfo;
use super::profile::Profile;
use super::snapshot::Snapshot;
use super::spread::HOSTNAME;
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
        5 => (0..12u8, nodes.clone(), 0..SHAPES).prop_map(|(name, node, shape)| Event::Placed { name, node, shape }),
        3 => (0..12u8, nodes, 0..SHAPES).prop_map(|(name, node, shape)| Event::Assumed { name, node, shape }),
        3 => (0..12u8).prop_map(Event::PodGone),
    ]
}

fn node_of(event: &Event) -> Option<Shared<Node>> {
    let Event::Node { name, size, zone, tainted, cordoned } = event else { return None };
    let mut labels = json!({"kubernetes.io/hostname": format!("n{name}")});
    // Nodes of the third zone do not say so.
    if *zone < 2 {
        labels[ZONE] = json!(format!("z{zone}"));
    }
    let taints = if *tainted { json!([{"key": "k", "effect": "NoSchedule"}]) } else { json!([]) };
    Some(node(json!({
        "metadata": {"name": format!("n{name}"), "labels": labels},
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
        6 => json!({"containers": [], "topologySpreadConstraints": [spread(ZONE, "DoNotSchedule")]}),
        7 => json!({"containers": [], "topologySpreadConstraints": [
            spread(HOSTNAME, "DoNotSchedule"), spread(ZONE, "ScheduleAnyway"), spread(HOSTNAME, "ScheduleAnyway")]}),
        8 => json!({"containers": [], "affinity": {"podAntiAffinity": required(HOSTNAME, "a")}}),
        9 => json!({"containers": [], "affinity": {"podAffinity": required(ZONE, "a")}}),
        10 => json!({"containers": [], "affinity": {"podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "podAffinityTerm": required(ZONE, "b")[REQUIRED][0]}]}}}),
        _ => json!({"containers": [{"name": "c"}]}),
    };
    let mut pod = (*named_pod(&format!("p{name}"), spec)).clone();
    // Every shape comes with either label.
    let app = if name.is_multiple_of(2) { "a" } else { "b" };
    pod.metadata.labels = Some([("app".to_string(), app.to_string())].into());
    Shared::from_value(pod)
}

const ZONE: &str = "topology.kubernetes.io/zone";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const SHAPES: u8 = 11;

fn spread(key: &str, when: &str) -> Value {
    json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "a"}}})
}

fn required(key: &str, app: &str) -> Value {
    let mut affinity = json!({});
    affinity[REQUIRED] = json!([{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]);
    affinity
}

/// The app that a selector of this test selects.
fn app_of(selector: Option<&LabelSelector>) -> Option<&String> {
    selector.and_then(|s| s.match_labels.as_ref()).and_then(|labels| labels.get("app"))
}

fn terms(affinity: Option<&Vec<PodAffinityTerm>>) -> impl Iterator<Item = (&str, Option<&String>)> {
    affinity.into_iter().flatten().map(|term| (&*term.topology_key, app_of(term.label_selector.as_ref())))
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

    /// The pods with this app in the node's domain of a topology; none when the node is in none.
    fn in_domain(&self, node: &Node, key: &str, app: Option<&String>) -> Option<usize> {
        let domain = label(node, key)?;
        let there = |on: &String| self.nodes.get(on).is_some_and(|other| label(other, key) == Some(domain));
        Some(self.pods.values().filter(|(pod, on)| there(on) && label_of(pod, "app") == app).count())
    }

    fn spreads(&self, pod: &Pod, node: &Node) -> bool {
        let constraints = pod.spec.iter().flat_map(|s| s.topology_spread_constraints.iter().flatten());
        constraints.filter(|c| c.when_unsatisfiable == "DoNotSchedule").all(|constraint| {
            let app = app_of(constraint.label_selector.as_ref());
            let count = |node: &Node| self.in_domain(node, &constraint.topology_key, app);
            let fewest = self.nodes.values().filter_map(|node| count(node)).min().unwrap_or(0);
            let own = usize::from(label_of(pod, "app") == app);
            count(node).is_some_and(|there| there + own <= fewest + constraint.max_skew as usize)
        })
    }

    fn suits(&self, pod: &Pod, node: &Node) -> bool {
        let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
        let to = affinity.and_then(|a| a.pod_affinity.as_ref());
        let against = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
        let sought = to.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let shunned = against.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let app = label_of(pod, "app");
        let finds = terms(sought).all(|(key, wanted)| {
            let anywhere = self.nodes.values().any(|node| self.in_domain(node, key, wanted) > Some(0));
            match self.in_domain(node, key, wanted) {
                None => false,
                Some(0) => !anywhere && app == wanted,
                Some(_) => true,
            }
        });
        let avoids =
            terms(shunned).all(|(key, shunned)| self.in_domain(node, key, shunned).unwrap_or(0) == 0);
        let welcome = self.pods.values().all(|(other, on)| {
            let affinity = other.spec.as_ref().and_then(|s| s.affinity.as_ref());
            let against = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
            let shunned =
                against.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
            let domain = |key: &str| self.nodes.get(on).and_then(|other| label(other, key));
            terms(shunned).all(|(key, shunned)| {
                shunned != app || domain(key).is_none() || domain(key) != label(node, key)
            })
        });
        finds && avoids && welcome
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
                && self.spreads(pod, node)
                && self.suits(pod, node)
        };
        self.nodes.iter().filter(|(name, node)| takes(name, node)).map(|(name, _)| name.clone()).collect()
    }
}

fn label<'n>(node: &'n Node, key: &str) -> Option<&'n String> {
    node.metadata.labels.as_ref()?.get(key)
}

fn label_of<'p>(pod: &'p Pod, key: &str) -> Option<&'p String> {
    pod.metadata.labels.as_ref()?.get(key)
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
            for shape in 0..SHAPES {
                let pod = PodInfo::new(pod_of(98 + shape % 2, shape));
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
