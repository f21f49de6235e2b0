//! Indexes that fail one by one: the parts "Backoff limit per index" and "Pod failure policy" of the Job
//! page.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use podium::object::SharedObject;
use serde_json::json;

use super::{Cluster, NO_NODES, describe, job};

/// Disrupts a pod: it fails with that condition.
fn disrupt(cluster: &Cluster, pod: &SharedObject<Pod>) {
    cluster.end(pod, 137);
    cluster
        .api
        .modify_status::<Pod>(&pod.key(), |pod| {
            let condition = json!([{"type": "DisruptionTarget", "status": "True"}]);
            pod.status.get_or_insert_default().conditions = serde_json::from_value(condition).unwrap();
            Ok(())
        })
        .unwrap();
}

/// Returns the `completed/failed` indexes.
fn indexes(cluster: &Cluster) -> String {
    let status = cluster.get::<Job>("each").status.clone().unwrap();
    let [done, failed] = [status.completed_indexes, status.failed_indexes].map(Option::unwrap_or_default);
    format!("{done}/{failed}")
}

/// Returns `failures/ignored` of the current pod of an index.
fn counts(cluster: &Cluster, index: i32) -> String {
    let pod = cluster.of_index(index);
    let annotations = pod.metadata.annotations.clone().unwrap();
    let of = |name: &str| annotations.get(&format!("batch.kubernetes.io/job-index-{name}")).cloned();
    format!("{}/{}", of("failure-count").unwrap_or_default(), of("ignored-failure-count").unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_failure_counts_fails_its_index_or_is_ignored_by_policy_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job(
        "each",
        &json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 1,
            "podFailurePolicy": {"rules": [
                {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [43]}}]}}),
    ));
    cluster.run().await;
    assert_eq!(counts(&cluster, 0), "0/");
    // One exit with 42 fails the index, regardless of its limit.
    cluster.end_index(0, 42).await;
    assert_eq!((indexes(&cluster).as_str(), describe(&cluster, "each").as_str()), ("/0", "3/3/0/1"));
    // A disruption is retried without limit, and does not count.
    for (wait, expected) in [(10, "0/1"), (20, "0/2"), (40, "0/3")] {
        disrupt(&cluster, &cluster.of_index(1));
        cluster.pass(wait).await;
        cluster.run().await;
        assert_eq!(counts(&cluster, 1), expected);
    }
    assert_eq!(describe(&cluster, "each"), "3/3/0/1");
    // Any other failure counts: the second one is the last.
    cluster.end_index(2, 1).await;
    cluster.pass(10).await;
    cluster.run().await;
    assert_eq!((counts(&cluster, 2), indexes(&cluster)), ("1/".into(), "/0".into()));
    cluster.end_index(2, 1).await;
    assert_eq!((indexes(&cluster).as_str(), describe(&cluster, "each").as_str()), ("/0,2", "2/2/0/3"));
    cluster.end_all(0).await;
    assert_eq!(indexes(&cluster), "1,3/0,2");
    assert_eq!(describe(&cluster, "each"), "0/0/2/3 FailureTarget(FailedIndexes) Failed(FailedIndexes)");
    assert_eq!(cluster.pods_with_finalizer(), 0);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_index_waits_for_itself_job_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Job>(job(
        "each",
        &json!({"completionMode": "Indexed", "completions": 3, "parallelism": 2, "backoffLimitPerIndex": 3}),
    ));
    cluster.run().await;
    cluster.end_index(0, 1).await;
    assert_eq!(describe(&cluster, "each"), "1/1/0/0", "its failure is counted with its replacement");
    cluster.end_index(1, 0).await;
    cluster.run().await;
    assert_eq!(describe(&cluster, "each"), "1/1/1/0", "index 2 takes the room of 1, while 0 waits");
    cluster.pass(10).await;
    cluster.run().await;
    assert_eq!(describe(&cluster, "each"), "2/2/1/1");
    cluster.end_index(0, 1).await;
    cluster.pass(18).await;
    assert_eq!(describe(&cluster, "each"), "1/1/1/1", "20 seconds after the second failure");
    cluster.pass(2).await;
    cluster.run().await;
    assert_eq!((counts(&cluster, 0).as_str(), describe(&cluster, "each").as_str()), ("2/", "2/2/1/2"));
    cluster.end_all(0).await;
    assert!(describe(&cluster, "each").ends_with("Complete(CompletionsReached)"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_replaces_pods_only_once_they_have_ended_job_1() {
    let cluster = Cluster::start(NO_NODES);
    let policy = json!({"podFailurePolicy": {"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}, "backoffLimit": 0});
    cluster.create::<Job>(job("each", &policy));
    cluster.run().await;
    let evicted = cluster.active()[0].clone();
    cluster.api.evict(&evicted.key(), &podium::api::DeleteOptions::default()).unwrap();
    cluster.pass(60).await;
    assert_eq!(describe(&cluster, "each"), "0/0/0/0", "how it ends is not known yet");
    assert_eq!(cluster.get::<Job>("each").status.as_ref().unwrap().terminating, Some(1));
    disrupt(&cluster, &evicted);
    cluster.pass(15).await;
    cluster.run().await;
    assert_eq!(describe(&cluster, "each"), "1/1/0/0", "ignored, though no failure is allowed");
    cluster.end_all(0).await;
    assert!(describe(&cluster, "each").ends_with("Complete(CompletionsReached)"));
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
    assert_eq!(describe(&cluster, "each"), "3/3/1/1");
    cluster.end_index(1, 1).await;
    let failed = || cluster.get::<Job>("each").status.clone().unwrap().failed_indexes.unwrap();
    assert_eq!((failed().as_str(), describe(&cluster, "each").as_str()), ("1", "2/2/1/2"));
    cluster.pass(600).await;
    assert_eq!(describe(&cluster, "each"), "2/2/1/2", "it is not tried a third time");
    cluster.end_all(0).await;
    assert_eq!(describe(&cluster, "each"), "0/0/3/2 FailureTarget(FailedIndexes) Failed(FailedIndexes)");
    assert_eq!(cluster.events("FailedIndexes"), ["Job has failed indexes"]);
    assert_eq!(cluster.pods_with_finalizer(), 0);
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
    assert_eq!(describe(&cluster, "few"), "4/4/0/1");
    cluster.end_index(3, 1).await;
    cluster.run().await;
    assert_eq!(
        describe(&cluster, "few"),
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
    assert_eq!(describe(&cluster, "policy"), "3/3/0/0", "ignored, and replaced");
    let bug = cluster.active()[1].clone();
    cluster.end(&bug, 42);
    cluster.run().await;
    assert_eq!(
        describe(&cluster, "policy"),
        "0/0/0/3 FailureTarget(PodFailurePolicy) Failed(PodFailurePolicy)"
    );
    let message = format!(
        "Container c for pod default/{} failed with exit code 42 matching FailJob rule at index 0",
        bug.name()
    );
    assert_eq!(cluster.events("PodFailurePolicy"), [message]);
    cluster.stop().await;
}
