//! The manual clock: everything happens at its time, and only then.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{ListParams, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use podium::testing::{Cluster, Error, PodBehaviour};
use serde_json::json;

use super::{create, deployment, phase, pod, pods};

#[tokio::test(start_paused = true)]
async fn a_deployment_has_its_pods_as_soon_as_everything_is_at_rest_api_20() {
    let cluster = Cluster::start().await.unwrap();
    let start = cluster.now();
    create::<Deployment>(&cluster, deployment("web", 3)).await;
    cluster.settle().await.unwrap();
    let web = Api::<Deployment>::default_namespaced(cluster.client()).get("web").await.unwrap();
    assert_eq!(web.status.unwrap().ready_replicas, Some(3));
    let took = cluster.now().duration_since(start);
    assert!(took.as_secs() < 5, "to be at rest takes no time of weight: {took:?}");
}

/// A Job's pod runs for a minute; ten minutes after its end the Job is deleted.
#[tokio::test(start_paused = true)]
async fn ten_minutes_pass_and_what_is_due_has_happened_api_20() {
    let runs = |_: &_| PodBehaviour::Succeeds { after: Duration::from_mins(1) };
    let cluster = Cluster::builder().pod_behaviour(runs).start().await.unwrap();
    let job = json!({"metadata": {"name": "once"}, "spec": {"ttlSecondsAfterFinished": 600, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "app"}]}}}});
    create::<Job>(&cluster, job).await;
    let jobs = Api::<Job>::default_namespaced(cluster.client());
    let succeeded =
        async || jobs.get("once").await.unwrap().status.unwrap_or_default().succeeded.unwrap_or(0);
    cluster.advance(Duration::from_secs(55)).await.unwrap();
    assert_eq!(succeeded().await, 0);
    cluster.advance(Duration::from_secs(10)).await.unwrap();
    assert_eq!(succeeded().await, 1);
    cluster.advance(Duration::from_secs(580)).await.unwrap();
    assert!(jobs.get_opt("once").await.unwrap().is_some());
    cluster.advance(Duration::from_secs(30)).await.unwrap();
    assert!(jobs.get_opt("once").await.unwrap().is_none());
    assert!(
        pods(&cluster).list(&ListParams::default()).await.unwrap().items.is_empty(),
        "its pod goes with it"
    );
}

/// A wait takes no longer on the machine's clock than the computation of its result.
#[tokio::test(start_paused = true)]
async fn a_test_may_wait_for_what_takes_its_time_api_20() {
    let crashes = |_: &_| PodBehaviour::Fails { after: Duration::from_secs(1), exit_code: 1 };
    let cluster = Cluster::builder().pod_behaviour(crashes).start().await.unwrap();
    create::<k8s_openapi::api::core::v1::Pod>(&cluster, pod("crasher", "Always")).await;
    let restarted = |pod: Option<&k8s_openapi::api::core::v1::Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref()?.first());
        status.is_some_and(|status| status.restart_count >= 4)
    };
    let start = cluster.now();
    let waited = await_condition(pods(&cluster), "crasher", restarted);
    tokio::time::timeout(Duration::from_mins(30), waited).await.expect("restarts go on").unwrap();
    // 0, 10, 20 and 40 seconds of back-off.
    let took = cluster.now().duration_since(start).as_secs();
    assert!((70..120).contains(&took), "{took}");
}

#[tokio::test]
async fn a_cluster_may_begin_at_any_time_api_20() {
    let start = "2030-01-01T00:00:00Z".parse().unwrap();
    let cluster = Cluster::builder().manual_clock_at(start).start().await.unwrap();
    cluster.advance(Duration::from_hours(24)).await.unwrap();
    assert!(cluster.now().to_string().starts_with("2030-01-02T00:00:0"), "{}", cluster.now());
    let made = create::<k8s_openapi::api::core::v1::Pod>(&cluster, pod("p", "Never")).await;
    let created = made.metadata.creation_timestamp.unwrap().0;
    assert!(created.to_string().starts_with("2030-01-02T00:00:0"), "{created}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_the_machine_runs_by_itself_and_cannot_be_advanced_api_20() {
    let cluster = Cluster::start().await.unwrap();
    create::<k8s_openapi::api::core::v1::Pod>(&cluster, pod("p", "Always")).await;
    let running = await_condition(pods(&cluster), "p", conditions::is_pod_running());
    tokio::time::timeout(Duration::from_mins(1), running).await.expect("the pod runs").unwrap();
    assert_eq!(phase(&cluster, "p").await, "Running");
    assert!(matches!(cluster.advance(Duration::from_secs(1)).await, Err(Error::MachineClock)));
    assert!(matches!(cluster.settle().await, Err(Error::MachineClock)));
    let error = Cluster::builder().manual_clock().start().await.err().unwrap();
    assert!(error.to_string().contains("#[tokio::test(start_paused = true)]"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_endless_writer_is_reported_instead_of_awaited_api_20() {
    let cluster = Cluster::start().await.unwrap();
    let writer = pods(&cluster);
    create::<k8s_openapi::api::core::v1::Pod>(&cluster, pod("p", "Always")).await;
    tokio::spawn(async move {
        for n in 0.. {
            let label = json!({"metadata": {"labels": {"n": format!("{n}")}}});
            let _ = writer.patch("p", &PatchParams::default(), &kube::api::Patch::Merge(label)).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let error = cluster.settle().await.unwrap_err().to_string();
    assert!(error.contains("does not come to rest") && error.contains("write Pod"), "{error}");
}
