//! Real pods, compared with bare processes (PERF-5).

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use base::count::counted;
use base::optional_file::{read_optional, read_optional_bytes};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use tokio::time::Instant;

use super::instance::Instance;
use super::report::Report;
use super::workloads::{deployment, ready};

const PROCESSES: usize = 200;
/// Maximum time until all processes have started.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Limit of the control plane's and the host's memory for one pod: 200 kB.
const GOAL_KIB: f64 = 200_000.0 / 1024.0;

/// Memory that the kernel of this machine uses and cannot drop, in KiB. Network namespaces are a part of it.
fn kernel_kib() -> f64 {
    let text = read_optional("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix("SUnreclaim:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// Number of rounds, in which pods and bare processes alternate; the median is reported.
const ROUNDS: usize = 3;

struct PodMeasurement {
    /// Time until all pods were ready and their processes had started.
    seconds: f64,
    /// Memory of Podium's processes for each pod.
    own_kib: f64,
    /// Memory of the kernel for each pod.
    kernel_kib: f64,
    restarts: i32,
}

/// Starts 200 pods of one process, and compares them with 200 bare spawns of the same program.
pub(super) async fn run() -> Result<()> {
    // This round is not counted, because it reads the program from the disk.
    bare_spawns().await?;
    for (network, label) in [("fabric", "networks of their own"), ("loopback", "the machine's network")] {
        let (mut bare, mut pods) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bare.push(bare_spawns().await?);
            pods.extend(in_network(network).await?);
        }
        bare.sort_by(f64::total_cmp);
        pods.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        // There are no measurements if the machine forbids this network; the reason has been printed.
        if let (Some(pods), Some(bare)) = (pods.get(ROUNDS / 2), bare.get(ROUNDS / 2)) {
            print_report(pods, label, *bare);
        }
    }
    Ok(())
}

fn print_report(pods: &PodMeasurement, label: &str, bare_seconds: f64) {
    let row_label = format!("200 one-process pods, {label}");
    Report::against_limit(&row_label, "s", pods.seconds, "200 bare spawns", bare_seconds);
    Report::against_limit("  memory of our side, each", "KiB", pods.own_kib, "goal", GOAL_KIB);
    Report::alone("  memory of the kernel, each", "KiB", pods.kernel_kib);
    Report::alone("  restarts among them", "", f64::from(pods.restarts));
}

/// The number of `pause` processes that have started, which means that they sleep and wait for a signal.
fn at_rest() -> usize {
    let Ok(all) = std::fs::read_dir("/proc") else { return 0 };
    let is_at_rest = |process: &std::path::Path| {
        let read = |name: &str| read_optional_bytes(process.join(name));
        let (line, stat) = (read("cmdline"), read("stat"));
        let name_ends = stat.iter().rposition(|byte| *byte == b')');
        let state = name_ends.and_then(|at| stat.get(at + 2));
        line.ends_with(b"\0image-program\0pause\0") && state == Some(&b'S')
    };
    all.flatten().filter(|process| is_at_rest(&process.path())).count()
}

/// Waits until this many processes have started, because a successful spawn does not mean that the program runs yet.
async fn wait_started(count: usize) -> Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    while at_rest() < count {
        let all = counted(count, "process");
        anyhow::ensure!(Instant::now() < deadline, "only {} of {all} started", at_rest());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Measures the time until 200 bare processes have started, in seconds.
async fn bare_spawns() -> Result<f64> {
    let before = at_rest();
    let start = Instant::now();
    let mut bare = Vec::new();
    for _ in 0..PROCESSES {
        // The program of a pod with the image `pause`, without a container around it.
        let mut program = Command::new(crate::podium_program()?);
        bare.push(program.args(["image-program", "pause"]).stdin(Stdio::null()).spawn()?);
    }
    wait_started(before + PROCESSES).await?;
    let seconds = start.elapsed().as_secs_f64();
    for mut process in bare {
        process.kill()?;
        process.wait()?;
    }
    Ok(seconds)
}

/// Measures pods of a new cluster; `None` if the machine does not allow such a network.
async fn in_network(network: &str) -> Result<Option<PodMeasurement>> {
    let instance = match Instance::start(&["--network", network]).await {
        Ok(instance) => instance,
        Err(_) if network == "fabric" => return Ok(None),
        Err(error) => return Err(error),
    };
    let idle = instance.resident_mib()? + instance.hosts_mib();
    let kernel_idle = kernel_kib();
    let client = instance.client().await?;
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let before = at_rest();
    let start = Instant::now();
    api.create(&PostParams::default(), &deployment("real", PROCESSES as i32, "pause")?).await?;
    ready(&api, "real", PROCESSES as i32).await?;
    wait_started(before + PROCESSES).await?;
    let seconds = start.elapsed().as_secs_f64();
    let used = instance.resident_mib()? + instance.hosts_mib();
    let kernel_kib = (kernel_kib() - kernel_idle) / PROCESSES as f64;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pods = pods.list(&ListParams::default()).await?;
    let statuses = pods.items.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
    let restarts = statuses.flatten().map(|container| container.restart_count).sum();
    instance.stop().await?;
    Ok(Some(PodMeasurement {
        seconds,
        own_kib: (used - idle) * 1024.0 / PROCESSES as f64,
        kernel_kib,
        restarts,
    }))
}
