//! Unused node hosts: they end by themselves, are listed, and can be ended (CLI-2, SAFE-7).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use podium::host::running_hosts::{RunningHost, running_hosts};
use serde_json::json;

use crate::instance::{DataDir, Instance, WAIT_TIMEOUT, wait_for};

fn data_dir(home: &DataDir) -> PathBuf {
    home.data_dir().canonicalize().unwrap_or_else(|_| home.data_dir())
}

fn hosts_of(directory: &Path) -> Vec<RunningHost> {
    running_hosts().into_iter().filter(|host| host.data_dir() == directory).collect()
}

fn podium(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_podium")).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The line of `podium ps` about a node of this directory.
fn listed(home: &DataDir) -> Option<Vec<String>> {
    let directory = data_dir(home).display().to_string();
    let lines = podium(&["ps"]);
    let line = lines.lines().find(|line| line.contains(&directory))?;
    Some(line.split("   ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect())
}

async fn run_a_pod(instance: &Instance) {
    let pods: Api<Pod> = Api::namespaced(instance.client().await, "default");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "100000"]}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let running = || async {
        let pod = pods.get("p").await.unwrap();
        pod.status.and_then(|status| status.phase).as_deref() == Some("Running")
    };
    let runs = async {
        while !running().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, runs).await.expect("the pod runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_of_a_killed_control_plane_are_listed_and_stopped() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    run_a_pod(&instance).await;
    let pid = instance.pid();
    let line = listed(&home).unwrap();
    assert_eq!((line[0].as_str(), line[2].as_str(), line[4].clone()), ("node-1", "1", format!("pid {pid}")));
    instance.crash();
    let directory = data_dir(&home);
    let line = listed(&home).unwrap();
    assert_eq!((line[2].as_str(), line[4].as_str()), ("1", "none"), "its pods run on");
    let arguments = ["stop", "--data-dir", directory.to_str().unwrap()];
    let output = podium(&arguments);
    assert!(output.contains("stopped node node-1 (pid ") && output.contains(") and its pods"), "{output}");
    assert_eq!(hosts_of(&directory), []);
    assert!(podium(&arguments).starts_with("nothing to stop in "));
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_ends_a_running_instance_with_all_it_runs() {
    let home = DataDir::new();
    let mut instance = home.start(&["--nodes", "1"]);
    run_a_pod(&instance).await;
    let directory = data_dir(&home);
    let pid = instance.pid();
    // A zombie is not alive: stop waits for the end of the process, not until its parent reaps it.
    let output = podium(&["stop", "--data-dir", directory.to_str().unwrap()]);
    assert!(output.contains(&format!("stopped podium (pid {pid})")), "{output}");
    assert_eq!(instance.wait(), 0);
    assert_eq!(hosts_of(&directory), []);
}

/// An ephemeral run leaves nothing behind, also when it is killed (CLI-2).
#[tokio::test(flavor = "multi_thread")]
async fn hosts_of_a_killed_ephemeral_control_plane_end() {
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    run_a_pod(&instance).await;
    let directory = data_dir(&home);
    assert_eq!(hosts_of(&directory).len(), 1);
    instance.crash();
    wait_for("the host's end", || hosts_of(&directory).is_empty().then_some(()));
}

/// No later start could find such a host.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_its_directory_ends() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    run_a_pod(&instance).await;
    let directory = data_dir(&home);
    instance.crash();
    assert_eq!(hosts_of(&directory).len(), 1);
    std::fs::rename(&directory, home.path("moved")).unwrap();
    wait_for("the host's end", || hosts_of(&directory).is_empty().then_some(()));
    let log = std::fs::read_to_string(home.path("moved/nodes/node-1/host.log")).unwrap();
    assert!(log.contains("is gone; stopping the node host and its pods"), "{log}");
}

/// The limit is a day by default; a control plane that starts in time finds its pods.
#[tokio::test(flavor = "multi_thread")]
async fn an_unclaimed_host_ends_after_its_timeout() {
    let home = DataDir::new();
    let config = home.path("config.yaml");
    std::fs::write(&config, "timings: {unclaimedHostTimeout: 3}").unwrap();
    let arguments = ["--nodes", "1", "--config", config.to_str().unwrap()];
    let instance = home.start(&arguments);
    run_a_pod(&instance).await;
    let directory = data_dir(&home);
    let host = hosts_of(&directory).remove(0);
    instance.crash();
    wait_for("the host's end", || hosts_of(&directory).is_empty().then_some(()));
    let log = std::fs::read_to_string(host.node_dir.join("host.log")).unwrap();
    assert!(log.contains("no control plane connected for 3s"), "{log}");
    home.start(&arguments).stop();
}
