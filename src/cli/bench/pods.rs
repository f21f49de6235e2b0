//! Real pods beside bare processes (PERF-5).

use std::process::{Command, Stdio};

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use tokio::time::Instant;

use super::instance::Instance;
use super::report::Report;
use super::workloads::{deployment, ready};

const PROCESSES: usize = 200;
/// What the control plane and the node's host may take for one pod: 200 kB.
const GOAL_KIB: f64 = 200_000.0 / 1024.0;

/// 200 pods of one process beside 200 bare spawns of the same program.
pub(super) async fn run() -> Result<()> {
    let start = Instant::now();
    let mut bare = Vec::new();
    for _ in 0..PROCESSES {
        // What a pod of the image `pause` runs, and nothing around it.
        let mut program = Command::new(std::env::current_exe()?);
        bare.push(program.args(["image-program", "pause"]).stdin(Stdio::null()).spawn()?);
    }
    let bare_seconds = start.elapsed().as_secs_f64();
    for mut process in bare {
        process.kill()?;
        process.wait()?;
    }
    let instance = Instance::start(&[]).await?;
    let idle = instance.resident_mib()? + instance.hosts_mib();
    let client = instance.client().await?;
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let start = Instant::now();
    api.create(&PostParams::default(), &deployment("real", PROCESSES as i32, "pause")?).await?;
    ready(&api, "real", PROCESSES as i32).await?;
    let seconds = start.elapsed().as_secs_f64();
    Report::against_limit(
        "200 one-process pods, apply to Ready",
        "s",
        seconds,
        "200 bare spawns",
        bare_seconds,
    );
    let used = instance.resident_mib()? + instance.hosts_mib();
    let each = (used - idle) * 1024.0 / PROCESSES as f64;
    Report::against_limit("  memory of our side, each", "KiB", each, "goal", GOAL_KIB);
    let pods: Api<Pod> = Api::default_namespaced(client);
    let restarts: i32 = pods
        .list(&ListParams::default())
        .await?
        .items
        .iter()
        .flat_map(|p| p.status.iter().flat_map(|s| s.container_statuses.iter().flatten()))
        .map(|c| c.restart_count)
        .sum();
    Report::alone("  restarts among them", "", f64::from(restarts));
    instance.stop().await
}
