//! Finds the processes of a container, by /proc: to kill them all and to measure their usage.
//!
//! A process belongs to a container if it descends from a known process of it, is in such a process's session, or has
//! the container's marker in its environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::time::Duration;

use rustix::process::Pid;

use super::Usage;
use base::optional_file::read_optional;

/// The environment variable that marks every process of a container.
pub(crate) const MARKER: &str = "PODIUM_CONTAINER";

/// The kernel's list of the children of the thread that reads the file.
pub(crate) const CHILDREN_FILE: &str = "/proc/thread-self/children";

/// The fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    pub(crate) zombie: bool,
    threads: u32,
    cpu_ticks: u64,
}

/// Every visible process of the machine.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// The parent of a process.
pub(crate) fn parent(pid: Pid) -> Option<Pid> {
    read(pid.as_raw_nonzero().get()).and_then(|process| Pid::from_raw(process.parent))
}

fn read(pid: i32) -> Option<Process> {
    // One read returns the whole file: some fifty numbers and a name.
    let mut stat = [0; 1024];
    let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
    parse(pid, &stat[..length])
}

/// The name may contain anything, including spaces, brackets and bytes that are not text: the fields begin after its
/// last bracket.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = str::from_utf8(&stat[name_ends + 1..]).ok()?.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        // The CPU time of the process, and that of its reaped children.
        cpu_ticks: number(11)? + number(12)? + number(13)? + number(14)?,
        threads: number(17)? as u32,
    })
}

/// Returns the roots, all their descendants, and all processes of the sessions that these lead.
pub(crate) fn tree(processes: &[Process], roots: &[i32]) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process.pid);
        if process.session != process.pid && roots.contains(&process.session) {
            children.entry(process.session).or_default().push(process.pid);
        }
    }
    let mut found: BTreeSet<i32> = BTreeSet::new();
    let mut next: Vec<i32> = roots.to_vec();
    while let Some(pid) = next.pop() {
        if found.insert(pid) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

/// Returns the processes of a command: its leader with all descendants, and all processes of its session. The number of
/// a leader that was reaped may be another process's by now. Then nothing is left of its session, since the kernel gives
/// the number of a session that exists to no new process.
pub(crate) fn command(processes: &[Process], leader: i32, is_reaped: bool) -> BTreeSet<i32> {
    if is_reaped && processes.iter().any(|process| process.pid == leader) {
        return BTreeSet::new();
    }
    tree(processes, &[leader])
}

/// Processes with a marker of this prefix in their environment.
pub(crate) fn marked(processes: &[Process], prefix: &str) -> BTreeSet<i32> {
    let needle = format!("{MARKER}={prefix}");
    let carries = |process: &&Process| {
        fs::read(format!("/proc/{}/environ", process.pid))
            .is_ok_and(|env| env.split(|&byte| byte == 0).any(|pair| pair.starts_with(needle.as_bytes())))
    };
    processes.iter().filter(|process| !process.zombie).filter(carries).map(|process| process.pid).collect()
}

/// The usage of the processes together.
pub(crate) fn usage(processes: &[Process], members: &BTreeSet<i32>) -> Usage {
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    let mut usage = Usage::default();
    for process in processes.iter().filter(|process| members.contains(&process.pid)) {
        let milliseconds = process.cpu_ticks * 1000 / ticks_per_second;
        usage.cpu_time += Duration::from_millis(milliseconds);
        usage.processes += process.threads;
        usage.memory_bytes += memory_bytes(process.pid);
    }
    usage
}

/// The memory of the processes under some roots, found through their children alone: cheap enough to be called several
/// times a second.
pub(crate) fn memory_of_tree(roots: &[i32]) -> u64 {
    roots.iter().chain(&below(roots)).copied().collect::<BTreeSet<i32>>().into_iter().map(memory_bytes).sum()
}

/// Returns all descendants of the roots, without the roots.
pub(crate) fn below(roots: &[i32]) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut next: Vec<i32> = roots.iter().flat_map(|pid| children(*pid)).collect();
    while let Some(pid) = next.pop() {
        if found.insert(pid) {
            next.extend(children(pid));
        }
    }
    found
}

/// The direct children of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    if !has_children_files() {
        return all()
            .into_iter()
            .filter(|process| process.parent == pid)
            .map(|process| process.pid)
            .collect();
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = threads.map(|thread| read_optional(thread.path().join("children")));
    texts.flat_map(|text| text.split_ascii_whitespace().flat_map(str::parse).collect::<Vec<i32>>()).collect()
}

/// Returns true if this kernel lists children (`CONFIG_PROC_CHILDREN`); almost all do.
pub(crate) fn has_children_files() -> bool {
    rustix::fs::access(CHILDREN_FILE, rustix::fs::Access::READ_OK).is_ok()
}

/// Resident private memory: pages of program files are shared and not counted.
fn memory_bytes(pid: i32) -> u64 {
    let text = read_optional(format!("/proc/{pid}/statm"));
    let mut fields = text.split(' ').skip(1).map(|field| field.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_names_made_to_confuse() {
        let stat = b"42 (a) R 1 (\xff) S 7 42 41 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 5 0 99 1 2";
        let process = parse(42, stat).unwrap();
        assert_eq!((process.parent, process.session, process.threads), (7, 41, 5));
        assert_eq!((process.cpu_ticks, process.zombie), (100, false));
    }

    fn process(pid: i32, parent: i32, session: i32) -> Process {
        Process { pid, parent, session, zombie: false, threads: 1, cpu_ticks: 0 }
    }

    /// POD-10: a tree has the descendants of a process, and the sessions that its members lead.
    #[test]
    fn trees_follow_parents_and_sessions() {
        let all = [
            process(10, 1, 10),
            process(11, 10, 10),
            process(12, 11, 12),
            process(13, 1, 10),
            process(14, 1, 14),
        ];
        assert_eq!(tree(&all, &[10]).into_iter().collect::<Vec<_>>(), [10, 11, 12, 13]);
    }

    #[test]
    fn the_number_of_a_reaped_command_may_be_reused_pod_10() {
        let all = [process(10, 1, 10), process(11, 10, 10)];
        assert_eq!(command(&all, 10, false), BTreeSet::from([10, 11]));
        assert!(command(&all, 10, true).is_empty());
        let rest_of_session = [process(13, 1, 10), process(14, 13, 14)];
        assert_eq!(command(&rest_of_session, 10, true), BTreeSet::from([10, 13, 14]));
    }
}
