//! The scenarios of the Job page and of the tasks around it.

mod endings;
mod failures;
mod indexes;
mod suspension;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use podium::api::{DeleteOptions, Propagation};
use podium::object::pod::is_active;
use podium::object::{Kind, SharedObject};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, key};

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// A Job of one container with these fields in its spec.
pub(super) fn job(name: &str, fields: &Value) -> Value {
    let mut job = json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "busybox"}]}}}});
    json_patch::merge(&mut job["spec"], fields);
    job
}

/// Formats a Job as `active/ready/succeeded/failed`, and the conditions that are true.
pub(super) fn describe(cluster: &Cluster, name: &str) -> String {
    let status = cluster.get::<Job>(name).status.clone().unwrap_or_default();
    let counts = [status.active, status.ready, status.succeeded, status.failed];
    let counts = counts.map(|c| c.unwrap_or(0).to_string()).join("/");
    let conditions = status.conditions.unwrap_or_default();
    let conditions: Vec<String> = conditions
        .iter()
        .filter(|c| c.status == "True")
        .map(|c| match &c.reason {
            Some(reason) => format!("{}({reason})", c.type_),
            None => c.type_.clone(),
        })
        .collect();
    [&[counts][..], &conditions].concat().join(" ")
}

const COMPLETE: &str = "SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)";

impl Cluster {
    /// The Job's pods that have not ended, by name.
    fn active(&self) -> Vec<SharedObject<Pod>> {
        self.pods().into_iter().filter(|pod| is_active(pod)).collect()
    }

    /// The active pod for an index.
    fn of_index(&self, index: i32) -> SharedObject<Pod> {
        let label = "batch.kubernetes.io/job-completion-index";
        let expected = index.to_string();
        let of = |pod: &SharedObject<Pod>| {
            pod.metadata.labels.as_ref().and_then(|l| l.get(label)) == Some(&expected)
        };
        self.active().into_iter().find(of).unwrap()
    }

    /// Ends the active pod of an index.
    async fn end_index(&self, index: i32, exit_code: i32) {
        self.end(&self.of_index(index), exit_code);
        self.settle().await;
    }

    /// Ends all active pods.
    async fn end_all(&self, exit_code: i32) {
        for pod in self.active() {
            self.end(&pod, exit_code);
        }
        self.settle().await;
    }

    fn pods_with_finalizer(&self) -> usize {
        let held = |pod: &Pod| pod.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER);
        self.pods().iter().filter(|pod| held(pod)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_one_pod_to_its_end_and_keeps_it_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("pi", &json!({})));
    cluster.settle().await;
    assert_eq!(describe(&cluster, "pi"), "1/0/0/0");
    cluster.run().await;
    assert_eq!(describe(&cluster, "pi"), "1/1/0/0");
    let pod = cluster.pods()[0].clone();
    assert!(pod.name().starts_with("pi-") && cluster.pods_with_finalizer() == 1, "{}", pod.name());
    cluster.pass(60).await;
    cluster.end(&pod, 0);
    cluster.settle().await;
    assert_eq!(describe(&cluster, "pi"), format!("0/0/1/0 {COMPLETE}"));
    let status = cluster.get::<Job>("pi").status.clone().unwrap();
    let lasted = status.completion_time.unwrap().0.duration_since(status.start_time.unwrap().0);
    assert!((60..62).contains(&lasted.as_secs()), "{lasted}");
    assert_eq!(
        (cluster.pods().len(), cluster.pods_with_finalizer()),
        (1, 0),
        "the pod remains, without a finalizer"
    );
    assert_eq!(cluster.events("SuccessfulCreate"), [format!("Created pod: {}", pod.name())]);
    assert_eq!(cluster.events("Completed"), ["Job completed"]);
    let revision = cluster.api.revision();
    cluster.pass(3600).await;
    assert_eq!(cluster.api.revision(), revision, "a finished Job is left alone");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_no_more_pods_than_completions_remain_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("five", &json!({"completions": 5, "parallelism": 2})));
    let mut seen = Vec::new();
    for _ in 0..3 {
        cluster.run().await;
        seen.push(describe(&cluster, "five"));
        cluster.end_all(0).await;
    }
    assert_eq!(seen, ["2/2/0/0", "2/2/2/0", "1/1/4/0"]);
    assert_eq!(describe(&cluster, "five"), format!("0/0/5/0 {COMPLETE}"));
    assert_eq!(cluster.pods().len(), 5);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_work_queue_is_empty_when_one_worker_says_so_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("queue", &json!({"parallelism": 3})));
    cluster.run().await;
    assert_eq!(describe(&cluster, "queue"), "3/3/0/0");
    let workers = cluster.active();
    cluster.end(&workers[0], 0);
    cluster.run().await;
    assert_eq!(describe(&cluster, "queue"), "2/2/1/0", "no new worker is started");
    cluster.end(&workers[1], 1);
    cluster.pass(60).await;
    assert_eq!(describe(&cluster, "queue"), "1/1/1/1", "not even for one that failed");
    cluster.end(&workers[2], 0);
    cluster.settle().await;
    assert_eq!(describe(&cluster, "queue"), format!("0/0/2/1 {COMPLETE}"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn parallelism_can_be_changed_and_zero_stops_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("wide", &json!({"completions": 6, "parallelism": 0})));
    cluster.run().await;
    assert_eq!(describe(&cluster, "wide"), "0/0/0/0");
    for (parallelism, expected) in [(4, "4/4/0/0"), (1, "1/1/0/0"), (0, "0/0/0/0"), (2, "2/2/0/0")] {
        cluster.change::<Job>("wide", |j| j.spec.as_mut().unwrap().parallelism = Some(parallelism));
        cluster.run().await;
        assert_eq!(describe(&cluster, "wide"), expected, "{parallelism}");
    }
    assert_eq!(cluster.events("SuccessfulDelete").len(), 4);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_index_is_done_once_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job(
        "sweep",
        &json!({"completionMode": "Indexed", "completions": 6, "parallelism": 4}),
    ));
    cluster.run().await;
    let pod = cluster.of_index(2);
    assert!(pod.name().starts_with("sweep-2-"), "{}", pod.name());
    assert_eq!(pod.spec.as_ref().unwrap().hostname.as_deref(), Some("sweep-2"));
    let done = || cluster.get::<Job>("sweep").status.clone().unwrap().completed_indexes.unwrap_or_default();
    for index in [0, 2, 1] {
        cluster.end_index(index, 0).await;
        cluster.run().await;
    }
    assert_eq!((done().as_str(), describe(&cluster, "sweep").as_str()), ("0-2", "3/3/3/0"));
    cluster.end_index(5, 0).await;
    assert_eq!(done(), "0-2,5");
    cluster.end_index(4, 1).await;
    assert_eq!(describe(&cluster, "sweep"), "1/1/4/1");
    cluster.pass(10).await;
    cluster.run().await;
    assert_eq!(describe(&cluster, "sweep"), "2/2/4/1", "index 4 is tried again");
    cluster.end_all(0).await;
    assert_eq!((done(), describe(&cluster, "sweep")), ("0-5".into(), format!("0/0/6/1 {COMPLETE}")));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_grows_and_shrinks_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job(
        "elastic",
        &json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3}),
    ));
    let resize = |size: i32| {
        cluster.change::<Job>("elastic", |j| {
            let spec = j.spec.as_mut().unwrap();
            (spec.completions, spec.parallelism) = (Some(size), Some(size));
        });
    };
    cluster.run().await;
    cluster.end_index(2, 0).await;
    resize(5);
    cluster.run().await;
    assert_eq!(describe(&cluster, "elastic"), "4/4/1/0");
    resize(2);
    cluster.run().await;
    assert_eq!(describe(&cluster, "elastic"), "2/2/0/0", "the success of index 2 no longer counts");
    cluster.end_all(0).await;
    assert_eq!(describe(&cluster, "elastic"), format!("0/0/2/0 {COMPLETE}"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_selector_of_its_own_takes_over_pods_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("old", &json!({"completions": 2, "parallelism": 1})));
    cluster.run().await;
    let old = cluster.get::<Job>("old");
    let selector = serde_json::to_value(old.spec.as_ref().unwrap().selector.clone()).unwrap();
    let options = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    cluster.api.delete(Kind::Job, &key("old"), &options).unwrap();
    cluster.settle().await;
    assert_eq!((cluster.pods().len(), cluster.pods_with_finalizer()), (1, 0));
    let mut new = job(
        "new",
        &json!({"completions": 2, "parallelism": 1, "manualSelector": true, "selector": selector}),
    );
    new["spec"]["template"]["metadata"] = json!({"labels": selector["matchLabels"]});
    cluster.create::<Job>(new);
    cluster.run().await;
    assert_eq!(
        (describe(&cluster, "new").as_str(), cluster.pods().len(), cluster.pods_with_finalizer()),
        ("1/1/0/0", 1, 1)
    );
    cluster.end_all(0).await;
    cluster.run().await;
    cluster.end_all(0).await;
    assert_eq!(describe(&cluster, "new"), format!("0/0/2/0 {COMPLETE}"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_controller_is_left_alone_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("theirs", &json!({"managedBy": "acme.io/jobs"})));
    cluster.create::<Job>(job("ours", &json!({"managedBy": "kubernetes.io/job-controller"})));
    cluster.run().await;
    assert_eq!(cluster.get::<Job>("theirs").status, Some(JobStatus::default()));
    assert_eq!((cluster.pods().len(), describe(&cluster, "ours").as_str()), (1, "1/1/0/0"));
    cluster.stop().await;
}
