//! The resources of an instance at one moment.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::bench::instance::Instance;

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// Time since the churn started.
    pub(super) after: Duration,
    /// Resident memory of the control plane.
    pub(super) serve_mib: f64,
    /// Memory of the nodes' hosts and `pause` processes; shared pages count once.
    pub(super) hosts_mib: f64,
    /// Open descriptors of the control plane and the hosts.
    pub(super) descriptors: usize,
    /// Threads of the control plane and the hosts.
    pub(super) threads: usize,
    /// Size of the data directory.
    pub(super) disk_mib: f64,
    /// Number of pods.
    pub(super) pods: usize,
    /// Number of writes since the cluster was created.
    pub(super) revision: i64,
}

impl Sample {
    /// Names of the columns.
    pub(super) const HEADING: &str =
        " minute  serve MiB  hosts MiB  descriptors  threads  disk MiB    pods  revision";

    /// Measures all resources.
    pub(super) async fn take(instance: &Instance, client: &Client, after: Duration) -> Result<Self> {
        let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
        let revision = pods.metadata.resource_version.as_deref().context("a list has a revision")?.parse()?;
        let processes: Vec<u32> = instance.hosts().into_iter().chain(instance.pid()).collect();
        // Processes that have just ended count as zero.
        let count = |directory: &str| -> usize {
            let of =
                |pid: &u32| std::fs::read_dir(format!("/proc/{pid}/{directory}")).map_or(0, Iterator::count);
            processes.iter().map(of).sum()
        };
        Ok(Self {
            after,
            serve_mib: instance.resident_mib()?,
            hosts_mib: instance.hosts_mib(),
            descriptors: count("fd"),
            threads: count("task"),
            disk_mib: disk_bytes(instance.directory()) as f64 / f64::from(1 << 20),
            pods: pods.items.len(),
            revision,
        })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:7.1} {:10.1} {:10.1} {:12} {:8} {:9.1} {:7} {:9}",
            self.after.as_secs_f64() / 60.0,
            self.serve_mib,
            self.hosts_mib,
            self.descriptors,
            self.threads,
            self.disk_mib,
            self.pods,
            self.revision
        )
    }
}

/// Disk usage of all files below a directory, without following links.
fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        // Files may be created and deleted meanwhile.
        let Ok(about) = entry.metadata() else { continue };
        total += about.blocks() * 512;
        if about.is_dir() {
            total += disk_bytes(&entry.path());
        }
    }
    total
}
