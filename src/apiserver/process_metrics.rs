//! Resource usage of this process, under the names that all Prometheus client libraries use.

use procfs::ProcResult;
use procfs::process::{LimitValue, Process};
use prometheus::proto::MetricFamily;

use api::metrics::FamilyOptions;

/// Returns the usage of this process; empty if `/proc` is not readable.
pub(super) fn process() -> Vec<MetricFamily> {
    read().unwrap_or_else(|error| {
        tracing::debug!("cannot read this process's resource usage: {error}");
        Vec::new()
    })
}

fn read() -> ProcResult<Vec<MetricFamily>> {
    let own = Process::myself()?;
    let (stat, ticks) = (own.stat()?, procfs::ticks_per_second() as f64);
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
    cpu.set(&[], (stat.utime + stat.stime) as f64 / ticks);
    let started = procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks;
    let resident = stat.rss as f64 * procfs::page_size() as f64;
    let mut families = [
        cpu.gather(),
        gauge("process_open_fds", "Number of open file descriptors.", own.fd_count()? as f64),
        gauge("process_resident_memory_bytes", "Resident memory size in bytes.", resident),
        gauge(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            started,
        ),
        gauge("process_threads", "Number of OS threads in the process.", stat.num_threads as f64),
        gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", stat.vsize as f64),
    ]
    .concat();
    if let LimitValue::Value(most) = own.limits()?.max_open_files.soft_limit {
        families.extend(gauge("process_max_fds", "Maximum number of open file descriptors.", most as f64));
    }
    Ok(families)
}
