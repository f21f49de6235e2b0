//! Compares the scheduler's core, fed as by the API, with a naive cluster: after any history both have the same
//! state, find the same nodes feasible and the same ones best, and evict the same pods.
//!
//! [`model`] and [`scores`] compute everything from the objects, by the wording of the Kubernetes pages; they share
//! no code with the scheduler except the parsing of quantities, taints and node selectors.

mod model;
mod objects;
mod scores;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use crate::core::Core;
use crate::cycle::{Decision, NominatingInfo, Search, schedule};
use crate::profile::Profile;
use crate::queue::QueueTimes;
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use model::Model;
use object::config::Timings;
use objects::{
    Event, SHAPES, bound, budget, deleting, event, labelled, node_of, pod_of, with_status, without_status,
};

/// Formats everything the snapshot knows of a node, in a canonical order.
fn knows(info: &NodeInfo) -> String {
    let mut requested = info.requested.clone();
    requested.extended.sort();
    let mut ports = info.ports.clone();
    ports.sort();
    let mut pods: Vec<String> = info.pods.iter().map(|pod| describe_pod(pod)).collect();
    pods.sort_unstable();
    let has = (&info.allocatable, info.allowed_pods, &info.taints, info.unschedulable, info.zone());
    format!("{requested:?} {:?} {ports:?} {pods:?} {has:?}", info.assumed)
}

fn describe_pod(pod: &PodInfo) -> String {
    let labels = &pod.pod.metadata.labels;
    let (going, requests) = (pod.is_terminating(), &pod.requests);
    format!("{} {:?} {:?} {} {going} {labels:?}", pod.uid(), requests, pod.started, pod.preempted)
}

/// Applies an event to both.
fn apply(event: &Event, core: &mut Core, model: &mut Model) {
    let now = Duration::ZERO;
    let known = |name: u8| model.pods.get(&format!("p{name}")).cloned();
    let mut version = None;
    match event {
        Event::Node { name, .. } => {
            let node = node_of(event).expect("it is a node's");
            model.nodes.insert(format!("n{name}"), node.clone());
            core.node_changed(node, now);
        }
        Event::NodeDeleted(name) => {
            model.nodes.remove(&format!("n{name}"));
            core.node_deleted(&format!("n{name}"), now);
        }
        Event::Placed { name, node, shape } => {
            let node = format!("n{node}");
            version = Some((bound(&pod_of(*name, *shape), &node), node));
        }
        Event::Bound { name, node, shape } => {
            let (pod, node) = (without_status(&pod_of(*name, *shape)), format!("n{node}"));
            // It is another pod with the same name: uids are never reused.
            core.pod_deleted(pod.uid(), now);
            core.pod_changed(pod.clone(), now);
            version = Some((bound(&pod, &node), node));
        }
        Event::Assumed { name, node, shape } => {
            let (pod, node) = (pod_of(*name, *shape), format!("n{node}"));
            model.pods.insert(format!("p{name}"), (pod.clone(), node.clone()));
            core.snapshot_mut().assume(Arc::new(PodInfo::new(pod)), &node);
        }
        Event::StatusWritten { name, status } => {
            version = known(*name).map(|(pod, node)| (with_status(&bound(&pod, &node), *status), node));
        }
        Event::Labelled { name, app } => {
            version = known(*name).map(|(pod, node)| (labelled(&bound(&pod, &node), *app), node));
        }
        Event::Deleting(name) => {
            version = known(*name).map(|(pod, node)| (deleting(&bound(&pod, &node)), node));
        }
        Event::PodDeleted(name) => {
            model.pods.remove(&format!("p{name}"));
            core.pod_deleted(&format!("p{name}"), now);
        }
        Event::Budget(allowed) => {
            model.allowed_disruptions = Some(i64::from(*allowed));
            core.budget_changed(&budget(*allowed), now);
        }
    }
    if let Some((pod, node)) = version {
        core.pod_changed(pod.clone(), now);
        model.pods.insert(pod.uid().to_string(), (pod, node));
    }
    core.snapshot_mut().refresh();
}

/// Creates an empty core.
fn core() -> Core {
    let times = QueueTimes::of(&Timings::default());
    Core::new([Profile::default()].into(), times, 0, Arc::default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn after_any_history_it_knows_and_decides_as_from_scratch_sch_3_sch_4_sch_5_sch_8(
        events in prop::collection::vec(event(), 1..60),
    ) {
        let profile = Profile::default();
        let (mut core, mut model, mut search) = (core(), Model::default(), Search::default());
        for (turn, event) in events.iter().enumerate() {
            apply(event, &mut core, &mut model);
            let (scratch, snapshot) = (model.rebuilt(), core.snapshot_mut());
            prop_assert_eq!(snapshot.nodes().len(), scratch.nodes().len());
            prop_assert_eq!(snapshot.placed_count(), model.pods.len());
            for expected in scratch.nodes() {
                prop_assert_eq!(knows(snapshot.node(&expected.name).unwrap()), knows(expected));
            }
            let order: BTreeSet<usize> = snapshot.order().iter().copied().collect();
            prop_assert_eq!(order, (0..snapshot.nodes().len()).collect::<BTreeSet<_>>());
            // Every fifth shape each time, as a pod with another name, and so with other labels and priority.
            for shape in (0..SHAPES).filter(|shape| (usize::from(*shape) + turn).is_multiple_of(5)) {
                let pod = pod_of(90 + (turn % 6) as u8, shape);
                let info = PodInfo::new(pod.clone());
                snapshot.prepare(&info);
                let feasible = model.feasible(&pod);
                match schedule(&info, snapshot, &profile, &mut search) {
                    Decision::Place { node, feasible: count, .. } => {
                        prop_assert_eq!(count, feasible.len(), "shape {} {:?}", shape, feasible);
                        let best = scores::best(&model, &pod, &feasible);
                        prop_assert!(best.contains(&*node), "shape {}: {} of {:?}", shape, node, best);
                    }
                    Decision::Unfit(rejection) => {
                        prop_assert!(feasible.is_empty(), "shape {}: {}", shape, rejection.message);
                        let evictions = model.least_harmful_evictions(&pod);
                        match rejection.nomination {
                            NominatingInfo::Preempted(preemption) => {
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
