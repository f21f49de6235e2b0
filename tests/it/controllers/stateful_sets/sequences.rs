//! Random sequences: never two pods of an identity, always in order, the same end after any restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use podium::api::DeleteOptions;
use podium::object::pod::{Phase, is_active, is_ready, is_terminal, phase};
use podium::object::{Kind, Object, Revision};
use podium::store::{ChangeKind, Visibility, Watcher};
use proptest::prelude::*;
use serde_json::json;

use super::super::cluster::{Cluster, MAX_TURNS, NO_NODES, RECREATION_DELAY, on_virtual_time};
use super::{pods, scale, set_image, set_partition, status, web};

#[derive(Clone, Debug)]
enum Step {
    Scale(i32),
    Image(u8),
    BadImage,
    Partition(i32),
    MaxUnavailable(i32),
    /// The kubelet makes one step for the n-th pod.
    Kubelet(usize),
    /// The kubelet makes one step for every pod.
    KubeletAll,
    Fail(usize),
    Unready(usize),
    Delete(usize),
    /// The controller is stopped and started again.
    Restart,
    /// The next step does not wait for the controller.
    WithoutSettling(Box<Step>),
}

fn step() -> impl Strategy<Value = Step> {
    let calm = prop_oneof![
        2 => (0..6i32).prop_map(Step::Scale),
        2 => (0..4u8).prop_map(Step::Image),
        1 => Just(Step::BadImage),
        1 => (0..6i32).prop_map(Step::Partition),
        1 => (1..4i32).prop_map(Step::MaxUnavailable),
        10 => (0..8usize).prop_map(Step::Kubelet),
        4 => Just(Step::KubeletAll),
        1 => (0..8usize).prop_map(Step::Fail),
        1 => (0..8usize).prop_map(Step::Unready),
        1 => (0..8usize).prop_map(Step::Delete),
        2 => Just(Step::Restart),
    ];
    (calm, prop::bool::weighted(0.2))
        .prop_map(|(step, hurry)| if hurry { Step::WithoutSettling(Box::new(step)) } else { step })
}

/// Follows every revision of the store.
struct SequenceObserver {
    watcher: Watcher,
    /// The existing pods, by name.
    living: BTreeMap<String, Arc<Object>>,
    /// True if the set's policy is OrderedReady, so that the order of creations is checked.
    is_ordered: bool,
}

impl SequenceObserver {
    fn check_new_revisions(&mut self) {
        // The loss of a pod at the moment at which the next one is created cannot be prevented.
        let before = self.living.clone();
        for change in self.watcher.take().unwrap() {
            let name = change.object.name().to_string();
            match change.kind {
                ChangeKind::Deleted => drop(self.living.remove(&name)),
                ChangeKind::Added => {
                    let twin = self.living.insert(name.clone(), change.object.clone());
                    assert!(twin.is_none(), "two pods of the identity {name}");
                    if self.is_ordered {
                        self.check_order(&name, &before);
                    }
                }
                ChangeKind::Modified => drop(self.living.insert(name, change.object.clone())),
            }
        }
    }

    /// STS-1: a pod is created only when all pods before it are running and ready.
    fn check_order(&self, name: &str, before: &BTreeMap<String, Arc<Object>>) {
        let ordinal: i32 = name.rsplit_once('-').unwrap().1.parse().unwrap();
        for lower in 0..ordinal {
            let name_of_lower = format!("web-{lower}");
            let good = |pods: &BTreeMap<String, Arc<Object>>| {
                let pod = pods.get(&name_of_lower).and_then(|o| o.get::<Pod>());
                pod.is_some_and(|p| is_active(p) && is_ready(p) && phase(p) == Phase::Running)
            };
            assert!(good(&self.living) || good(before), "{name} was made without {name_of_lower}");
        }
    }
}

async fn perform(cluster: &Cluster, step: &Step) {
    let all = cluster.pods();
    let pod = |n: &usize| all.get(n % all.len().max(1)).cloned();
    match step {
        Step::Scale(replicas) => scale(cluster, *replicas),
        Step::Image(n) => set_image(cluster, &format!("v{n}")),
        Step::BadImage => set_image(cluster, "bad"),
        Step::Partition(partition) => set_partition(cluster, *partition),
        Step::MaxUnavailable(most) => cluster.change::<StatefulSet>("web", |set| {
            let strategy = set.spec.update_strategy.get_or_insert_default();
            let rolling = strategy.rolling_update.get_or_insert_default();
            rolling.max_unavailable =
                Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(*most));
        }),
        Step::Kubelet(n) => drop(pod(n).map(|pod| cluster.act_on(&pod))),
        Step::KubeletAll => {
            for pod in &all {
                cluster.act_on(pod);
            }
        }
        Step::Fail(n) => {
            if let Some(pod) = pod(n).filter(|p| is_active(p)) {
                cluster.fail(&pod);
            }
        }
        Step::Unready(n) => {
            if let Some(pod) = pod(n).filter(|p| is_active(p) && is_ready(p)) {
                cluster.set_ready(&pod, false);
            }
        }
        Step::Delete(n) => {
            if let Some(pod) = pod(n) {
                cluster.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::default()).unwrap();
            }
        }
        Step::Restart => {
            cluster.controllers.stop_one("statefulset").await;
            cluster.controllers.start_one("statefulset");
        }
        Step::WithoutSettling(step) => Box::pin(perform(cluster, step)).await,
    }
}

async fn play(policy: &str, steps: Vec<Step>) {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({"podManagementPolicy": policy})));
    let mut witness = SequenceObserver {
        watcher: cluster.api.watch(Kind::Pod, Revision(0), Visibility::Applied),
        living: BTreeMap::new(),
        is_ordered: policy == "OrderedReady",
    };
    cluster.settle().await;
    witness.check_new_revisions();
    for step in &steps {
        perform(&cluster, step).await;
        if !matches!(step, Step::WithoutSettling(_)) {
            cluster.settle().await;
            witness.check_new_revisions();
        }
    }
    cluster.settle().await;
    witness.check_new_revisions();
    // After any sequence, a good template and the deletion of broken pods bring the set to the same end.
    set_partition(&cluster, 0);
    set_image(&cluster, "last");
    scale(&cluster, 4);
    let mut turns = 0;
    loop {
        turns += 1;
        assert!(turns < MAX_TURNS, "no end: {:#?}", cluster.pods());
        cluster.settle().await;
        witness.check_new_revisions();
        let acted: Vec<bool> = cluster.pods().iter().map(|pod| cluster.act_on(pod)).collect();
        if acted.contains(&true) {
            continue;
        }
        // A pod that never gets ready blocks all pods after it, including failed ones (STS-2).
        let broken = cluster.pods().into_iter().find(|p| !is_ready(p) && is_active(p));
        if let Some(broken) = broken {
            cluster.api.delete(Kind::Pod, &broken.key(), &DeleteOptions::default()).unwrap();
        } else if cluster.pods().iter().any(|pod| is_terminal(pod)) {
            // A pod failed before, so its successor waits.
            cluster.pass(300).await;
        } else if !(0..4).all(|n| cluster.pods().iter().any(|pod| pod.key().name == format!("web-{n}"))) {
            // The name of a deleted pod is not free yet, and pods beyond the set's size may exist until it is.
            tokio::time::sleep(RECREATION_DELAY).await;
        } else {
            break;
        }
    }
    assert_eq!(pods(&cluster), "0:last 1:last 2:last 3:last");
    assert_eq!(status(&cluster), "4 4 4 4 last>last");
    cluster.stop().await;
}

/// STS-2: a pod that never becomes ready is handled first, and a failed one after it waits.
#[test]
fn a_failed_pod_waits_behind_a_broken_one() {
    let steps = [Step::Kubelet(0), Step::Kubelet(0), Step::Kubelet(1), Step::Kubelet(1)];
    let troubles = [Step::BadImage, Step::Fail(0), Step::Fail(1)];
    on_virtual_time(play("OrderedReady", steps.into_iter().chain(troubles).collect()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// STS-1, STS-2, STS-3, SAFE-6.
    #[test]
    fn a_disturbed_set_keeps_identities_and_order(
        policy in prop_oneof![2 => Just("OrderedReady"), 1 => Just("Parallel")],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        on_virtual_time(play(policy, steps));
    }
}
