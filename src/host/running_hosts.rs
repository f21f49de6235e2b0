//! The node hosts that run on this machine, found through /proc: those of this user, no matter which process started
//! them, and even if their directory is gone.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::journal;
use base::sort::{CollectMap, SliceOrder};

/// The kernel's unit of times in /proc, as a fraction of a second: the same on every supported machine.
const TICKS_PER_SECOND: u64 = 100;
/// Timeout for a host to end by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A running host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningHost {
    /// Its process.
    pub pid: u32,
    /// The node's directory.
    pub node_dir: PathBuf,
    /// The host ends with the control plane that started it.
    pub(crate) ephemeral: bool,
    /// The time since its start.
    pub age: Duration,
}

/// Returns the running hosts of this user, ordered by directory.
pub fn running_hosts() -> Vec<RunningHost> {
    let us = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A child that a host has forked has the host's command line until it executes its program.
    let alike: BTreeMap<u32, (PathBuf, bool)> = pids
        .filter(|pid| user_of(*pid) == Some(us))
        .filter_map(|pid| Some((pid, arguments(pid)?)))
        .collect_map();
    let mut hosts: Vec<RunningHost> = alike
        .iter()
        .filter_map(|(pid, (node_dir, ephemeral))| {
            let (parent, age) = parent_and_age(*pid)?;
            let is_copy = alike.get(&parent).is_some_and(|(of_parent, _)| of_parent == node_dir);
            let host = RunningHost { pid: *pid, node_dir: node_dir.clone(), ephemeral: *ephemeral, age };
            (!is_copy).then_some(host)
        })
        .collect();
    hosts.order_by(|a, b| a.node_dir.cmp(&b.node_dir).then(a.pid.cmp(&b.pid)));
    hosts
}

impl RunningHost {
    /// The node's name.
    pub fn node(&self) -> String {
        self.node_dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The data directory it belongs to.
    pub fn data_dir(&self) -> &Path {
        let nodes = self.node_dir.parent().unwrap_or(&self.node_dir);
        nodes.parent().unwrap_or(nodes)
    }

    /// Counts the pods with a running container; none if the node's directory is gone.
    pub fn pods(&self) -> Option<usize> {
        let runs = |pod: &journal::JournaledPod| {
            pod.containers.iter().any(|container| container.record.exit.is_none())
        };
        self.node_dir.is_dir().then(|| journal::read(&self.node_dir).values().filter(|pod| runs(pod)).count())
    }

    /// Ends the host and all its processes, and returns once the host is dead. Kills a host that does not end by
    /// itself.
    pub fn end(&self) -> io::Result<()> {
        let Some(handle) = self.handle()? else { return Ok(()) };
        pidfd_send_signal(&handle, Signal::TERM)?;
        if !wait_for_end(&handle, Some(EXIT_TIMEOUT))? {
            pidfd_send_signal(&handle, Signal::KILL)?;
            wait_for_end(&handle, None)?;
        }
        Ok(())
    }

    /// Returns a pidfd of the host; `None` if it has ended, even if another process has its pid by now.
    fn handle(&self) -> io::Result<Option<OwnedFd>> {
        let Some(handle) = process(self.pid)? else { return Ok(None) };
        let same = arguments(self.pid).is_some_and(|(node_dir, _)| node_dir == self.node_dir);
        Ok(same.then_some(handle))
    }
}

/// Returns a pidfd of a process; `None` if there is no process with this pid.
pub fn process(pid: u32) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Ok(Some(handle)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until a process has ended; returns false on timeout. `None` means no timeout.
pub fn wait_for_end(process: &OwnedFd, timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    // A pidfd is readable once its process has ended, even before the process is reaped.
    let ready = retry_on_intr(|| poll(&mut [PollFd::new(process, PollFlags::IN)], timeout.as_ref()))?;
    Ok(ready > 0)
}

/// Returns the node's directory of a host or of a child that a host has just forked, and true if the host has a
/// lifeline; `None` for any other process.
fn arguments(pid: u32) -> Option<(PathBuf, bool)> {
    use std::os::unix::ffi::OsStringExt;
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let (b"node-host", b"--state", state) = (*words.get(1)?, *words.get(2)?, *words.get(3)?) else {
        return None;
    };
    let state = std::ffi::OsString::from_vec(state.to_vec());
    Some((state.into(), words.contains(&&b"--lifeline"[..])))
}

fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn parent_and_age(pid: u32) -> Option<(u32, Duration)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain any bytes: the fields begin after its last bracket.
    let stat = String::from_utf8_lossy(&stat);
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let (parent, started) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse::<u64>().ok()?);
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    let age = Duration::from_secs((uptime as u64).saturating_sub(started / TICKS_PER_SECOND));
    Some((parent, age))
}
