//! How Jobs end when several things say so at once, and what is left of them: the parts "Success policy",
//! "Job termination and cleanup" and "TTL mechanism for finished Jobs" of the Job page.

use k8s_openapi::api::batch::v1::Job;
use serde_json::json;

use super::{COMPLETE, Cluster, NO_NODES, job, told};

#[tokio::test(start_paused = true)]
async fn of_an_end_well_and_an_end_badly_the_first_decides_job_1() {
    let policy = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimit": 0,
        "successPolicy": {"rules": [{"succeededCount": 1}]}});
    for (ends, expected) in [
        // At once: failure is looked at first.
        (
            &[&[(0, 0), (1, 1)][..]][..],
            "0/0/1/2 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)",
        ),
        (&[&[(1, 1)], &[(0, 0)]], "0/0/0/3 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"),
        // Once it has succeeded nothing that fails afterwards counts.
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
        assert_eq!(told(&cluster, "both"), expected, "{ends:?}");
        assert_eq!(cluster.held(), 0);
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_is_told_only_when_every_pod_has_ended_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("slow", &json!({"completions": 3, "parallelism": 3, "backoffLimit": 0})));
    cluster.run().await;
    cluster.end(&cluster.active()[0], 1);
    cluster.pass(300).await;
    let status = || cluster.get::<Job>("slow").status.clone().unwrap();
    assert_eq!(told(&cluster, "slow"), "0/0/0/3 FailureTarget(BackoffLimitExceeded)");
    assert_eq!((status().terminating, cluster.events("BackoffLimitExceeded").len()), (Some(2), 0));
    // The first of the two that are left goes.
    let going: Vec<_> =
        cluster.pods().into_iter().filter(|p| p.metadata.deletion_timestamp.is_some()).collect();
    cluster.act_on(&going[0]);
    cluster.settle().await;
    assert_eq!(status().terminating, Some(1));
    assert_eq!(told(&cluster, "slow"), "0/0/0/3 FailureTarget(BackoffLimitExceeded)");
    cluster.act_on(&going[1]);
    cluster.settle().await;
    assert_eq!(
        told(&cluster, "slow"),
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
        assert_eq!(told(&cluster, "many"), "1100/0/0/0", "{mode}");
        for pod in cluster.pods() {
            cluster.end(&pod, 0);
        }
        cluster.settle().await;
        assert_eq!(told(&cluster, "many"), format!("0/0/1100/0 {COMPLETE}"), "{mode}");
        assert_eq!((cluster.pods().len(), cluster.held()), (1100, 0));
        let completed = cluster.get::<Job>("many").status.clone().unwrap().completed_indexes;
        assert_eq!(completed.as_deref(), (mode == "Indexed").then_some("0-1099"));
        cluster.stop().await;
    }
}
