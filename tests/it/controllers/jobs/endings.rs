//! The end of Jobs when several conditions are met at once, and their cleanup: the parts "Success policy", "Job
//! termination and cleanup" and "TTL mechanism for finished Jobs" of the Job page.

use k8s_openapi::api::batch::v1::Job;
use podium::api::{DeleteOptions, Propagation};
use podium::object::Kind;
use serde_json::json;

use super::{COMPLETE, Cluster, NO_NODES, describe, job, key};

#[tokio::test(start_paused = true)]
async fn of_an_end_well_and_an_end_badly_the_first_decides_job_1() {
    let policy = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimit": 0,
        "successPolicy": {"rules": [{"succeededCount": 1}]}});
    for (ends, expected) in [
        // Both happen at the same time: failure takes precedence.
        (
            &[&[(0, 0), (1, 1)][..]][..],
            "0/0/1/2 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)",
        ),
        (&[&[(1, 1)], &[(0, 0)]], "0/0/0/3 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"),
        // Failures after the success do not count.
        (&[&[(0, 0)], &[(1, 1)]], "0/0/1/0 SuccessCriteriaMet(SuccessPolicy) Complete(SuccessPolicy)"),
    ] {
        let cluster = Cluster::start(NO_NODES);
        cluster.create::<Job>(job("both", &policy));
        cluster.run().await;
        let pods = [0, 1, 2].map(|index| cluster.of_index(index));
        for turn in ends {
            for (index, code) in *turn {
                cluster.end(&pods[*index], *code);
            }
            cluster.settle().await;
        }
        cluster.run().await;
        assert_eq!(describe(&cluster, "both"), expected, "{ends:?}");
        assert_eq!(cluster.pods_with_finalizer(), 0);
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_reports_its_end_only_after_every_pod_has_terminated_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("slow", &json!({"completions": 3, "parallelism": 3, "backoffLimit": 0})));
    cluster.run().await;
    cluster.end(&cluster.active()[0], 1);
    cluster.pass(300).await;
    let status = || cluster.get::<Job>("slow").status.clone().unwrap();
    assert_eq!(describe(&cluster, "slow"), "0/0/0/3 FailureTarget(BackoffLimitExceeded)");
    assert_eq!((status().terminating, cluster.events("BackoffLimitExceeded").len()), (Some(2), 0));
    // The first of the two remaining pods is deleted.
    let going: Vec<_> =
        cluster.pods().into_iter().filter(|p| p.metadata.deletion_timestamp.is_some()).collect();
    cluster.act_on(&going[0]);
    cluster.settle().await;
    assert_eq!(status().terminating, Some(1));
    assert_eq!(describe(&cluster, "slow"), "0/0/0/3 FailureTarget(BackoffLimitExceeded)");
    cluster.act_on(&going[1]);
    cluster.settle().await;
    assert_eq!(
        describe(&cluster, "slow"),
        "0/0/0/3 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"
    );
    assert_eq!((status().terminating, status().completion_time), (Some(0), None), "only success completes");
    assert_eq!(cluster.events("BackoffLimitExceeded"), ["Job has reached the specified backoff limit"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_time_to_live_may_be_moved_and_holds_for_failure_too_job_1() {
    let cluster = Cluster::start(NO_NODES);
    for name in ["good", "bad", "kept"] {
        cluster.create::<Job>(job(name, &json!({"ttlSecondsAfterFinished": 100, "backoffLimit": 0})));
    }
    cluster.run().await;
    for pod in cluster.active() {
        cluster.end(&pod, i32::from(pod.name().starts_with("bad")));
    }
    cluster.settle().await;
    let names = || {
        let jobs = cluster.api.list_as::<Job>(None);
        jobs.iter().map(|job| job.name().to_string()).collect::<Vec<_>>().join(" ")
    };
    let live = |name: &str, seconds: Option<i32>| {
        cluster.change::<Job>(name, |j| j.spec.as_mut().unwrap().ttl_seconds_after_finished = seconds);
    };
    cluster.pass(90).await;
    live("good", Some(200));
    live("kept", None);
    cluster.pass(20).await;
    assert_eq!(names(), "good kept");
    cluster.pass(100).await;
    assert_eq!(names(), "kept");
    live("kept", Some(0));
    cluster.settle().await;
    assert_eq!((names().as_str(), cluster.pods().len()), ("", 0), "at once, with its pods");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn more_pods_than_one_turn_makes_or_notes_are_all_counted_job_1() {
    for mode in ["NonIndexed", "Indexed"] {
        let cluster = Cluster::start(NO_NODES);
        let many = json!({"completions": 1100, "parallelism": 1100, "completionMode": mode});
        cluster.create::<Job>(job("many", &many));
        cluster.settle().await;
        assert_eq!(describe(&cluster, "many"), "1100/0/0/0", "{mode}");
        for pod in cluster.pods() {
            cluster.end(&pod, 0);
        }
        cluster.settle().await;
        assert_eq!(describe(&cluster, "many"), format!("0/0/1100/0 {COMPLETE}"), "{mode}");
        assert_eq!((cluster.pods().len(), cluster.pods_with_finalizer()), (1100, 0));
        let completed = cluster.get::<Job>("many").status.clone().unwrap().completed_indexes;
        assert_eq!(completed.as_deref(), (mode == "Indexed").then_some("0-1099"));
        cluster.stop().await;
    }
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
        assert_eq!(describe(&cluster, "simulation"), expected);
    }
    cluster.end_index(2, 0).await;
    assert_eq!(
        describe(&cluster, "simulation"),
        "0/0/3/0 SuccessCriteriaMet(SuccessPolicy)",
        "a pod still goes"
    );
    cluster.run().await;
    assert_eq!(
        describe(&cluster, "simulation"),
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
    assert_eq!(describe(&cluster, "timed"), "2/2/0/1");
    cluster.pass(51).await;
    assert_eq!(
        describe(&cluster, "timed"),
        "0/0/0/3 FailureTarget(DeadlineExceeded)",
        "its pods get their grace"
    );
    cluster.run().await;
    assert_eq!(
        describe(&cluster, "timed"),
        "0/0/0/3 FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)"
    );
    assert_eq!(cluster.events("DeadlineExceeded"), ["Job was active longer than specified deadline"]);
    cluster.stop().await;
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
    // A TTL that is set later counts from the Job's end.
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
        assert_eq!(
            (cluster.pods().len(), cluster.pods_with_finalizer()),
            (left + ended, 0),
            "{propagation:?}"
        );
        cluster.stop().await;
    }
}
