//! Control groups: limits that the kernel enforces, if this host may create groups of its own.
//!
//! The host may do so if it is at the root of the visible hierarchy, or in a group that was delegated to it (systemd's
//! `Delegate=yes`). Groups under another manager are left alone: then the host samples usage itself instead.
//!
//! Architecture Invariant: nothing above this host's own group is changed, except that a delegated group enables its
//! controllers for its children.

mod candidate;
mod group;

pub(super) use group::Group;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use candidate::Candidate;

use crate::ResourceLimits;
use crate::descendants::id_prefix;
use crate::running_hosts::running_hosts;
use base::optional_file::read_optional;

/// The beginning of the names of hosts' groups; the prefix of the host's container ids follows.
const PREFIX: &str = "podium-";

/// A resource that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Controller {
    Cpu,
    Memory,
    Pids,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Pids];

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// One tree of groups with some controllers.
#[derive(Clone, Debug)]
struct Hierarchy {
    /// This host's own group in it.
    base: PathBuf,
    /// True for version 2, which has its own files and rules.
    unified: bool,
    controllers: BTreeSet<Controller>,
}

/// The limits of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) memory_bytes: Option<u64>,
    pub(super) cpu_millicores: Option<u64>,
    /// Its CPU request: its share when processes compete for CPU time.
    pub(super) cpu_request_millicores: Option<u64>,
    /// The maximum number of processes of its whole pod.
    pub(super) pod_pids: Option<u64>,
    /// The memory limit of its whole pod.
    pub(super) pod_memory_bytes: Option<u64>,
    /// The CPU limit of its whole pod.
    pub(super) pod_cpu_millicores: Option<u64>,
    /// The CPU request of its whole pod: the pod's share when pods compete for CPU time.
    pub(super) pod_cpu_request_millicores: Option<u64>,
}

impl Limits {
    /// Returns the limits of a container in a pod that has limits as a whole.
    pub(super) fn new(own: &ResourceLimits, pod: &ResourceLimits, pod_pids: Option<u64>) -> Self {
        Self {
            memory_bytes: own.memory_bytes,
            cpu_millicores: own.cpu_millicores,
            cpu_request_millicores: own.cpu_request_millicores,
            pod_pids,
            pod_memory_bytes: pod.memory_bytes,
            pod_cpu_millicores: pod.cpu_millicores,
            pod_cpu_request_millicores: own.pod_cpu_request_millicores,
        }
    }

    fn uses(&self, controller: Controller) -> bool {
        match controller {
            Controller::Cpu => {
                // In a pod with CPU requests, a container without one has the smallest share of the pod's time.
                let of_pod = self.pod_cpu_request_millicores.filter(|millis| *millis > 0);
                let own = self.cpu_millicores.or(self.cpu_request_millicores);
                own.or(self.pod_cpu_millicores).or(of_pod).is_some()
            }
            Controller::Memory => self.memory_bytes.or(self.pod_memory_bytes).is_some(),
            Controller::Pids => self.pod_pids.is_some(),
        }
    }
}

/// The control groups of one host.
#[derive(Clone, Debug, Default)]
pub(super) struct Cgroups {
    hierarchies: Vec<Hierarchy>,
}

impl Cgroups {
    /// Creates this host's group in every usable hierarchy, and removes the groups of dead hosts: also the processes in
    /// those of an earlier host with the same name.
    pub(super) fn find(name: &str) -> Self {
        let (mounts, own) = (read_optional("/proc/self/mountinfo"), read_optional("/proc/self/cgroup"));
        let candidates = candidate::candidates(&mounts, &own);
        let hierarchies: Vec<Hierarchy> =
            candidates.iter().filter_map(|candidate| create_group(candidate, name)).collect();
        // Without controllers, groups would only serve to kill processes, which the host can do without groups.
        if hierarchies.iter().all(|hierarchy| hierarchy.controllers.is_empty()) {
            return Self::default();
        }
        Self { hierarchies }
    }

    /// Describes the enforcement of limits here, for people: `cgroup v2: cpu,memory,pids`, or the alternative.
    pub(super) fn facts(&self) -> String {
        let own = |unified: bool| -> BTreeSet<Controller> {
            let hierarchies = self.hierarchies.iter().filter(|hierarchy| hierarchy.unified == unified);
            hierarchies.flat_map(|hierarchy| hierarchy.controllers.iter().copied()).collect()
        };
        let (two, one) = (own(true), own(false));
        let mut parts = Vec::new();
        for (version, controllers) in [("v2", &two), ("v1", &one)] {
            let names: Vec<&str> = controllers.iter().copied().map(Controller::name).collect();
            if !names.is_empty() {
                parts.push(format!("cgroup {version}: {}", names.join(",")));
            }
        }
        for controller in Controller::ALL.iter().filter(|own| !two.contains(own) && !one.contains(own)) {
            parts.push(match controller {
                Controller::Memory => "memory limited by polling".to_owned(),
                Controller::Cpu | Controller::Pids => format!("{} not limited", controller.name()),
            });
        }
        parts.join("; ")
    }

    pub(super) fn make(&self, pod: &str, container: &str, limits: &Limits) -> io::Result<Option<Group>> {
        let is_needed = |hierarchy: &Hierarchy| hierarchy.controllers.iter().any(|own| limits.uses(*own));
        if !self.hierarchies.iter().any(is_needed) {
            return Ok(None);
        }
        let hierarchies = self.hierarchies.iter().filter(|h| h.unified || is_needed(h));
        Group::make(hierarchies, pod, container, limits).map(Some)
    }

    /// Extends a container's group to the hierarchies that its new limits need; returns true if the container's
    /// processes must be moved into the group.
    pub(super) fn extend(
        &self,
        group: &Group,
        pod: &str,
        container: &str,
        limits: &Limits,
    ) -> io::Result<bool> {
        group.extend(self.hierarchies.iter(), pod, container, limits)
    }

    /// Removes a pod's groups, the processes of which must have exited. A group that is still in use is removed with
    /// the host's group.
    pub(super) fn remove_pod(&self, pod: &str) {
        for hierarchy in &self.hierarchies {
            remove_directories(&hierarchy.base.join(pod));
        }
    }

    /// Removes every group of this host.
    pub(super) fn remove(&self) {
        for hierarchy in &self.hierarchies {
            remove_tree(&hierarchy.base);
        }
    }
}

/// Creates this host's group in a candidate, if it may be used.
fn create_group(candidate: &Candidate, name: &str) -> Option<Hierarchy> {
    let parent = if candidate.unified { candidate::hand_on(candidate)? } else { candidate.directory.clone() };
    if rustix::fs::access(parent.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).is_err() {
        return None;
    }
    remove_leftovers(&parent, names_of_running_hosts);
    let base = parent.join(format!("{PREFIX}{name}"));
    remove_tree(&base);
    fs::create_dir(&base).ok()?;
    let mut controllers = candidate.controllers.clone();
    if candidate.unified {
        let given = read_optional(base.join("cgroup.controllers"));
        controllers.retain(|own| given.split_ascii_whitespace().any(|name| name == own.name()));
        if pass_on(&base, &controllers).is_err() {
            // The kernel refuses, so the hierarchy is not available to us.
            remove_tree(&base);
            return None;
        }
    }
    Some(Hierarchy { base, unified: candidate.unified, controllers })
}

/// Removes the groups that dead hosts of this user left behind, except groups with processes.
fn remove_leftovers(parent: &Path, running: impl FnOnce() -> BTreeSet<String>) {
    let us = rustix::process::geteuid().as_raw();
    let is_ours = |group: &PathBuf| {
        host_name(group).is_some() && fs::symlink_metadata(group).is_ok_and(|about| about.uid() == us)
    };
    let groups: Vec<PathBuf> = children(parent).filter(is_ours).collect();
    if groups.is_empty() {
        return;
    }
    // A host creates its group after its start. Therefore hosts are listed after the groups.
    let running = running();
    for group in groups {
        if host_name(&group).is_some_and(|name| !running.contains(name)) {
            remove_directories(&group);
        }
    }
}

/// Returns the name of the host that a group belongs to; `None` if it is not a host's group.
fn host_name(group: &Path) -> Option<&str> {
    let name = group.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    (name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(name)
}

fn names_of_running_hosts() -> BTreeSet<String> {
    let real = |dir: PathBuf| dir.canonicalize().unwrap_or(dir);
    running_hosts().into_iter().map(|host| id_prefix(&real(host.node_dir))).collect()
}

/// Enables controllers for the groups below a version 2 group.
fn pass_on(group: &Path, controllers: &BTreeSet<Controller>) -> io::Result<()> {
    if controllers.is_empty() {
        return Ok(());
    }
    let text = controllers.iter().map(|own| format!("+{}", own.name())).collect::<Vec<_>>().join(" ");
    fs::write(group.join("cgroup.subtree_control"), text)
}

/// Kills the processes in a group and below, and removes it. The kernel needs a moment to release the dead.
fn remove_tree(group: &Path) {
    for _ in 0..100 {
        kill_tree(group);
        if remove_directories(group) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    eprintln!("cannot remove {}: its processes did not exit", group.display());
}

fn children(group: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// Removes a control group with its descendants; returns true if none of them is left.
fn remove_directories(group: &Path) -> bool {
    let below = children(group).filter(|child| !remove_directories(child)).count();
    below == 0
        && match fs::remove_dir(group) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        }
}

/// Kills the processes in a group and below: at once, or one by one where the kernel has no `cgroup.kill`.
fn kill_tree(group: &Path) {
    if fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for pid in group::processes(group) {
        super::os::signal(pid, libc::SIGKILL);
    }
    children(group).for_each(|child| kill_tree(&child));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_dead_hosts_are_removed_pod_12() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let (dead, live) = ("podium-00000000000000aa", "podium-00000000000000bb");
        // The kernel refuses to remove a group with processes, as it refuses to remove a directory with a file.
        let inhabited = "podium-00000000000000cc";
        for group in [dead, live, inhabited] {
            fs::create_dir_all(at(group).join("pod/container")).unwrap();
        }
        fs::write(at(inhabited).join("pod/process"), "").unwrap();
        let others = ["podium-control", "podium-00000000000000gg", "other-00000000000000aa", "system.slice"];
        for group in others {
            fs::create_dir(at(group)).unwrap();
        }
        let of_another = "podium-00000000000000dd";
        if rustix::process::geteuid().is_root() {
            fs::create_dir(at(of_another)).unwrap();
            std::os::unix::fs::chown(at(of_another), Some(4711), None).unwrap();
        }
        remove_leftovers(parent.path(), || ["00000000000000bb".to_owned()].into());
        assert!(!at(dead).exists());
        assert!(at(live).join("pod/container").exists(), "its host runs");
        assert!(at(inhabited).join("pod/process").exists());
        assert!(others.iter().all(|group| at(group).exists()));
        assert!(at(of_another).exists() || !rustix::process::geteuid().is_root());
        // The group of a host that starts now was not listed, and stays.
        remove_leftovers(parent.path(), || {
            fs::create_dir(at(dead)).unwrap();
            BTreeSet::from(["00000000000000bb".to_owned()])
        });
        assert!(at(dead).exists());
    }

    /// A host's group is known by the directory of its node (POD-12).
    #[test]
    fn the_name_of_a_group_is_that_of_its_host() {
        let name = id_prefix(Path::new("/data/nodes/node-1"));
        assert_eq!(
            host_name(&Path::new("/sys/fs/cgroup").join(format!("{PREFIX}{name}"))),
            Some(name.as_str())
        );
    }
}
