//! The incremental snapshot against a naive cluster: after any history both know the same, let the same nodes
//! take a pod, find the same of them the best, and evict the same pods.
//!
//! [`model`] and [`scores`] compute everything anew from the objects, by the words of the Kubernetes pages;
//! they share no code with the scheduler but the reading of quantities, taints and node selectors.

mod model;
mod objects;
mod scores;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::cycle::{Decision, Room, Search, schedule};
use super::node_info::NodeInfo;
use super::pod_info::PodInfo;
use super::profile::Profile;
use super::snapshot::Snapshot;
use model::Model;
use objects::{Event, SHAPES, budget, event, node_of, pod_of};

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

/// Does to both what the event says.
fn apply(event: &Event, snapshot: &mut Snapshot, model: &mut Model) {
    match event {
        Event::Node { name, .. } => {
            let node = node_of(event).expect("it is a node's");
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
        Event::Budget(allowed) => {
            model.allowed_disruptions = Some(i64::from(*allowed));
            snapshot.budgets_mut().set(&budget(*allowed));
        }
    }
    snapshot.refresh();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn after_any_history_it_knows_and_decides_as_from_scratch_sch_3_sch_4_sch_5_sch_8(
        events in prop::collection::vec(event(), 1..60),
    ) {
        let profile = Profile::default();
        let (mut snapshot, mut model, mut search) = (Snapshot::new(), Model::default(), Search::default());
        for (turn, event) in events.iter().enumerate() {
            apply(event, &mut snapshot, &mut model);
            let scratch = model.rebuilt();
            prop_assert_eq!(snapshot.nodes().len(), scratch.nodes().len());
            prop_assert_eq!(snapshot.placed_count(), model.pods.len());
            for expected in scratch.nodes() {
                prop_assert_eq!(knows(snapshot.node(&expected.name).unwrap()), knows(expected));
            }
            let order: BTreeSet<usize> = snapshot.order().iter().copied().collect();
            prop_assert_eq!(order, (0..snapshot.nodes().len()).collect::<BTreeSet<_>>());
            // Every fifth shape each time, as a pod of another name, and so of other labels and priority.
            for shape in (0..SHAPES).filter(|shape| (usize::from(*shape) + turn).is_multiple_of(5)) {
                let pod = pod_of(90 + (turn % 6) as u8, shape);
                let info = PodInfo::new(pod.clone());
                snapshot.prepare(&info);
                let feasible = model.feasible(&pod);
                match schedule(&info, &snapshot, &profile, &mut search) {
                    Decision::Place { node, feasible: count, .. } => {
                        prop_assert_eq!(count, feasible.len(), "shape {} {:?}", shape, feasible);
                        let best = scores::best(&model, &pod, &feasible);
                        prop_assert!(best.contains(&*node), "shape {}: {} of {:?}", shape, node, best);
                    }
                    Decision::Unfit(rejection) => {
                        prop_assert!(feasible.is_empty(), "shape {}: {}", shape, rejection.message);
                        let evictions = model.least_harmful_evictions(&pod);
                        match rejection.room {
                            Room::Made(preemption) => {
                                let victims: BTreeSet<String> =
                                    preemption.victims.iter().map(|victim| victim.uid().to_string()).collect();
                                let made = (preemption.node.to_string(), victims);
                                prop_assert!(evictions.contains(&made), "shape {}: {:?} of {:?}", shape, made, evictions);
                            }
                            _ => prop_assert!(evictions.is_empty(), "shape {}: {:?}", shape, evictions),
                        }
                    }
                }
            }
        }
    }
}
