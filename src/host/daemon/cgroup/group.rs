//! A container's control group, in each hierarchy that limits one of the container's resources.

use std::cell::{OnceCell, RefCell};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::{Controller, Hierarchy, Limits, kill_tree, pass_on, remove_directories};
use crate::Usage;
use base::optional_file::read_optional;

/// The period of cpu limits, in microseconds, as in Kubernetes.
const CPU_PERIOD_MICROS: u64 = 100_000;
/// The kernel's maximum of a quota, in microseconds (`max_bw_quota_period_us` in kernel/sched).
const MAX_QUOTA_MICROS: u64 = (1 << 44) - 1;
/// The interval between two rounds of killing, for processes that need a moment to exit.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

/// A container's control group.
#[derive(Debug)]
pub(in crate::daemon) struct Group {
    parts: Vec<HierarchyGroup>,
    /// The groups in further hierarchies, which the container needs since its limits were changed.
    more: OnceCell<Vec<HierarchyGroup>>,
}

#[derive(Debug)]
struct HierarchyGroup {
    directory: PathBuf,
    unified: bool,
    /// The controllers that are available in this group.
    available: Vec<Controller>,
    /// The controllers that limit this group.
    controllers: RefCell<Vec<Controller>>,
}

impl Group {
    pub(super) fn make<'a>(
        hierarchies: impl Iterator<Item = &'a Hierarchy>,
        pod: &str,
        container: &str,
        limits: &Limits,
    ) -> io::Result<Self> {
        let parts = HierarchyGroup::make(hierarchies, pod, container, limits)?;
        Ok(Self { parts, more: OnceCell::new() })
    }

    /// Adds the group to the hierarchies in which it is missing, if the limits need one of them: all are added, so that
    /// this happens at most once. Returns true if groups were added, into which the container's processes must be
    /// moved.
    pub(super) fn extend<'a>(
        &self,
        hierarchies: impl Iterator<Item = &'a Hierarchy>,
        pod: &str,
        container: &str,
        limits: &Limits,
    ) -> io::Result<bool> {
        let has = |base: &Path| self.parts().any(|part| part.directory.starts_with(base));
        let missing: Vec<&Hierarchy> = hierarchies.filter(|hierarchy| !has(&hierarchy.base)).collect();
        let is_needed = |hierarchy: &&Hierarchy| hierarchy.controllers.iter().any(|own| limits.uses(*own));
        if !missing.iter().any(is_needed) {
            return Ok(false);
        }
        let more = HierarchyGroup::make(missing.into_iter(), pod, container, limits)?;
        Ok(self.more.set(more).is_ok())
    }

    fn parts(&self) -> impl Iterator<Item = &HierarchyGroup> {
        self.parts.iter().chain(self.more.get().into_iter().flatten())
    }

    /// Changes the limits of the group.
    pub(in crate::daemon) fn resize(&self, limits: &Limits) -> io::Result<()> {
        self.parts().try_for_each(|part| part.limit(limits))
    }

    /// Returns the processes that are in the group in every hierarchy.
    pub(in crate::daemon) fn processes(&self) -> Vec<Pid> {
        let in_each: Vec<Vec<Pid>> = self.parts().map(|part| processes(&part.directory)).collect();
        let (first, rest) = in_each.split_first().map_or((&[][..], &[][..]), |(first, rest)| (first, rest));
        first.iter().copied().filter(|pid| rest.iter().all(|part| part.contains(pid))).collect()
    }

    /// Moves a process into the group; it is no error if the process has ended.
    pub(in crate::daemon) fn add_process(&self, pid: Pid) -> io::Result<()> {
        for door in self.procs_files() {
            match fs::write(door, pid.as_raw_nonzero().to_string()) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the files to which a process writes `0` to enter the group.
    pub(in crate::daemon) fn procs_files(&self) -> Vec<PathBuf> {
        self.parts().map(|part| part.directory.join("cgroup.procs")).collect()
    }

    /// Returns true if the kernel enforces the memory limit by killing.
    pub(in crate::daemon) fn limits_memory(&self) -> bool {
        self.part(Controller::Memory).is_some()
    }

    fn part(&self, controller: Controller) -> Option<&HierarchyGroup> {
        self.parts().find(|part| part.controllers.borrow().contains(&controller))
    }

    /// Returns true if the kernel's OOM killer has killed a process of the group.
    pub(in crate::daemon) fn out_of_memory(&self) -> bool {
        let Some(part) = self.part(Controller::Memory) else { return false };
        let file = if part.unified { "memory.events" } else { "memory.oom_control" };
        field(&part.directory.join(file), "oom_kill").is_some_and(|count| count > 0)
    }

    /// Kills all processes of the group, if it is in a version 2 hierarchy.
    pub(in crate::daemon) fn kill(&self) {
        self.parts().filter(|part| part.unified).for_each(|part| kill_tree(&part.directory));
    }

    /// Kills the group's processes until all have exited, if it is in a version 2 hierarchy.
    pub(in crate::daemon) async fn kill_all(&self) {
        let has_processes = |part: &HierarchyGroup| {
            part.unified && field(&part.directory.join("cgroup.events"), "populated") == Some(1)
        };
        while self.parts().any(has_processes) {
            self.kill();
            tokio::time::sleep(KILL_INTERVAL).await;
        }
    }

    /// Replaces the values summed over processes by the kernel's counters, which include processes that have exited.
    pub(in crate::daemon) fn apply_cgroup_counters(&self, usage: &mut Usage) {
        let part = self.parts().find(|part| part.unified);
        if let Some(micros) = part.and_then(|part| field(&part.directory.join("cpu.stat"), "usage_usec")) {
            usage.cpu_time = usage.cpu_time.max(Duration::from_micros(micros));
        }
        let Some(part) = self.part(Controller::Memory) else { return };
        let (now, idle) = if part.unified {
            ("memory.current", "inactive_file")
        } else {
            ("memory.usage_in_bytes", "total_inactive_file")
        };
        // The working set, as in Kubernetes: without memory that the kernel can reclaim at once.
        let current =
            fs::read_to_string(part.directory.join(now)).ok().and_then(|text| text.trim().parse().ok());
        if let Some(current) = current {
            let idle = field(&part.directory.join("memory.stat"), idle).unwrap_or(0);
            usage.memory_bytes = u64::saturating_sub(current, idle);
        }
    }

    /// Removes the group, the processes of which must have exited.
    pub(in crate::daemon) fn remove(&self) {
        for part in self.parts() {
            if !remove_directories(&part.directory) {
                // The group will be removed with its pod's group.
                eprintln!("cannot remove {}: still in use", part.directory.display());
            }
        }
    }
}

impl HierarchyGroup {
    fn make<'a>(
        hierarchies: impl Iterator<Item = &'a Hierarchy>,
        pod: &str,
        container: &str,
        limits: &Limits,
    ) -> io::Result<Vec<Self>> {
        let mut parts = Vec::new();
        for hierarchy in hierarchies {
            let pod = hierarchy.base.join(pod);
            make_directory(&pod)?;
            if hierarchy.unified {
                pass_on(&pod, &hierarchy.controllers)?;
            }
            let directory = pod.join(container);
            make_directory(&directory)?;
            let part = Self {
                directory,
                unified: hierarchy.unified,
                available: hierarchy.controllers.iter().copied().collect(),
                controllers: RefCell::default(),
            };
            part.limit(limits)?;
            parts.push(part);
        }
        Ok(parts)
    }

    /// Writes the limits; removed limits become unlimited again.
    fn limit(&self, limits: &Limits) -> io::Result<()> {
        let mut controllers = self.controllers.borrow_mut();
        // Without a CPU request, a container has the smallest share.
        let is_needed =
            |own: &Controller| *own == Controller::Cpu || limits.uses(*own) || controllers.contains(own);
        let all: Vec<Controller> = self.available.iter().copied().filter(is_needed).collect();
        let mut files: Vec<Setting> =
            all.iter().flat_map(|own| settings(*own, self.unified, limits)).collect();
        if self.write_all(&files).is_err() {
            // In version 1 the memory limit must be written before the limit of memory with swap when it shrinks, and
            // after it when it grows.
            files.reverse();
            self.write_all(&files)?;
        }
        *controllers = all.into_iter().filter(|own| limits.uses(*own)).collect();
        Ok(())
    }

    fn write_all(&self, settings: &[Setting]) -> io::Result<()> {
        for Setting { of_pod, file, value } in settings {
            let directory = if *of_pod { self.directory.parent() } else { Some(self.directory.as_path()) };
            let path = directory.unwrap_or(&self.directory).join(file);
            // The file is missing where the kernel does not account swap.
            if path.exists() || !["memory.swap.max", "memory.memsw.limit_in_bytes"].contains(file) {
                fs::write(&path, value).map_err(|error| {
                    io::Error::new(
                        error.kind(),
                        format!("cannot write {value} to {}: {error}", path.display()),
                    )
                })?;
            }
        }
        Ok(())
    }
}

/// The content of one control file.
struct Setting {
    /// The file is in the pod's group; in the container's otherwise.
    of_pod: bool,
    file: &'static str,
    value: String,
}

/// Returns the content of a controller's files: the pod's first, which bound the container's.
fn settings(controller: Controller, unified: bool, limits: &Limits) -> Vec<Setting> {
    let setting = |of_pod: bool| move |(file, value)| Setting { of_pod, file, value };
    let of_pod = of_pod(controller, unified, limits).into_iter().map(setting(true));
    let of_container = of_container(controller, unified, limits).into_iter().map(setting(false));
    of_pod.chain(of_container).collect()
}

fn of_pod(controller: Controller, unified: bool, limits: &Limits) -> Vec<(&'static str, String)> {
    match controller {
        Controller::Memory => limits.pod_memory_bytes.map_or_else(Vec::new, |bytes| {
            let value = bytes.to_string();
            if unified {
                vec![("memory.max", value)]
            } else {
                vec![("memory.limit_in_bytes", value.clone()), ("memory.memsw.limit_in_bytes", value)]
            }
        }),
        Controller::Cpu => {
            let share = limits.pod_cpu_request_millicores.map(|millis| share(millis, unified));
            let quota = limits.pod_cpu_millicores.into_iter().flat_map(|millis| quota(millis, unified));
            share.into_iter().chain(quota).collect()
        }
        Controller::Pids => {
            limits.pod_pids.map(|count| ("pids.max", count.to_string())).into_iter().collect()
        }
    }
}

/// The share of a CPU request when its group competes with others.
fn share(millicores: u64, unified: bool) -> (&'static str, String) {
    let shares = (millicores.saturating_mul(1024) / 1000).clamp(2, 262_144);
    if unified {
        ("cpu.weight", (1 + (shares - 2) * 9999 / 262_142).to_string())
    } else {
        ("cpu.shares", shares.to_string())
    }
}

fn quota(millicores: u64, unified: bool) -> Vec<(&'static str, String)> {
    let quota = (millicores.saturating_mul(CPU_PERIOD_MICROS) / 1000).clamp(1000, MAX_QUOTA_MICROS);
    if unified {
        vec![("cpu.max", format!("{quota} {CPU_PERIOD_MICROS}"))]
    } else {
        vec![("cpu.cfs_period_us", CPU_PERIOD_MICROS.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
    }
}

fn of_container(controller: Controller, unified: bool, limits: &Limits) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    match controller {
        Controller::Memory => {
            let text = |none: &str| limits.memory_bytes.map_or_else(|| none.to_owned(), |b| b.to_string());
            if unified {
                files.push(("memory.max", text("max")));
                files.push(("memory.swap.max", "0".to_owned()));
                // The kernel kills the container as a whole, not only its biggest process.
                files.push(("memory.oom.group", "1".to_owned()));
            } else {
                files.push(("memory.limit_in_bytes", text("-1")));
                files.push(("memory.memsw.limit_in_bytes", text("-1")));
            }
        }
        Controller::Cpu => {
            // Only the request determines the share: Kubernetes sets a missing request to the limit.
            files.push(share(limits.cpu_request_millicores.unwrap_or(0), unified));
            if let Some(millis) = limits.cpu_millicores {
                files.extend(quota(millis, unified));
            }
        }
        Controller::Pids => {}
    }
    files
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// The number after a name in a file of lines `name number`.
fn field(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// The processes in one group, without those in its subgroups.
pub(super) fn processes(group: &Path) -> Vec<Pid> {
    let text = read_optional(group.join("cgroup.procs"));
    text.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        memory_bytes: Some(64 << 20),
        cpu_millicores: Some(250),
        cpu_request_millicores: Some(100),
        pod_pids: Some(50),
        pod_memory_bytes: None,
        pod_cpu_millicores: None,
        pod_cpu_request_millicores: Some(300),
    };

    fn hierarchy(base: &Path, unified: bool, controllers: &[Controller]) -> Hierarchy {
        let name = if unified { "unified" } else { controllers[0].name() };
        let base = base.join(name);
        fs::create_dir(&base).unwrap();
        Hierarchy { base, unified, controllers: controllers.iter().copied().collect() }
    }

    /// POD-12: the files that limits are written to, in both versions of control groups.
    #[test]
    fn limits_are_written_as_kubernetes_does() {
        let directory = tempfile::tempdir().unwrap();
        let all = [
            hierarchy(directory.path(), true, &Controller::ALL),
            hierarchy(directory.path(), false, &[Controller::Cpu]),
            hierarchy(directory.path(), false, &[Controller::Memory]),
            hierarchy(directory.path(), false, &[Controller::Pids]),
        ];
        let group = Group::make(all.iter(), "pod", "c1", &LIMITS).unwrap();
        for (file, expect) in [
            ("unified/pod/cgroup.subtree_control", "+cpu +memory +pids"),
            ("unified/pod/pids.max", "50"),
            ("unified/pod/cpu.weight", "12"),
            ("cpu/pod/cpu.shares", "307"),
            ("unified/pod/c1/memory.max", "67108864"),
            ("unified/pod/c1/memory.oom.group", "1"),
            ("unified/pod/c1/cpu.max", "25000 100000"),
            ("unified/pod/c1/cpu.weight", "4"),
            ("cpu/pod/c1/cpu.cfs_quota_us", "25000"),
            ("cpu/pod/c1/cpu.shares", "102"),
            ("memory/pod/c1/memory.limit_in_bytes", "67108864"),
            ("pids/pod/pids.max", "50"),
        ] {
            assert_eq!(fs::read_to_string(directory.path().join(file)).unwrap(), expect, "{file}");
        }
        assert_eq!(group.procs_files().len(), 4);
        assert!(!directory.path().join("unified/pod/c1/memory.swap.max").exists(), "not where it is not");

        assert!(group.limits_memory() && !group.out_of_memory());
        fs::write(directory.path().join("unified/pod/c1/memory.events"), "oom 1\noom_kill 1\n").unwrap();
        assert!(group.out_of_memory());
        fs::write(directory.path().join("unified/pod/c1/cpu.stat"), "usage_usec 2500000\nuser_usec 1\n")
            .unwrap();
        fs::write(directory.path().join("unified/pod/c1/memory.current"), "5000\n").unwrap();
        fs::write(directory.path().join("unified/pod/c1/memory.stat"), "anon 1\ninactive_file 1000\n")
            .unwrap();
        let mut usage = Usage::default();
        group.apply_cgroup_counters(&mut usage);
        assert_eq!((usage.cpu_time, usage.memory_bytes), (Duration::from_millis(2500), 4000));
    }

    /// POD-12: the limits of a running container change, also where it had none, and processes join it in both versions
    /// of control groups.
    #[test]
    fn limits_change_while_it_runs() {
        let directory = tempfile::tempdir().unwrap();
        let all = [
            hierarchy(directory.path(), true, &Controller::ALL),
            hierarchy(directory.path(), false, &[Controller::Memory]),
        ];
        let few = Limits { cpu_request_millicores: Some(100), ..Limits::default() };
        let group = Group::make(all.iter(), "pod", "c1", &few).unwrap();
        assert!(!group.limits_memory());
        let read = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
        group.resize(&Limits { memory_bytes: Some(1 << 20), ..LIMITS }).unwrap();
        assert!(group.limits_memory());
        assert_eq!(read("unified/pod/c1/memory.max"), "1048576");
        assert_eq!(read("memory/pod/c1/memory.limit_in_bytes"), "1048576");
        assert_eq!(read("unified/pod/c1/cpu.max"), "25000 100000");
        group.resize(&few).unwrap();
        assert_eq!(read("unified/pod/c1/memory.max"), "max", "unlimited again");
        assert!(!group.limits_memory());
        group.add_process(Pid::from_raw(7).unwrap()).unwrap();
        assert_eq!(read("unified/pod/c1/cgroup.procs"), "7");
        assert_eq!(group.processes(), [Pid::from_raw(7).unwrap()]);
    }

    /// A manifest may have any number.
    #[test]
    fn the_largest_cpu_resources_are_written_pod_12() {
        let directory = tempfile::tempdir().unwrap();
        let all = [hierarchy(directory.path(), true, &[Controller::Cpu])];
        let most = Limits {
            cpu_millicores: Some(u64::MAX),
            cpu_request_millicores: Some(u64::MAX),
            ..Limits::default()
        };
        Group::make(all.iter(), "pod", "c1", &most).unwrap();
        let read =
            |file: &str| fs::read_to_string(directory.path().join("unified/pod/c1").join(file)).unwrap();
        assert_eq!(read("cpu.max"), "17592186044415 100000");
        assert_eq!(read("cpu.weight"), "10000");
    }

    /// POD-11: the resources of the pod as a whole limit all its containers together.
    #[test]
    fn limits_of_the_whole_pod_are_its_groups_pod_11() {
        let directory = tempfile::tempdir().unwrap();
        let controllers = [Controller::Cpu, Controller::Memory];
        let cgroups = crate::daemon::cgroup::Cgroups {
            hierarchies: vec![
                hierarchy(directory.path(), true, &controllers),
                hierarchy(directory.path(), false, &[Controller::Memory]),
            ],
        };
        let own = crate::ResourceLimits {
            pod_cpu_request_millicores: Some(250),
            ..crate::ResourceLimits::default()
        };
        let pod = crate::ResourceLimits {
            memory_bytes: Some(32 << 20),
            cpu_millicores: Some(500),
            ..crate::ResourceLimits::default()
        };
        let group = cgroups.make("pod", "c1", &Limits::new(&own, &pod, None)).unwrap().unwrap();
        let read = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
        assert_eq!(read("unified/pod/memory.max"), "33554432");
        assert_eq!(read("unified/pod/cpu.max"), "50000 100000");
        assert_eq!(read("unified/pod/cpu.weight"), "10");
        assert_eq!(read("unified/pod/c1/memory.max"), "max");
        assert_eq!(read("unified/pod/c1/cpu.weight"), "1", "it requests nothing");
        assert_eq!(read("memory/pod/memory.limit_in_bytes"), "33554432");
        assert!(group.limits_memory());
    }

    #[test]
    fn a_container_without_cpu_request_competes_within_its_pod_pod_12() {
        let directory = tempfile::tempdir().unwrap();
        let cgroups = crate::daemon::cgroup::Cgroups {
            hierarchies: vec![hierarchy(directory.path(), true, &[Controller::Cpu])],
        };
        let of_pod = |millis| Limits { pod_cpu_request_millicores: Some(millis), ..Limits::default() };
        assert!(cgroups.make("idle", "c", &of_pod(0)).unwrap().is_none(), "its pod requests nothing");
        assert!(cgroups.make("pod", "c", &of_pod(250)).unwrap().is_some());
        let read = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
        assert_eq!(read("unified/pod/cpu.weight"), "10");
        assert_eq!(read("unified/pod/c/cpu.weight"), "1");
    }

    #[test]
    fn a_container_without_enforceable_limits_gets_no_cgroup() {
        let directory = tempfile::tempdir().unwrap();
        let cgroups = crate::daemon::cgroup::Cgroups {
            hierarchies: vec![hierarchy(directory.path(), true, &[Controller::Cpu, Controller::Pids])],
        };
        assert_eq!(cgroups.facts(), "cgroup v2: cpu,pids; memory limited by polling");
        let none = Limits::default();
        assert!(cgroups.make("pod", "c", &none).unwrap().is_none());
        let memory = Limits { memory_bytes: Some(1), ..none };
        assert!(cgroups.make("pod", "c", &memory).unwrap().is_none(), "nothing here limits memory");
        let pids = Limits { pod_pids: Some(1), ..none };
        assert!(cgroups.make("pod", "c", &pids).unwrap().is_some());
        let without = crate::daemon::cgroup::Cgroups::default().facts();
        assert_eq!(without, "cpu not limited; memory limited by polling; pids not limited");
    }
}
