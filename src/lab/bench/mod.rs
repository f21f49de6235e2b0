//! `podium-lab bench`: figures of the `podium` beside this program, on this machine, some beside a limit or a recorded
//! figure.
//!
//! A limit is measured in the same run (a bare spawn, a raw fdatasync, an empty HTTPS response), and compared with. A
//! recorded figure is of another machine and time, is labelled so, and has no verdict.

mod api;
mod console;
mod definitions;
mod disk;
mod images;
mod instance;
mod network;
mod pods;
mod probes;
mod report;
mod rules;
mod scheduler;
mod soak;
mod traffic;
mod workloads;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;

pub(crate) use traffic::{PROGRAM as TRAFFIC_PROGRAM, main as traffic_main};

pub(crate) use console::Sizes as ConsoleSizes;
use instance::Instance;
use report::Report;

/// The suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// Time from start to ready, and resident memory
    Start,
    /// Durable writes
    Disk,
    /// Create, get, list and watch over HTTPS
    Api,
    /// 1 000 and 5 000 replicas on hollow nodes: created, rolled out, deleted
    Workloads,
    /// 200 pods of one process each
    Pods,
    /// An image of a registry: pull rate, memory, a pod whose image is there, disk of ten pods
    Images,
    /// 1 000 probes a second
    Probes,
    /// Pods' own networks compared with loopback: throughput, connections, and kernel rules of many services and
    /// policies
    Network,
    /// Pods scheduled per second, from created to bound
    Scheduler,
    /// 500 definitions of custom resources: memory for each, and while OpenAPI is served
    Definitions,
    /// The console on a large cluster: memory, idle load, first page, key to paint
    Console,
    /// All kinds of use at once for `--minutes`; fails if memory, descriptors or threads grow. Runs only if named
    Soak,
}

/// Runs the suites (all but the soak, if none is named) and prints each result at once; a soak takes `soak_minutes`.
pub(crate) fn run(suites: &[Suite], soak_minutes: f64, console: &ConsoleSizes) -> Result<()> {
    let variants = Suite::value_variants().iter().copied();
    let all: Vec<Suite> = variants.filter(|suite| *suite != Suite::Soak).collect();
    let suites = if suites.is_empty() { all.as_slice() } else { suites };
    podium::cli::runtime::runtime()?.block_on(async {
        if in_memory(&std::env::temp_dir()) {
            let place = std::env::temp_dir();
            podium::cli::output::eprint_line(&format!(
                "{} is in memory, and durable writes do not reach a disk; set TMPDIR to a directory on a disk",
                place.display()
            ));
        }
        if suites != [Suite::Soak] {
            Report::heading();
        }
        for suite in suites {
            match suite {
                Suite::Start => start().await?,
                Suite::Disk => disk::run().await?,
                Suite::Api => api::run().await?,
                Suite::Workloads => workloads::run().await?,
                Suite::Pods => pods::run().await?,
                Suite::Images => images::run().await?,
                Suite::Probes => probes::run().await?,
                Suite::Network => network::run().await?,
                Suite::Scheduler => scheduler::run().await?,
                Suite::Definitions => definitions::run().await?,
                Suite::Console => console::run(console).await?,
                Suite::Soak => soak::run(Duration::from_secs_f64(soak_minutes * 60.0)).await?,
            }
        }
        Ok(())
    })
}

/// Returns true if a directory is in memory and not on a disk.
fn in_memory(directory: &std::path::Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|fs| fs.f_type == libc::TMPFS_MAGIC)
}

async fn start() -> Result<()> {
    let instance = Instance::start(&["--ephemeral"]).await?;
    Report::beside_recorded("start to 3 nodes Ready", "s", instance.started_after.as_secs_f64(), 5.8);
    let (control, hosts) = (instance.resident_mib()?, instance.hosts_mib());
    Report::beside_recorded("resident memory, idle", "MiB", control + hosts, 480.0);
    Report::alone("  of which the hosts of 3 nodes", "MiB", hosts);
    Report::alone("  of the control plane, without the program's file", "MiB", instance.own_mib()?);
    instance.stop().await
}
