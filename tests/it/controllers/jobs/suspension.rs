//! Suspending a Job: the parts "Suspending a Job" and "Mutable Scheduling Directives" of the Job page.

use k8s_openapi::api::batch::v1::Job;
use podium::object::Kind;
use serde_json::json;

use super::{COMPLETE, Cluster, NO_NODES, describe, job, key};

fn suspend(cluster: &Cluster, suspend: bool) {
    cluster.change::<Job>("later", |j| j.spec.as_mut().unwrap().suspend = Some(suspend));
}

/// Selects nodes of this zone, and returns the API's response.
fn select_zone(cluster: &Cluster, zone: &str) -> Result<(), String> {
    let moved = cluster.api.modify::<Job>(&key("later"), |j| {
        let template = &mut j.spec.as_mut().unwrap().template;
        let spec = template.spec.as_mut().unwrap();
        spec.node_selector = Some([("zone".to_string(), zone.to_string())].into());
        template
            .metadata
            .get_or_insert_default()
            .annotations
            .get_or_insert_default()
            .insert("by".into(), "queue".into());
        Ok(())
    });
    moved.map(drop).map_err(|error| error.to_string())
}

fn zones(cluster: &Cluster) -> Vec<String> {
    let active = cluster.active();
    let zone = |spec: &k8s_openapi::api::core::v1::PodSpec| {
        spec.node_selector.as_ref().map_or(String::new(), |selector| selector["zone"].clone())
    };
    active.iter().map(|pod| zone(pod.spec.as_ref().unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_queue_says_where_a_suspended_job_is_to_run_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("later", &json!({"suspend": true, "completions": 2, "parallelism": 2})));
    cluster.settle().await;
    select_zone(&cluster, "a").unwrap();
    suspend(&cluster, false);
    cluster.run().await;
    assert_eq!(zones(&cluster), ["a", "a"]);
    assert_eq!(cluster.active()[0].metadata.annotations.as_ref().unwrap()["by"], "queue");
    let refused = select_zone(&cluster, "b").unwrap_err();
    assert!(
        refused.contains("spec.template: Invalid value: ") && refused.ends_with("field is immutable"),
        "{refused}"
    );
    // The Job is suspended again, and its pods are gone: the zone may be changed.
    suspend(&cluster, true);
    cluster.run().await;
    assert_eq!(cluster.events("SuccessfulDelete").len(), 2);
    select_zone(&cluster, "b").unwrap();
    suspend(&cluster, false);
    cluster.run().await;
    assert_eq!(zones(&cluster), ["b", "b"]);
    cluster.end_all(0).await;
    assert_eq!(describe(&cluster, "later"), format!("0/0/2/0 {COMPLETE}"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn suspending_costs_no_failure_and_resuming_says_so_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("later", &json!({"backoffLimit": 0, "podReplacementPolicy": "Failed"})));
    cluster.run().await;
    suspend(&cluster, true);
    cluster.settle().await;
    let status = || cluster.get::<Job>("later").status.clone().unwrap();
    assert_eq!((status().active, status().terminating, status().ready), (None, Some(1), Some(0)));
    cluster.run().await;
    assert_eq!(
        describe(&cluster, "later"),
        "0/0/0/0 Suspended(JobSuspended)",
        "its pod was taken, it did not fail"
    );
    assert_eq!(status().terminating, Some(0));
    suspend(&cluster, false);
    cluster.run().await;
    assert_eq!(describe(&cluster, "later"), "1/1/0/0");
    let resumed = status().conditions.unwrap().remove(0);
    assert_eq!(
        (
            resumed.type_.as_str(),
            resumed.status.as_str(),
            resumed.reason.as_deref(),
            resumed.message.as_deref()
        ),
        ("Suspended", "False", Some("JobResumed"), Some("Job resumed"))
    );
    // A Job that is over while it is suspended stays over.
    cluster.end_all(0).await;
    suspend(&cluster, true);
    cluster.settle().await;
    assert_eq!(describe(&cluster, "later"), format!("0/0/1/0 {COMPLETE}"));
    assert_eq!(cluster.api.count(Kind::Pod), 1);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_from_the_start_and_may_be_moved_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job("later", &json!({"activeDeadlineSeconds": 1000})));
    // Its pod finds no node, and the active time counts nevertheless.
    cluster.pass(500).await;
    let deadline = |seconds: i64| {
        cluster.change::<Job>("later", |j| j.spec.as_mut().unwrap().active_deadline_seconds = Some(seconds));
    };
    deadline(600);
    cluster.pass(95).await;
    assert_eq!(describe(&cluster, "later"), "1/0/0/0");
    deadline(700);
    cluster.pass(100).await;
    assert_eq!(describe(&cluster, "later"), "1/0/0/0", "longer again");
    cluster.pass(6).await;
    assert_eq!(
        describe(&cluster, "later"),
        "0/0/0/1 FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)"
    );
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
    assert_eq!((describe(&cluster, "later").as_str(), start()), ("0/0/0/0 Suspended(JobSuspended)", None));
    suspend(false);
    cluster.run().await;
    assert_eq!(describe(&cluster, "later"), "1/1/0/0");
    let first_start = start().unwrap();
    cluster.end_all(0).await;
    cluster.pass(80).await;
    suspend(true);
    cluster.run().await;
    assert_eq!((describe(&cluster, "later").as_str(), start()), ("0/0/1/0 Suspended(JobSuspended)", None));
    assert_eq!(cluster.pods().len(), 1, "the ended pod remains");
    cluster.pass(80).await;
    suspend(false);
    cluster.run().await;
    assert!(start().unwrap() > first_start);
    cluster.pass(80).await;
    assert_eq!(describe(&cluster, "later"), "1/1/1/0", "80 seconds since it was resumed");
    cluster.end_all(0).await;
    assert_eq!(describe(&cluster, "later"), format!("0/0/2/0 {COMPLETE}"));
    assert_eq!(cluster.events("Suspended"), ["Job suspended"], "counted twice");
    assert_eq!(cluster.events("Resumed"), ["Job resumed"]);
    cluster.stop().await;
}
