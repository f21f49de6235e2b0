//! Resource usage of this process, under the names that all Prometheus client libraries use.

use std::fs;
use std::io::{self, ErrorKind};

use prometheus::proto::MetricFamily;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use api::metrics::FamilyOptions;

/// Returns the usage of this process; empty if `/proc` is not readable.
pub(super) fn process() -> Vec<MetricFamily> {
    read().unwrap_or_else(|error| {
        tracing::debug!("cannot read this process's resource usage: {error}");
        Vec::new()
    })
}

fn read() -> io::Result<Vec<MetricFamily>> {
    let stat = Stat::parse(&fs::read_to_string("/proc/self/stat")?).ok_or(ErrorKind::InvalidData)?;
    let booted = boot_time(&fs::read_to_string("/proc/stat")?).ok_or(ErrorKind::InvalidData)?;
    let open_files = fs::read_dir("/proc/self/fd")?.count();
    let ticks = clock_ticks_per_second() as f64;
    let gauge = |name, help, value: f64| {
        let family = FamilyOptions::unclassified(name, help).gauges(&[]);
        family.set(&[], value);
        family.gather()
    };
    let cpu = FamilyOptions::unclassified(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent in seconds.",
    )
    .counters(&[]);
    cpu.set(&[], stat.cpu_ticks as f64 / ticks);
    let started = booted as f64 + stat.start_ticks as f64 / ticks;
    let resident = stat.resident_pages as f64 * page_size() as f64;
    let mut families = [
        cpu.gather(),
        gauge("process_open_fds", "Number of open file descriptors.", open_files as f64),
        gauge("process_resident_memory_bytes", "Resident memory size in bytes.", resident),
        gauge(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            started,
        ),
        gauge("process_threads", "Number of OS threads in the process.", stat.threads as f64),
        gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", stat.virtual_bytes as f64),
    ]
    .concat();
    if let Some(most) = getrlimit(Resource::Nofile).current {
        families.extend(gauge("process_max_fds", "Maximum number of open file descriptors.", most as f64));
    }
    Ok(families)
}

/// Fields of `/proc/self/stat` (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// User and system time.
    cpu_ticks: u64,
    threads: u64,
    /// The time from the machine's boot to the process's start.
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name in brackets may contain spaces and brackets; the third field follows it.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: number(14)? + number(15)?,
            threads: number(20)?,
            start_ticks: number(22)?,
            virtual_bytes: number(23)?,
            resident_pages: number(24)?,
        })
    }
}

/// Returns the time of the machine's boot in `/proc/stat`, in seconds since 1970.
fn boot_time(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read_api_19() {
        let text = "7 (a b) c) S 1 7 7 0 -1 4194560 9 8 0 0 30 12 0 0 20 0 5 0 900 4096000 250 18446744073709551615 1 1";
        let expected = Stat {
            cpu_ticks: 42,
            threads: 5,
            start_ticks: 900,
            virtual_bytes: 4_096_000,
            resident_pages: 250,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\nprocesses 3\n"), Some(1_700_000_000));
        assert_eq!(process().len(), if getrlimit(Resource::Nofile).current.is_some() { 7 } else { 6 });
    }
}
