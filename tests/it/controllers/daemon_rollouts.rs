//! DaemonSet updates under random disturbance keep their bounds at every revision of the store (DS-1, SAFE-6).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use podium::api::DeleteOptions;
use podium::object::node_selector::RequiredNodes;
use podium::object::pod::node_name;
use podium::object::pod::{is_active, is_ready};
use podium::object::{Kind, Object, Revision};
use podium::store::{ChangeKind, Visibility, Watcher};
use proptest::prelude::*;
use serde_json::json;

use super::cluster::{Cluster, NO_NODES, on_virtual_time};
use super::daemon_sets::{daemon_set, node, set_image};

const NODES: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Image(u8),
    BadImage,
    /// The kubelet makes one step for the n-th pod.
    Kubelet(usize),
    KubeletAll,
    /// The n-th pod fails permanently.
    Fail(usize),
    Unready(usize),
    /// A user deletes the n-th pod.
    Delete(usize),
    Pass(u64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u8).prop_map(Step::Image),
        1 => Just(Step::BadImage),
        10 => (0..8usize).prop_map(Step::Kubelet),
        4 => Just(Step::KubeletAll),
        1 => (0..8usize).prop_map(Step::Fail),
        1 => (0..8usize).prop_map(Step::Unready),
        1 => (0..8usize).prop_map(Step::Delete),
        1 => (1..30u64).prop_map(Step::Pass),
        2 => Just(Step::Restart),
    ]
}

/// Follows every revision and holds the bounds.
struct RolloutObserver {
    pods: Watcher,
    living: BTreeMap<String, Arc<Object>>,
    /// Pods that the test itself disturbed: their loss does not count.
    disturbed: HashSet<String>,
    surge: usize,
    unavailable: usize,
}

fn place(pod: &Pod) -> String {
    let required = RequiredNodes::of(pod.spec.as_ref().unwrap());
    let named = || required.names().and_then(|names| names.first().map(ToString::to_string));
    node_name(pod).map(Into::into).or_else(named).unwrap_or_default()
}

impl RolloutObserver {
    fn active(&self) -> impl Iterator<Item = &Pod> {
        self.living.values().filter_map(|o| o.get::<Pod>()).filter(|p| is_active(p))
    }

    /// Counts the nodes with a ready pod.
    fn nodes_with_ready_pod(&self) -> usize {
        self.active().filter(|p| is_ready(p)).map(place).collect::<HashSet<_>>().len()
    }

    /// Returns the number of nodes with more than one pod, and the largest number of pods on one node.
    fn surplus_pods(&self) -> (usize, usize) {
        let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
        for pod in self.active() {
            *by_node.entry(place(pod)).or_default() += 1;
        }
        (by_node.values().filter(|n| **n > 1).count(), by_node.into_values().max().unwrap_or(0))
    }

    /// Checks everything since the cluster last settled: pods that were not ready then do not count.
    fn check_new_revisions(&mut self) {
        let mut counted_on = self.nodes_with_ready_pod();
        for change in self.pods.take().unwrap() {
            let (served, doubled) = (self.nodes_with_ready_pod(), self.surplus_pods());
            let uid = change.object.uid().to_string();
            match change.kind {
                ChangeKind::Deleted => self.living.remove(&uid),
                _ => self.living.insert(uid.clone(), change.object.clone()),
            };
            let (served_now, doubled_now) = (self.nodes_with_ready_pod(), self.surplus_pods());
            let (doubled, most) = (doubled_now.0 > doubled.0, doubled_now.1);
            assert!(most <= 2, "{most} pods of one node at {}", change.revision);
            assert!(!doubled || self.surge > 0, "two pods of one node without surge at {}", change.revision);
            if served_now < served && self.disturbed.contains(&uid) {
                counted_on = counted_on.saturating_sub(1);
            } else if served_now < served {
                let least = (NODES - self.unavailable).min(counted_on);
                assert!(
                    served_now >= least,
                    "{served_now} nodes served, not {least}, at {}",
                    change.revision
                );
            }
        }
    }
}

async fn play(surge: usize, unavailable: usize, steps: Vec<Step>) {
    let cluster = Cluster::start(NO_NODES);
    for n in 1..=NODES {
        cluster.create::<Node>(node(&format!("n{n}"), json!({})));
    }
    let mut set = daemon_set("agent");
    set["spec"]["updateStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    cluster.create::<DaemonSet>(set);
    let mut witness = RolloutObserver {
        pods: cluster.api.watch(Kind::Pod, Revision(0), Visibility::Applied),
        living: BTreeMap::new(),
        disturbed: HashSet::new(),
        surge,
        unavailable,
    };
    run(&cluster, &mut witness).await;
    for step in steps {
        let pods = cluster.pods();
        let pod = |n: usize| pods.get(n % pods.len().max(1)).cloned();
        let mut disturb = |n: usize| {
            let pod = pod(n).filter(|p| is_active(p));
            witness.disturbed.extend(pod.iter().map(|p| p.uid().to_string()));
            pod
        };
        match step {
            Step::Image(n) => set_image(&cluster, &format!("good:{n}")),
            Step::BadImage => set_image(&cluster, "bad"),
            Step::Kubelet(n) => drop(pod(n).map(|p| cluster.act_on(&p))),
            Step::KubeletAll => {
                for pod in &pods {
                    cluster.act_on(pod);
                }
            }
            Step::Fail(n) => drop(disturb(n).map(|p| cluster.fail(&p))),
            Step::Unready(n) => {
                if let Some(pod) = disturb(n).filter(|p| is_ready(p)) {
                    cluster.set_ready(&pod, false);
                }
            }
            Step::Delete(n) => {
                if let Some(pod) = disturb(n) {
                    cluster.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::default()).unwrap();
                }
            }
            Step::Pass(seconds) => cluster.pass(seconds).await,
            Step::Restart => {
                cluster.controllers.stop_one("daemonset").await;
                cluster.controllers.start_one("daemonset");
            }
        }
        cluster.settle().await;
        witness.check_new_revisions();
    }
    set_image(&cluster, "last");
    // Past every back-off of pods that failed.
    for _ in 0..3 {
        run(&cluster, &mut witness).await;
        cluster.pass(1000).await;
    }
    run(&cluster, &mut witness).await;
    let set = cluster.get::<DaemonSet>("agent");
    let status = set.status.clone().unwrap();
    let all = i32::try_from(NODES).unwrap();
    assert_eq!(
        (status.current_number_scheduled, status.updated_number_scheduled, status.number_available),
        (all, Some(all), Some(all))
    );
    assert_eq!((status.observed_generation, cluster.pods().len()), (set.metadata.generation, NODES));
    let revisions = cluster.api.list_as::<ControllerRevision>(Some("default"));
    let mut numbers: Vec<i64> = revisions.iter().map(|r| r.revision.unwrap()).collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "no two revisions of one number");
    cluster.stop().await;
}

/// The kubelet makes all steps for all pods, and the observer checks after each.
async fn run(cluster: &Cluster, witness: &mut RolloutObserver) {
    cluster.run_with(|| witness.check_new_revisions()).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// DS-1, SAFE-6: under any disturbance, and any number of restarts of the controller, an update keeps its bounds
    /// and completes.
    #[test]
    fn a_disturbed_update_never_leaves_its_bounds_ds_1(
        (surge, unavailable) in prop_oneof![Just((0, 1)), Just((0, 2)), Just((1, 0)), Just((2, 0))],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        on_virtual_time(play(surge, unavailable, steps));
    }
}
