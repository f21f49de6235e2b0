//! The life of pods on hollow nodes.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use podium::testing::{Cluster, PodBehaviour};
use serde_json::json;

use super::{create, phase, pod, pods};

async fn restarts(cluster: &Cluster, name: &str) -> (i32, String) {
    let status = pods(cluster).get(name).await.unwrap().status.unwrap();
    let container = status.container_statuses.unwrap().remove(0);
    let waiting = container.state.and_then(|state| state.waiting).and_then(|waiting| waiting.reason);
    (container.restart_count, waiting.unwrap_or_default())
}

async fn is_ready(cluster: &Cluster, name: &str) -> bool {
    let status = pods(cluster).get(name).await.unwrap().status.unwrap();
    status.conditions.unwrap_or_default().iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

#[tokio::test(start_paused = true)]
async fn a_test_says_when_a_pod_ends_and_how_api_20() {
    let cluster = Cluster::start().await.unwrap();
    for (name, policy) in [("done", "Never"), ("failed", "Never"), ("crashed", "Always")] {
        create::<Pod>(&cluster, pod(name, policy)).await;
    }
    // The calls wait for the pod to run.
    cluster.pod("default", "done").succeed().await.unwrap();
    cluster.pod("default", "failed").fail(3).await.unwrap();
    cluster.pod("default", "crashed").exit_container("c", 137).await.unwrap();
    assert_eq!(phase(&cluster, "done").await, "Succeeded");
    assert_eq!(phase(&cluster, "failed").await, "Failed");
    cluster.settle().await.unwrap();
    assert_eq!(restarts(&cluster, "crashed").await, (1, String::new()), "the first restart comes at once");
    cluster.pod("default", "crashed").fail(1).await.unwrap();
    cluster.settle().await.unwrap();
    assert_eq!(restarts(&cluster, "crashed").await, (1, "CrashLoopBackOff".to_string()));
    cluster.advance(Duration::from_secs(15)).await.unwrap();
    assert_eq!(restarts(&cluster, "crashed").await, (2, String::new()));
    let error = cluster.pod("default", "missing").succeed().await.unwrap_err().to_string();
    assert!(error.contains("pod default/missing is not assigned to a node"), "{error}");
    let error = cluster.pod("default", "done").succeed().await.unwrap_err().to_string();
    assert!(error.contains("no container of pod default/done is running"), "{error}");
}

/// A pod's own data decides its behaviour: labels, name, image.
#[tokio::test(start_paused = true)]
async fn a_rule_says_what_becomes_of_every_pod_api_20() {
    let rule = |pod: &Pod| match pod.metadata.labels.as_ref().and_then(|labels| labels.get("job-name")) {
        Some(job) if job == "good" => PodBehaviour::Succeeds { after: Duration::ZERO },
        Some(_) => PodBehaviour::Fails { after: Duration::from_secs(1), exit_code: 2 },
        None => PodBehaviour::Runs,
    };
    let cluster = Cluster::builder().pod_behaviour(rule).start().await.unwrap();
    for name in ["good", "bad"] {
        let job = json!({"metadata": {"name": name}, "spec": {"backoffLimit": 1, "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "app"}]}}}});
        create::<Job>(&cluster, job).await;
    }
    create::<Pod>(&cluster, pod("server", "Always")).await;
    cluster.advance(Duration::from_mins(2)).await.unwrap();
    let ended = async |name: &str| {
        let status =
            Api::<Job>::default_namespaced(cluster.client()).get(name).await.unwrap().status.unwrap();
        let conditions = status.conditions.unwrap_or_default();
        let true_ones = conditions.iter().filter(|c| c.status == "True").map(|c| c.type_.clone());
        (true_ones.collect::<Vec<_>>().join(" "), status.failed.unwrap_or(0))
    };
    assert_eq!(ended("good").await, ("SuccessCriteriaMet Complete".to_string(), 0));
    assert_eq!(ended("bad").await, ("FailureTarget Failed".to_string(), 2));
    assert_eq!(phase(&cluster, "server").await, "Running");
    cluster.set_pod_behaviour(|_| PodBehaviour::NeverStarts);
    create::<Pod>(&cluster, pod("stuck", "Always")).await;
    cluster.advance(Duration::from_mins(1)).await.unwrap();
    assert!(!is_ready(&cluster, "stuck").await);
}

#[tokio::test(start_paused = true)]
async fn readiness_is_the_probes_and_a_test_says_how_they_go_api_20() {
    let cluster = Cluster::builder().pod_behaviour(|_| PodBehaviour::Unready).start().await.unwrap();
    let mut probed = pod("probed", "Always");
    probed["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 80}, "periodSeconds": 5});
    create::<Pod>(&cluster, probed).await;
    cluster.advance(Duration::from_mins(1)).await.unwrap();
    assert_eq!(
        (phase(&cluster, "probed").await, is_ready(&cluster, "probed").await),
        ("Running".into(), false)
    );
    for ready in [true, false] {
        cluster.pod("default", "probed").set_ready(ready).await.unwrap();
        cluster.advance(Duration::from_secs(20)).await.unwrap();
        assert_eq!(is_ready(&cluster, "probed").await, ready);
    }
}

#[tokio::test(start_paused = true)]
async fn init_containers_do_their_part_before_the_others_api_20() {
    let cluster = Cluster::start().await.unwrap();
    let mut set_up = pod("set-up", "Always");
    set_up["spec"]["initContainers"] = json!([{"name": "first", "image": "app"},
        {"name": "beside", "image": "app", "restartPolicy": "Always"}, {"name": "second", "image": "app"}]);
    create::<Pod>(&cluster, set_up).await;
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    assert!(is_ready(&cluster, "set-up").await);
}

/// With hollow nodes a pod with an init container waited for it for ever. NODE-7, INIT-1.
#[tokio::test(start_paused = true)]
async fn init_containers_go_through_their_phases_in_order_node_7() {
    let cluster = Cluster::builder().config("hollow: {initRunDuration: 10}").start().await.unwrap();
    let mut set_up = pod("set-up", "Always");
    set_up["spec"]["initContainers"] =
        json!([{"name": "first", "image": "app"}, {"name": "second", "image": "app"}]);
    create::<Pod>(&cluster, set_up).await;
    // kubectl's row of it, and the state of each container: running (r), ended (e) or waiting (w).
    let shown = async || {
        let table = http::Request::get("/api/v1/namespaces/default/pods/set-up")
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .unwrap();
        let table: serde_json::Value = cluster.client().request(table).await.unwrap();
        let status = pods(&cluster).get("set-up").await.unwrap().status.unwrap();
        let all =
            status.init_container_statuses.unwrap().into_iter().chain(status.container_statuses.unwrap());
        let states = all.map(|container| {
            let state = container.state.unwrap();
            match (state.running, state.terminated, state.waiting) {
                (Some(_), None, None) => "r".to_string(),
                (None, Some(end), None) => format!("e{}", end.exit_code),
                (None, None, Some(waiting)) => format!("w:{}", waiting.reason.unwrap()),
                odd => panic!("{odd:?}"),
            }
        });
        let states: Vec<String> = states.collect();
        format!("{} {}", table["rows"][0]["cells"][2].as_str().unwrap(), states.join(" "))
    };
    cluster.advance(Duration::from_secs(1)).await.unwrap();
    assert_eq!(shown().await, "Init:0/2 r w:PodInitializing w:PodInitializing");
    cluster.advance(Duration::from_secs(8)).await.unwrap();
    assert_eq!(shown().await, "Init:0/2 r w:PodInitializing w:PodInitializing");
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    assert_eq!(shown().await, "Init:1/2 e0 r w:PodInitializing");
    assert_eq!(phase(&cluster, "set-up").await, "Pending");
    cluster.advance(Duration::from_secs(10)).await.unwrap();
    assert_eq!(shown().await, "Running e0 e0 r");
    assert!(is_ready(&cluster, "set-up").await);
}

/// A failing init container blocks the others, and is retried as on any node. NODE-7, INIT-1.
#[tokio::test(start_paused = true)]
async fn an_init_container_that_fails_is_tried_again_node_7() {
    let config = "hollow: {initRunDuration: 10, exitFailureRate: 1}";
    let cluster = Cluster::builder().config(config).start().await.unwrap();
    for (name, policy) in [("again", "Always"), ("once", "Never")] {
        let mut pod = pod(name, policy);
        pod["spec"]["initContainers"] = json!([{"name": "first", "image": "app"}]);
        create::<Pod>(&cluster, pod).await;
    }
    cluster.advance(Duration::from_mins(1)).await.unwrap();
    let status = pods(&cluster).get("again").await.unwrap().status.unwrap();
    let first = &status.init_container_statuses.unwrap()[0];
    assert!(first.restart_count > 0 && status.phase.as_deref() == Some("Pending"), "{first:?}");
    assert_eq!(phase(&cluster, "once").await, "Failed");
}
