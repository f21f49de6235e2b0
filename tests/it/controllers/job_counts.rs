//! Under any disturbance of a Job, and any stop of its controller, each pod's end counts exactly once.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use podium::api::DeleteOptions;
use podium::object::pod::{Phase, is_active, phase};
use podium::object::{Kind, Revision};
use podium::store::{Change, ChangeKind, Visibility, Watcher};
use proptest::prelude::*;
use serde_json::json;

use super::cluster::{Cluster, NO_NODES};
use super::jobs::job;

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

#[derive(Clone, Copy, Debug)]
enum UserAction {
    /// The n-th active pod ends, well or not.
    End(usize, bool),
    /// Every active pod ends.
    EndAll(bool),
    /// A user deletes the n-th pod.
    Delete(usize),
    /// The kubelet makes one step for every pod.
    Kubelet,
    Suspend(bool),
    Parallelism(i32),
    Pass(u64),
}

/// An event, and the number of writes after which the control plane stops because of it, if it does.
type JobStep = (UserAction, Option<u64>);

fn step() -> impl Strategy<Value = JobStep> {
    let act = prop_oneof![
        6 => (0..8usize, any::<bool>()).prop_map(|(n, good)| UserAction::End(n, good)),
        2 => any::<bool>().prop_map(UserAction::EndAll),
        2 => (0..8usize).prop_map(UserAction::Delete),
        4 => Just(UserAction::Kubelet),
        1 => any::<bool>().prop_map(UserAction::Suspend),
        1 => (0..5i32).prop_map(UserAction::Parallelism),
        3 => (1..400u64).prop_map(UserAction::Pass),
    ];
    (act, prop::option::weighted(0.6, 0..14u64))
}

/// Follows every version of every pod and computes the expected counts.
struct JobObserver {
    pods: Watcher,
    jobs: Watcher,
    /// By uid, with the index of each.
    succeeded: BTreeMap<String, Option<i32>>,
    failed: BTreeSet<String>,
}

impl JobObserver {
    fn check_new_revisions(&mut self) {
        let mut changes: Vec<Change> = self.pods.take().unwrap();
        changes.extend(self.jobs.take().unwrap());
        changes.sort_by_key(|c| c.revision);
        for change in changes {
            if let Some(job) = change.object.get::<Job>() {
                self.check_counts(job);
            } else if let Some(pod) = change.object.get::<Pod>() {
                self.record_pod(&change, pod);
            }
        }
    }

    fn record_pod(&mut self, change: &Change, pod: &Pod) {
        let uid = change.object.uid().to_string();
        let label = pod.metadata.labels.as_ref().and_then(|l| l.get(INDEX));
        let index: Option<i32> = label.map(|text| text.parse().unwrap());
        if change.kind == ChangeKind::Added && index.is_some() {
            let done = self.succeeded.values().any(|done| *done == index);
            assert!(!done, "another pod for index {index:?}, which is done");
        }
        // The end of a pod without the finalizer does not count, or has been counted.
        if !pod.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER) {
            return;
        }
        let going = pod.metadata.deletion_timestamp.is_some();
        match phase(pod) {
            Phase::Succeeded if !self.failed.contains(&uid) => drop(self.succeeded.insert(uid, index)),
            Phase::Succeeded => {}
            phase if (phase == Phase::Failed || going) && !self.succeeded.contains_key(&uid) => {
                self.failed.insert(uid);
            }
            _ => {}
        }
    }

    fn successes(&self, indexed: bool) -> usize {
        if indexed {
            self.succeeded.values().flatten().collect::<BTreeSet<_>>().len()
        } else {
            self.succeeded.len()
        }
    }

    /// At no moment is more counted than has happened.
    fn check_counts(&self, job: &Job) {
        let Some(status) = &job.status else { return };
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let sum = |counter: Option<i32>, noted: Option<Vec<String>>| {
            usize::try_from(counter.unwrap_or(0)).unwrap() + noted.map_or(0, |n| n.len())
        };
        let indexed = job.spec.as_ref().unwrap().completion_mode.as_deref() == Some("Indexed");
        let succeeded = sum(status.succeeded, uncounted.succeeded);
        assert!(succeeded <= self.successes(indexed), "{succeeded} successes of {:?}", self.succeeded);
        let failed = sum(status.failed, uncounted.failed);
        assert!(failed <= self.failed.len(), "{failed} failures of {:?}", self.failed);
    }
}

async fn play(indexed: bool, limit: i32, steps: Vec<JobStep>) {
    let cluster = Cluster::start(NO_NODES);
    let mode = if indexed { "Indexed" } else { "NonIndexed" };
    let watch = |kind| cluster.api.watch(kind, Revision(0), Visibility::Applied);
    let mut witness = JobObserver {
        pods: watch(Kind::Pod),
        jobs: watch(Kind::Job),
        succeeded: BTreeMap::new(),
        failed: BTreeSet::new(),
    };
    let fields = json!({"completions": 6, "parallelism": 3, "completionMode": mode, "backoffLimit": limit});
    cluster.create::<Job>(job("work", &fields));
    for (act, crash_after) in steps {
        cluster.settle().await;
        perform(&cluster, act).await;
        if let Some(writes) = crash_after {
            cluster.store.faults().fail_after(Some(writes));
            cluster.settle().await;
            cluster.controllers.stop_one("job").await;
            cluster.store.faults().fail_after(None);
            cluster.controllers.start_one("job");
        }
        cluster.settle().await;
        witness.check_new_revisions();
    }
    finish(&cluster, &mut witness).await;
    let job = cluster.get::<Job>("work");
    let status = job.status.clone().unwrap();
    let counts = [status.succeeded, status.failed].map(|c| usize::try_from(c.unwrap_or(0)).unwrap());
    assert_eq!(counts, [witness.successes(indexed), witness.failed.len()], "{status:?}");
    let uncounted = status.uncounted_terminated_pods.unwrap();
    assert_eq!((uncounted.succeeded, uncounted.failed), (None, None));
    let conditions: Vec<String> = status.conditions.unwrap().into_iter().map(|c| c.type_).collect();
    if conditions.contains(&"Failed".to_string()) {
        assert!(witness.failed.len() > usize::try_from(limit).unwrap(), "{conditions:?}");
    } else {
        assert!(conditions.contains(&"Complete".to_string()), "{conditions:?}");
        assert!(counts[0] >= 6, "{counts:?}");
    }
    let held = |pod: &Pod| pod.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER);
    assert!(cluster.pods().iter().all(|pod| !held(pod)), "nothing is held after the end");
    cluster.stop().await;
}

async fn perform(cluster: &Cluster, act: UserAction) {
    let active: Vec<_> = cluster.pods().into_iter().filter(|pod| is_active(pod)).collect();
    let code = |good: bool| i32::from(!good);
    match act {
        UserAction::End(n, good) => {
            if let Some(pod) = active.get(n % active.len().max(1)) {
                cluster.end(pod, code(good));
            }
        }
        UserAction::EndAll(good) => active.iter().for_each(|pod| cluster.end(pod, code(good))),
        UserAction::Delete(n) => {
            if let Some(pod) = active.get(n % active.len().max(1)) {
                cluster.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::default()).unwrap();
            }
        }
        UserAction::Kubelet => {
            for pod in cluster.pods() {
                cluster.act_on(&pod);
            }
        }
        UserAction::Suspend(suspend) => {
            cluster.change::<Job>("work", |j| j.spec.as_mut().unwrap().suspend = Some(suspend));
        }
        UserAction::Parallelism(number) => {
            cluster.change::<Job>("work", |j| j.spec.as_mut().unwrap().parallelism = Some(number));
        }
        UserAction::Pass(seconds) => cluster.pass(seconds).await,
    }
}

/// Lets all pods succeed without further disturbance.
async fn finish(cluster: &Cluster, witness: &mut JobObserver) {
    cluster.change::<Job>("work", |j| {
        let spec = j.spec.as_mut().unwrap();
        (spec.suspend, spec.parallelism) = (Some(false), Some(3));
    });
    for _ in 0..20 {
        cluster.run().await;
        witness.check_new_revisions();
        perform(cluster, UserAction::EndAll(true)).await;
        cluster.pass(400).await;
        witness.check_new_revisions();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// JOB-1, SAFE-6: no completion is lost or counted twice, and the Job ends the same.
    #[test]
    fn every_end_counts_exactly_once(
        indexed in any::<bool>(),
        limit in prop_oneof![Just(3), Just(1000)],
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(indexed, limit, steps));
    }
}
