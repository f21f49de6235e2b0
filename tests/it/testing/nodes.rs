//! Nodes that fall silent, and nodes with containers that are processes.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use kube::runtime::wait::await_condition;
use podium::base::optional_file::read_optional;
use podium::testing::Cluster;
use serde_json::json;

use super::{create, deployment, pods};
use crate::instance::WAIT_TIMEOUT;

async fn ready(cluster: &Cluster, node: &str) -> String {
    let node = Api::<Node>::all(cluster.client()).get(node).await.unwrap();
    let conditions = node.status.unwrap().conditions.unwrap();
    conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap().status
}

async fn nodes_of_pods(cluster: &Cluster) -> Vec<String> {
    let pods = pods(cluster).list(&ListParams::default()).await.unwrap().items;
    let living = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut nodes: Vec<_> = living.filter_map(|pod| pod.spec?.node_name).collect();
    nodes.sort();
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_noticed_and_its_pods_are_replaced_api_20_fault_1() {
    let cluster = Cluster::builder().hollow_nodes(2).start().await.unwrap();
    create::<Deployment>(&cluster, deployment("web", 4)).await;
    cluster.settle().await.unwrap();
    assert_eq!(
        nodes_of_pods(&cluster).await.join(" "),
        "hollow-00001 hollow-00001 hollow-00002 hollow-00002"
    );
    cluster.silence_node("hollow-00001").await.unwrap();
    cluster.advance(Duration::from_secs(30)).await.unwrap();
    assert_eq!(ready(&cluster, "hollow-00001").await, "True");
    cluster.advance(Duration::from_secs(30)).await.unwrap();
    assert_eq!(ready(&cluster, "hollow-00001").await, "Unknown");
    cluster.advance(Duration::from_mins(6)).await.unwrap();
    assert_eq!(nodes_of_pods(&cluster).await.join(" "), ["hollow-00002"; 4].join(" "));
    let all = pods(&cluster).list(&ListParams::default()).await.unwrap().items.len();
    assert_eq!(all, 6, "the old pods stay until their node reports their end");

    cluster.wake_node("hollow-00001").await.unwrap();
    cluster.advance(Duration::from_mins(1)).await.unwrap();
    assert_eq!(ready(&cluster, "hollow-00001").await, "True");
    assert_eq!(pods(&cluster).list(&ListParams::default()).await.unwrap().items.len(), 4);
    let error = cluster.silence_node("node-7").await.unwrap_err().to_string();
    assert!(
        error.contains("no running node \"node-7\"") && error.contains("nodes: hollow-00001, hollow-00002"),
        "{error}"
    );
}

/// The pods of a test may be real, and none of their processes outlives the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn processes_run_on_ask_and_end_with_the_cluster_api_20() {
    let podium = env!("CARGO_BIN_EXE_podium");
    let builder = Cluster::builder().hollow_nodes(0).process_nodes(1).process_nodes_by(podium).listen();
    let cluster = builder.start().await.unwrap();
    let directory = cluster.kubeconfig().unwrap().parent().unwrap().to_path_buf();
    let own = directory.display().to_string();
    for (name, script) in [("done", "exit 0"), ("server", "exec sleep 100000")] {
        let command = json!(["sh", "-c", script]);
        create::<Pod>(
            &cluster,
            json!({"metadata": {"name": name}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "host", "command": command}]}}),
        )
        .await;
    }
    for (name, expected) in [("done", "Succeeded"), ("server", "Running")] {
        let is = |pod: Option<&Pod>| {
            pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()).is_some_and(|phase| phase == expected)
        };
        tokio::time::timeout(WAIT_TIMEOUT, await_condition(pods(&cluster), name, is))
            .await
            .expect(name)
            .unwrap();
    }
    let error = cluster.pod("default", "server").fail(1).await.unwrap_err().to_string();
    assert!(error.contains("only"), "{error}");
    assert_ne!(processes_with(&own), [""; 0]);
    drop(cluster);
    assert_eq!(processes_with(&own), [""; 0]);
    assert!(!directory.exists());
}

/// The command lines of the processes that contain this text, with their states.
fn processes_with(text: &str) -> Vec<String> {
    let running = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let stat = || read_optional(entry.path().join("stat"));
        command.contains(text).then(|| format!("{command}: {}", stat()))
    });
    running.collect()
}
