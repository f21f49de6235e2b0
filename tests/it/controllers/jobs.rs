//! The scenarios of the Job page and of the tasks around it.

mod endings;
mod indexes;
mod suspension;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use podium::api::{DeleteOptions, Propagation};
use podium::object::readiness::{is_active, phase};
use podium::object::{Kind, Shared};
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

/// `active/ready/succeeded/failed`, and the conditions that hold.
pub(super) fn told(cluster: &Cluster, name: &str) -> String {
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
    fn active(&self) -> Vec<Shared<Pod>> {
        self.pods().into_iter().filter(|pod| is_active(pod)).collect()
    }

    /// The active pod for an index.
    fn of_index(&self, index: i32) -> Shared<Pod> {
        let label = "batch.kubernetes.io/job-completion-index";
        let wanted = index.to_string();
        let of = |pod: &Shared<Pod>| pod.metadata.labels.as_ref().and_then(|l| l.get(label)) == Some(&wanted);
        self.active().into_iter().find(of).unwrap()
    }

    /// The active pod for an index ends.
    async fn end_index(&self, index: i32, exit_code: i32) {
        self.end(&self.of_index(index), exit_code);
        self.settle().await;
    }

    /// All active pods end.
    async fn end_all(&self, exit_code: i32) {
        for pod in self.active() {
            self.end(&pod, exit_code);
        }
        self.settle().await;
    }

    fn held(&self) -> usize {
        let held = |pod: &Pod| pod.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER);
        self.pods().iter().filter(|pod| held(pod)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_one_pod_to_its_end_and_keeps_it_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("pi", &json!({})));
    cluster.settle().await;
    assert_eq!(told(&cluster, "pi"), "1/0/0/0");
    cluster.run().await;
    assert_eq!(told(&cluster, "pi"), "1/1/0/0");
    let pod = cluster.pods()[0].clone();
    assert!(pod.name().starts_with("pi-") && cluster.held() == 1, "{}", pod.name());
    cluster.pass(60).await;
    cluster.end(&pod, 0);
    cluster.settle().await;
    assert_eq!(told(&cluster, "pi"), format!("0/0/1/0 {COMPLETE}"));
    let status = cluster.get::<Job>("pi").status.clone().unwrap();
    let lasted = status.completion_time.unwrap().0.duration_since(status.start_time.unwrap().0);
    assert!((60..62).contains(&lasted.as_secs()), "{lasted}");
    assert_eq!((cluster.pods().len(), cluster.held()), (1, 0), "it is kept, and held by nothing");
    assert_eq!(cluster.events("SuccessfulCreate"), [format!("Created pod: {}", pod.name())]);
    assert_eq!(cluster.events("Completed"), ["Job completed"]);
    let revision = cluster.api.revision();
    cluster.pass(3600).await;
    assert_eq!(cluster.api.revision(), revision, "a finished Job is left alone");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn as_many_pods_run_as_are_still_wanted_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("five", &json!({"completions": 5, "parallelism": 2})));
    let mut seen = Vec::new();
    for _ in 0..3 {
        cluster.run().await;
        seen.push(told(&cluster, "five"));
        cluster.end_all(0).await;
    }
    assert_eq!(seen, ["2/2/0/0", "2/2/2/0", "1/1/4/0"]);
    assert_eq!(told(&cluster, "five"), format!("0/0/5/0 {COMPLETE}"));
    assert_eq!(cluster.pods().len(), 5);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_work_queue_is_empty_when_one_worker_says_so_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("queue", &json!({"parallelism": 3})));
    cluster.run().await;
    assert_eq!(told(&cluster, "queue"), "3/3/0/0");
    let workers = cluster.active();
    cluster.end(&workers[0], 0);
    cluster.run().await;
    assert_eq!(told(&cluster, "queue"), "2/2/1/0", "no new worker is started");
    cluster.end(&workers[1], 1);
    cluster.pass(60).await;
    assert_eq!(told(&cluster, "queue"), "1/1/1/1", "not even for one that failed");
    cluster.end(&workers[2], 0);
    cluster.settle().await;
    assert_eq!(told(&cluster, "queue"), format!("0/0/2/1 {COMPLETE}"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn parallelism_can_be_changed_and_zero_stops_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("wide", &json!({"completions": 6, "parallelism": 0})));
    cluster.run().await;
    assert_eq!(told(&cluster, "wide"), "0/0/0/0");
    for (parallelism, expected) in [(4, "4/4/0/0"), (1, "1/1/0/0"), (0, "0/0/0/0"), (2, "2/2/0/0")] {
        cluster.change::<Job>("wide", |j| j.spec.as_mut().unwrap().parallelism = Some(parallelism));
        cluster.run().await;
        assert_eq!(told(&cluster, "wide"), expected, "{parallelism}");
    }
    assert_eq!(cluster.events("SuccessfulDelete").len(), 4);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_its_clock_stands_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job(
        "later",
        &json!({"suspend": true, "completions": 2, "activeDeadlineSeconds": 100}),
    ));
    let suspend = |suspend: bool| {
        cluster.change::<Job>("later", |j| j.spec.as_mut().unwrap().suspend = Some(suspend));
    };
    let start = || cluster.get::<Job>("later").status.clone().unwrap().start_time.map(|t| t.0);
    cluster.pass(200).await;
    assert_eq!((told(&cluster, "later").as_str(), start()), ("0/0/0/0 Suspended(JobSuspended)", None));
    suspend(false);
    cluster.run().await;
    assert_eq!(told(&cluster, "later"), "1/1/0/0");
    let first_start = start().unwrap();
    cluster.end_all(0).await;
    cluster.pass(80).await;
    suspend(true);
    cluster.run().await;
    assert_eq!((told(&cluster, "later").as_str(), start()), ("0/0/1/0 Suspended(JobSuspended)", None));
    assert_eq!(cluster.pods().len(), 1, "what has ended is kept");
    cluster.pass(80).await;
    suspend(false);
    cluster.run().await;
    assert!(start().unwrap() > first_start);
    cluster.pass(80).await;
    assert_eq!(told(&cluster, "later"), "1/1/1/0", "80 seconds since it was resumed");
    cluster.end_all(0).await;
    assert_eq!(told(&cluster, "later"), format!("0/0/2/0 {COMPLETE}"));
    assert_eq!(cluster.events("Suspended"), ["Job suspended"], "counted twice");
    assert_eq!(cluster.events("Resumed"), ["Job resumed"]);
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
    assert_eq!((done().as_str(), told(&cluster, "sweep").as_str()), ("0-2", "3/3/3/0"));
    cluster.end_index(5, 0).await;
    assert_eq!(done(), "0-2,5");
    cluster.end_index(4, 1).await;
    assert_eq!(told(&cluster, "sweep"), "1/1/4/1");
    cluster.pass(10).await;
    cluster.run().await;
    assert_eq!(told(&cluster, "sweep"), "2/2/4/1", "index 4 is tried again");
    cluster.end_all(0).await;
    assert_eq!((done(), told(&cluster, "sweep")), ("0-5".into(), format!("0/0/6/1 {COMPLETE}")));
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
    assert_eq!(told(&cluster, "elastic"), "4/4/1/0");
    resize(2);
    cluster.run().await;
    assert_eq!(told(&cluster, "elastic"), "2/2/0/0", "what index 2 did counts no more");
    cluster.end_all(0).await;
    assert_eq!(told(&cluster, "elastic"), format!("0/0/2/0 {COMPLETE}"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_after_growing_delays_up_to_the_limit_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("broken", &json!({"backoffLimit": 8})));
    // Doubled up to six minutes.
    for (failures, wait) in [10, 20, 40, 80, 160, 320, 360, 360].into_iter().enumerate() {
        cluster.run().await;
        cluster.end_all(1).await;
        cluster.pass(wait - 2).await;
        assert_eq!(told(&cluster, "broken"), format!("0/0/0/{}", failures + 1), "not before {wait} s");
        cluster.pass(2).await;
    }
    cluster.run().await;
    cluster.end_all(1).await;
    assert_eq!(
        told(&cluster, "broken"),
        "0/0/0/9 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"
    );
    assert_eq!(cluster.events("BackoffLimitExceeded"), ["Job has reached the specified backoff limit"]);
    assert_eq!((cluster.pods().len(), cluster.held()), (9, 0));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_delay_outlives_the_controller_job_1_safe_6() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("broken", &json!({})));
    for wait in [11, 0] {
        cluster.run().await;
        cluster.end_all(1).await;
        cluster.pass(wait).await;
    }
    cluster.controllers.stop_one("job").await;
    cluster.controllers.start_one("job");
    cluster.pass(18).await;
    assert_eq!(told(&cluster, "broken"), "0/0/0/2", "20 s after the second failure");
    cluster.pass(3).await;
    assert_eq!(told(&cluster, "broken"), "1/0/0/2");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn containers_restarted_in_place_count_as_failures_job_1() {
    let cluster = Cluster::start(NO_NODES);
    let on_failure = json!({"backoffLimit": 2, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    cluster.create::<Job>(job("flaky", &on_failure));
    cluster.run().await;
    let restarted = |times: i32| {
        let status =
            json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": times}]);
        cluster
            .api
            .modify_status::<Pod>(&cluster.pods()[0].key(), |pod| {
                pod.status.get_or_insert_default().container_statuses =
                    serde_json::from_value(status.clone()).unwrap();
                Ok(())
            })
            .unwrap();
    };
    restarted(1);
    cluster.settle().await;
    assert_eq!(told(&cluster, "flaky"), "1/1/0/0");
    restarted(2);
    cluster.run().await;
    assert_eq!(
        told(&cluster, "flaky"),
        "0/0/0/1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn indexes_fail_one_by_one_where_each_has_a_limit_job_1() {
    let cluster = Cluster::start(NO_NODES);
    let limited =
        json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 1});
    cluster.create::<Job>(job("each", &limited));
    cluster.run().await;
    cluster.end_index(1, 1).await;
    cluster.end_index(0, 0).await;
    cluster.pass(10).await;
    cluster.run().await;
    let again = cluster.of_index(1);
    let count = &again.metadata.annotations.as_ref().unwrap()["batch.kubernetes.io/job-index-failure-count"];
    assert_eq!(count, "1");
    assert_eq!(told(&cluster, "each"), "3/3/1/1");
    cluster.end_index(1, 1).await;
    let failed = || cluster.get::<Job>("each").status.clone().unwrap().failed_indexes.unwrap();
    assert_eq!((failed().as_str(), told(&cluster, "each").as_str()), ("1", "2/2/1/2"));
    cluster.pass(600).await;
    assert_eq!(told(&cluster, "each"), "2/2/1/2", "it is not tried a third time");
    cluster.end_all(0).await;
    assert_eq!(told(&cluster, "each"), "0/0/3/2 FailureTarget(FailedIndexes) Failed(FailedIndexes)");
    assert_eq!(cluster.events("FailedIndexes"), ["Job has failed indexes"]);
    assert_eq!(cluster.held(), 0);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn too_many_failed_indexes_end_the_job_job_1() {
    let cluster = Cluster::start(NO_NODES);
    let limited = json!({"completionMode": "Indexed", "completions": 5, "parallelism": 5,
        "backoffLimitPerIndex": 0, "maxFailedIndexes": 1});
    cluster.create::<Job>(job("few", &limited));
    cluster.run().await;
    cluster.end_index(0, 1).await;
    assert_eq!(told(&cluster, "few"), "4/4/0/1");
    cluster.end_index(3, 1).await;
    cluster.run().await;
    assert_eq!(
        told(&cluster, "few"),
        "0/0/0/5 FailureTarget(MaxFailedIndexesExceeded) Failed(MaxFailedIndexesExceeded)"
    );
    assert_eq!(
        cluster.events("MaxFailedIndexesExceeded"),
        ["Job has exceeded the specified maximal number of failed indexes"]
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_policy_tells_bugs_from_disruptions_job_1() {
    let cluster = Cluster::start(NO_NODES);
    let policy = json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
        "completions": 3, "parallelism": 3});
    cluster.create::<Job>(job("policy", &policy));
    cluster.run().await;
    let pods = cluster.active();
    cluster.end(&pods[0], 1);
    cluster
        .api
        .modify_status::<Pod>(&pods[0].key(), |pod| {
            let condition = json!([{"type": "DisruptionTarget", "status": "True"}]);
            pod.status.get_or_insert_default().conditions = serde_json::from_value(condition).unwrap();
            Ok(())
        })
        .unwrap();
    cluster.pass(15).await;
    cluster.run().await;
    assert_eq!(told(&cluster, "policy"), "3/3/0/0", "ignored, and replaced");
    let bug = cluster.active()[1].clone();
    cluster.end(&bug, 42);
    cluster.run().await;
    assert_eq!(told(&cluster, "policy"), "0/0/0/3 FailureTarget(PodFailurePolicy) Failed(PodFailurePolicy)");
    let message = format!(
        "Container c for pod default/{} failed with exit code 42 matching FailJob rule at index 0",
        bug.name()
    );
    assert_eq!(cluster.events("PodFailurePolicy"), [message]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_success_policy_ends_a_job_early_job_1() {
    let cluster = Cluster::start(NO_NODES);
    let policy = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4,
        "successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]}});
    cluster.create::<Job>(job("simulation", &policy));
    cluster.run().await;
    for (index, expected) in [(1, "3/3/1/0"), (0, "2/2/2/0")] {
        cluster.end_index(index, 0).await;
        assert_eq!(told(&cluster, "simulation"), expected);
    }
    cluster.end_index(2, 0).await;
    assert_eq!(told(&cluster, "simulation"), "0/0/3/0 SuccessCriteriaMet(SuccessPolicy)", "a pod still goes");
    cluster.run().await;
    assert_eq!(
        told(&cluster, "simulation"),
        "0/0/3/0 SuccessCriteriaMet(SuccessPolicy) Complete(SuccessPolicy)"
    );
    let status = cluster.get::<Job>("simulation").status.clone().unwrap();
    assert_eq!(status.completed_indexes.as_deref(), Some("0-2"));
    assert_eq!(status.conditions.unwrap()[1].message.as_deref(), Some("Matched rules at index 0"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_beats_the_back_off_limit_job_1() {
    let cluster = Cluster::start(NO_NODES);
    let limits = json!({"activeDeadlineSeconds": 100, "backoffLimit": 5, "completions": 2, "parallelism": 2});
    cluster.create::<Job>(job("timed", &limits));
    cluster.run().await;
    cluster.end(&cluster.active()[0], 1);
    cluster.pass(50).await;
    cluster.run().await;
    assert_eq!(told(&cluster, "timed"), "2/2/0/1");
    cluster.pass(51).await;
    assert_eq!(
        told(&cluster, "timed"),
        "0/0/0/3 FailureTarget(DeadlineExceeded)",
        "its pods get their grace"
    );
    cluster.run().await;
    assert_eq!(told(&cluster, "timed"), "0/0/0/3 FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)");
    assert_eq!(cluster.events("DeadlineExceeded"), ["Job was active longer than specified deadline"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_go_are_replaced_at_once_or_once_they_are_gone_job_1() {
    for (policy, counts, terminating) in [("TerminatingOrFailed", "1/0/0/1", 1), ("Failed", "0/0/0/0", 1)] {
        let cluster = Cluster::start(NO_NODES);
        cluster.create::<Job>(job("one", &json!({"podReplacementPolicy": policy})));
        cluster.run().await;
        let pod = cluster.active()[0].clone();
        cluster.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::default()).unwrap();
        cluster.pass(15).await;
        assert_eq!(told(&cluster, "one"), counts, "{policy}");
        let status = cluster.get::<Job>("one").status.clone().unwrap();
        assert_eq!(status.terminating, Some(terminating), "{policy}");
        // The kubelet ends the pod, and only then lets its object go.
        if policy == "Failed" {
            cluster.end(&pod, 137);
        }
        cluster.act_on(&cluster.api.get_as::<Pod>(&pod.key()).unwrap());
        cluster.pass(15).await;
        assert_eq!(told(&cluster, "one"), "1/0/0/1", "{policy}");
        assert!(cluster.api.get_as::<Pod>(&pod.key()).is_err(), "nothing holds it any more");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_when_its_time_is_over_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("soon", &json!({"ttlSecondsAfterFinished": 100})));
    cluster.create::<Job>(job("now", &json!({"ttlSecondsAfterFinished": 0})));
    cluster.create::<Job>(job("never", &json!({})));
    let names = || {
        let jobs = cluster.api.list_as::<Job>(None);
        jobs.iter().map(|job| job.name().to_string()).collect::<Vec<_>>().join(" ")
    };
    cluster.run().await;
    cluster.pass(500).await;
    assert_eq!(names(), "never now soon", "none has ended");
    cluster.end_all(0).await;
    assert_eq!(names(), "never soon");
    cluster.pass(95).await;
    assert_eq!(names(), "never soon");
    cluster.pass(10).await;
    assert_eq!((names().as_str(), cluster.pods().len()), ("never", 1), "its pods went with it");
    // Set later: counted from the end.
    cluster.change::<Job>("never", |j| j.spec.as_mut().unwrap().ttl_seconds_after_finished = Some(200));
    cluster.pass(80).await;
    assert_eq!(names(), "never");
    cluster.pass(20).await;
    assert_eq!((names().as_str(), cluster.pods().len()), ("", 0));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_takes_its_pods_along_or_leaves_them_job_1() {
    for (propagation, left) in
        [(Propagation::Background, 0), (Propagation::Foreground, 0), (Propagation::Orphan, 2)]
    {
        let cluster = Cluster::start(NO_NODES);
        cluster.create::<Job>(job("gone", &json!({"completions": 3, "parallelism": 2})));
        cluster.run().await;
        cluster.end(&cluster.active()[0], 0);
        cluster.run().await;
        let ended = usize::from(left > 0);
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        cluster.api.delete(Kind::Job, &key("gone"), &options).unwrap();
        cluster.run().await;
        assert_eq!(cluster.api.count(Kind::Job), 0, "{propagation:?}");
        assert_eq!((cluster.pods().len(), cluster.held()), (left + ended, 0), "{propagation:?}");
        cluster.stop().await;
    }
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
    assert_eq!((cluster.pods().len(), cluster.held()), (1, 0));
    let mut new = job(
        "new",
        &json!({"completions": 2, "parallelism": 1, "manualSelector": true, "selector": selector}),
    );
    new["spec"]["template"]["metadata"] = json!({"labels": selector["matchLabels"]});
    cluster.create::<Job>(new);
    cluster.run().await;
    assert_eq!((told(&cluster, "new").as_str(), cluster.pods().len(), cluster.held()), ("1/1/0/0", 1, 1));
    cluster.end_all(0).await;
    cluster.run().await;
    cluster.end_all(0).await;
    assert_eq!(told(&cluster, "new"), format!("0/0/2/0 {COMPLETE}"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_controller_is_left_alone_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("theirs", &json!({"managedBy": "acme.io/jobs"})));
    cluster.create::<Job>(job("ours", &json!({"managedBy": "kubernetes.io/job-controller"})));
    cluster.run().await;
    assert!(cluster.get::<Job>("theirs").status.is_none());
    assert_eq!((cluster.pods().len(), told(&cluster, "ours").as_str()), (1, "1/1/0/0"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_made_is_told_of_and_tried_again_job_1() {
    let cluster = Cluster::start(NO_NODES);
    let classed = json!({"template": {"spec": {"priorityClassName": "missing"}}});
    cluster.create::<Job>(job("classed", &classed));
    cluster.settle().await;
    assert_eq!(cluster.pods().len(), 0);
    assert!(cluster.events("FailedCreate")[0].starts_with("Error creating: "));
    let class = json!({"metadata": {"name": "missing"}, "value": 5});
    cluster.create::<k8s_openapi::api::scheduling::v1::PriorityClass>(class);
    cluster.pass(1100).await;
    assert_eq!(cluster.pods().iter().map(|p| phase(p).to_string()).collect::<Vec<_>>(), ["Pending"]);
    cluster.stop().await;
}
