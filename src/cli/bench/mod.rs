//! `podium bench`: what this build does on this machine, each figure beside a limit or a recorded one.
//!
//! A limit is measured in the same run (a bare spawn, a raw fdatasync, an empty HTTPS answer), and compared with. A
//! recorded figure is of another machine and time, and is printed as that.

mod api;
mod console;
mod definitions;
mod disk;
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

pub(super) use traffic::main as traffic_main;

pub(super) use console::Sizes as ConsoleSizes;
use instance::Instance;
use report::Report;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Suite {
    /// Start to ready, and resident memory.
    Start,
    /// Durable writes.
    Disk,
    /// Create, get, list, watch over HTTPS.
    Api,
    /// 1 000 and 5 000 replicas on hollow nodes: made, rolled out, deleted.
    Workloads,
    /// 200 pods of one process each.
    Pods,
    /// 1 000 probes a second.
    Probes,
    /// Pods' own networks beside loopback: throughput and connections; rules of many services and policies.
    Network,
    /// Pods a second from created to bound.
    Scheduler,
    /// 500 definitions of custom resources: memory for each, and while OpenAPI is served.
    Definitions,
    /// The console at size: memory, idle load, first page, key to paint.
    Console,
    /// Everything at once for `--minutes`; fails when memory, descriptors or threads grow. Only when named.
    Soak,
}

const ALL: [Suite; 10] = [
    Suite::Start,
    Suite::Disk,
    Suite::Api,
    Suite::Workloads,
    Suite::Pods,
    Suite::Probes,
    Suite::Network,
    Suite::Scheduler,
    Suite::Definitions,
    Suite::Console,
];

/// Runs the suites (all but the soak, when none is named) and prints each as it is done; a soak takes this long.
pub(super) fn run(suites: &[Suite], soak_minutes: f64, console: &ConsoleSizes) -> Result<()> {
    let suites = if suites.is_empty() { &ALL } else { suites };
    super::runtime::runtime()?.block_on(async {
        if in_memory(&std::env::temp_dir()) {
            let place = std::env::temp_dir();
            super::output::note(&format!(
                "{} is in memory, and so are its durable writes; name a disk with TMPDIR",
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

/// Whether a directory's files are on no disk.
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
