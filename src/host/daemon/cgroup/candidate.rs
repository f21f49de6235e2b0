//! Finds the places in the machine's control group hierarchies where this process may create groups.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Controller, pass_on};
use base::optional_file::read_optional;

/// The leaf for a delegated group's own processes: only groups without processes may enable controllers for their
/// children.
const CONTROL: &str = "podium-control";

/// A group that may have been delegated to us.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) directory: PathBuf,
    pub(super) unified: bool,
    /// True if this process is at the root of the visible hierarchy.
    pub(super) top: bool,
    /// The controllers of this hierarchy in version 1; in version 2, all controllers that may be available.
    pub(super) controllers: BTreeSet<Controller>,
}

/// Returns every usable hierarchy in `/proc/self/mountinfo` and `/proc/self/cgroup`. A hierarchy of version 1 is usable
/// only if this process is at its root: version 1 has no way to delegate a group.
pub(super) fn candidates(mountinfo: &str, cgroup: &str) -> Vec<Candidate> {
    let own_path = |names: &dyn Fn(&str) -> bool| {
        cgroup.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            names(controllers).then(|| path.to_owned())
        })
    };
    let mut candidates = Vec::new();
    for line in mountinfo.lines() {
        let Some((mount, source)) = line.split_once(" - ") else { continue };
        let (mount, source): (Vec<&str>, Vec<&str>) =
            (mount.split(' ').collect(), source.split(' ').collect());
        let (Some(root), Some(point), Some(kind)) = (mount.get(3), mount.get(4), source.first()) else {
            continue;
        };
        let options: Vec<&str> = source.get(2).into_iter().flat_map(|options| options.split(',')).collect();
        let known = |own: &Controller| options.contains(&own.name());
        let (unified, controllers, path) = match *kind {
            "cgroup2" => (true, Controller::ALL.into(), own_path(&|names| names.is_empty())),
            "cgroup" => {
                let own: BTreeSet<Controller> = Controller::ALL.into_iter().filter(known).collect();
                let path =
                    own_path(&|names| own.iter().any(|c| names.split(',').any(|name| name == c.name())));
                (false, own, path)
            }
            _ => continue,
        };
        let Some(path) = path.filter(|_| !controllers.is_empty()) else { continue };
        // If only a part of the hierarchy is mounted, the groups above it are invisible.
        let Ok(below) = Path::new(&path).strip_prefix(root) else { continue };
        let top = below.as_os_str().is_empty();
        if unified || top {
            candidates.push(Candidate { directory: Path::new(point).join(below), unified, top, controllers });
        }
    }
    candidates
}

/// Prepares a version 2 group to have groups below it and returns its directory; `None` if it was not delegated to us.
pub(super) fn hand_on(candidate: &Candidate) -> Option<PathBuf> {
    let mut directory = candidate.directory.clone();
    if directory.file_name().is_some_and(|name| name == CONTROL) {
        // This process has started in the leaf that an earlier host created.
        directory.pop();
    } else if !candidate.top && !is_delegated(&directory) {
        return None;
    }
    let given = fs::read_to_string(directory.join("cgroup.controllers")).ok()?;
    let has = |own: &Controller| given.split_ascii_whitespace().any(|name| name == own.name());
    let controllers: BTreeSet<Controller> = candidate.controllers.iter().copied().filter(has).collect();
    // Only the root of the whole hierarchy, which has no `cgroup.type`, may have processes and also enable controllers
    // for its children.
    if directory.join("cgroup.type").exists() && !controllers.is_empty() {
        let control = directory.join(CONTROL);
        let _ = fs::create_dir(&control);
        for pid in super::group::processes(&directory) {
            // A process that ended meanwhile does not matter.
            let _ = fs::write(control.join("cgroup.procs"), pid.as_raw_nonzero().to_string());
        }
    }
    let passed = read_optional(directory.join("cgroup.subtree_control"));
    let missing = |own: &Controller| !passed.split_ascii_whitespace().any(|name| name == own.name());
    let missing: BTreeSet<Controller> = controllers.into_iter().filter(missing).collect();
    pass_on(&directory, &missing).ok()?;
    Some(directory)
}

/// systemd marks delegated groups.
fn is_delegated(directory: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0; 8];
        rustix::fs::getxattr(directory, *name, &mut value).is_ok_and(|count| value[..count] == *b"1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(directory: &str, unified: bool, top: bool, controllers: &[Controller]) -> Candidate {
        Candidate {
            directory: directory.into(),
            unified,
            top,
            controllers: controllers.iter().copied().collect(),
        }
    }

    /// POD-12: the hierarchies of four kinds of machines.
    #[test]
    fn cgroups_are_created_only_in_hierarchies_without_another_manager() {
        use Controller::{Cpu, Memory, Pids};
        let v2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let v1 = "30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  32 24 0:28 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                  33 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let inside = "30 24 0:26 /docker/1 /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n";
        let table: &[(&str, &str, Vec<Candidate>)] = &[
            (
                v2,
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n",
                vec![candidate(
                    "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope",
                    true,
                    false,
                    &[Cpu, Memory, Pids],
                )],
            ),
            (v2, "0::/\n", vec![candidate("/sys/fs/cgroup/", true, true, &[Cpu, Memory, Pids])]),
            (
                v1,
                "4:memory:/managed/7\n3:freezer:/\n2:cpu,cpuacct:/\n0::/\n",
                vec![
                    candidate("/sys/fs/cgroup/cpu,cpuacct/", false, true, &[Cpu]),
                    candidate("/sys/fs/cgroup/unified/", true, true, &[Cpu, Memory, Pids]),
                ],
            ),
            (inside, "2:pids:/docker/1\n", vec![candidate("/sys/fs/cgroup/pids/", false, true, &[Pids])]),
            ("nonsense\n", "more\n", Vec::new()),
        ];
        for (mountinfo, cgroup, expect) in table {
            assert_eq!(candidates(mountinfo, cgroup), *expect, "{mountinfo}{cgroup}");
        }
    }

    /// A group that systemd did not delegate is left alone, even if this user owns it.
    #[test]
    fn a_group_that_was_not_handed_over_is_not_divided() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("cgroup.controllers"), "cpu memory pids").unwrap();
        let candidate = Candidate {
            directory: directory.path().to_path_buf(),
            unified: true,
            top: false,
            controllers: Controller::ALL.into(),
        };
        assert_eq!(hand_on(&candidate), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
