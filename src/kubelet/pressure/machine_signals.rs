//! The machine's remaining memory, disk space and process ids.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use base::sort::CollectMap;

/// A resource that can run short, under its name in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Signal {
    /// Memory that programs could still get.
    #[serde(rename = "memory.available")]
    MemoryAvailable,
    /// Free space on the disk with the pods' files and logs.
    #[serde(rename = "nodefs.available")]
    NodefsAvailable,
    /// Free inodes there.
    #[serde(rename = "nodefs.inodesFree")]
    NodefsInodesFree,
    /// Process ids that are free.
    #[serde(rename = "pid.available")]
    PidAvailable,
}

impl Signal {
    /// The resource that eviction reclaims, as messages name it.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory",
            Self::NodefsAvailable => "ephemeral-storage",
            Self::NodefsInodesFree => "inodes",
            Self::PidAvailable => "pids",
        }
    }
}

/// The capacity of a resource and the amount available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The amount available.
    pub(crate) available: i64,
    /// All there is.
    pub(crate) capacity: i64,
}

/// The machine's state.
pub type Observations = BTreeMap<Signal, Observation>;

/// Measures the machine; the disk is that of `pods_dir`.
pub(crate) fn read(pods_dir: &Path) -> Observations {
    let mut seen = Observations::new();
    let mut see = |signal, available: i64, capacity: i64| {
        if capacity > 0 {
            seen.insert(signal, Observation { available, capacity });
        }
    };
    if let Ok(text) = std::fs::read_to_string("/proc/meminfo") {
        let bytes = |name: &str| meminfo(&text, name);
        see(Signal::MemoryAvailable, bytes("MemAvailable:"), bytes("MemTotal:"));
    }
    // The directory is created with the first pod; before that, the nearest existing parent is measured.
    let disk = pods_dir.ancestors().find_map(|dir| rustix::fs::statvfs(dir).ok());
    if let Some(disk) = disk {
        let bytes = |blocks: u64| (blocks as i64).saturating_mul(disk.f_frsize as i64);
        see(Signal::NodefsAvailable, bytes(disk.f_bavail), bytes(disk.f_blocks));
        see(Signal::NodefsInodesFree, disk.f_ffree as i64, disk.f_files as i64);
    }
    let number = |file: &str| -> Option<i64> { std::fs::read_to_string(file).ok()?.trim().parse().ok() };
    let most =
        number("/proc/sys/kernel/pid_max").into_iter().chain(number("/proc/sys/kernel/threads-max")).min();
    if let (Some(most), Ok(load)) = (most, std::fs::read_to_string("/proc/loadavg")) {
        // `0.1 0.2 0.3 1/234 5678`: the number after the slash counts threads.
        let threads = load.split(['/', ' ']).nth(4).and_then(|n| n.parse::<i64>().ok());
        if let Some(threads) = threads {
            see(Signal::PidAvailable, most - threads, most);
        }
    }
    seen
}

/// The assumed amount without a measurement.
const UNSEEN: i64 = 1 << 40;

/// Sets the available amount of this resource to zero.
pub(crate) fn exhaust(seen: &mut Observations, signal: Signal) {
    seen.entry(signal).or_insert(Observation { available: 0, capacity: UNSEEN }).available = 0;
}

/// Returns an observation with plenty of this resource.
pub(crate) fn ample(signal: Signal) -> Observations {
    [(signal, Observation { available: UNSEEN, capacity: UNSEEN })].collect_map()
}

fn meminfo(text: &str, name: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<i64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_machine_tells_what_is_left_node_4() {
        let seen = read(Path::new("/tmp/no/such/directory"));
        for signal in [Signal::MemoryAvailable, Signal::NodefsAvailable, Signal::PidAvailable] {
            let of = seen[&signal];
            assert!(of.available > 0 && of.available <= of.capacity, "{signal:?} {of:?}");
        }
    }

    #[test]
    fn meminfo_is_read_by_name() {
        let text = "MemTotal:       2000 kB\nMemFree:         100 kB\nMemAvailable:   1500 kB\n";
        assert_eq!((meminfo(text, "MemAvailable:"), meminfo(text, "Swap:")), (1500 * 1024, 0));
    }
}
