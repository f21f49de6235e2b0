//! The kernel's own file systems in a container: /proc without the files that describe or change the machine, and a
//! /sys of the pod's network. As in containerd.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, PROC_SUPER_MAGIC};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_bind_recursive, move_mount, open_tree,
};
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::devices::DeviceMounts;
use super::mount::{hold, lock_all_read_only};
use super::view::ProcSource;
use crate::daemon::os::open_namespace;

/// The inode number of the root of a proc file system.
const PROC_ROOT_INODE: u64 = 1;

/// Paths that are shown empty: files that describe the machine, its keys and its memory.
const MASKED: [&str; 12] = [
    "proc/acpi", "proc/asound", "proc/interrupts", "proc/kcore", "proc/keys", "proc/latency_stats",
    "proc/sched_debug", "proc/scsi", "proc/timer_list", "proc/timer_stats", "sys/devices/virtual/powercap",
    "sys/firmware",
];
/// The directory of the processors, each of which counts its thermal events in a directory that is shown empty, too.
const PROCESSORS: &str = "sys/devices/system/cpu";
/// Paths through which root could change the machine without any capability.
const READ_ONLY: [&str; 5] = ["proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger"];

/// Mounts the container's /proc at this path.
pub(super) fn mount_proc(source: &ProcSource, place: &Path) -> io::Result<()> {
    match source {
        ProcSource::New => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            // A process in the machine's PID namespace may not be allowed to mount a new /proc.
            Ok(mount("proc", place, "proc", flags, None).or_else(|_| mount_bind_recursive("/proc", place))?)
        }
        ProcSource::Mount(mounted) => Ok(mount_bind(mounted, place)?),
        ProcSource::Process(process) => {
            let proc = proc_of(*process)
                .map_err(|error| io::Error::new(error.kind(), format!("/proc of the target: {error}")))?;
            Ok(move_mount(&proc, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
        }
    }
}

/// Returns a mount, at no path yet, of the /proc that a process sees: without the mounts in it, unless the kernel has
/// locked these for a pod with users of its own.
fn proc_of(process: Pid) -> io::Result<OwnedFd> {
    let (own, root) = (fs::File::open("/proc/self/ns/mnt")?, hold(Path::new("/"))?);
    let working_dir = hold(Path::new("."))?;
    let of_process = open_namespace(process, "mnt")?;
    let kind = Some(LinkNameSpaceType::Mount);
    move_into_link_name_space(of_process.as_fd(), kind)?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let proc = match open_tree(CWD, "/proc", clone) {
        Err(Errno::INVAL) => open_tree(CWD, "/proc", clone | OpenTreeFlags::AT_RECURSIVE),
        opened => opened,
    };
    // Entering a mount namespace also changes this process's root and working directory.
    move_into_link_name_space(own.as_fd(), kind)?;
    rustix::process::fchdir(&root)?;
    rustix::process::chroot(".")?;
    rustix::process::fchdir(&working_dir)?;
    let proc = proc?;
    // The process may have mounted something else there.
    let is_proc = rustix::fs::fstatfs(&proc)?.f_type == PROC_SUPER_MAGIC
        && rustix::fs::fstat(&proc)?.st_ino == PROC_ROOT_INODE;
    if is_proc { Ok(proc) } else { Err(io::Error::other("the container's /proc is no proc file system")) }
}

/// Mounts a read-only /sys at this path that shows this process's network; returns false if the kernel refuses: an
/// ordinary user must have a network of their own, and no part of the machine's /sys may be covered.
pub(super) fn mount_sys(place: &Path) -> bool {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("sysfs", place, "sysfs", flags, None).is_ok()
}

/// Mounts the machine's control groups read-only into a new /sys.
pub(super) fn show_control_groups(sys: &Path) -> io::Result<()> {
    let (machines, place) = (Path::new("/sys/fs/cgroup"), sys.join("fs/cgroup"));
    if !machines.is_dir() || !place.is_dir() {
        return Ok(());
    }
    mount_bind_recursive(machines, &place)?;
    lock_all_read_only(&place)
}

/// Masks and locks the paths below a root that has its /dev, /proc and /sys. Paths that this kernel does not have are
/// skipped. Masked files are the container's own /dev/null, which may be opened there too.
pub(super) fn mask(root: &Path, devices: &mut DeviceMounts) -> io::Result<()> {
    let about = |place: &Path, error: io::Error| {
        let path = place.strip_prefix(root).unwrap_or(place).display();
        io::Error::new(error.kind(), format!("/{path}: {error}"))
    };
    for place in READ_ONLY.map(|path| root.join(path)) {
        if fs::symlink_metadata(&place).is_ok() {
            let bound = mount_bind_recursive(&place, &place).map_err(io::Error::from);
            bound.and_then(|()| lock_all_read_only(&place)).map_err(|error| about(&place, error))?;
        }
    }
    let processors = fs::read_dir(root.join(PROCESSORS)).into_iter().flatten().flatten();
    let throttling = processors.map(|processor| processor.path().join("thermal_throttle"));
    for place in MASKED.map(|path| root.join(path)).into_iter().chain(throttling) {
        let Ok(kind) = fs::symlink_metadata(&place) else { continue };
        let masked = if kind.is_dir() {
            mount("tmpfs", &place, "tmpfs", MountFlags::RDONLY, c"size=0,mode=555")
        } else {
            mount_bind(root.join("dev/null"), &place)
        };
        masked.map_err(|error| about(&place, error.into()))?;
        if !kind.is_dir() {
            devices.add(&place)?;
        }
    }
    Ok(())
}
