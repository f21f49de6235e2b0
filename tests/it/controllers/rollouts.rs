//! Rollouts under random disturbance never leave their bounds, at any revision of the store (DEP-2).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use podium::api::DeleteOptions;
use podium::object::pod::{is_active, is_ready};
use podium::object::{Kind, Object, Revision};
use podium::store::{Change, ChangeKind, Visibility, Watcher};
use proptest::prelude::*;

use super::cluster::{Cluster, NO_NODES, deployment, key, on_virtual_time, set_image};

#[derive(Clone, Debug)]
enum Step {
    Scale(i32),
    Image(u8),
    BadImage,
    Undo,
    Pause(bool),
    /// The kubelet makes one step for the n-th pod.
    Kubelet(usize),
    /// The kubelet makes one step for every pod.
    KubeletAll,
    /// The n-th pod fails permanently.
    Fail(usize),
    /// The n-th pod stops being ready.
    Unready(usize),
    /// A user deletes the n-th pod.
    Delete(usize),
    Restart(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..9i32).prop_map(Step::Scale),
        3 => (0..4u8).prop_map(Step::Image),
        1 => Just(Step::BadImage),
        1 => Just(Step::Undo),
        1 => any::<bool>().prop_map(Step::Pause),
        10 => (0..20usize).prop_map(Step::Kubelet),
        4 => Just(Step::KubeletAll),
        1 => (0..20usize).prop_map(Step::Fail),
        1 => (0..20usize).prop_map(Step::Unready),
        1 => (0..20usize).prop_map(Step::Delete),
        1 => any::<bool>().prop_map(Step::Restart),
    ]
}

/// Follows every revision and holds the bounds.
struct RolloutObserver {
    pods: Watcher,
    deployments: Watcher,
    living: BTreeMap<String, Arc<Object>>,
    /// Pods that the test itself disturbed: their loss does not count.
    disturbed: HashSet<String>,
    surge: i32,
    unavailable: i32,
    replicas: i32,
}

impl RolloutObserver {
    fn count(&self, counts: impl Fn(&Pod) -> bool) -> i32 {
        let pods = self.living.values().filter_map(|o| o.get::<Pod>());
        i32::try_from(pods.filter(|p| counts(p)).count()).unwrap()
    }

    /// Checks everything since the cluster last settled.
    ///
    /// Pods that were not ready then do not count: a pod that becomes ready at the moment of the decision to remove it
    /// is lost, which no controller can prevent.
    fn check_new_revisions(&mut self) {
        let mut counted_on = self.count(|p| is_active(p) && is_ready(p));
        let mut changes: Vec<Change> = self.pods.take().unwrap();
        changes.extend(self.deployments.take().unwrap());
        changes.sort_by_key(|c| c.revision);
        for change in changes {
            if let Some(deployment) = change.object.get::<Deployment>() {
                self.replicas = deployment.spec.replicas.unwrap_or(1);
                continue;
            }
            let (total, available) = (self.count(is_active), self.count(|p| is_active(p) && is_ready(p)));
            let uid = change.object.uid().to_string();
            match change.kind {
                ChangeKind::Deleted => self.living.remove(&uid),
                _ => self.living.insert(uid.clone(), change.object.clone()),
            };
            let (total_now, available_now) =
                (self.count(is_active), self.count(|p| is_active(p) && is_ready(p)));
            let bounds =
                format!("{} +{} -{} at {}", self.replicas, self.surge, self.unavailable, change.revision);
            if total_now > total {
                let most = self.replicas + self.surge;
                assert!(total_now <= most, "{total_now} pods of {bounds}");
            }
            if available_now < available && self.disturbed.contains(&uid) {
                counted_on -= 1;
            } else if available_now < available {
                let least = (self.replicas - self.unavailable).min(counted_on);
                assert!(available_now >= least, "{available_now} available of {bounds}");
            }
        }
    }
}

async fn play(surge: i32, unavailable: i32, steps: Vec<Step>) {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 4, surge, unavailable));
    let mut witness = RolloutObserver {
        pods: cluster.api.watch(Kind::Pod, Revision(0), Visibility::Applied),
        deployments: cluster.api.watch(Kind::Deployment, Revision(0), Visibility::Applied),
        living: BTreeMap::new(),
        disturbed: HashSet::new(),
        surge,
        unavailable,
        replicas: 4,
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
            Step::Scale(replicas) => {
                cluster.change::<Deployment>("web", |d| d.spec.replicas = Some(replicas));
            }
            Step::Image(n) => cluster.change::<Deployment>("web", |d| set_image(d, &format!("good:{n}"))),
            Step::BadImage => cluster.change::<Deployment>("web", |d| set_image(d, "bad")),
            Step::Undo => undo(&cluster),
            Step::Pause(paused) => cluster.change::<Deployment>("web", |d| d.spec.paused = Some(paused)),
            Step::Kubelet(n) => drop(pod(n).map(|p| cluster.act_on(&p))),
            Step::KubeletAll => {
                for pod in &pods {
                    cluster.act_on(pod);
                }
            }
            Step::Fail(n) => {
                if let Some(pod) = disturb(n) {
                    cluster.fail(&pod);
                }
            }
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
            Step::Restart(deployment) => {
                let name = if deployment { "deployment" } else { "replicaset" };
                cluster.controllers.stop_one(name).await;
                cluster.controllers.start_one(name);
            }
        }
        cluster.settle().await;
        witness.check_new_revisions();
    }
    cluster.change::<Deployment>("web", |d| {
        d.spec.paused = Some(false);
        d.spec.replicas = Some(5);
        set_image(d, "last");
    });
    run(&cluster, &mut witness).await;
    let web = cluster.get::<Deployment>("web");
    let status = web.status.clone().unwrap();
    assert_eq!(
        (status.replicas, status.updated_replicas, status.available_replicas, status.observed_generation),
        (Some(5), Some(5), Some(5), web.metadata.generation),
        "{}",
        cluster.sets()
    );
    cluster.stop().await;
}

/// The kubelet makes all steps for all pods, and the witness observes each.
async fn run(cluster: &Cluster, witness: &mut RolloutObserver) {
    cluster.run_with(|| witness.check_new_revisions()).await;
}

/// Restores the template of the previous revision, as kubectl does.
fn undo(cluster: &Cluster) {
    let mut sets = cluster.api.list_as::<ReplicaSet>(Some("default"));
    sets.sort_by_key(|s| {
        s.metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get("deployment.kubernetes.io/revision")?.parse::<i64>().ok())
    });
    if sets.len() < 2 || cluster.api.get_as::<Deployment>(&key("web")).unwrap().spec.paused == Some(true) {
        return;
    }
    let mut template = sets[sets.len() - 2].spec.template.clone().unwrap();
    template.metadata.as_mut().unwrap().labels.as_mut().unwrap().remove("pod-template-hash");
    cluster.change::<Deployment>("web", |d| d.spec.template = template.clone());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// DEP-2, DEP-3, SAFE-6: under any disturbance, a rollout keeps its bounds and completes.
    #[test]
    fn a_disturbed_rollout_never_leaves_its_bounds(
        (surge, unavailable) in prop_oneof![Just((1, 0)), Just((0, 1)), Just((2, 1)), Just((3, 2))],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        on_virtual_time(play(surge, unavailable, steps));
    }
}
