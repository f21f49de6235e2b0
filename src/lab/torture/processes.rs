//! Finds the processes of one torture by its directory in their command lines, and signals a process only if its PID
//! still belongs to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::process::{Signal, pidfd_send_signal};

use super::HOLD_PROGRAM;
use host::running_hosts::{process, running_hosts};

/// The name of the internal program that is `podium serve` with a deliberate mistake.
pub(crate) const SERVE_PROGRAM: &str = "torture-serve";

/// A process: its PID and its start time, which distinguishes it from a later process with the same PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) pid: u32,
    started: u64,
}

/// The fields of `/proc/PID/stat`.
struct ProcStat {
    process: Process,
    parent: u32,
    zombie: bool,
}

fn stat(pid: u32) -> Option<ProcStat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain any character: the fields start after its last parenthesis.
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_ascii_whitespace().collect();
    let started = fields.get(19)?.parse().ok()?;
    Some(ProcStat {
        process: Process { pid, started },
        parent: fields.get(1)?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn command_line(pid: u32) -> Option<Vec<String>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

impl Process {
    /// The process with this PID, unless it has ended.
    pub(super) fn of(pid: u32) -> Option<Self> {
        stat(pid).filter(|stat| !stat.zombie).map(|stat| stat.process)
    }

    /// Returns true if the process has not ended.
    pub(super) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends a signal to the process. Returns false if it has ended.
    pub(super) fn signal(self, signal: Signal) -> Result<bool> {
        let Some(handle) = process(self.pid)? else { return Ok(false) };
        // The handle refers to the process that has the PID now, so check after opening it that this is still the same
        // process.
        if !self.is_alive() {
            return Ok(false);
        }
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The directories by which processes are found.
#[derive(Clone, Debug)]
pub(super) struct Processes {
    /// The data directory, as instances report it.
    pub(super) data: PathBuf,
    /// The directory of the holders' logs.
    pub(super) witness: PathBuf,
}

impl Processes {
    pub(super) fn host(&self, node: &str) -> Option<Process> {
        let hosts = running_hosts().into_iter().filter(|host| host.data_dir() == self.data);
        hosts.filter(|host| host.node() == node).find_map(|host| Process::of(host.pid))
    }

    /// The hosts of all nodes.
    pub(super) fn hosts(&self) -> Vec<Process> {
        let hosts = running_hosts().into_iter().filter(|host| host.data_dir() == self.data);
        hosts.filter_map(|host| Process::of(host.pid)).collect()
    }

    /// The network's processes.
    pub(super) fn network(&self) -> Vec<Process> {
        let is = |pid: &u32| {
            command_line(*pid).is_some_and(|words| {
                words.get(1).is_some_and(|word| word == "fabric")
                    && words.get(3).is_some_and(|state| Path::new(state).starts_with(&self.data))
            })
        };
        pids().filter(is).filter_map(Process::of).collect()
    }

    /// The first processes of containers that hold an identity, ordered by PID.
    pub(super) fn holders(&self) -> Vec<Process> {
        let is = |pid: &u32| {
            command_line(*pid).is_some_and(|words| {
                words.get(1).is_some_and(|word| word == super::identity_holder::PROGRAM)
                    && words.get(2).is_some_and(|directory| Path::new(directory) == self.witness)
            })
        };
        let mut found: Vec<_> = pids().filter(is).filter_map(Process::of).collect();
        found.sort_unstable();
        found
    }

    /// All processes with one of the directories on their command lines, and their descendants.
    pub(super) fn all(&self) -> BTreeSet<Process> {
        let own = std::process::id();
        let stats: Vec<ProcStat> = pids().filter_map(stat).filter(|stat| stat.process.pid != own).collect();
        let names = |pid: u32| {
            command_line(pid).is_some_and(|words| {
                let is_podium = words.get(1).is_some_and(|word| {
                    ["serve", SERVE_PROGRAM, "fabric", "node-host", HOLD_PROGRAM].contains(&word.as_str())
                });
                is_podium
                    && words
                        .iter()
                        .map(Path::new)
                        .any(|word| word.starts_with(&self.data) || word.starts_with(&self.witness))
            })
        };
        let found = stats.iter().map(|stat| stat.process.pid).filter(|pid| names(*pid)).collect();
        with_descendants(found, &stats)
    }

    /// The processes of a node: its host and the host's descendants.
    pub(super) fn of_node(&self, node: &str) -> BTreeSet<Process> {
        let host = self.host(node);
        let stats: Vec<ProcStat> = pids().filter_map(stat).collect();
        with_descendants(host.iter().map(|host| host.pid).collect(), &stats)
    }
}

/// The processes with these PIDs and all their descendants, except for those that have ended.
fn with_descendants(mut found: BTreeSet<u32>, stats: &[ProcStat]) -> BTreeSet<Process> {
    loop {
        let more: Vec<u32> = stats
            .iter()
            .filter(|stat| found.contains(&stat.parent) && !found.contains(&stat.process.pid))
            .map(|stat| stat.process.pid)
            .collect();
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    let alive = stats.iter().filter(|stat| !stat.zombie && found.contains(&stat.process.pid));
    alive.map(|stat| stat.process).collect()
}

/// The network namespaces of these processes, as far as they may be read.
pub(super) fn namespaces(processes: &BTreeSet<Process>) -> BTreeSet<PathBuf> {
    let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = of("self");
    processes
        .iter()
        .filter_map(|process| of(&process.pid.to_string()))
        .filter(|one| Some(one) != own.as_ref())
        .collect()
}

/// The processes in one of these network namespaces.
pub(super) fn inside(namespaces: &BTreeSet<PathBuf>) -> Vec<Process> {
    let is = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|namespace| namespaces.contains(&namespace))
    };
    pids().filter(is).filter_map(Process::of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_safe_7() {
        let own = Process::of(std::process::id()).unwrap();
        assert!(own.is_alive());
        let other = Process { started: own.started + 1, ..own };
        assert!(!other.is_alive());
        assert!(!other.signal(Signal::KILL).unwrap(), "no other process is killed in its place");
    }
}
