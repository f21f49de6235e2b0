//! Pods that fail, are deleted or cannot be created, and the Job's reaction: the parts "Handling Pod and container
//! failures", "Pod backoff failure policy" and "Delayed creation of replacement pods" of the Job page.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use podium::api::DeleteOptions;
use podium::object::Kind;
use podium::object::pod::phase;
use serde_json::json;

use super::{Cluster, NO_NODES, describe, job};

#[tokio::test(start_paused = true)]
async fn failures_are_retried_after_growing_delays_up_to_the_limit_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("broken", &json!({"backoffLimit": 8})));
    // The wait doubles up to ten minutes.
    for (failures, wait) in [10, 20, 40, 80, 160, 320, 600, 600].into_iter().enumerate() {
        cluster.run().await;
        cluster.end_all(1).await;
        cluster.pass(wait - 2).await;
        assert_eq!(describe(&cluster, "broken"), format!("0/0/0/{}", failures + 1), "not before {wait} s");
        cluster.pass(2).await;
    }
    cluster.run().await;
    cluster.end_all(1).await;
    assert_eq!(
        describe(&cluster, "broken"),
        "0/0/0/9 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"
    );
    assert_eq!(cluster.events("BackoffLimitExceeded"), ["Job has reached the specified backoff limit"]);
    assert_eq!((cluster.pods().len(), cluster.pods_with_finalizer()), (9, 0));
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
    assert_eq!(describe(&cluster, "broken"), "0/0/0/2", "20 s after the second failure");
    cluster.pass(3).await;
    assert_eq!(describe(&cluster, "broken"), "1/0/0/2");
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
    assert_eq!(describe(&cluster, "flaky"), "1/1/0/0");
    restarted(2);
    cluster.run().await;
    assert_eq!(
        describe(&cluster, "flaky"),
        "0/0/0/1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"
    );
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
        assert_eq!(describe(&cluster, "one"), counts, "{policy}");
        let status = cluster.get::<Job>("one").status.clone().unwrap();
        assert_eq!(status.terminating, Some(terminating), "{policy}");
        // The kubelet ends the pod, and only then removes its object.
        if policy == "Failed" {
            cluster.end(&pod, 137);
        }
        cluster.act_on(&cluster.api.get_as::<Pod>(&pod.key()).unwrap());
        cluster.pass(15).await;
        assert_eq!(describe(&cluster, "one"), "1/0/0/1", "{policy}");
        assert!(cluster.api.get_as::<Pod>(&pod.key()).is_err(), "nothing holds it any more");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_of_a_job_is_reported_and_retried_job_1() {
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
